"""CuPy arrays in host memory, and a stand-in for a device whose products NumPy computes. Needs CuPy, but no GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from tiledmm.launch import devices, plan
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import Within
from tiledmm.selection.model import H100


def on_host(values: Any, kind: type = cupy.ndarray) -> Any:
    """Copy values to a CuPy array in host memory, which no GPU can read."""
    return over(np.ascontiguousarray(values) if np.ndim(values) else np.array(values), kind)


def over(x: np.ndarray, kind: type = cupy.ndarray) -> Any:
    """Return a CuPy array over the memory of a NumPy array."""
    memory = cupy.cuda.UnownedMemory(x.ctypes.data, max(x.nbytes, 1), x, 0)
    return kind(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, 0), strides=x.strides)


def of_host(array: Any) -> np.ndarray:
    """Return a NumPy array over the memory of a CuPy array or view, but not of a reversed one."""
    room = sum((size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
    buffer = (ctypes.c_char * (room if array.size else 0)).from_address(array.data.ptr)
    return np.ndarray(array.shape, array.dtype, buffer, strides=array.strides)


def numbers(*shape: int, dtype: str = "f4") -> Any:
    """Return an array of small integers."""
    return on_host(np.random.default_rng(3).integers(-4, 5, shape).astype(dtype))


class HostPlan:
    """A stand-in for ``tiledmm.launch.plan.Plan`` that multiplies by NumPy."""

    def __init__(self, choice: Choice, within: Within | None = None) -> None:
        self.choice = choice

    def run(self, x1: Any, x2: Any, out: Any) -> Any:
        result = np.matmul(of_host(x1), of_host(x2))
        if out is None:
            return on_host(result.astype(self.choice.product.result_type))
        of_host(out)[...] = result
        return out


def pretend(setattr: Callable[[Any, str, Any], None] = setattr) -> None:
    """Make this package find an H100 that multiplies arrays in host memory."""
    setattr(plan, "Plan", HostPlan)
    setattr(devices, "current_device", lambda: 0)
    setattr(devices, "device_model", lambda ieee=False: H100)
