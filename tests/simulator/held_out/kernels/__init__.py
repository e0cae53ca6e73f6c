"""Correct kernels in which only held-out bugs are planted: a ``.cu`` file each, and its launch."""

from __future__ import annotations

from tests.simulator.held_out.kernels import fifth_batch, fifth_batch_rest, fourth_batch, launches, third_batch
from tests.simulator.held_out.kernels.launches import HELD_OUT_KERNELS

__all__ = ["HELD_OUT_KERNELS", "fifth_batch", "fifth_batch_rest", "fourth_batch", "launches", "third_batch"]
