"""Rivals of this package's kernels in a comparison: other libraries, if these are installed, and the CPU.

Each module of this folder imports one library. Its function ``matmuls(sets, kind)`` gets sets of operands on the device
and the element type of the product, and returns functions by name, or none if the library does not support the product.
A function either writes ``c`` of its set or returns a new array.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tiledmm.bench.timing import TimedCall
from tiledmm.elements import Element

#: Names by which the libraries are imported. The module for each has the same name with an underscore.
LIBRARIES = ("torch", "jax", "triton")

#: Name of NumPy on the CPU as a rival.
CPU = "cpu"

#: Names of all rivals other than this package and ``cupy.matmul``.
PEERS = (*LIBRARIES, CPU)

# Largest m * n * k for the nested loops: they run for a quarter of a second.
_MOST_STEPS = 1 << 21

# Largest time of one product by NumPy in seconds, and the rows of A on which it is estimated.
_PATIENCE, _SAMPLE = 4.0, 16


def matmuls_of_libraries(libraries: Iterable[str], sets: Sequence[Any], kind: Element) -> dict[str, TimedCall | str]:
    """Return the functions with which other libraries multiply, by name. Libraries that are not installed are left out.

    Args:
        libraries: Names of libraries, from ``LIBRARIES``.
        sets: Sets of operands on the device.
        kind: Computation type.

    Returns:
        Functions by name; an error message in place of a function if a library raises an error.
    """
    found: dict[str, TimedCall | str] = {}
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            continue
        try:
            module = importlib.import_module(f"tiledmm.bench.peers.{library}_")
            found |= module.matmuls(sets, kind)
        except Exception as error:  # a library may raise anything for this device, this CUDA or this type
            found[library] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return found


def triple_loop(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the product of matrices (M, K) and (K, N), computed by three nested loops in Python."""
    (m, k), n = a.shape, b.shape[1]
    rows, cols = a.tolist(), b.tolist()
    c = [[0.0] * n for _ in range(m)]
    for i in range(m):
        for j in range(n):
            total = 0.0
            for step in range(k):
                total += rows[i][step] * cols[step][j]
            c[i][j] = total
    return np.array(c).astype(a.dtype)


def cpu_matmuls(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> dict[str, TimedCall | str]:
    """Return functions that multiply two matrices on the CPU, by name: NumPy, and nested loops for small matrices.

    In place of a function that would take too long there is a string with the reason.
    """
    (m, k), n = a.shape, b.shape[1]
    count = _threads()
    name = f"numpy, {count} thread{'s' if count > 1 else ''}"
    expected = _seconds(a[:_SAMPLE], b) * max(1.0, m / _SAMPLE)
    found: dict[str, TimedCall | str] = {name: lambda i: a @ b}
    if expected > _PATIENCE:
        found[name] = f"left out: it would take {expected:.0f} seconds"
    if m * n * k <= _MOST_STEPS and a.dtype.kind in "fc":
        found["triple loop"] = lambda i: triple_loop(a, b)
    return found


def _threads() -> int:
    """Return the number of threads with which NumPy multiplies floats."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blas = [int(pool["num_threads"]) for pool in threadpool_info() if pool.get("user_api") == "blas"]
    return max(blas, default=1)


def _seconds(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    a[:1] @ b
    begun = time.perf_counter()
    a @ b
    return time.perf_counter() - begun
