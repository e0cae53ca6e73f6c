"""Arrays that a kernel gets, and the memory regions that they are in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.simulator.execute.memory import Placed, bounds_of, owner_of

_ARGUMENT_ALIGNMENT = 128


@dataclass(frozen=True, slots=True)
class Passed:
    """An array that a kernel gets, as an argument or by an address in memory.

    Attributes:
        name: Function that returns its name in messages.
        array: The array.
        is_written: Whether the kernel may write it.
        pointee: Bytes of an element that the kernel's pointer points to.
        holds_pointers: Whether the array may hold addresses.
    """

    name: Callable[[], str]
    array: np.ndarray[Any, Any]
    is_written: bool
    pointee: int
    holds_pointers: bool


def is_reordered_view(array: np.ndarray[Any, Any], numbers: Container[int]) -> bool:
    """Return whether an array is a view whose elements are in another order than its memory, or with gaps.

    An array that was made in Fortran's order is none. Neither are rows or elements with gaps if the kernel gets the
    distance between two of them.

    Args:
        array: The array.
        numbers: Whole numbers that the kernel gets.
    """
    if array.flags.c_contiguous or array.size < 2:
        return False
    owner = owner_of(array)
    if (array.shape, array.strides) == (owner.shape, owner.strides):
        return False
    strides = array.strides if array.strides[-1] != array.itemsize else array.strides[:-1]
    are_ordered = all(one >= other for one, other in itertools.pairwise(array.strides)) and strides[-1] > 0
    step = strides[-1]
    return not (are_ordered and (step in numbers or step // array.itemsize in numbers))


def place(passed: Sequence[Passed]) -> tuple[list[Placed], list[tuple[int, int]]]:
    """Assign arrays to memory regions; views that overlap share the region of the array that owns their memory.

    Returns:
        The regions, and for each array the number of its region and the distance in bytes from the region's first
        element to the array's.
    """
    placed: list[Placed] = []
    owner: list[tuple[int, int]] = []
    bounds = [bounds_of(each.array) for each in passed]
    overlapping = _overlapping(bounds)
    known: dict[tuple[int, int], int] = {}
    for each, mine in zip(passed, bounds, strict=True):
        whole = owner_of(each.array) if mine in overlapping else each.array
        at = known.setdefault(bounds_of(whole), len(placed))
        if at == len(placed):
            placed.append(Placed(each.name, whole))
            placed[at].writable = False
            placed[at].pointee = each.pointee
        placed[at].writable |= each.is_written
        placed[at].holds_pointers |= each.holds_pointers
        owner.append((at, each.array.ctypes.data - placed[at].array.ctypes.data))
    return placed, owner


def _overlapping(bounds: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return those of some ranges of addresses that have bytes in common with another range."""
    found: set[tuple[int, int]] = set()
    last: tuple[int, int] | None = None  # of the ranges so far, the one that reaches furthest
    for each in sorted(set(bounds)):
        if last is not None and each[0] < min(each[1], last[1]):
            found |= {last, each}
        if last is None or each[1] > last[1]:
            last = each
    return found


def aligned(raw: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a copy of an argument at an address that is a multiple of 128, for structures with such an alignment."""
    memory = np.empty(len(raw) + _ARGUMENT_ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ARGUMENT_ALIGNMENT
    memory[begin : begin + len(raw)] = np.frombuffer(raw, np.uint8)
    return memory[begin : begin + len(raw)]
