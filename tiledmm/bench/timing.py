"""Timing of calls on the device and on the host. Rivals are timed alternately.

There are two clocks:

- ``DeviceClock`` measures time on the device alone. A kernel keeps the stream busy while calls are queued between two
  events, so that the device never waits for the host.
- ``HostClock`` measures time for the caller: a loop of calls, then one synchronization.

Clock rates and temperatures drift, so rivals are timed in turn, round by round, and are compared within rounds. The
previous rival also affects the clock rate and temperature, so each round has another order.
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

#: Type of timed functions. The argument is the number of the call, so that successive calls can use different memory.
TimedCall = Callable[[int], object]


def one_after_the_other(plan: Any, sets: Sequence[Any]) -> TimedCall:
    """Return a function that runs a ``Plan`` with the next of several sets of operands in each call, for timing.

    Args:
        plan: ``Plan`` of a product.
        sets: Sets of operands, each a sequence of arguments of ``plan.run``.
    """
    return lambda i: plan.run(*sets[i % len(sets)])


#: Number of rounds per call, and the minimum for a slow call.
ROUNDS = 15
MIN_ROUNDS = 3

# Calls per round, well below the 1024 launches that today's drivers queue before the host has to wait.
_MAX_QUEUED = 100
_MAX_HOLD = 0.2
# Time to queue one call; usually it is less. If the host is slower, the reading is repeated with a longer hold.
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
        seconds: Time of one call, in seconds.
        pure: True if only the calls were timed; False if the device may have waited for the host.
    """

    seconds: float
    pure: bool


class Clock(Protocol):
    """A clock that times successive calls.

    Attributes:
        max_calls: Maximum number of calls that it times together.
    """

    max_calls: int

    def time(self, call: TimedCall, calls: int) -> Reading:
        """Time several successive calls, and return the time per call.

        Args:
            call: Function to time.
            calls: Number of calls, at most ``max_calls``.
        """


class DeviceClock:
    """Clock for device time, without host time, on the current stream of the current device."""

    max_calls = _MAX_QUEUED

    def __init__(self) -> None:
        """Compile the kernel that keeps the stream busy. This needs a GPU."""
        import cupy
        import numpy as np

        self._cupy = cupy
        self._nanoseconds: Any = np.uint64
        self._hold = cupy.RawKernel(_HOLD_SOURCE, "tiledmm_hold")
        self.hold(1e-6)
        cupy.cuda.get_current_stream().synchronize()

    def hold(self, seconds: float) -> None:
        """Keep the current stream busy for the given time, at most 0.2 s, so that later launches wait."""
        self._hold((1,), (1,), (self._nanoseconds(min(seconds, _MAX_HOLD) * 1e9),))

    def time(self, call: TimedCall, calls: int) -> Reading:
        """Time several successive calls, and return the device time per call.

        The calls are queued while a kernel keeps the stream busy. The reading is not pure if queueing takes longer than
        that kernel can run, for example because a call synchronizes.

        Args:
            call: Function to time. It launches work on the current stream.
            calls: Number of calls.
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
            queued = time.perf_counter() - begun  # an upper bound, because the hold began after `begun`
            stop.synchronize()
            reading = Reading(cuda.get_elapsed_time(start, stop) * 1e-3 / calls, pure=queued < hold)
            if reading.pure or hold == _MAX_HOLD:
                break
            wanted = 50e-6 + 3 * queued
        return reading


class HostClock:
    """Clock for host time: a loop of calls with one synchronization of the current stream at its end."""

    max_calls = 1000

    def __init__(self, synchronize: Callable[[], object] | None = None) -> None:
        """Create a clock.

        Args:
            synchronize: Function that waits for the end of all calls; None to synchronize CuPy's current stream.
        """
        if synchronize is None:
            import cupy

            synchronize = cupy.cuda.get_current_stream().synchronize
        self._synchronize = synchronize

    def time(self, call: TimedCall, calls: int) -> Reading:
        """Time several successive calls, with one synchronization at the end, and return the host time per call.

        Args:
            call: Function to time.
            calls: Number of calls.
        """
        self._synchronize()
        begun = time.perf_counter()
        for i in range(calls):
            call(i)
        self._synchronize()
        return Reading((time.perf_counter() - begun) / calls, pure=True)


@dataclass(frozen=True, slots=True)
class Sample:
    """Times of one rival.

    Attributes:
        rounds: Seconds per call, by the number of the round.
        calls: Number of calls that are timed together in a round.
        pure: True if all readings are pure.
    """

    rounds: Mapping[int, float]
    calls: int
    pure: bool = True

    @property
    def seconds(self) -> float:
        """Median time of one call over the rounds, in seconds."""
        return statistics.median(self.rounds.values())

    def speed_over(self, other: Sample) -> float:
        """Return how many times as fast this rival is as another one.

        It is the median, over the rounds with both rivals, of the other's time divided by this one's.
        """
        common = self.rounds.keys() & other.rounds.keys()
        return statistics.median(other.rounds[i] / self.rounds[i] for i in common)


def measure(rivals: Mapping[str, TimedCall], clock: Clock, *, seconds: float = 0.4) -> dict[str, Sample]:
    """Time rivals alternately, in rounds, and return the times of each.

    Every rival is called twice first, to estimate its time, and so that nothing is compiled or allocated for the first
    time while calls are timed. The order within a round is random, but the same in each run.

    Args:
        rivals: Calls by name.
        clock: Clock for device time or for host time.
        seconds: Approximate time to measure each rival, in seconds. A slow rival may need longer, in fewer rounds.

    Returns:
        One sample per rival, by name, in the same order. All rivals are in the last round.
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
    """Return the number of calls per round, and the number of rounds, in which to time a rival.

    Args:
        estimate: Estimated time of one call, in seconds.
        seconds: Approximate time for all rounds together, in seconds.
        max_calls: Maximum number of calls per round.
    """
    estimate = max(estimate, 1e-7)
    calls = max(1, min(max_calls, int(seconds / ROUNDS / estimate)))
    rounds = max(MIN_ROUNDS, min(ROUNDS, int(seconds / (calls * estimate))))
    return calls, rounds


def takes_part(i: int, rounds: int, total: int) -> bool:
    """Return whether a rival is timed in round ``i``, counted from 0. Its rounds are evenly spread over all rounds.

    Every rival is timed in the last round.

    Args:
        i: Number of the round.
        rounds: Number of rounds in which the rival is timed.
        total: Number of all rounds.
    """
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
