"""What is known of arrays without their data, and whether two of them are the same memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tiledmm.elements import element
from tiledmm.errors import ShapeError

# Elements of 16 bytes whose offsets in bytes fit into 64 bits.
_MOST_ELEMENTS = 2**59


@dataclass(frozen=True, slots=True)
class Array:
    """What is known of an array without its data: shape, strides in bytes, dtype."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def as_type(self, dtype: Any) -> Array:
        """What ``astype`` gives: the same axes from slowest to fastest in memory, without gaps."""
        kind = np.dtype(dtype)
        strides, step = [0] * len(self.shape), kind.itemsize
        for axis in sorted(range(len(self.shape)), key=lambda axis: (abs(self.strides[axis]), -axis)):
            strides[axis] = step
            step *= self.shape[axis]
        return Array(self.shape, tuple(strides), kind)

    @classmethod
    def laid_out(cls, shape: tuple[int, int], dtype: np.dtype[Any], letter: str) -> Array:
        """The description of a matrix of a layout: N rows contiguous, T columns, G neither."""
        (rows, cols), step = shape, dtype.itemsize
        strides = {"N": (cols * step, step), "T": (step, rows * step), "G": (2 * cols * step, 2 * step)}
        return cls(shape, strides[letter], dtype)

    @classmethod
    def allocated(cls, shape: tuple[int, ...], dtype: np.dtype[Any], order: str = "C") -> Array:
        """The description of a new array."""
        strides = []
        step = dtype.itemsize
        for size in shape if order == "F" else shape[::-1]:
            strides.append(step)
            step *= max(size, 1)
        return cls(shape, tuple(strides if order == "F" else strides[::-1]), dtype)

    def check_writable(self) -> None:
        """Checks that it can be a result.

        Raises:
            ShapeError: If several of its elements share one place in memory.
        """
        repeats = any(stride == 0 and size > 1 for stride, size in zip(self.strides, self.shape, strict=True))
        if repeats and 0 not in self.shape:
            raise ShapeError(
                "several elements of out share one place in memory (a stride of 0): nothing can be written"
            )

    def is_contiguous(self, order: str) -> bool:
        """Whether there are no gaps in memory order ``"C"`` or ``"F"``."""
        expected = self.dtype.itemsize
        pairs = list(zip(self.shape, self.strides, strict=True))
        for size, stride in pairs if order == "F" else pairs[::-1]:
            if size > 1 and stride != expected:
                return False
            expected *= size
        return True

    def broadcast_to(self, shape: tuple[int, ...]) -> Array:
        """The array repeated, by strides of 0, to a shape.

        Raises:
            ShapeError: If it does not broadcast to it.
        """
        missing = len(shape) - len(self.shape)
        if missing < 0 or any(have not in (1, size) for have, size in zip(self.shape, shape[missing:], strict=True)):
            raise ShapeError(
                f"an array of shape {self.shape} does not broadcast to the result, which has shape {shape}"
            )
        steps = zip(self.shape, self.strides, shape[missing:], strict=True)
        strides = tuple(0 if have != size else stride for have, stride, size in steps)
        return Array(shape, (0,) * missing + strides, self.dtype)


#: Makes a new array, of a shape, NumPy's type and an order in memory, ``"C"`` or ``"F"``.
Allocate: TypeAlias = Callable[[tuple[int, ...], Any, str], Any]


def describe(array: Any) -> Array:
    """The description of any array that has ``shape``, ``strides`` and ``dtype``."""
    return Array(array.shape, array.strides, array.dtype)


def is_array(x: Any) -> bool:
    """Whether an argument is an array, of whatever library; of NumPy's, one that is more than a number."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x.ndim > 0
    return hasattr(type(x), "__dlpack__") or hasattr(type(x), "__cuda_array_interface__")


def of_shape(shape: tuple[Any, ...], dtype: Any = None) -> Array:
    """The description of a row-major array that is not there.

    Args:
        shape: Its shape.
        dtype: Its type; None for float32.

    Raises:
        ShapeError: If that is no shape.
        UnsupportedTypeError: If there is no such type.
    """
    if not all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 0 for size in shape):
        raise ShapeError(f"a shape has whole numbers from 0 on, such as (512, 300); got {shape!r}")
    if math.prod(max(int(size), 1) for size in shape) > _MOST_ELEMENTS:
        raise ShapeError(f"an array has at most {_MOST_ELEMENTS:,} elements; got the shape {shape!r}")
    return Array.allocated(tuple(map(int, shape)), element("float32" if dtype is None else dtype).dtype)


def begin_together(x1: Any, x2: Any) -> bool:
    """Whether the first elements of two CuPy arrays, or of two NumPy arrays, are the same place in memory."""
    first, second = _place(x1), _place(x2)
    return first is not None and first == second


def is_same(x: Any, y: Any) -> bool:
    """Whether two arrays have the same elements in the same places of memory."""
    return begin_together(x, y) and (x.shape, x.strides, x.dtype) == (y.shape, y.strides, y.dtype)


def _place(x: Any) -> Any:
    return x.ctypes.data if isinstance(x, np.ndarray) else getattr(getattr(x, "data", None), "ptr", None)
