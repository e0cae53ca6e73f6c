"""Numba's device arrays, by the CUDA array interface in both directions."""

from __future__ import annotations

from typing import Any

from numba import cuda

from tiledmm.interchange import protocols

device, stream, view = protocols.device, protocols.stream, protocols.view


def native(array: Any, like: Any) -> Any:
    """Return a CuPy array as a device array of Numba with the same memory. ``like`` is not used."""
    return cuda.as_cuda_array(array)
