"""Arrays that a kernel reaches by addresses in its arguments, in variables and in other arrays."""

from __future__ import annotations

import ctypes
import functools
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.simulator.build.addresses import WORD, words_of
from tiledmm.simulator.build.parameters import may_hold_pointers
from tiledmm.simulator.execute.known_arrays import KNOWN, Lookup
from tiledmm.simulator.execute.memory import bounds_of, owner_of

# Addresses of a program are between these: below are those of null pointers, above none.
_FIRST_ADDRESS, _LAST_ADDRESS = 64 << 10, (1 << 47) - 1

#: Function that returns the name, in the source, of the pointer at an offset in bytes.
NameAt = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Holder:
    """Memory that may hold addresses.

    Attributes:
        memory: Its bytes, as the program sees them.
        name_at: The name of the pointer at an offset.
        phase: Its address while the kernel runs, modulo eight: pointers are at multiples of eight.
        of_given: Whether its addresses are those of arrays that the launch got in their place.
    """

    memory: np.ndarray[Any, np.dtype[np.uint8]]
    name_at: NameAt
    phase: int = 0
    of_given: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    """An array that memory holds an address of.

    Attributes:
        array: The array.
        name: Function that returns the name of the first pointer to it that was found.
    """

    array: np.ndarray[Any, Any]
    name: Callable[[], str]


def holder_of(
    array: np.ndarray[Any, Any], name: Callable[[], str], pointee: int = 0, *, of_given: bool = False
) -> Holder:
    """Return the memory of an array.

    Args:
        array: The array.
        name: Its name.
        pointee: Bytes of an element that the kernel's pointer points to; 0 for those of the array's.
        of_given: As for ``Holder``.
    """
    begin, end = bounds_of(array)
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * (end - begin)).from_address(begin)) if array.size else _NOTHING
    size = pointee or array.dtype.itemsize

    def name_at(offset: int) -> str:
        return f"{name()}[{offset // size}]{member_at(array.dtype, offset % size)}"

    return Holder(memory, name_at, (begin - int(owner_of(array).ctypes.data)) % WORD, of_given)


def member_at(dtype: np.dtype[Any], offset: int) -> str:
    """Return the path of the member at an offset in a NumPy structure, such as ``.data``; empty if there is none."""
    for name, (kind, begin, *_) in (dtype.fields or {}).items():
        if begin <= offset < begin + kind.itemsize:
            if kind.subdtype:
                element = kind.subdtype[0]
                inside = offset - begin
                return f".{name}[{inside // element.itemsize}]{member_at(element, inside % element.itemsize)}"
            return f".{name}{member_at(kind, offset - begin)}"
    return ""


_NOTHING = np.zeros(0, np.uint8)


def reached_from(
    holders: Iterable[Holder], left_out: Container[int], given: Sequence[np.ndarray[Any, Any]]
) -> list[Reached]:
    """Return the arrays that memory holds addresses of, those that their memory holds addresses of, and so on.

    Args:
        holders: The memory to begin with.
        left_out: Numbers (``id``) of arrays that are in memory by themselves.
        given: Arrays in structures among the arguments.
    """
    holders = list(holders)
    found, unknown = _search(holders, left_out, KNOWN.lookup(given))
    if unknown:
        KNOWN.remember_those_of_callers()
        found, _ = _search(holders, left_out, KNOWN.lookup(given))
    return found


def _search(holders: list[Holder], left_out: Container[int], lookup: Lookup) -> tuple[list[Reached], bool]:
    """Return the arrays that are reached, and whether there are addresses of none that is known."""
    found, unknown = dict[int, Reached](), False
    waiting = deque(holders)
    while waiting:
        holder = waiting.popleft()
        words = words_of(holder.memory, holder.phase)
        positions = np.flatnonzero((words >= _FIRST_ADDRESS) & (words <= _LAST_ADDRESS))
        arrays, is_known = lookup.arrays_at(words[positions], views=holder.of_given)
        unknown = unknown or not is_known
        for first, array in arrays:
            if id(array) in found:
                continue
            offset = -holder.phase % WORD + WORD * int(positions[first])
            found[id(array)] = Reached(array, functools.partial(holder.name_at, offset))
            if may_hold_pointers(array.dtype):
                waiting.append(holder_of(array, found[id(array)].name))
    return [each for key, each in found.items() if key not in left_out], unknown
