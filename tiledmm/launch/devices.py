"""What launches need from CuPy: the class of its arrays, the current device with its model, and its own ``matmul``."""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy

from tiledmm.errors import ConfigError
from tiledmm.hardware.device import gpu_of
from tiledmm.problem.prepared import PreparedOperand
from tiledmm.problem.strides import Span
from tiledmm.selection.model import Model
from tiledmm.selection.rates import rates_of

#: Class of CuPy's arrays.
ndarray = cupy.ndarray

#: Function that returns the index of the device on which kernels are launched.
current_device = cupy.cuda.runtime.getDevice


def _cupys_own() -> Any:
    """Return CuPy's own ``matmul``, even if a program has assigned ``tiledmm.matmul`` to ``cupy.matmul``."""
    for place in (cupy, cupy.linalg):
        found = getattr(place, "matmul", None)
        if found is not None and not str(getattr(found, "__module__", "")).startswith("tiledmm"):
            return found

    def gone(*operands: Any, **keywords: Any) -> Any:
        raise ConfigError(
            "cupy.matmul was replaced before tiledmm was used: call tiledmm.matmul once before you replace it"
        )

    return gone


#: CuPy's own ``matmul``, even if a program has assigned ``tiledmm.matmul`` to ``cupy.matmul``.
cupy_matmul = _cupys_own()


class ForeignArray:
    """Array of another library, with the attributes that a plan needs. Making a ``cupy.ndarray`` would take longer.

    Attributes:
        ptr: Address of the first element.
        shape: Shape of the array.
        strides: Strides, in bytes.
        dtype: NumPy dtype of the elements.
        device_id: Index of the device that holds the array.
        owner: Object that keeps the memory alive.
    """

    __slots__ = ("device_id", "dtype", "itemsize", "owner", "ptr", "shape", "strides")

    def __init__(
        self, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, owner: Any, device_id: int
    ) -> None:
        self.ptr, self.shape, self.strides, self.dtype = ptr, shape, strides, dtype
        self.itemsize, self.owner, self.device_id = dtype.itemsize, owner, device_id

    @property
    def data(self) -> ForeignArray:
        """This object itself, so that it has ``data.ptr`` and ``data.device_id`` like a CuPy array."""
        return self

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def as_cupys(x: Any) -> Any:
    """Return a CuPy array that shares the memory of a ``ForeignArray``, or the array of a prepared operand.

    Any other object is returned unchanged.

    Raises:
        PreparedOperandError: If the array of a prepared operand is checked and has changed.
    """
    if isinstance(x, PreparedOperand):
        x.forms.read()
        return x.array
    if not isinstance(x, ForeignArray):
        return x
    span = Span.of(x.shape, x.strides, x.itemsize)
    memory = cupy.cuda.UnownedMemory(x.ptr + span.start, span.stop - span.start, x.owner, x.device_id)
    return cupy.ndarray(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, -span.start), x.strides)


def device_model(ieee: bool = False) -> Model:
    """Return the model by which ``auto`` chooses kernels on the current device.

    Args:
        ieee: Whether to leave out variants that decompose operands.
    """
    return _model_of(current_device(), ieee)


@functools.lru_cache
def _model_of(device: int, ieee: bool) -> Model:
    gpu = gpu_of(cupy.cuda.runtime.getDeviceProperties(device), cupy.cuda.Device(device).attributes)
    return Model(gpu, rates_of(gpu), ieee=ieee)


def forget_models() -> None:
    """Drop the models of all devices, because a device may have been calibrated since they were made."""
    _model_of.cache_clear()
