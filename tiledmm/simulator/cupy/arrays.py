"""``cupy.ndarray`` on the CPU: a NumPy array with CuPy's methods, and NumPy functions that accept and return it."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from tiledmm.errors import OperandTypeError, ShapeError, UnsupportedTypeError
from tiledmm.simulator.cupy.devices import Device
from tiledmm.simulator.cupy.memory import MemoryPointer
from tiledmm.simulator.execute.unwritten import leave_unwritten

#: Whether a NumPy function runs: inside, NumPy arrays and arrays of this module may be mixed.
_inside = contextvars.ContextVar("_inside", default=False)

_TRUTHS = frozenset({"allclose", "array_equal", "array_equiv"})


class ndarray(np.ndarray[Any, Any]):
    """An array with ``cupy.ndarray``'s attributes, whose elements are in the computer's memory.

    Args:
        shape: Shape of the array.
        dtype: Type of its elements.
        memptr: Pointer to existing memory; None for new uninitialized memory, as in ``empty``.
        strides: Strides in bytes; None for contiguous elements.
        order: ``"C"`` or ``"F"``.
    """

    def __new__(
        cls,
        shape: Any,
        dtype: Any = float,
        memptr: MemoryPointer | None = None,
        strides: tuple[int, ...] | None = None,
        order: Any = "C",
    ) -> ndarray:
        """Make an array in new memory, or in the memory that ``memptr`` points to."""
        check_type(np.dtype(dtype))
        if memptr is None:
            array: ndarray = super().__new__(cls, shape, dtype, None, 0, strides, order)
            leave_unwritten(array)
            return array
        if not isinstance(memptr, MemoryPointer):
            raise OperandTypeError(f"memptr must be a pointer to memory, such as x.data; got {type(memptr).__name__}")
        memory = memptr.bytes
        try:
            view: ndarray = super().__new__(cls, shape, dtype, memory.data, 0, strides, order)
        except TypeError:
            raise ShapeError(
                f"an array of shape {shape} and dtype {np.dtype(dtype)} does not fit into {memory.size} bytes"
            ) from None
        return view

    @property
    def data(self) -> MemoryPointer:  # type: ignore[override]
        """Pointer to the first element."""
        return MemoryPointer.to(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Description of the array for other libraries: address, shape, type and strides."""
        return {
            "data": (int(self.data.ptr) if self.size else 0, False),
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "strides": None if self.flags.c_contiguous else self.strides,
            "stream": 1,
            "version": 3,
        }

    @property
    def device(self) -> Device:  # type: ignore[override]
        """The simulated device, which holds all arrays."""
        return Device()

    def get(self, stream: Any = None, order: Any = "C", out: Any = None, blocking: bool = True) -> Any:
        """Return a new NumPy array with the elements, or copy them to ``out`` and return that.

        ``stream`` and ``blocking`` have no effect.
        """
        if out is None:
            return np.array(self, order=order, subok=False)
        out[...] = np.asarray(self)
        return out

    def set(self, arr: Any, stream: Any = None) -> None:
        """Copy a NumPy array of the same shape and type into this array; ``stream`` has no effect.

        Raises:
            OperandTypeError: If ``arr`` is not a NumPy array.
            ShapeError: If its shape or type differs.
        """
        if not isinstance(arr, np.ndarray):
            raise OperandTypeError(f"set needs a NumPy array; got {type(arr).__name__}")
        if arr.shape != self.shape or arr.dtype != self.dtype:
            raise ShapeError(f"set needs {self.dtype} of shape {self.shape}; got {arr.dtype} of shape {arr.shape}")
        self[...] = arr

    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        if isinstance(item, np.ndarray):
            return item
        return super().__getitem__((*key, ...) if isinstance(key, tuple) else (key, ...))  # an array of no dimensions

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __str__(self) -> str:
        return str(np.asarray(self))

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, **keywords: Any) -> Any:
        if not _inside.get():
            refuse_host_arrays(ufunc.__name__, inputs)
        out = keywords.pop("out", None)
        if out is not None:
            keywords["out"] = tuple(map(_plain, out))
        if "where" in keywords:
            keywords["where"] = _plain(keywords["where"])
        result = getattr(ufunc, method)(*map(_plain, inputs), **keywords)
        return on_device(result) if out is None else out[0] if len(out) == 1 else out

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not _inside.get():
            refuse_host_arrays(func.__name__, args)
        with _numpy():
            return on_device(super().__array_function__(func, types, args, kwargs), func.__name__)


def _method(name: str) -> Callable[..., Any]:
    of_numpy = getattr(np.ndarray, name)

    @functools.wraps(of_numpy)
    def method(self: ndarray, *args: Any, **keywords: Any) -> Any:
        return on_device(of_numpy(self, *args, **keywords))

    return method


for _name in ("argmax", "argmin", "dot", "take", "trace"):  # these return numbers
    setattr(ndarray, _name, _method(_name))


def on_device(result: Any, name: str = "", given: Iterable[Any] = ()) -> Any:
    """Convert the result of a NumPy function to what CuPy would return.

    Arrays become ``ndarray``, and NumPy scalars become arrays with zero dimensions; so do truth values of functions
    such as ``allclose``. The elements of tuples and lists are converted, too.

    Args:
        result: The result of the NumPy function.
        name: Name of the function.
        given: The function's arguments. The result is copied if it shares memory with a NumPy array among them.
    """
    if isinstance(result, np.ndarray):
        if isinstance(result, ndarray):
            return result
        check_type(result.dtype)
        if name.startswith("as"):  # asarray of an array is this array
            for each in given:
                if isinstance(each, ndarray) and _same(each, result):
                    return each
        if not result.dtype.isnative:  # CuPy swaps the bytes, as GPUs have one order
            result = result.astype(result.dtype.newbyteorder("="))
        if any(type(each) is np.ndarray and np.may_share_memory(each, result) for each in given):
            result = result.copy(order="K")
        return result.view(ndarray)
    if isinstance(result, np.generic) or (isinstance(result, bool) and name in _TRUTHS):
        return np.array(result).view(ndarray)
    if type(result) in (tuple, list):
        return type(result)(on_device(each) for each in result)
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return result._make(map(on_device, result))  # linalg's results have names
    return result


def wrapped(function: Any, *, host: bool = False) -> Any:
    """Return a version of a NumPy function that takes and returns this module's arrays.

    Args:
        function: The function; an object that is not a function is returned unchanged.
        host: Whether the version also takes NumPy arrays.
    """
    is_function = isinstance(function, (np.ufunc, FunctionType, BuiltinFunctionType))
    return wrapped_function(function, host=host) if is_function or hasattr(function, "_implementation") else function


def wrapped_function(function: Any, *, host: bool = False) -> Any:
    """Return a version of a NumPy function that takes and returns this module's arrays.

    Args:
        function: The function.
        host: Whether the version also takes NumPy arrays.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if not host:
            refuse_host_arrays(name, (*args, *keywords.values()))
        with _numpy():
            return on_device(function(*args, **keywords), name, args)

    return call


def refuse_host_arrays(name: str, values: Iterable[Any]) -> None:
    """Raise an error if there is a NumPy array among a function's arguments, as CuPy does.

    Arrays with zero dimensions are allowed. Tuples and lists are searched.

    Args:
        name: Name of the function, for the message.
        values: The arguments.

    Raises:
        OperandTypeError: If there is one.
    """
    for value in values:
        if isinstance(value, (tuple, list)):
            refuse_host_arrays(name, value)
        elif isinstance(value, np.ndarray) and not isinstance(value, ndarray) and value.ndim:
            raise OperandTypeError(
                f"{name} got a NumPy array, which CuPy does not accept here: pass cp.asarray(x), or convert the "
                "other array by cp.asnumpy(y)"
            )


def check_type(dtype: np.dtype[Any]) -> None:
    """Raise an error if CuPy has no arrays of an element type.

    Raises:
        UnsupportedTypeError: If it has none of ``dtype``, such as strings and objects.
    """
    if dtype.kind not in "biufcV" or dtype.hasobject or dtype.char in "gG":
        raise UnsupportedTypeError(f"CuPy has no arrays of dtype {dtype}")


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays have the same memory, shape and type."""
    return one.__array_interface__ == other.__array_interface__


@contextlib.contextmanager
def _numpy() -> Iterator[None]:
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, ndarray) else value
