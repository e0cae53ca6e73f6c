"""Products of arrays of any libraries, on the first operand's device and in the order of its library's stream."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import cupy

from tiledmm.elements import element
from tiledmm.errors import OperandTypeError, ShapeError
from tiledmm.launch import devices
from tiledmm.launch.forms import DeviceForms
from tiledmm.launch.plans import plan_of
from tiledmm.problem.arrays import Allocate, is_array
from tiledmm.problem.keywords import is_ieee
from tiledmm.problem.prepared import PreparedOperand, array_of

#: Modules of this folder, by the package that defines an array's class. All other arrays use ``protocols``.
LIBRARIES = {"torch": "torch_", "jax": "jax_", "jaxlib": "jax_", "numba": "numba_"}

# Module of each class that has been seen.
_libraries: dict[type, Any] = {}

# Arrays that products may still be reading, with the event after which they are not.
_in_use: deque[tuple[Any, Any]] = deque()


def matmul(x1: Any, x2: Any, out: Any, ufunc: tuple[Any, ...], kernel: tuple[Any, ...]) -> Any:
    """Return the product of arrays of any libraries on one GPU, as ``tiledmm.matmul`` does for CuPy arrays.

    Prepared operands count as CuPy arrays.

    Args:
        x1, x2: Operands.
        out: Array for the result; None for a new array of the library of the first operand that is not prepared.
        ufunc, kernel: Keywords, as for ``plan_of``.

    Raises:
        OperandTypeError: If an array is not on a GPU, or the arrays are on different GPUs.
        TiledmmError: If ``tiledmm.matmul`` would not support the product of such CuPy arrays.
    """
    library = _library_of(kind := type(x1))
    if (
        getattr(library, "HAS_CURRENT_STREAM", False)
        and (type(x2) is kind or _is_on_device(x2) or _library_of(type(x2)) is library)
        and (out is None or type(out) is kind or _library_of(type(out)) is library)
    ):
        # The same as ``_on_one_stream``, in half the time.
        a, device = library.foreign(x1, "x1"), devices.current_device()
        b = x2 if type(x2) is PreparedOperand else library.foreign(x2, "x2")
        c = None if out is None else library.foreign(out, "out", written=True)
        if a.device_id == b.data.device_id == device and (c is None or c.device_id == device):
            return _native(library, plan_of(a, b, c, ufunc, kernel).run, (a, b, c, None), x1, out)
    _check_prepared((x1, x2), out)
    if _are_cupys(x1, x2) and (out is None or _are_cupys(out)):
        return plan_of(x1, x2, out, ufunc, kernel).run(x1, x2, out)
    is_ieee(kernel[-1])  # an unknown precision is reported first

    def product(x1: Any, x2: Any, out: Any, allocate: Allocate | None) -> Any:
        return plan_of(x1, x2, out, ufunc, kernel).run(x1, x2, out, None, allocate)

    return _between_streams(product, {"x1": x1, "x2": x2}, {}, out)


def _on_one_stream(
    function: Callable[..., Any], operands: Mapping[str, Any], others: Mapping[str, Any], out: Any
) -> Any:
    """Call a function as ``interchanged`` does, for the common case in which no streams must be synchronized.

    All arrays must be of one library, on the current device, and the library must order all work on the device by its
    current stream. Then no CuPy arrays are made of them. An operand other than the first may be prepared, because it
    makes that stream wait itself. The arguments are those of ``interchanged``.

    Returns:
        The result; None if the function was not called, because this case does not apply.
    """
    x = next(iter(operands.values()))
    library = _library_of(type(x))
    if not getattr(library, "HAS_CURRENT_STREAM", False):
        return None
    device, views = devices.current_device(), list[Any]()
    for name, each in (*operands.items(), *others.items(), ("out", out)):
        if each is None or (name not in operands and name != "out" and not is_array(each)):
            views.append(each)
            continue
        if _library_of(type(each)) is not library:
            if name in operands and _is_on_device(each) and each.data.device_id == device:
                views.append(each)
                continue
            return None
        views.append(library.foreign(each, name, written=name == "out"))
        if views[-1].device_id != device:
            return None
    return _native(library, function, views, x, out)


def _native(library: Any, function: Callable[..., Any], views: Sequence[Any], x: Any, out: Any) -> Any:
    """Call ``function(*views, allocate)`` on a library's current stream, and return its result.

    Args:
        library: Module of this folder for the library.
        function: Function to call.
        views: Arguments, with a ``ForeignArray`` for each array.
        x: First operand.
        out: Array for the result; None for a new one.

    Returns:
        ``out``, or a new array of the library of ``x``.
    """
    handle = library.stream(x, views[0].device_id)
    if handle == cupy.cuda.get_current_stream().ptr:
        result = function(*views, library.allocate)
    else:
        with stream_at(handle):
            result = function(*views, library.allocate)
    if out is not None:
        return out
    return result.owner if isinstance(result, devices.ForeignArray) else library.native(result, x)


def interchanged(
    function: Callable[..., Any], operands: Mapping[str, Any], others: Mapping[str, Any], out: Any = None
) -> Any:
    """Call ``function(*operands, *others, out, allocate)`` with arrays that share the arguments' memory.

    Args:
        function: Function that returns ``out``, or a new array, which it makes with ``allocate`` if that is not None.
        operands: Arrays of any libraries, by the names that messages give them.
        others: Further arguments, by such names. Arguments that are not arrays, such as numbers, are passed unchanged.
        out: Array of any library for the result; None for a new one.

    Returns:
        ``out``, or a new array of the library of the first operand that is not prepared.

    Raises:
        OperandTypeError: If an array is not on a GPU, the arrays are on different GPUs, or ``out`` is a prepared
            operand.
    """
    if (found := _on_one_stream(function, operands, others, out)) is not None:
        return found
    _check_prepared(operands.values(), out)
    if _are_cupys(*operands.values()) and _are_cupys(*filter(is_array, others.values()), *([out] * (out is not None))):
        return function(*operands.values(), *others.values(), out, None)
    return _between_streams(function, operands, others, out)


def _between_streams(
    function: Callable[..., Any], operands: Mapping[str, Any], others: Mapping[str, Any], out: Any
) -> Any:
    """Call a function as ``interchanged`` does, for arrays of any libraries on any device.

    The function receives CuPy arrays that share the arguments' memory. Its work runs after earlier and before later
    work on the libraries' streams.
    """
    call = _Call(function, operands, others, out)
    if (device := call.device()) == devices.current_device():
        return call.on_device(device)
    with cupy.cuda.Device(device):
        return call.on_device(device)


def viewed(x: Any, name: str) -> Any:
    """Return a CuPy array that shares the memory of an array of any library.

    It is for reading shape, strides and type. Its elements must not be read, because no stream waits for them. A CuPy
    array is returned as it is.

    Args:
        x: Array of any library.
        name: Name of the array for messages.

    Raises:
        OperandTypeError: If the array is not on a GPU.
    """
    if (library := _library_of(type(x))) is None:
        return x
    with cupy.cuda.Device(library.device(x, name)):
        return library.view(x, name)


def prepared_operand(x: Any, check: bool, multiply: Callable[[Any, Any], Any]) -> PreparedOperand:
    """Return a ``PreparedOperand`` of an array of any library.

    Args:
        x: Array on a GPU, or a prepared operand, whose array is prepared anew.
        check: Whether each product checks that the array has not changed.
        multiply: Function that computes the products of the operator ``@``.

    Raises:
        OperandTypeError: If the array is not on a GPU.
        ShapeError: If the array has no dimensions.
        UnsupportedTypeError: If there are no products of its element type.
        PreparedOperandError: If a graph is captured.
    """
    x = array_of(x)
    library = _library_of(type(x))
    device = x.data.device_id if library is None else library.device(x, "b")
    with contextlib.nullcontext() if device == devices.current_device() else cupy.cuda.Device(device):
        array = x
        if library is not None:
            stream = cupy.cuda.get_current_stream()
            if (handle := library.stream(x, device)) not in (None, stream.ptr):
                _wait(stream, stream_at(handle))
            array = library.view(x, "b")
        element(array.dtype)
        if not array.ndim:
            raise ShapeError("b must have at least one dimension, as every operand of a product")
        return PreparedOperand(array, DeviceForms(array, check), multiply)


def _check_prepared(operands: Iterable[Any], out: Any) -> None:
    """Check that prepared operands are on a device, and that the result is not written to one.

    Raises:
        OperandTypeError: If an operand was prepared for the simulator, or ``out`` is a prepared operand.
    """
    for x in operands:
        if isinstance(x, PreparedOperand) and not _is_on_device(x):
            raise OperandTypeError("an operand was prepared for the simulator; prepare a CuPy array of its elements")
    if isinstance(out, PreparedOperand):
        raise OperandTypeError("out is a prepared operand, whose array must not be written; pass another array")


def _is_on_device(x: Any) -> bool:
    """Return whether an argument is an operand that was prepared on a device, not for the simulator."""
    return isinstance(x, PreparedOperand) and isinstance(x.array, devices.ndarray)


def _are_cupys(*arrays: Any) -> bool:
    """Return whether all arrays are CuPy arrays or prepared operands."""
    return all(isinstance(x, (devices.ndarray, PreparedOperand)) for x in arrays)


class _Call:
    """A call of a function with arrays of several libraries; the arguments are those of ``interchanged``.

    Attributes:
        arrays: All arrays by name, the operands first.
        libraries: Module of each array's library; None for CuPy arrays.
        first: Number of the first array that is not a prepared operand; 0 if there is none.
    """

    __slots__ = ("arguments", "arrays", "first", "function", "libraries", "out")

    def __init__(
        self, function: Callable[..., Any], operands: Mapping[str, Any], others: Mapping[str, Any], out: Any
    ) -> None:
        self.function, self.out = function, out
        self.arguments = {**operands, **others}
        self.arrays = {name: x for name, x in self.arguments.items() if name in operands or is_array(x)}
        if out is not None:
            self.arrays["out"] = out
        self.libraries = [_library_of(type(x)) for x in self.arrays.values()]
        others_than = (i for i, x in enumerate(self.arrays.values()) if not isinstance(x, PreparedOperand))
        self.first = next(others_than, 0)

    def device(self) -> int:
        """Return the number of the device that holds all arrays.

        Raises:
            OperandTypeError: If an array is not on a GPU, or the arrays are on different GPUs.
        """
        first, device = "", -1
        for (name, x), library in zip(self.arrays.items(), self.libraries, strict=True):
            other: int = x.data.device_id if library is None else library.device(x, name)
            if not first:
                first, device = name, other
            elif other != device:
                raise OperandTypeError(f"{first} is on device {device} and {name} on device {other}; copy one of them")
        return device

    def on_device(self, device: int) -> Any:
        """Call the function on the stream of the first operand that is not prepared, and return its result.

        Args:
            device: Number of the device of all arrays, which is the current device.
        """
        stream = cupy.cuda.get_current_stream()
        # Stream of each array; None where DLPack orders the work, or where nothing has to.
        handles = [
            stream.ptr if library is None else library.stream(x, device)
            for x, library in zip(self.arrays.values(), self.libraries, strict=True)
        ]
        if (own := handles[self.first]) in (None, stream.ptr):
            return self._on_stream(stream, handles)
        with stream_at(own) as other:
            return self._on_stream(other, handles)

    def _on_stream(self, stream: Any, handles: Sequence[int | None]) -> Any:
        """Call the function on CuPy's current stream, and return its result.

        The function's work runs after the work that the arrays' streams have been given so far, and before their later
        work.

        Args:
            stream: CuPy's current stream.
            handles: Handle of each array's stream; None if there is none, or if DLPack orders the work.
        """
        others = [stream_at(handle) for handle in {*handles} - {None, stream.ptr}]
        for each in others:
            _wait(stream, each)
        views = {
            name: x if library is None else library.view(x, name, written=name == "out")
            for (name, x), library in zip(self.arrays.items(), self.libraries, strict=True)
        }
        result = self.function(*(views.get(name, x) for name, x in self.arguments.items()), views.get("out"), None)
        for each in others:
            _wait(each, stream)
        if None in handles:
            _hold(stream, views)
        if self.out is not None:
            return self.out
        first = self.libraries[self.first]
        return result if first is None else first.native(result, list(self.arrays.values())[self.first])


def _library_of(kind: type) -> Any:
    """Return the module of this folder that supports arrays of a class; None for CuPy arrays and prepared operands."""
    library = _libraries.get(kind, kind)
    if library is kind:
        packages = (each.__module__.partition(".")[0] for each in kind.__mro__)
        name = next((LIBRARIES[package] for package in packages if package in LIBRARIES), "protocols")
        is_cupys = issubclass(kind, (devices.ndarray, PreparedOperand))
        library = _libraries[kind] = None if is_cupys else importlib.import_module(f"tiledmm.interchange.{name}")
    return library


class _Handle:
    """A stream of another library, with the protocol by which CuPy imports it."""

    def __init__(self, handle: int | None) -> None:
        self.handle = handle or 0

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of the protocol, which is 0, and the handle of the stream."""
        return 0, self.handle


@functools.lru_cache(maxsize=64)
def stream_at(handle: int | None) -> Any:
    """Return the stream with a handle as a CuPy stream; None stands for the default stream."""
    return cupy.cuda.Stream.from_external(_Handle(handle))


def _wait(stream: Any, other: Any) -> None:
    """Make later work on a stream wait for the work that another stream has been given so far."""
    event = cupy.cuda.Event(disable_timing=True)
    event.record(other)
    stream.wait_event(event)


def _hold(stream: Any, arrays: Any) -> None:
    """Keep arrays alive until a stream has done the work that it has been given so far.

    The arrays' library does not know that this work uses their memory, and would reuse the memory too early.
    """
    with contextlib.suppress(IndexError):  # no array is held
        while (held := _in_use.popleft())[0].done:
            pass
        _in_use.appendleft(held)  # removed and put back, so that no other thread removes it meanwhile
    event = cupy.cuda.Event(disable_timing=True)
    event.record(stream)
    _in_use.append((event, arrays))
