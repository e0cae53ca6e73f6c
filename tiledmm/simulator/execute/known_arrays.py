"""Arrays that an address in memory may be of: those of earlier launches, and those whose address was asked for.

A number does not say what array it is the address of. So arrays are remembered as long as they live; and where an
address is of none of them, the variables of the functions that called the launch are searched.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tiledmm.simulator.execute.memory import bounds_of, owner_of

# Containers in containers in which arrays are looked for, and elements of each.
_DEPTH = 3
_MOST_ELEMENTS = 10_000

_Array = np.ndarray[Any, Any]


class KnownArrays:
    """Arrays by their addresses, as long as they live."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, int, weakref.ref[_Array]]] = {}
        self._beyond: dict[int, weakref.ref[_Array]] = {}

    def remember(self, array: _Array) -> None:
        """Remember the array that owns the memory of ``array``."""
        owner = owner_of(array)
        key = id(owner)
        if key in self._owners or not owner.size:
            return

        def forget(reference: weakref.ref[_Array]) -> None:
            if key in self._owners and self._owners[key][2] is reference:  # not a new array of the same number
                del self._owners[key]

        self._owners[key] = (*bounds_of(owner), weakref.ref(owner, forget))

    def remember_beyond(self, address: int, array: _Array) -> None:
        """Remember that an address which is in no array is of an element before an array's first, or after its last."""
        self._beyond[address] = weakref.ref(owner_of(array))

    def beyond(self) -> dict[int, _Array]:
        """Return the arrays of remembered addresses that are in no array, by these addresses."""
        found = {address: array() for address, array in self._beyond.copy().items()}
        alive = {address: array for address, array in found.items() if array is not None}
        for address in found.keys() - alive.keys():
            del self._beyond[address]
        return alive

    def remember_those_of_callers(self) -> None:
        """Remember the arrays that variables of the calling functions and of their modules hold."""
        seen: dict[int, int] = {}
        modules: dict[int, dict[str, Any]] = {}
        frame = sys._getframe(1)
        while frame is not None:
            modules[id(frame.f_globals)] = frame.f_globals
            for value in frame.f_locals.values():
                for array in arrays_in(value, _DEPTH, seen):
                    self.remember(array)
            frame = frame.f_back  # type: ignore[assignment]
        for variables in modules.values():
            for array in arrays_in(variables, _DEPTH, seen):
                self.remember(array)

    def at(self, address: int) -> _Array | None:
        """Return the array that an address is in, or just behind; None if there is none."""
        found, _ = self.lookup().arrays_at(np.array([address], np.uint64))
        return found[0][1] if found else None

    def lookup(self, given: Iterable[_Array] = ()) -> Lookup:
        """Return the arrays that are alive now.

        Args:
            given: Arrays that a launch gets in structures, where a pointer to the first element is to this view alone.
        """
        known = [(begin, end, owner()) for begin, end, owner in self._owners.copy().values()]
        views = {int(each.ctypes.data): each for each in sorted(given, key=lambda each: each.nbytes)}
        owners = [(begin, end, owner) for begin, end, owner in known if owner is not None]
        for address, array in self.beyond().items():
            if not any(begin <= address <= end for begin, end, _ in owners):  # else a newer array is there
                owners.append((address, address, array))
        return Lookup(owners, views)


class Lookup:
    """Arrays by their addresses.

    Args:
        arrays: For each, the address of its first byte, that of the byte after the last, and the array.
        views: Views of them by the addresses of their first elements.
    """

    def __init__(self, arrays: Iterable[tuple[int, int, _Array]], views: Mapping[int, _Array]) -> None:
        self._arrays, self._views = sorted(arrays, key=lambda each: each[:2]), views
        self._begins = np.array([begin for begin, _, _ in self._arrays], np.uint64)
        self._ends = np.array([end for _, end, _ in self._arrays], np.uint64)
        self._firsts = np.array(list(views), np.uint64)

    def arrays_at(
        self, addresses: np.ndarray[Any, np.dtype[np.uint64]], *, views: bool = False
    ) -> tuple[list[tuple[int, _Array]], bool]:
        """Return the arrays that addresses are in, or just behind.

        Args:
            addresses: The addresses.
            views: Whether the address of a view's first element is of this view, and not of the array that owns it.

        Returns:
            For each array the position of the first address that is its, and the array; and whether each address is of
            an array.
        """
        of_views = np.isin(addresses, self._firsts if views else self._firsts[:0])
        firsts, places = np.unique(addresses[of_views], return_index=True)
        found = [
            (int(np.flatnonzero(of_views)[place]), self._views[int(first)])
            for first, place in zip(firsts, places, strict=True)
        ]
        if not self._arrays:
            return found, bool(of_views.all())
        at = np.searchsorted(self._begins, addresses, "right") - 1
        inside = (at >= 0) & (addresses <= self._ends[at]) & ~of_views
        numbers, places = np.unique(at[inside], return_index=True)
        found += [
            (int(np.flatnonzero(inside)[place]), self._arrays[int(number)][2])
            for number, place in zip(numbers, places, strict=True)
        ]
        return sorted(found, key=lambda each: each[0]), bool((inside | of_views).all())


#: The arrays of this process.
KNOWN = KnownArrays()


def arrays_in(value: Any, depth: int = _DEPTH, seen: dict[int, int] | None = None) -> Iterator[_Array]:
    """Yield the arrays that a container of variables or of other containers holds.

    Args:
        value: The container.
        depth: Containers in containers that are looked into.
        seen: The depth with which each container was looked into before, by its number (``id``); None for none.
    """
    seen = {} if seen is None else seen
    if seen.get(id(value), -1) >= depth:
        return
    seen[id(value)] = depth
    if isinstance(value, np.ndarray):
        yield value
        return
    if depth == 0:
        return
    if isinstance(value, dict):
        held = tuple(value.values())
    elif isinstance(value, (tuple, list, set, frozenset)):
        held = tuple(value)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value) and _is_plain(value):
        held = tuple(vars(value).values())
    else:
        return
    for each in held[:_MOST_ELEMENTS]:
        yield from arrays_in(each, depth - 1, seen)


def _is_plain(value: Any) -> bool:
    """Return whether a value is an object of the user's program, and no module."""
    return type(value).__module__ not in ("builtins", "types")
