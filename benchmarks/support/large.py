"""Products that take so long that they are timed by the wall clock and checked on samples of C."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# Rows and columns of C that are checked.
_CHECKED = 64

# Largest error of an element, as a fraction of |A| |B|, by type.
_TOLERANCES = {"float16": 2e-3, "float32": 1e-5}


def median_seconds(
    call: Callable[[], Any],
    times: int,
    *,
    wait: Callable[[], None] = lambda: None,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> float:
    """Return the median seconds of a call, after one warm-up call.

    Args:
        call: Function to time.
        times: Number of timed calls.
        wait: Called before and after each call, and timed after it; waits for asynchronous work.
        before, after: Called before and after each call, untimed.
    """
    found = []
    for _ in range(times + 1):
        before()
        wait()
        begin = time.perf_counter()
        call()
        wait()
        found.append(time.perf_counter() - begin)
        after()
    return statistics.median(found[1:])


def synchronize_devices() -> None:
    """Wait for all GPUs."""
    import cupy

    for device in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            cupy.cuda.runtime.deviceSynchronize()


def is_right(a: Any, b: Any, c: Any) -> bool:
    """Check evenly spaced elements of C against a product in float64."""
    chosen = np.linspace(0, len(a) - 1, _CHECKED).astype(int)
    left, right, found = (_on_host(x).astype("f8") for x in (a[chosen], b[:, chosen], c[chosen][:, chosen]))
    error = abs(found - left @ right)
    return bool((error <= _TOLERANCES[a.dtype.name] * (abs(left) @ abs(right))).all())


def _on_host(x: Any) -> np.ndarray[Any, Any]:
    return x if isinstance(x, np.ndarray) else x.get()
