"""What one process does with its blocks: NumPy multiplies NumPy's arrays, this package CuPy's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tiledmm import api
from tiledmm.elements import element
from tiledmm.errors import OperandTypeError


def kind(array: Any) -> str:
    """``"numpy"`` or ``"cupy"``.

    Raises:
        OperandTypeError: If it is an array of another library, or of a subclass such as a masked array.
    """
    cls = type(array)
    if cls is np.ndarray:
        return "numpy"
    if cls.__module__.partition(".")[0] == "cupy" and cls.__name__ == "ndarray":
        return "cupy"
    raise OperandTypeError(f"chunks are NumPy or CuPy arrays; got {cls.__module__}.{cls.__qualname__}")


def nothing(kind: str, dtype: np.dtype[Any]) -> Any:
    """An array of a kind without elements, on the current device."""
    if kind == "numpy":
        return np.empty((0, 0), dtype)
    import cupy

    return cupy.empty((0, 0), dtype)


def empty(shape: tuple[int, int], like: Any, dtype: Any = None) -> Any:
    """An array, not yet written, of the library and device of another, and of its type if none is given."""
    if kind(like) == "numpy":
        return np.empty(shape, dtype or like.dtype)
    import cupy

    with like.device:
        return cupy.empty(shape, dtype or like.dtype)


def copy(to: Any, array: Any) -> None:
    """Copies an array into another one of its shape."""
    if kind(to) == "numpy":
        to[...] = array
        return
    with to.device:
        to[...] = array


def allocate_sums(shape: tuple[int, int], like: Any) -> Any:
    """An array for sums, not yet written, of the library and device of another; 16-bit floats are summed in float32."""
    return empty(shape, like, np.dtype("float32") if element(like.dtype).is_narrow_float else like.dtype)


def rounded(sums: Any, like: Any) -> Any:
    """Sums as elements of another array's type."""
    if kind(sums) == "numpy":
        return sums.astype(like.dtype, copy=False)
    with sums.device:
        return sums.astype(like.dtype, copy=False)


def multiply_add(a: Any, b: Any, c: Any, precision: str, *, first: bool) -> None:
    """``c += a @ b`` in place, or ``c = a @ b`` for the first product."""
    if kind(c) == "numpy":
        if first:
            np.matmul(a, b, out=c, dtype=c.dtype)
        else:
            np.add(c, np.matmul(a, b, dtype=c.dtype), out=c)
        return
    with c.device:
        # gemm has no bool.
        if first:
            api.matmul(a, b, out=c, precision=precision)  # type: ignore[arg-type]
        elif c.dtype == bool:
            c |= api.matmul(a, b)
        else:
            api.gemm(a, b, c, beta=1, out=c, precision=precision)  # type: ignore[arg-type]


def sum_of_products(left: Iterable[Any], right: Iterable[Any], precision: str) -> Any:
    """The sum of ``a @ b`` over pairs of chunks along k: one array, into which each product is added in place."""
    c: Any = None
    for a, b in zip(left, right, strict=True):
        if kind(a) != kind(b):
            raise OperandTypeError(f"chunks of A and B are of one library; got {kind(a)} and {kind(b)} arrays")
        first = c is None
        c = allocate_sums((a.shape[0], b.shape[1]), a) if first else c
        multiply_add(a, b, c, precision, first=first)
    return rounded(c, a)


def hand_over(array: Any) -> None:
    """Lets other threads use an array: waits until it has been written, unless their stream is the one that writes it.

    That is the legacy default stream, on which all threads launch work unless they say otherwise.
    """
    if kind(array) == "cupy":
        import cupy

        with array.device:
            stream = cupy.cuda.get_current_stream()
            if stream.ptr not in (0, cupy.cuda.runtime.streamLegacy):
                stream.synchronize()


def as_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """The memory of a contiguous array, of any type: bfloat16 has no buffer of its own."""
    return array.reshape(-1).view(np.uint8).data


def to_host(array: Any) -> np.ndarray[Any, Any]:
    """The array in host memory, C-contiguous. It waits for the device."""
    if kind(array) == "numpy":
        return np.ascontiguousarray(array)
    import cupy

    with array.device:
        host: np.ndarray[Any, Any] = np.ascontiguousarray(cupy.asnumpy(array))
    return host


def from_host(array: np.ndarray[Any, Any], like: Any) -> Any:
    """The array where another one is."""
    if kind(like) == "numpy":
        return array
    import cupy

    with like.device:
        on_device = cupy.asarray(array)
        cupy.cuda.get_current_stream().synchronize()  # another thread uses it, on whatever stream
    return on_device
