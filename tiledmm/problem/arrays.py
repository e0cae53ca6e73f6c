"""Descriptions of arrays without their data, and tests of whether two arrays share memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tiledmm.elements import element
from tiledmm.errors import ShapeError
from tiledmm.problem.prepared import array_of

# Limit on the elements of an array: at 16 bytes each, their offsets in bytes still fit into 64 bits.
_MOST_ELEMENTS = 2**59


@dataclass(frozen=True, slots=True)
class Array:
    """Description of an array: its shape, strides and dtype, without its data.

    Attributes:
        shape: Number of elements along each axis.
        strides: Strides along each axis, in bytes.
        dtype: NumPy dtype of the elements.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def as_type(self, dtype: Any) -> Array:
        """Return the description of the array that ``astype`` makes of this one.

        Its axes have the same order in memory, and there are no gaps between its elements.
        """
        kind = np.dtype(dtype)
        strides, step = [0] * len(self.shape), kind.itemsize
        for axis in sorted(range(len(self.shape)), key=lambda axis: (abs(self.strides[axis]), -axis)):
            strides[axis] = step
            step *= self.shape[axis]
        return Array(self.shape, tuple(strides), kind)

    @classmethod
    def laid_out(cls, shape: tuple[int, int], dtype: np.dtype[Any], letter: str) -> Array:
        """Return the description of a matrix of the given shape, type and layout.

        The layout's letter is N for contiguous rows, T for contiguous columns, G for neither.
        """
        (rows, cols), step = shape, dtype.itemsize
        strides = {"N": (cols * step, step), "T": (step, rows * step), "G": (2 * cols * step, 2 * step)}
        return cls(shape, strides[letter], dtype)

    @classmethod
    def allocated(cls, shape: tuple[int, ...], dtype: np.dtype[Any], order: str = "C") -> Array:
        """Return the description of a new array without gaps, in memory order ``"C"`` or ``"F"``."""
        strides = []
        step = dtype.itemsize
        for size in shape if order == "F" else shape[::-1]:
            strides.append(step)
            step *= max(size, 1)
        return cls(shape, tuple(strides if order == "F" else strides[::-1]), dtype)

    def check_writable(self) -> None:
        """Check that a kernel can write this array as its result.

        Raises:
            ShapeError: If several of its elements share one address.
        """
        repeats = any(stride == 0 and size > 1 for stride, size in zip(self.strides, self.shape, strict=True))
        if repeats and 0 not in self.shape:
            raise ShapeError("out cannot be written, because several of its elements share one address (a stride of 0)")

    def transposed(self) -> Array:
        """Return the description of this array with its last two axes exchanged; of this array if it has only one."""
        if len(self.shape) < 2:
            return self
        *loop, rows, columns = self.shape
        *steps, row, column = self.strides
        return Array((*loop, columns, rows), (*steps, column, row), self.dtype)

    def is_contiguous(self, order: str) -> bool:
        """Return whether the array is contiguous in memory order ``order``, which is ``"C"`` or ``"F"``."""
        expected = self.dtype.itemsize
        pairs = list(zip(self.shape, self.strides, strict=True))
        for size, stride in pairs if order == "F" else pairs[::-1]:
            if size > 1 and stride != expected:
                return False
            expected *= size
        return True

    def broadcast_to(self, shape: tuple[int, ...]) -> Array:
        """Return the description of this array broadcast to a shape, with strides of 0 along repeated axes.

        Raises:
            ShapeError: If the array does not broadcast to this shape.
        """
        missing = len(shape) - len(self.shape)
        if missing < 0 or any(have not in (1, size) for have, size in zip(self.shape, shape[missing:], strict=True)):
            raise ShapeError(
                f"an array of shape {self.shape} does not broadcast to the result, which has shape {shape}"
            )
        steps = zip(self.shape, self.strides, shape[missing:], strict=True)
        strides = tuple(0 if have != size else stride for have, stride, size in steps)
        return Array(shape, (0,) * missing + strides, self.dtype)


#: Type of functions that allocate an array: shape, NumPy dtype and memory order (``"C"`` or ``"F"``) to a new array.
Allocate: TypeAlias = Callable[[tuple[int, ...], Any, str], Any]


def describe(array: Any) -> Array:
    """Return the description of an array of any library with ``shape``, ``strides`` (in bytes) and ``dtype``."""
    return Array(array.shape, array.strides, array.dtype)


def describe_call(x1: Any, x2: Any, out: Any) -> tuple[Array, Array, Array | None, bool]:
    """Return the descriptions of both operands and of ``out``, and whether both operands begin at the same address.

    The description of ``out`` is None if there is no ``out``.
    """
    same_memory = begin_together(array_of(x1), array_of(x2))
    return describe(x1), describe(x2), None if out is None else describe(out), same_memory


def is_array(x: Any) -> bool:
    """Return whether an argument is an array of any library; NumPy scalars and 0-d NumPy arrays count as numbers."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x.ndim > 0
    return hasattr(type(x), "__dlpack__") or hasattr(type(x), "__cuda_array_interface__")


def of_shape(shape: tuple[Any, ...], dtype: Any = None) -> Array:
    """Return the description of a row-major array of a shape and type, without allocating one.

    Args:
        shape: Shape of the array.
        dtype: Element type; None for float32.

    Raises:
        ShapeError: If a size is not an integer of at least 0, or the array would be too large to address.
        UnsupportedTypeError: If products of this type are not supported.
    """
    if not all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 0 for size in shape):
        raise ShapeError(f"a shape must consist of integers of at least 0, such as (512, 300); got {shape!r}")
    if math.prod(max(int(size), 1) for size in shape) > _MOST_ELEMENTS:
        raise ShapeError(f"an array may have at most {_MOST_ELEMENTS:,} elements; got the shape {shape!r}")
    return Array.allocated(tuple(map(int, shape)), element("float32" if dtype is None else dtype).dtype)


def begin_together(x1: Any, x2: Any) -> bool:
    """Return whether the first elements of two CuPy arrays, or of two NumPy arrays, have the same address."""
    first, second = _place(x1), _place(x2)
    return first is not None and first == second


def is_same(x: Any, y: Any) -> bool:
    """Return whether two arrays have the same address, shape, strides and type, and so the same elements."""
    return begin_together(x, y) and (x.shape, x.strides, x.dtype) == (y.shape, y.strides, y.dtype)


def _place(x: Any) -> Any:
    return x.ctypes.data if isinstance(x, np.ndarray) else getattr(getattr(x, "data", None), "ptr", None)
