"""Times of ``auto`` and ``cupy.matmul`` on the same operands, by both clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledmm.bench.results import BASELINE

_MAX_SETS = 64


def set_count(set_bytes: int) -> int:
    """Return how many sets of operands fill twice the L2 cache, so that each is read from memory; 64 at most."""
    import cupy

    cache = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["l2CacheSize"]
    return max(1, min(_MAX_SETS, -(-2 * cache // set_bytes)))


def rivals(sets: Sequence[tuple[Any, Any, Any]], **keywords: Any) -> dict[str, Callable[[int], object]]:
    """Return the functions that multiply by ``auto`` and by CuPy, by name. Call ``i`` uses the next set of operands.

    Args:
        sets: Sets of A, B and C, which calls use in turn.
        **keywords: Arguments of ``tiledmm.matmul``.
    """
    import cupy

    import tiledmm

    def ours(i: int) -> None:
        a, b, c = sets[i % len(sets)]
        tiledmm.matmul(a, b, out=c, **keywords)

    def theirs(i: int) -> None:
        a, b, c = sets[i % len(sets)]
        cupy.matmul(a, b, out=c)

    return {"auto": ours, BASELINE: theirs}


def beside_cupy(sets: Sequence[tuple[Any, Any, Any]], seconds: float, **keywords: Any) -> dict[str, dict[str, float]]:
    """Time a product by ``auto`` and by CuPy, in microseconds, and compute how many times as fast ``auto`` is.

    Args:
        sets: Sets of A, B and C, which calls use in turn.
        seconds: Time for each rival and clock.
        **keywords: Arguments of ``tiledmm.matmul``.

    Returns:
        Times per call in a loop of calls (``"loop"``) and on the device alone (``"device"``).
    """
    from tiledmm.bench import timing

    clocks: dict[str, timing.Clock] = {"loop": timing.HostClock(), "device": timing.DeviceClock()}
    found = {}
    for name, clock in clocks.items():
        samples = timing.measure(rivals(sets, **keywords), clock, seconds=seconds)
        found[name] = {
            "auto": samples["auto"].seconds * 1e6,
            "cupy": samples[BASELINE].seconds * 1e6,
            "ratio": samples["auto"].speed_over(samples[BASELINE]),
        }
    return found
