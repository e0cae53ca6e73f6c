"""Arrays that were made without values, such as those of ``cupy.empty``: elements of them that nobody has written yet.

All bytes of such an element of a floating-point array are 0xff: a NaN that no arithmetic gives. In integers these bytes
would be -1, which a program may write: they hold a pattern that differs from one 8 bytes to the next. An element that
still has it was not written. Integers of one or two bytes may have it by chance, so there all of 8 bytes must.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

#: The value of each byte of a new array of floating-point numbers.
BYTE = 0xFF

# The 8 bytes at a place in a new array of integers are its number, from 1 on, times this.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_WORD = 8

# Of integers of one or two bytes, the fewest bytes with the pattern that are not there by chance.
_FEWEST = 4

_NEW: dict[int, weakref.ref[np.ndarray[Any, Any]]] = {}


def leave_unwritten(array: np.ndarray[Any, Any]) -> None:
    """Fill the memory of a new array, and remember that nobody has written its elements."""
    owner = _owner(array)
    memory = owner.view(np.ndarray).ravel(order="K").view(np.uint8)
    memory[:] = _pattern(0, memory.size) if array.dtype.kind in "iu" else BYTE
    if array.dtype.kind in "fciu":
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
        start: Offset in bytes of the first of them from the array's first element, 0 or less.

    Returns:
        A bool for each element of memory; None if all are written.
    """
    owner = _owner(array)
    if id(owner) not in _NEW:
        return None
    if owner.dtype.kind in "iu":
        unwritten = _with_pattern(memory, granule, array.ctypes.data + start - owner.ctypes.data)
    elif array.dtype.kind in "fc":
        unwritten = (memory.reshape(-1, granule) == BYTE).all(axis=1)
    else:
        return None
    return unwritten if unwritten.any() else None


def _with_pattern(memory: np.ndarray[Any, Any], granule: int, offset: int) -> np.ndarray[Any, Any]:
    """Return which elements have the pattern of a new array of integers, in which they begin at an offset."""
    same = memory == _pattern(offset, memory.size)
    if granule < _FEWEST:
        words = (np.arange(memory.size) + offset) // _WORD
        words -= words[0]
        differing, sizes = np.bincount(words, ~same), np.bincount(words)
        same = ((differing == 0) & (sizes >= _FEWEST))[words]
    elements: np.ndarray[Any, Any] = same.reshape(-1, granule).all(axis=1)
    return elements


def _pattern(offset: int, size: int) -> np.ndarray[Any, Any]:
    """Return the bytes that a new array of integers holds from an offset on."""
    first, last = offset // _WORD, -(-(offset + size) // _WORD)
    words = np.arange(first + 1, last + 1, dtype=np.uint64) * _FACTOR
    found: np.ndarray[Any, Any] = words.view(np.uint8)[offset - first * _WORD :][:size]
    return found


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
