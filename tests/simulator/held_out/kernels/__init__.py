"""Correct kernels that only held-out bugs are planted in: a ``.cu`` file each, and how it is launched."""

from __future__ import annotations

from tests.simulator.held_out.kernels import fourth_batch, launches, third_batch
from tests.simulator.held_out.kernels.launches import HELD_OUT_KERNELS

__all__ = ["HELD_OUT_KERNELS", "fourth_batch", "launches", "third_batch"]
