"""Addresses that memory holds: between those that a program sees and those that the memory has while a kernel runs.

A launch places arrays where an access beyond one reaches no other, and a kernel's variables are in its library. A
program sees other addresses: those of the arrays in NumPy. Before a launch every word in memory that is an address of
the one kind becomes that of the other, and afterwards the other way round. So a pointer that one kernel stores is of
use to the next, and to the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

#: Bytes of a pointer.
WORD = 8

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True, slots=True)
class Range:
    """Memory that a program and a kernel see at different addresses.

    Attributes:
        outside: Address that the program sees.
        inside: Address while the kernel runs.
        bytes: Size in bytes.
        margin: Bytes around it, while the kernel runs, that belong to no other memory: an address there is one of an
            element that the array would have if it were larger.
    """

    outside: int
    inside: int
    bytes: int
    margin: int = 0


class Addresses:
    """Addresses of a launch's memory, outside and inside.

    Args:
        ranges: The memory. One of no bytes is for an address in no other, such as that of an element before the first.

    Attributes:
        beyond: Addresses outside, which were found in memory, of elements that an array would have if it were larger;
            for each, the address outside of the array.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        known = list(ranges)
        self.beyond: dict[int, int] = {}
        self._inward = _table((each.outside, each.bytes, each.inside, 0) for each in known)
        self._outward = _table((each.inside, each.bytes, each.outside, each.margin) for each in known)

    def inward(self, memory: np.ndarray[Any, np.dtype[np.uint8]], address: int = 0) -> None:
        """Replace the addresses in memory that a program sees by those while the kernel runs.

        Args:
            memory: The memory, which is changed in place.
            address: Its own address while the kernel runs: pointers are at multiples of eight.
        """
        _replace(words_of(memory, address), self._inward)

    def outward(self, memory: np.ndarray[Any, np.dtype[np.uint8]], address: int = 0) -> None:
        """Replace addresses the other way round."""
        self.beyond |= _replace(words_of(memory, address), self._outward)


def words_of(memory: np.ndarray[Any, np.dtype[np.uint8]], address: int = 0) -> Words:
    """Return the words of memory at multiples of eight, as a view.

    Args:
        memory: The memory.
        address: Its address.
    """
    skipped = -address % WORD
    count = max(0, memory.size - skipped) // WORD
    words: Words = memory[skipped : skipped + count * WORD].view(np.uint64)
    return words


def _table(rows: Iterable[tuple[int, int, int, int]]) -> Words:
    """Return columns of first addresses, sizes, first addresses on the other side, and margins, in order."""
    columns: Words = np.array(sorted(rows), np.uint64).reshape(-1, 4).T.copy()
    return columns


def _replace(words: Words, table: Words) -> dict[int, int]:
    """Replace addresses in place; return those beyond the memory that they are of, each with this memory's address."""
    begins, sizes, others, margins = table
    if not begins.size or not words.size:
        return {}
    margin = int(margins.max())
    near = np.flatnonzero(
        (words >= max(int(begins[0]) - margin, 1)) & (words <= int(begins[-1]) + int(sizes[-1]) + margin)
    )
    if not near.size:
        return {}
    found = words[near]
    at = np.searchsorted(begins, found, "right") - 1
    distance = found - begins[np.maximum(at, 0)]
    # The address behind the last element is its array's, too, where no other begins there.
    inside = (at >= 0) & (distance <= sizes[np.maximum(at, 0)] + margins[np.maximum(at, 0)])
    # Before an array's first element.
    before = np.minimum(at + 1, begins.size - 1)
    below = ~inside & (begins[before] - found <= margins[before])
    at = np.where(below, before, np.maximum(at, 0))
    kept = inside | below
    words[near[kept]] = (found - begins[at] + others[at])[kept]
    beyond = kept & (found - begins[at] > sizes[at])
    return dict(zip(words[near[beyond]].tolist(), others[at[beyond]].tolist(), strict=True))
