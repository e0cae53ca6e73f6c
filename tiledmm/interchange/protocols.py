"""Arrays of any library that supports DLPack or the CUDA array interface.

Sources: Python array API standard, "Data interchange mechanisms"; Numba, "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from tiledmm.errors import KeywordValueError, OperandTypeError, UnsupportedTypeError
from tiledmm.launch.devices import ForeignArray, as_cupys
from tiledmm.problem.arrays import Array

# DLPack's numbers of CUDA memory and of CUDA managed memory.
_CUDA = (2, 13)


def device(x: Any, name: str) -> int:
    """Return the number of the device that holds an array.

    Args:
        x: Array of any library.
        name: Name of the array for messages.

    Raises:
        OperandTypeError: If the object is not an array on a GPU.
    """
    if hasattr(type(x), "__dlpack_device__"):
        try:
            kind, number = x.__dlpack_device__()
        except Exception:  # libraries raise various errors for an array without a device
            kind, number = -1, -1
        if kind in _CUDA:
            return int(number)
    elif hasattr(type(x), "__cuda_array_interface__"):
        (address, _), shape = x.__cuda_array_interface__["data"], x.__cuda_array_interface__["shape"]
        if 0 in shape or not address:
            return int(cupy.cuda.runtime.getDevice())
        return int(cupy.cuda.runtime.pointerGetAttributes(address).device)
    raise OperandTypeError(
        f"{name} must be an array on a GPU; got {called(x)}. Copy it with cupy.asarray({name}), or multiply NumPy "
        "arrays on the CPU with tiledmm.simulator.matmul"
    )


def stream(x: Any, device: int) -> int | None:
    """Return the handle of the stream that may still be writing an array, as the CUDA array interface states it.

    Return None if the interface states no stream, or if the array supports DLPack, which synchronizes streams itself.
    """
    if hasattr(type(x), "__dlpack__"):
        return None
    handle = x.__cuda_array_interface__.get("stream")
    return None if handle is None else int(handle)


def view(x: Any, name: str, *, written: bool = False) -> Any:
    """Return a CuPy array that shares the memory of an array of any library.

    Args:
        x: Array of any library.
        name: Name of the array for messages.
        written: Whether the array is for a result.

    Raises:
        OperandTypeError: If the array has a mask.
        KeywordError: If the array is for a result, but is read-only.
        UnsupportedTypeError: If CuPy does not import the array by DLPack, as for a type that CuPy does not have.
    """
    if hasattr(type(x), "__dlpack__"):
        try:
            return cupy.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise UnsupportedTypeError(f"CuPy cannot import {name} ({called(x)}) by DLPack: {error}") from error
    interface = x.__cuda_array_interface__
    address, read_only = interface["data"]
    if interface.get("mask") is not None:
        raise OperandTypeError(f"{name} has a mask, which products do not support")
    if read_only and written:
        raise KeywordValueError(f"{name} is read-only")
    shape, kind = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides") or Array.allocated(shape, kind).strides
    return as_cupys(ForeignArray(address, shape, tuple(strides), kind, x, device(x, name)))


def native(array: Any, like: Any) -> Any:
    """Return a CuPy array as an array of the library of ``like``, with the same memory.

    If that library cannot import arrays by the array API standard, return the CuPy array.
    """
    if hasattr(type(like), "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(array)
    return array


def called(x: Any) -> str:
    """Return the qualified name of an object's type, for messages."""
    return f"{type(x).__module__}.{type(x).__qualname__}"
