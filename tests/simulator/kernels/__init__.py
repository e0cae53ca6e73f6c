"""Correct kernels, as those who learn CUDA C write them: a ``.cu`` file each, and how it is launched.

``KERNELS`` has a function for each file. It makes the arguments afresh and says what the arrays hold afterwards. Sums
of float32 are of small integers, and so exact in any order.
"""

from __future__ import annotations

from tests.simulator.kernels import elementwise, images, matmuls, reductions, scans
from tests.simulator.kernels.launch import FOLDER, KERNELS, Kernel, Launch

__all__ = ["FOLDER", "KERNELS", "Kernel", "Launch", "elementwise", "images", "matmuls", "reductions", "scans"]
