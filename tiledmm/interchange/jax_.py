"""JAX arrays. They are immutable, and they have no elements while JAX traces a function."""

from __future__ import annotations

from typing import Any

import cupy
import jax
import ml_dtypes
import numpy as np

from tiledmm.errors import OperandTypeError
from tiledmm.interchange import protocols
from tiledmm.launch.devices import ForeignArray, as_cupys
from tiledmm.problem.arrays import Array

stream = protocols.stream

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def device(x: Any, name: str) -> int:
    """Return the number of the device of a JAX array.

    Raises:
        OperandTypeError: If the array is not on a GPU, or has no elements because JAX traces a function.
    """
    if isinstance(x, jax.core.Tracer):
        raise OperandTypeError(
            f"{name} is traced by JAX (jax.jit, jax.grad), so it has no elements yet: call this function outside of "
            "traced code"
        )
    return protocols.device(x, name)


def view(x: Any, name: str, *, written: bool = False) -> Any:
    """Return a CuPy array that shares the memory of a JAX array.

    Args:
        x: JAX array.
        name: Name of the array for messages.
        written: Whether the array is for a result.

    Raises:
        OperandTypeError: If the array is for a result, because JAX arrays cannot be written.
    """
    if written:
        raise OperandTypeError(f"{name} is a JAX array, which is immutable; omit {name}=")
    if x.dtype != _BFLOAT16:
        return protocols.view(x, name)
    # CuPy does not import this type by DLPack, but exporting it orders the streams.
    handle = cupy.cuda.get_current_stream().ptr
    held = x, x.__dlpack__(stream=handle or 1)
    strides = Array.allocated(x.shape, _BFLOAT16).strides
    return as_cupys(ForeignArray(x.unsafe_buffer_pointer(), x.shape, strides, _BFLOAT16, held, device(x, name)))


def native(array: Any, like: Any) -> Any:
    """Return a CuPy array as a JAX array of the same memory. ``like`` is not used."""
    if array.dtype != _BFLOAT16:
        return jax.dlpack.from_dlpack(array)
    return jax.dlpack.from_dlpack(array.view("i2")).view(jax.numpy.bfloat16)
