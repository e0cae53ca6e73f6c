"""Products by other libraries, where they are installed, as rows of a comparison.

A module of this folder is for one of them and imports it. Its ``calls(sets, kind)`` takes sets of operands on the
device and the element type of the product, and returns calls by name, none if the library has no such product. A call
writes ``c`` of its set, or returns an array of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

from tiledmm.bench.timing import TimedCall
from tiledmm.elements import Element

#: The libraries, by the name that imports them. A module of this folder has the same name and an underscore.
LIBRARIES = ("torch", "jax", "triton")

#: NumPy on the CPU, and all that a comparison may have rows for besides this package and ``cupy.matmul``.
CPU = "cpu"
PEERS = (*LIBRARIES, CPU)


def calls(libraries: Iterable[str], sets: Sequence[Any], kind: Element) -> dict[str, TimedCall | str]:
    """Calls by name; for a library that is installed and does not work, its error."""
    found: dict[str, TimedCall | str] = {}
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            continue
        try:
            module = importlib.import_module(f"tiledmm.bench.peers.{library}_")
            found |= module.calls(sets, kind)
        except Exception as error:  # whatever a version of it says of this device, this CUDA or this type
            found[library] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return found
