"""Arrays that were made without values, such as those of ``cupy.empty``: elements of them that nobody has written yet.

All bytes of such an element are 0xff: a NaN that no arithmetic gives. In integers these bytes are -1, which a program
may write, so only floating-point arrays are looked at.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

#: The value of each byte of a new array.
BYTE = 0xFF

_NEW: dict[int, weakref.ref[np.ndarray[Any, Any]]] = {}


def leave_unwritten(array: np.ndarray[Any, Any]) -> None:
    """Fill the memory of a new array, and remember that nobody has written its elements."""
    owner = _owner(array)
    owner.view(np.ndarray).ravel(order="K").view(np.uint8)[:] = BYTE
    if array.dtype.kind in "fc":
        number = id(owner)
        _NEW[number] = weakref.ref(owner, lambda _: _NEW.pop(number, None))


def unwritten_in(
    array: np.ndarray[Any, Any], memory: np.ndarray[Any, Any], granule: int
) -> np.ndarray[Any, Any] | None:
    """Return which elements of an array nobody has written.

    Args:
        array: The array.
        memory: The bytes that it spans, which may be in a copy.
        granule: Size of an element in bytes.

    Returns:
        A bool for each element of memory; None if all are written.
    """
    if id(_owner(array)) not in _NEW or array.dtype.kind not in "fc":
        return None
    unwritten: np.ndarray[Any, Any] = (memory.reshape(-1, granule) == BYTE).all(axis=1)
    return unwritten if unwritten.any() else None


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
