"""``matmul`` of Dask arrays: one collective task per worker, or one task per chunk of the result.

    import tiledmm.dask
    z = tiledmm.dask.matmul(x, y)      # lazy, as every Dask array
    with tiledmm.dask.register():      # x @ y in code that does not use this package
        z = x @ y

This module needs Dask, which ``import tiledmm`` does not import. Scheduling, workers, spilling and the dashboard are
Dask's.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

from tiledmm.distributed.local import kind
from tiledmm.elements import ELEMENTS
from tiledmm.errors import OperandTypeError, ShapeError, UnsupportedTypeError, needs
from tiledmm.problem.keywords import is_ieee

with needs("Dask and its package distributed", extra="dask"):
    import dask.array as da
    from dask.array import routines
    from dask.array.core import Array  # not the class of array expressions, which has no such graphs

    from tiledmm.distributed.graph import product_of

__all__ = ["Registration", "matmul", "register"]


def matmul(x: Array, y: Array, *, precision: str = "full") -> Array:
    """Return the product of two Dask arrays with CuPy or NumPy chunks. Dask computes it when the result is needed.

    If the current client has two workers or more, there is one task per worker: the tasks exchange panels among
    themselves, and each computes one chunk of the result. This call fixes the number of tasks; the scheduler assigns
    them to workers when it receives the graph. CuPy chunks may have any sizes and be on any workers, and are sent from
    GPU to GPU. Wait for the arrays that you persist before you call this function, so that it is known which worker
    holds which chunk. Dask rechunks NumPy chunks in the same graph, and NumPy multiplies them. With one worker or none,
    each chunk of the result is one task, which adds the products along k in place.

    Args:
        x: Left operand, ``(m, k)``.
        y: Right operand, ``(k, n)``, of the same type and with chunks of the same library. Chunks may have any sizes,
            which must be known.
        precision: Precision, as for ``tiledmm.matmul``. Products of NumPy chunks ignore it.

    Returns:
        A Dask array, ``(m, n)``, of the operands' type.

    Raises:
        ShapeError: If an operand does not have two dimensions, or sizes do not fit or are unknown.
        OperandTypeError: If an operand is not a Dask array, or the chunks are of different libraries.
        UnsupportedTypeError: If the element types differ or are not supported.
        ConfigError: If the precision is unknown.

    Example:
        >>> x, y = x.persist(), y.persist()
        >>> distributed.wait([x, y])
        >>> z = tiledmm.dask.matmul(x, y).persist()
    """
    is_ieee(precision)
    if reason := _not_arrays(x, y):
        raise OperandTypeError(reason)
    if x.ndim != 2 or y.ndim != 2:
        raise ShapeError(
            f"x and y must be matrices; they have {x.ndim} and {y.ndim} dimensions. Pass a vector as x[None, :] or "
            "y[:, None], and use dask.array.matmul for stacks of matrices"
        )
    for name, each in (("x", x), ("y", y)):
        if any(math.isnan(size) for size in each.shape):
            raise ShapeError(f"the sizes of {name}'s chunks are unknown: call {name}.compute_chunk_sizes() first")
    if x.shape[1] != y.shape[0]:
        raise ShapeError(
            f"shapes {x.shape} and {y.shape} do not match: x has {x.shape[1]} columns, y has {y.shape[0]} rows"
        )
    if x.dtype != y.dtype:
        raise UnsupportedTypeError(f"operands must have the same type; got {x.dtype} and {y.dtype}: use .astype()")
    if x.dtype.name not in ELEMENTS and x.dtype.kind not in "fc":
        raise UnsupportedTypeError(f"products of {x.dtype} arrays are not supported")
    return product_of(x, y, precision)


def _not_arrays(x: Any, y: Any) -> str:
    """Return why two operands are not Dask arrays with chunks of one library; an empty string if they are."""
    for each in (x, y):
        if not isinstance(each, Array):
            return f"operands must be Dask arrays; got {type(each).__module__}.{type(each).__qualname__}"
    try:
        kinds = kind(x._meta), kind(y._meta)
    except OperandTypeError as error:
        return str(error)
    return (
        ""
        if kinds[0] == kinds[1]
        else f"the operands' chunks must be arrays of the same library; got {' and '.join(kinds)} arrays"
    )


class Registration:
    """Replacement of Dask's products by this package's, until it is undone. It is also a context manager."""

    def __init__(self, precision: str, kinds: tuple[str, ...]) -> None:
        self.precision, self.kinds = precision, kinds

    def undo(self) -> None:
        """End this replacement. When no replacement is in force any more, restore Dask's own functions."""
        global _in_force
        with _lock:
            _in_force = tuple(each for each in _in_force if each is not self)
            if not _in_force:
                while _restore:
                    _restore.pop()()

    def takes(self, x: Any, y: Any) -> bool:
        """Return whether this package computes the product of two operands while this registration is in force.

        It does if both are matrices of known sizes and of one type that has kernels, and their chunks are arrays of
        one of the libraries in ``kinds``.
        """
        return (
            not _not_arrays(x, y)
            and kind(x._meta) in self.kinds
            and x.ndim == y.ndim == 2
            and not any(map(math.isnan, (*x.shape, *y.shape)))
            and x.dtype == y.dtype
            and x.dtype.name in ELEMENTS
        )

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()


def register(*, precision: str = "full", numpy: bool = False) -> Registration:
    """Replace Dask's products of CuPy chunks by this package's: ``x @ y``, ``dask.array.matmul`` and ``dot``.

    The replacement is in force in all threads, from now on or within a ``with`` block. Dask still computes all other
    products: those with other dimensions, mixed types or unknown sizes, ``tensordot`` and ``einsum``. Registrations may
    be nested; the last one applies.

    Args:
        precision: Precision, as for ``matmul``.
        numpy: Whether to replace products of NumPy chunks, too. NumPy then multiplies the chunks, in a graph of this
            package.

    Returns:
        A registration, which ends with its ``undo()`` or with its ``with`` block.

    Raises:
        ConfigError: If the precision is unknown.

    Example:
        >>> with tiledmm.dask.register():
        ...     z = x @ y
    """
    global _in_force
    is_ieee(precision)
    registration = Registration(precision, ("cupy", "numpy") if numpy else ("cupy",))
    with _lock:
        if not _in_force:
            for owner, name in _PLACES:
                _replace(owner, name)
        _in_force = (*_in_force, registration)
    return registration


# Array's ``@`` and NumPy's functions look these up at each call.
_PLACES = ((routines, "matmul"), (da, "matmul"), (routines, "dot"), (da, "dot"), (Array, "dot"))

# Registrations in force, of which the last one applies. The tuple is replaced as a whole, so a thread that reads it
# needs no lock.
_in_force: tuple[Registration, ...] = ()
_restore: list[Callable[[], None]] = []
_lock = threading.Lock()


def _replace(owner: Any, name: str) -> None:
    own = getattr(owner, name)

    @functools.wraps(own)
    def product(a: Any, b: Any) -> Any:
        registered = _in_force
        if registered and registered[-1].takes(a, b) and a.shape[1] == b.shape[0]:
            return matmul(a, b, precision=registered[-1].precision)
        return own(a, b)

    setattr(owner, name, product)
    _restore.append(lambda: setattr(owner, name, own))
