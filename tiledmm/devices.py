"""CuPy before a launch: arrays, the current device and its model, and CuPy's own product."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.hardware.device import gpu_of
from tiledmm.problem.casting import loop_type
from tiledmm.problem.epilogue import EpilogueCall
from tiledmm.problem.keywords import UfuncKeywords
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


def check_device(x: Any, name: str) -> None:
    """Raises OperandTypeError unless an array is on the current device."""
    device = current_device()
    if x.data.device_id != device and x.size:
        raise OperandTypeError(
            f"{name} is on device {x.data.device_id} and the current device is {device}; "
            f"use 'with cupy.cuda.Device({x.data.device_id}):', or copy it"
        )


def cupy_gemm(a: Any, b: Any, epilogue: EpilogueCall, out: Any, ufunc: UfuncKeywords) -> Any:
    """``gemm`` by ``cupy.matmul`` and CuPy's elementwise kernels, in their own types."""
    c, alpha, beta, bias, activation = epilogue.keywords
    dtype = loop_type(a.dtype, b.dtype, ufunc.dtype)
    x = cupy_matmul(a.astype(dtype, copy=False), b.astype(dtype, copy=False))
    if epilogue.without_product:
        x = cupy.zeros_like(x)
    elif isinstance(alpha, ndarray) or alpha != 1:
        x = x * alpha
    if c is not None and (isinstance(beta, ndarray) or beta != 0):
        x = x + beta * c
    x = x if bias is None else x + bias
    x = ACTIVATIONS[activation](x) if activation else x
    if out is None:
        return x.astype(dtype, copy=False)
    cupy.copyto(out, x, casting=ufunc.casting)
    return out


def _gelu(x: Any) -> Any:
    from cupyx.scipy.special import erf

    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


#: Activations by CuPy.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: cupy.maximum(x, 0),
    "gelu": _gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + cupy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + cupy.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + cupy.exp(-x)),
    "tanh": lambda x: cupy.tanh(x),
}


def device_model(decomposes: bool = True) -> Model:
    """The current device's model, with or without variants that decompose operands."""
    return _model_of(current_device(), decomposes)


@functools.lru_cache
def _model_of(device: int, decomposes: bool) -> Model:
    gpu = gpu_of(cupy.cuda.runtime.getDeviceProperties(device), cupy.cuda.Device(device).attributes)
    return Model(gpu, rates_of(gpu), decomposes=decomposes)


def forget_models() -> None:
    """Drops all models: a device may have been calibrated."""
    _model_of.cache_clear()
