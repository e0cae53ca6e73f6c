"""Times of calls, on the device and for the caller. Rivals are timed alternately.

There are two clocks, and every figure says which it is from:

- ``DeviceClock``: time on the device alone. A kernel holds the stream while the calls are queued behind it
  between two events, so the host is never waited for.
- ``HostClock``: time for the caller: a loop of calls, then one synchronization.

Clocks and heat drift, so rivals take turns, round by round, and are compared within rounds. A rival also inherits the
clock rate and the heat that the one before it leaves, so each round has an order of its own.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Does the work once. The argument counts the calls, so that successive calls can use different memory.
TimedCall = Callable[[int], object]


def one_after_the_other(plan: Any, sets: Sequence[Any]) -> TimedCall:
    """Runs a ``Plan``, each time with the next of several sets of operands."""
    return lambda i: plan.run(*sets[i % len(sets)])


#: Rounds of a call, and the least for a slow one.
ROUNDS = 15
MIN_ROUNDS = 3

# Well below the number of launches a stream queues before it makes the host wait, 1024 on today's drivers.
_MAX_QUEUED = 100
_MAX_HOLD = 0.2
# Queueing one call takes less, as a rule. Where the host takes longer, the reading is repeated with a longer hold.
_QUEUE_SECONDS = 40e-6
_HOLD_ATTEMPTS = 4

_HOLD_SOURCE = r"""
__device__ __forceinline__ unsigned long long nanoseconds_now()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void tiledmm_hold(unsigned long long nanoseconds)
{
    const unsigned long long start = nanoseconds_now();
    while (nanoseconds_now() - start < nanoseconds) {
    }
}
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement.

    Attributes:
        seconds: Time of one call.
        pure: True if nothing but the calls was timed; False where the host may have been waited for.
    """

    seconds: float
    pure: bool


class Clock(Protocol):
    """Times ``calls`` calls in a row."""

    max_calls: int

    def time(self, call: TimedCall, calls: int) -> Reading:
        """Seconds of one of ``calls`` calls."""


class DeviceClock:
    """Device time of calls, without the host's, on the current stream of the current device."""

    max_calls = _MAX_QUEUED

    def __init__(self) -> None:
        """Compiles the kernel that holds the stream. Needs a GPU."""
        import cupy
        import numpy as np

        self._cupy = cupy
        self._nanoseconds: Any = np.uint64
        self._hold = cupy.RawKernel(_HOLD_SOURCE, "tiledmm_hold")
        self.hold(1e-6)
        cupy.cuda.get_current_stream().synchronize()

    def hold(self, seconds: float) -> None:
        """Keeps the current stream busy for this long (0.2 s at most), so that what is queued next waits."""
        self._hold((1,), (1,), (self._nanoseconds(min(seconds, _MAX_HOLD) * 1e9),))

    def time(self, call: TimedCall, calls: int) -> Reading:
        """Device seconds of one of ``calls`` calls, which are queued while the stream is held.

        The reading is not pure if queueing took longer than the hold, however long: a call that synchronizes.
        """
        cuda = self._cupy.cuda
        wanted = 50e-6 + calls * _QUEUE_SECONDS
        for _ in range(_HOLD_ATTEMPTS):
            hold = min(wanted, _MAX_HOLD)
            start, stop = cuda.Event(), cuda.Event()
            cuda.get_current_stream().synchronize()
            begun = time.perf_counter()
            self.hold(hold)
            start.record()
            for i in range(calls):
                call(i)
            stop.record()
            queued = time.perf_counter() - begun  # the hold began after `begun`, so this is the strict side
            stop.synchronize()
            reading = Reading(cuda.get_elapsed_time(start, stop) * 1e-3 / calls, pure=queued < hold)
            if reading.pure or hold == _MAX_HOLD:
                break
            wanted = 50e-6 + 3 * queued
        return reading


class HostClock:
    """Time as a caller meets it: a loop of calls and one synchronization of the current stream at its end."""

    max_calls = 1000

    def __init__(self, synchronize: Callable[[], object] | None = None) -> None:
        """``synchronize`` replaces the current stream's own."""
        if synchronize is None:
            import cupy

            synchronize = cupy.cuda.get_current_stream().synchronize
        self._synchronize = synchronize

    def time(self, call: TimedCall, calls: int) -> Reading:
        """Host seconds of one of ``calls`` calls."""
        self._synchronize()
        begun = time.perf_counter()
        for i in range(calls):
            call(i)
        self._synchronize()
        return Reading((time.perf_counter() - begun) / calls, pure=True)


@dataclass(frozen=True, slots=True)
class Sample:
    """The times of one rival.

    Attributes:
        rounds: Seconds of one call, by the number of the round.
        calls: Calls timed together in a round.
        pure: False if any reading was not.
    """

    rounds: Mapping[int, float]
    calls: int
    pure: bool = True

    @property
    def seconds(self) -> float:
        """Median over the rounds, of one call."""
        return statistics.median(self.rounds.values())

    def speed_over(self, other: Sample) -> float:
        """How many times as fast as ``other``: the median of the ratios in the rounds they share."""
        common = self.rounds.keys() & other.rounds.keys()
        return statistics.median(other.rounds[i] / self.rounds[i] for i in common)


def measure(rivals: Mapping[str, TimedCall], clock: Clock, *, seconds: float = 0.4) -> dict[str, Sample]:
    """Times rivals alternately.

    Every rival is called and estimated first, so nothing is compiled or allocated for the first time within
    the timing. The order of a round is random, and the same in each run.

    Args:
        rivals: Calls by name.
        clock: The clock that times them.
        seconds: About how long to time each rival; a slow one may take longer, with fewer rounds.

    Returns:
        A sample for each rival, in the same order. All share at least the last round.
    """
    plans: dict[str, tuple[int, int]] = {}
    pure = dict.fromkeys(rivals, True)
    for name, call in rivals.items():
        clock.time(call, 1)
        plans[name] = plan(clock.time(call, 1).seconds, seconds, clock.max_calls)
    total = max((rounds for _, rounds in plans.values()), default=0)
    readings: dict[str, dict[int, float]] = {name: {} for name in rivals}
    with _no_garbage_collection():
        for i in range(total):
            for name in random.Random(i).sample(list(rivals), len(rivals)):
                calls, rounds = plans[name]
                if takes_part(i, rounds, total):
                    reading = clock.time(rivals[name], calls)
                    readings[name][i] = reading.seconds
                    pure[name] &= reading.pure
    return {name: Sample(readings[name], plans[name][0], pure[name]) for name in rivals}


def plan(estimate: float, seconds: float, max_calls: int) -> tuple[int, int]:
    """Calls in a round, and rounds, to time a call of about ``estimate`` seconds for ``seconds`` in all."""
    estimate = max(estimate, 1e-7)
    calls = max(1, min(max_calls, int(seconds / ROUNDS / estimate)))
    rounds = max(MIN_ROUNDS, min(ROUNDS, int(seconds / (calls * estimate))))
    return calls, rounds


def takes_part(i: int, rounds: int, total: int) -> bool:
    """Whether a rival with ``rounds`` rounds is in round ``i`` of ``total``: evenly spread, last included."""
    return (i + 1) * rounds // total > i * rounds // total


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
