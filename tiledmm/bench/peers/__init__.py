"""Rivals in a comparison from other libraries, if these are installed.

Each module of this folder imports one library. Its function ``calls(sets, kind)`` gets sets of operands on the device
and the element type of the product, and returns calls by name, or no calls if the library does not support the product.
A call either writes ``c`` of its set or returns a new array.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

from tiledmm.bench.timing import TimedCall
from tiledmm.elements import Element

#: Names by which the libraries are imported. The module for each has the same name with an underscore.
LIBRARIES = ("torch", "jax", "triton")

#: Name of NumPy on the CPU, and the names of all rivals besides this package and ``cupy.matmul``.
CPU = "cpu"
PEERS = (*LIBRARIES, CPU)


def calls(libraries: Iterable[str], sets: Sequence[Any], kind: Element) -> dict[str, TimedCall | str]:
    """Return the calls of installed libraries by name; for a library that does not work, its error message."""
    found: dict[str, TimedCall | str] = {}
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            continue
        try:
            module = importlib.import_module(f"tiledmm.bench.peers.{library}_")
            found |= module.calls(sets, kind)
        except Exception as error:  # a library may raise anything for this device, this CUDA or this type
            found[library] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return found
