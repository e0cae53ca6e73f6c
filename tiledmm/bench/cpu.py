"""Products on the CPU: by NumPy and by three nested loops in Python."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from tiledmm.bench.timing import TimedCall

# Largest m * n * k for the nested loops: they run for a quarter of a second.
_MOST_STEPS = 1 << 21

# Largest time of one product by NumPy in seconds, and the rows of A on which it is estimated.
_PATIENCE, _SAMPLE = 4.0, 16


def threads() -> int:
    """Return the number of threads with which NumPy multiplies floats."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blas = [int(pool["num_threads"]) for pool in threadpool_info() if pool.get("user_api") == "blas"]
    return max(blas, default=1)


def triple_loop(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Multiply (M, K) by (K, N) with three nested loops."""
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


def calls(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> dict[str, TimedCall | str]:
    """Return functions that multiply two matrices, by name; a text in place of a function says why it is left out."""
    (m, k), n = a.shape, b.shape[1]
    count = threads()
    name = f"numpy, {count} thread{'s' if count > 1 else ''}"
    expected = _seconds(a[:_SAMPLE], b) * max(1.0, m / _SAMPLE)
    found: dict[str, TimedCall | str] = {name: lambda i: a @ b}
    if expected > _PATIENCE:
        found[name] = f"left out: it would take {expected:.0f} seconds"
    if m * n * k <= _MOST_STEPS and a.dtype.kind in "fc":
        found["triple loop"] = lambda i: triple_loop(a, b)
    return found


def _seconds(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    a[:1] @ b
    begun = time.perf_counter()
    a @ b
    return time.perf_counter() - begun
