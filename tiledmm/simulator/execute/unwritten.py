"""Arrays that were made without values, such as those of ``cupy.empty``: elements of them that nobody has written yet.

All bytes of a floating-point element, and of a bool, are 0xff: a NaN that no arithmetic gives. In integers these bytes
are -1, which programs write. Memory of integers holds random bytes instead, the same in each process, which differ from
element to element. What holds them still was not written, with one exception: a short element may have been written
with its own bytes by chance, so at least four bytes beside it, and half of them, must hold theirs, too.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

#: The value of each byte of a new array, unless its elements are integers.
BYTE = 0xFF

# Random bytes of integers, over and over. Their number is prime, so that rows of matrices differ.
_RANDOM = np.random.default_rng(0).integers(1, 255, 65_521, np.uint8)

# Bytes that are looked at together with an element of fewer than _LONG bytes.
_GROUP, _LONG = 16, 4

_NEW: dict[int, weakref.ref[np.ndarray[Any, Any]]] = {}


def leave_unwritten(array: np.ndarray[Any, Any]) -> None:
    """Fill the memory of a new array, and remember that nobody has written its elements."""
    owner = _owner(array)
    memory = owner.view(np.ndarray).ravel(order="K").view(np.uint8)
    memory[:] = np.resize(_RANDOM, memory.size) if array.dtype.kind in "iu" else BYTE
    if array.dtype.kind in "fcbiu":
        number = id(owner)
        _NEW[number] = weakref.ref(owner, lambda _: _NEW.pop(number, None))


def unwritten_in(
    array: np.ndarray[Any, Any], memory: np.ndarray[Any, Any], granule: int, start: int
) -> np.ndarray[Any, Any] | None:
    """Return which elements of an array nobody has written.

    Args:
        array: The array.
        memory: The bytes that it spans, which may be in a copy.
        granule: Size of an element in bytes.
        start: Offset of the first of these bytes from the array's first element.

    Returns:
        A bool for each element of memory; None if all are written.
    """
    owner = _owner(array)
    is_random, kinds = owner.dtype.kind in "iu", "fc" if owner.dtype.kind in "fc" else "fcbiu"
    if id(owner) not in _NEW or array.dtype.kind not in kinds or array.dtype.itemsize % granule:
        return None
    if is_random:
        offset = array.ctypes.data + start - owner.ctypes.data
        same = memory == np.resize(np.roll(_RANDOM, -offset), memory.size)
    else:
        same = memory == BYTE
    unwritten: np.ndarray[Any, Any] = same.reshape(-1, granule).all(axis=1)
    if is_random and granule < _LONG:
        unwritten &= _beside(same)[::granule]
    return unwritten if unwritten.any() else None


def _beside(same: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return for each byte whether half of the bytes of its group are as they were made, and at least ``_LONG``."""
    padded = np.zeros(-(-same.size // _GROUP) * _GROUP, np.bool_)
    padded[: same.size] = same
    made = padded.reshape(-1, _GROUP).sum(axis=1)
    sizes = np.full(made.size, _GROUP)
    sizes[-1:] = same.size - _GROUP * (made.size - 1)
    return np.repeat((2 * made >= sizes) & (made >= _LONG), _GROUP)[: same.size]


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
