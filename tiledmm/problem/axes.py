"""Axes of a product's arrays: which are rows and columns, which are the batch, and the keywords that select them.

The rules are NumPy's for the generalized ufunc ``matmul``. Rows and columns are its core dimensions, the batch is its
loop dimensions.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tiledmm.errors import AlignmentError, AxisError, KeywordTypeError, KeywordValueError, ShapeError
from tiledmm.problem.arrays import Array
from tiledmm.problem.keywords import UfuncKeywords, no_such_text

SIGNATURE = "(n?,k),(k,m?)->(n?,m?)"


class OperandAxes:
    """Array with its axes divided into core axes (rows, columns) and loop axes (the batch).

    Args:
        array: Description of the array.
        entry: The array's entry of the keyword ``axes``; None if core axes are the last axes.
        index: Number of the operand in messages: 0 and 1, and 2 for the result.
        n_core: Number of core axes; None for one if the array is a vector, else two.
    """

    __slots__ = ("array", "core_axes", "core_shape", "index", "itemsize", "loop_axes", "loop_shape", "matrix")

    def __init__(self, array: Array, entry: Any, index: int, n_core: int | None = None) -> None:
        ndim = len(array.shape)
        if n_core is None:
            if ndim == 0:
                raise ShapeError(f"Scalar operands are not allowed, use '*' instead (operand {index} is a 0-d array)")
            n_core = min(ndim, 2)
        self.array = array
        self.index = index
        self.matrix = n_core == 2
        self.core_axes = _core_axes(entry, ndim, n_core, index)
        self.loop_axes = tuple(i for i in range(ndim) if i not in self.core_axes)
        self.core_shape = tuple(array.shape[i] for i in self.core_axes)
        self.loop_shape = tuple(array.shape[i] for i in self.loop_axes)
        self.itemsize = array.dtype.itemsize

    def strides(self, loop: tuple[int, ...]) -> tuple[int, ...]:
        """Return the array's strides in elements: one per dimension of the batch, then the row and column stride.

        The stride is 0 along a dimension in which the array broadcasts to ``loop``, the shape of the batch.

        Raises:
            AlignmentError: If a stride is not a multiple of the element size.
        """
        missing = len(loop) - len(self.loop_axes)
        steps = [0] * missing
        for axis, size in zip(self.loop_axes, loop[missing:], strict=True):
            steps.append(0 if self.array.shape[axis] == 1 and size != 1 else self._step(axis))
        core = [self._step(axis) for axis in self.core_axes]
        if not self.matrix:
            # A vector has one of the two core axes, and a 0-d result has none. arrange() ignores the stride of an axis
            # of extent 1, so any number can stand for the missing ones.
            core = core * 2 or [0, 0]
        return (*steps, *core)

    def _step(self, axis: int) -> int:
        stride = self.array.strides[axis]
        if stride % self.itemsize and self.array.shape[axis] > 1:
            raise AlignmentError(
                f"operand {self.index} has a stride of {stride} bytes, which is not a multiple of {self.itemsize}, the "
                "bytes of its elements; copy it first (x.copy())"
            )
        return stride // self.itemsize


def axes_entries(ufunc: UfuncKeywords) -> tuple[Any, Any, Any]:
    """Check the keywords of a ufunc, and return the three entries of ``axes``: for both operands and the result.

    Each entry is None if ``axes`` was not given.

    Raises:
        KeywordError: If a keyword is not supported or its value is invalid.
    """
    casting, order, _, axes, axis, keepdims, _ = ufunc
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise no_such_text(
            casting, f"casting must be one of 'no', 'equiv', 'safe', 'same_kind', 'unsafe'; got {casting!r}"
        )
    if not isinstance(order, str) or order.upper() not in ("C", "F", "A", "K"):
        raise no_such_text(order, f"order must be one of 'C', 'F', 'A', 'K'; got {order!r}")
    if axes is not None and axis is not None:
        raise KeywordTypeError("only one of axis and axes can be given")
    if axis is not None:
        raise KeywordTypeError(f"axis needs a single shared core dimension; {SIGNATURE} has three: use axes")
    if keepdims is not False:
        raise KeywordTypeError(f"keepdims needs a result without core dimensions; {SIGNATURE} has two")
    if axes is None:
        return None, None, None
    if not isinstance(axes, list):
        raise KeywordTypeError(f"axes must be a list of tuples, one for each operand and the result; got {axes!r}")
    if len(axes) != 3:
        raise KeywordValueError(f"axes must have 3 entries, for both operands and the result; got {len(axes)}")
    return axes[0], axes[1], axes[2]


def _core_axes(entry: Any, ndim: int, n_core: int, index: int) -> tuple[int, ...]:
    """Return the core axes (rows and columns) of an operand, as its entry of ``axes`` names them.

    Args:
        entry: The entry of ``axes``; None for the last axes.
        ndim: Number of dimensions of the operand.
        n_core: Number of core axes.
        index: Number of the operand in messages: 0 and 1, and 2 for the result.

    Raises:
        KeywordError, AxisError, ShapeError: If the entry does not name that many different axes.
    """
    if entry is None:
        return tuple(range(ndim - n_core, ndim))
    if not isinstance(entry, tuple):
        if n_core != 1 and not hasattr(entry, "__index__"):
            raise KeywordTypeError(f"axes item {index} should be a tuple; got {entry!r}")
        entry = (entry,)
    try:
        positions = [operator.index(i) for i in entry]
    except TypeError:
        raise KeywordTypeError(f"axes item {index} should hold integers; got {entry!r}") from None
    if len(positions) != n_core:
        raise AxisError(f"axes item {index} must name {n_core} axes, one per core dimension; it has {len(positions)}")
    for position in positions:
        if not -ndim <= position < ndim:
            raise AxisError(position, ndim)
    normalized = tuple(position % ndim for position in positions)
    if len(set(normalized)) != n_core:
        raise ShapeError(f"axes item {index} names an axis twice: {entry!r}")
    return normalized


def broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape to which the shapes of two batches broadcast.

    Raises:
        ShapeError: If they do not broadcast.
    """
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        raise ShapeError(
            f"operands could not be broadcast together with remapped shapes: batches of shape {left} and {right}"
        ) from None


def result_axes(loop: tuple[int, ...], core: tuple[int, ...], entry: Any) -> tuple[tuple[int, ...], Any]:
    """Return the shape of a new result, and which of its axes are rows and columns.

    Args:
        loop: Shape of the batch.
        core: Sizes of rows and columns, as many as the result has.
        entry: Entry of ``axes`` for the result; None for the last axes.
    """
    ndim = len(loop) + len(core)
    positions = _core_axes(entry, ndim, len(core), 2)
    rest = iter(loop)
    sizes = dict(zip(positions, core, strict=True))
    return tuple(sizes[i] if i in sizes else next(rest) for i in range(ndim)), positions


def check_dimensions(shape: tuple[int, ...], loop: tuple[int, ...], core: tuple[int, ...], entry: Any) -> None:
    """Check that ``out`` has at least as many dimensions as the product.

    CuPy requires this too. In NumPy ``out`` may lack dimensions of extent 1.

    Args:
        shape: Shape of ``out``.
        loop: Shape of the batch.
        core: Sizes of rows and columns, as many as the result has.
        entry: Entry of ``axes`` for the result; None for the last axes.

    Raises:
        ShapeError: If ``out`` has fewer dimensions.
    """
    if len(shape) >= len(loop + core):
        return
    expected, _ = result_axes(loop, core, entry)
    message = f"out has shape {shape}, with fewer dimensions than the product, of shape {expected}"
    if [size for size in shape if size != 1] == [size for size in expected if size != 1]:
        message += f"; pass out.reshape{expected}"
    raise ShapeError(message)


def memory_order(order: str, *operands: Array) -> str:
    """Return the memory order of a new result, ``"C"`` or ``"F"``, for a value of ``order=``.

    As in CuPy, ``"K"`` means C. ``"A"`` means F if every operand is F-contiguous and not C-contiguous, and else C.
    """
    order = order.upper()
    if order == "A":
        return "F" if all(x.is_contiguous("F") and not x.is_contiguous("C") for x in operands) else "C"
    return "C" if order == "K" else order
