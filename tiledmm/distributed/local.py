"""Operations of one process on its blocks: NumPy multiplies NumPy arrays, and this package multiplies CuPy arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tiledmm import api
from tiledmm.elements import element
from tiledmm.errors import OperandTypeError


def kind(array: Any) -> str:
    """Return the name of the library of an array, ``"numpy"`` or ``"cupy"``.

    Raises:
        OperandTypeError: If the object is of another type, or of a subclass such as a masked array.
    """
    cls = type(array)
    if cls is np.ndarray:
        return "numpy"
    if cls.__module__.partition(".")[0] == "cupy" and cls.__name__ == "ndarray":
        return "cupy"
    raise OperandTypeError(f"chunks must be NumPy or CuPy arrays; got {cls.__module__}.{cls.__qualname__}")


def nothing(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return an empty array: a NumPy array if ``kind`` is ``"numpy"``, else a CuPy array on the current device."""
    if kind == "numpy":
        return np.empty((0, 0), dtype)
    import cupy

    return cupy.empty((0, 0), dtype)


def empty(shape: tuple[int, int], like: Any, dtype: Any = None) -> Any:
    """Allocate an array with the library and device of ``like``. If ``dtype`` is None, the array has its type, too."""
    if kind(like) == "numpy":
        return np.empty(shape, dtype or like.dtype)
    import cupy

    with like.device:
        return cupy.empty(shape, dtype or like.dtype)


def copy(to: Any, array: Any) -> None:
    """Copy the elements of ``array`` to the array ``to``, which has the same shape and library."""
    if kind(to) == "numpy":
        to[...] = array
        return
    with to.device:
        to[...] = array


def allocate_sums(shape: tuple[int, int], like: Any) -> Any:
    """Allocate an array for sums of elements of the type of ``like``, with its library and on its device.

    The array has the same type, or float32 for 16-bit floats.
    """
    return empty(shape, like, np.dtype("float32") if element(like.dtype).is_narrow_float else like.dtype)


def rounded(sums: Any, like: Any) -> Any:
    """Return sums in the type of the array ``like``: rounded if they are wider, else the same array."""
    if kind(sums) == "numpy":
        return sums.astype(like.dtype, copy=False)
    with sums.device:
        return sums.astype(like.dtype, copy=False)


def multiply_add(a: Any, b: Any, c: Any, precision: str, *, first: bool) -> None:
    """Add ``a @ b`` to ``c`` in place, or replace the elements of ``c`` by ``a @ b`` if ``first`` is True."""
    if kind(c) == "numpy":
        if first:
            np.matmul(a, b, out=c, dtype=c.dtype)
        else:
            np.add(c, np.matmul(a, b, dtype=c.dtype), out=c)
        return
    with c.device:
        # gemm does not support bool.
        if first:
            api.matmul(a, b, out=c, precision=precision)  # type: ignore[arg-type]
        elif c.dtype == bool:
            c |= api.matmul(a, b)
        else:
            api.gemm(a, b, c, beta=1, out=c, precision=precision)  # type: ignore[arg-type]


def sum_of_products(left: Iterable[Any], right: Iterable[Any], precision: str) -> Any:
    """Return the sum of the products of pairs of chunks. Each product is added in place to one array.

    Args:
        left: Chunks of one row of A's chunks, in order.
        right: Chunks of one column of B's chunks, in order.
        precision: Precision of products of CuPy arrays, as for ``tiledmm.matmul``.

    Raises:
        OperandTypeError: If the two chunks of a pair are of different libraries.
    """
    c: Any = None
    for a, b in zip(left, right, strict=True):
        if kind(a) != kind(b):
            raise OperandTypeError(
                f"chunks of A and B must be arrays of the same library; got {kind(a)} and {kind(b)} arrays"
            )
        first = c is None
        c = allocate_sums((a.shape[0], b.shape[1]), a) if first else c
        multiply_add(a, b, c, precision, first=first)
    return rounded(c, a)


def hand_over(array: Any) -> None:
    """Wait for the current stream, which writes an array, so that other threads can use the array.

    Do not wait for NumPy arrays, nor for the legacy default stream: other threads launch their work on it, too, unless
    they choose another stream.
    """
    if kind(array) == "cupy":
        import cupy

        with array.device:
            stream = cupy.cuda.get_current_stream()
            if stream.ptr not in (0, cupy.cuda.runtime.streamLegacy):
                stream.synchronize()


def as_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """Return a memoryview of the bytes of a contiguous array. It works for bfloat16, too, unlike ``array.data``."""
    return array.reshape(-1).view(np.uint8).data


def to_host(array: Any) -> np.ndarray[Any, Any]:
    """Return an array's elements as a C-contiguous array in host memory. Copy a CuPy array, and wait for the copy."""
    if kind(array) == "numpy":
        return np.ascontiguousarray(array)
    import cupy

    with array.device:
        host: np.ndarray[Any, Any] = np.ascontiguousarray(cupy.asnumpy(array))
    return host


def from_host(array: np.ndarray[Any, Any], like: Any) -> Any:
    """Copy a host array to the device of the CuPy array ``like``, and wait for the copy.

    If ``like`` is a NumPy array, the host array is returned as it is.
    """
    if kind(like) == "numpy":
        return array
    import cupy

    with like.device:
        on_device = cupy.asarray(array)
        cupy.cuda.get_current_stream().synchronize()  # another thread uses it, on any stream
    return on_device
