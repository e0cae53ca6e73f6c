"""Correct kernels as learners of CUDA C write them: a ``.cu`` file each, and its launch.

``KERNELS`` has a function for each file, which creates arguments and states the arrays' contents after the launch. The
float32 inputs of sums are small integers, so that sums are exact in any order.
"""

from __future__ import annotations

from tests.simulator.kernels import elementwise, images, matmuls, reductions, scans
from tests.simulator.kernels.launch import FOLDER, KERNELS, Kernel, Launch

__all__ = ["FOLDER", "KERNELS", "Kernel", "Launch", "elementwise", "images", "matmuls", "reductions", "scans"]
