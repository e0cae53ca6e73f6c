"""Correct kernels, as those who learn CUDA C write them: a ``.cu`` file each, and how it is launched.

``KERNELS`` has a function for each file. It makes new arguments and says what the arrays hold afterwards. The float32
inputs of sums are small integers: the sums are exact, whatever their order.
"""

from __future__ import annotations

from tests.simulator.kernels import elementwise, images, matmuls, reductions, scans
from tests.simulator.kernels.launch import FOLDER, KERNELS, Kernel, Launch

__all__ = ["FOLDER", "KERNELS", "Kernel", "Launch", "elementwise", "images", "matmuls", "reductions", "scans"]
