"""CuPy before a launch: its arrays, the current device with its model, and its own ``matmul``."""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy

from tiledmm.errors import ConfigError
from tiledmm.hardware.device import gpu_of
from tiledmm.problem.strides import Span
from tiledmm.selection.model import Model
from tiledmm.selection.rates import rates_of

#: The class of CuPy's arrays.
ndarray = cupy.ndarray

#: The device that launches go to.
current_device = cupy.cuda.runtime.getDevice


def _cupys_own() -> Any:
    """``cupy.matmul`` as CuPy made it, also where a program has assigned ``tiledmm.matmul`` to that name."""
    for place in (cupy, cupy.linalg):
        found = getattr(place, "matmul", None)
        if found is not None and not str(getattr(found, "__module__", "")).startswith("tiledmm"):
            return found

    def gone(*operands: Any, **keywords: Any) -> Any:
        raise ConfigError("cupy.matmul was replaced before tiledmm was used: call tiledmm once before that")

    return gone


#: CuPy's own product, also where the name ``cupy.matmul`` means ours.
cupy_matmul = _cupys_own()


class ForeignArray:
    """An array of another library, as much of it as a plan needs: a ``cupy.ndarray`` takes longer to make.

    Attributes:
        ptr: Address of its first element.
        shape: Its shape.
        strides: Its strides, in bytes.
        dtype: NumPy's type of its elements.
        device_id: The device that it is on.
        owner: What the memory belongs to.
    """

    __slots__ = ("device_id", "dtype", "itemsize", "owner", "ptr", "shape", "strides")

    def __init__(
        self, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, owner: Any, device_id: int
    ) -> None:
        self.ptr, self.shape, self.strides, self.dtype = ptr, shape, strides, dtype
        self.itemsize, self.owner, self.device_id = dtype.itemsize, owner, device_id

    @property
    def data(self) -> ForeignArray:
        """Where it is, under the names that CuPy has: ``data.ptr``, ``data.device_id``."""
        return self

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


def as_cupys(x: Any) -> Any:
    """A CuPy array of the same memory."""
    if not isinstance(x, ForeignArray):
        return x
    span = Span.of(x.shape, x.strides, x.itemsize)
    memory = cupy.cuda.UnownedMemory(x.ptr + span.start, span.stop - span.start, x.owner, x.device_id)
    return cupy.ndarray(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, -span.start), x.strides)


def device_model(ieee: bool = False) -> Model:
    """The current device's model, with or without variants that decompose operands."""
    return _model_of(current_device(), ieee)


@functools.lru_cache
def _model_of(device: int, ieee: bool) -> Model:
    gpu = gpu_of(cupy.cuda.runtime.getDeviceProperties(device), cupy.cuda.Device(device).attributes)
    return Model(gpu, rates_of(gpu), ieee=ieee)


def forget_models() -> None:
    """Drops all models: a device may have been calibrated."""
    _model_of.cache_clear()
