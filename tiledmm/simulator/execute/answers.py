"""What the runtime has recorded of a run, as Python's values. Addresses in code are offsets in the kernel's library."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_uint64
from typing import Any

import numpy as np

#: Maximum number of places in a kernel's code that access memory (``build/native/state.h``).
SITES = 1 << 14


def deepest_of(native: Any, run: int, base: int) -> tuple[int, int]:
    """Return the bytes of the deepest stack at an access, and the access's place; (0, 0) if none is deep."""
    pc = c_uint64()
    size = native.tiledmm_deepest(run, byref(pc))
    return (size, pc.value - base) if size else (0, 0)


def places_of(native: Any, run: int, base: int) -> dict[int, int]:
    """Return the place in code of each site, as an offset from a library's address."""
    places = np.zeros(SITES, np.uint64)
    native.tiledmm_places(run, places.ctypes.data)
    return {int(site): int(places[site]) - base for site in np.flatnonzero(places)}


def output_of(native: Any, run: int) -> str:
    """Return the text that the kernel printed."""
    text = c_char_p()
    size = native.tiledmm_output(run, byref(text))
    return ctypes.string_at(text, size).decode(errors="replace")


def copies(function: Any, run: int, kind: Any) -> list[Any]:
    """Return copies of the records that a function of the runtime returns.

    Args:
        function: The function, which sets a pointer to the first record and returns their number.
        run: The runtime's handle of the launch.
        kind: Class of a record.
    """
    pointer = POINTER(kind)()
    count = function(run, byref(pointer))
    return (
        list((kind * count).from_buffer_copy(ctypes.string_at(pointer, count * ctypes.sizeof(kind)))) if count else []
    )
