"""A module to import instead of CuPy: scripts with kernels of their own run on the CPU, with checks.

    from tiledmm.simulator import cupy as cp

    kernel = cp.RawKernel(r'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }', "twice")
    x = cp.arange(32, dtype=cp.float32)
    kernel((1,), (32,), (x,))

CuPy's other functions are NumPy's here, and return arrays with CuPy's methods. The module is for such scripts and does
not replace CuPy: names that it lacks raise AttributeError. Times are those of the simulation.

In: calls that scripts make. Out: arrays, and errors about wrong kernels. May import ``api`` and the folders that it
imports.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.build.parameters import POINTER, Parameter
from tiledmm.simulator.cupy import cuda, random, raw_kernel, raw_module
from tiledmm.simulator.cupy.arrays import ndarray, on_device, wrapped
from tiledmm.simulator.cupy.cuda import MemoryPool
from tiledmm.simulator.execute.unwritten import leave_unwritten

#: Version of CuPy whose interface this is.
__version__ = "14.0.0"

__all__ = [
    "ElementwiseKernel",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "asnumpy",
    "cuda",
    "empty",
    "empty_like",
    "fuse",
    "get_array_module",
    "get_default_memory_pool",
    "get_default_pinned_memory_pool",
    "is_available",
    "memoize",
    "ndarray",
    "random",
    "testing",
]

# Functions that take arrays of the host as well.
_OF_HOST_ARRAYS = frozenset({
    "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "can_cast", "empty_like", "full_like",
    "iscomplexobj", "isrealobj", "isscalar", "ndim", "ones_like", "result_type", "save", "savetxt", "savez",
    "savez_compressed", "shape", "size", "zeros_like",
})  # fmt: skip

# Names of NumPy's that CuPy lacks.
_NOT_IN_CUPY = frozenset({
    "ScalarType", "asmatrix", "block", "bmat", "busday_count", "busday_offset", "busdaycalendar", "bytes_", "char",
    "character", "clongdouble", "complex256", "core", "ctypeslib", "datetime64", "datetime_as_string",
    "datetime_data", "dtypes", "einsum_path", "emath", "errstate", "f2py", "flexible", "float128", "frompyfunc",
    "fromregex", "geomspace", "get_include", "getbufsize", "geterr", "geterrcall", "histogram_bin_edges", "info",
    "insert", "is_busday", "isnat", "little_endian", "longdouble", "ma", "matrix", "matvec", "memmap",
    "nanpercentile", "nanquantile", "ndenumerate", "nditer", "nested_iters", "object_", "polyder", "polydiv",
    "polyint", "rec", "recarray", "record", "sctypeDict", "setbufsize", "seterr", "seterrcall", "show_runtime",
    "spacing", "str_", "strings", "test", "timedelta64", "typecodes", "unstack", "vecdot", "vecmat", "void",
})  # fmt: skip


class RawKernel(raw_kernel.RawKernel):
    """A ``tiledmm.simulator.RawKernel`` that refuses NumPy arrays, as ``cupy.RawKernel`` does."""

    def _argument(self, parameter: Parameter, value: Any) -> Any:
        if isinstance(value, ndarray):
            if parameter.kind != POINTER:
                raise OperandTypeError(
                    f"parameter {parameter.name} of type {parameter.type} got an array, which CuPy passes as a "
                    "pointer: pass a NumPy scalar or x.item()"
                )
        elif isinstance(value, np.ndarray) and (value.size != 1 or parameter.kind == POINTER):
            raise OperandTypeError(
                f"parameter {parameter.name} of {self.name} got a NumPy array, which is not on the device: pass "
                "cp.asarray(x)"
            )
        elif isinstance(value, (bytes, bytearray, ctypes.Structure, ctypes.Array)):
            raise OperandTypeError(
                f"parameter {parameter.name} of {self.name} got {type(value).__name__}, which CuPy does not accept: "
                "pass a structure as a NumPy scalar or an array of one element"
            )
        return super()._argument(parameter, value)


class RawModule(raw_module.RawModule):
    """A ``tiledmm.simulator.RawModule`` whose kernels refuse NumPy arrays, as CuPy's do."""

    _kernel_class = RawKernel


def asnumpy(a: Any, stream: Any = None, order: Any = "C", out: Any = None, *, blocking: bool = True) -> Any:
    """Return a NumPy array with the elements of ``a``, or copy them to ``out`` and return that.

    ``stream`` and ``blocking`` have no effect.
    """
    if isinstance(a, ndarray):
        return a.get(stream, order, out)
    if out is None:
        return np.asarray(a, order=order)
    out[...] = a
    return out


def empty(shape: Any, dtype: Any = float, order: Any = "C") -> ndarray:
    """Return a new array without values: floats are NaN, and integers random."""
    return ndarray(shape, dtype, order=order)


def empty_like(prototype: Any, dtype: Any = None, order: Any = "K", subok: Any = None, shape: Any = None) -> ndarray:
    """Return a new array of the same shape and type as ``prototype``, without values as in ``empty``."""
    array: ndarray = on_device(np.empty_like(np.asarray(prototype), dtype, order, False, shape))
    leave_unwritten(array)
    return array


def get_array_module(*args: Any) -> ModuleType:
    """Return this module if one of the arguments is its ``ndarray``, else NumPy."""
    return sys.modules[__name__] if any(isinstance(each, ndarray) for each in args) else np


def is_available() -> bool:
    """Return True: the simulator can always launch kernels."""
    return True


def memoize(for_each_device: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that caches a function's results by its arguments; ``for_each_device`` has no effect."""
    return functools.lru_cache(maxsize=None)


def fuse(*args: Any, **keywords: Any) -> Any:
    """Return a function unchanged, or a decorator that does so.

    CuPy fuses the function's operations into one kernel, which does not change the results.
    """
    if len(args) == 1 and callable(args[0]) and not keywords:
        return args[0]
    return lambda function: function


_pool, _pinned_pool = MemoryPool(), MemoryPool()


def get_default_memory_pool() -> MemoryPool:
    """Return the memory pool of the simulated device."""
    return _pool


def get_default_pinned_memory_pool() -> MemoryPool:
    """Return the pool of pinned host memory, which is always empty."""
    return _pinned_pool


class _Refused:
    """Base of kernel classes that the simulator does not support; making an instance raises ConfigError."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConfigError(f"the simulator does not support {type(self).__name__}: write the loop as a RawKernel")


class ElementwiseKernel(_Refused):
    """Kernel class of CuPy that the simulator does not support; an instance raises ConfigError."""


class ReductionKernel(_Refused):
    """Kernel class of CuPy that the simulator does not support; an instance raises ConfigError."""


class _Functions:
    """Object with the functions of a NumPy module, each converted when it is accessed.

    Args:
        module: The NumPy module.
        title: Name of the module in errors, such as ``"cupy.fft"``.
        convert: Function that converts a function of the module.
    """

    def __init__(self, module: ModuleType, title: str, convert: Callable[[Any], Any]) -> None:
        self._module, self._title, self._convert = module, title, convert

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self._module, name):
            raise AttributeError(f"the simulator's {self._title} has no {name!r}")
        return self._convert(getattr(self._module, name))


def _on_host(function: Any) -> Any:
    """Return a version of a ``numpy.testing`` function that accepts the simulator's arrays, too."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        return function(*(asnumpy(each) if isinstance(each, ndarray) else each for each in args), **keywords)

    return call


linalg = _Functions(np.linalg, "cupy.linalg", wrapped)
fft = _Functions(np.fft, "cupy.fft", wrapped)
testing = _Functions(np.testing, "cupy.testing", _on_host)


def __getattr__(name: str) -> Any:
    of_numpy = getattr(np, name, None)
    if name.startswith("_") or name in _NOT_IN_CUPY or of_numpy is None or isinstance(of_numpy, ModuleType):
        raise AttributeError(
            f"tiledmm.simulator.cupy has no {name!r}: it contains the functions that CuPy shares with NumPy, and what "
            "scripts with raw kernels use"
        )
    return wrapped(of_numpy, host=name in _OF_HOST_ARRAYS)
