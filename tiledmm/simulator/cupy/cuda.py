"""``cupy.cuda`` of the simulator: device 0, streams and events, whose times are those of the simulation."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from tiledmm.errors import ConfigError
from tiledmm.simulator.cupy.arrays import ndarray
from tiledmm.simulator.cupy.devices import PROPERTIES, Device
from tiledmm.simulator.cupy.memory import MemoryPointer

__all__ = [
    "Device",
    "Event",
    "MemoryPointer",
    "MemoryPool",
    "Stream",
    "alloc",
    "alloc_pinned_memory",
    "device",
    "get_current_stream",
    "get_device_id",
    "get_elapsed_time",
    "is_available",
    "memory",
    "nvtx",
    "profile",
    "profiler",
    "runtime",
    "stream",
]

# CuPy's allocations are multiples of this.
_UNIT = 512


class Event:
    """The point in time at which ``record`` was called."""

    ptr = 0
    done = True

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.disable_timing = disable_timing
        self._seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Store the current time in this event; ``stream`` has no effect."""
        self._seconds = time.perf_counter()

    def synchronize(self) -> None:
        """Do nothing: an event that was recorded has happened."""


class Stream:
    """A stream without effect: each launch ends before its call returns, so there is never anything to wait for."""

    ptr = 0
    done = True
    null: ClassVar[Stream]

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self.is_non_blocking, self.ptds, self.priority = non_blocking, ptds, priority or 0
        self._before: list[Stream] = []

    def record(self, event: Event | None = None) -> Event:
        """Store the current time in an event, and return the event; without an argument it is a new one."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def use(self) -> Stream:
        """Make this stream the current one, and return it."""
        _current[-1] = self
        return self

    def synchronize(self) -> None:
        """Do nothing: a simulated launch has ended when its call returns."""

    def wait_event(self, event: Event) -> None:
        """Do nothing: an event that was recorded has happened."""

    def add_callback(self, callback: Callable[[Stream, int, Any], object], arg: Any) -> None:
        """Call ``callback(stream, 0, arg)`` at once; 0 is the status of success."""
        callback(self, 0, arg)

    def launch_host_func(self, callback: Callable[[Any], object], arg: Any) -> None:
        """Call ``callback(arg)`` at once."""
        callback(arg)

    def __enter__(self) -> Stream:
        _current.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _current.pop()


Stream.null = Stream(null=True)
_current = [Stream.null]


def get_current_stream() -> Stream:
    """Return the current stream: that of the innermost ``with`` block, or the stream whose ``use`` was called last."""
    return _current[-1]


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Return the milliseconds between two events: the time of the simulation, not that of a GPU.

    Raises:
        ConfigError: If one of the events was not recorded, or was made with ``disable_timing=True``.
    """
    begin, end = start_event._seconds, end_event._seconds
    if begin is None or end is None or start_event.disable_timing or end_event.disable_timing:
        raise ConfigError("both events must be recorded, with timing enabled, before get_elapsed_time")
    return 1000 * (end - begin)


class MemoryPool:
    """A memory pool that keeps no memory: the memory of an array is freed with the array."""

    def __init__(self) -> None:
        self._limit = 0

    def used_bytes(self) -> int:
        """Return the bytes of all arrays of the simulator's ``cupy``, each rounded up to a multiple of 512."""
        sizes = {}
        for each in gc.get_objects():
            if isinstance(each, ndarray):
                owner: np.ndarray = np.asarray(each)
                while isinstance(owner.base, np.ndarray):
                    owner = owner.base
                sizes[owner.ctypes.data] = -(-owner.nbytes // _UNIT) * _UNIT
        return sum(sizes.values())

    def total_bytes(self) -> int:
        """Return the bytes of all arrays, as ``used_bytes`` does, because the pool keeps no other memory."""
        return self.used_bytes()

    def free_bytes(self) -> int:
        """Return 0, because the pool keeps no free memory."""
        return 0

    def n_free_blocks(self) -> int:
        """Return 0, because the pool keeps no free blocks."""
        return 0

    def free_all_blocks(self, stream: object = None) -> None:
        """Do nothing: the pool keeps no free blocks."""

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Store a limit in bytes for ``get_limit``; it has no effect, and ``fraction`` is ignored."""
        self._limit = int(size or 0)

    def get_limit(self) -> int:
        """Return the limit in bytes that was set; 0 for none."""
        return self._limit


def alloc(size: int) -> MemoryPointer:
    """Allocate ``size`` bytes of memory, all 0xff, and return a pointer to it."""
    return MemoryPointer(np.full(size, 255, np.uint8))


def alloc_pinned_memory(size: int) -> bytearray:
    """Allocate ``size`` bytes of host memory, which ``numpy.frombuffer`` can use."""
    return bytearray(size)


def is_available() -> bool:
    """Return True: the simulator can always launch kernels."""
    return True


def get_device_id() -> int:
    """Return 0, the number of the current device."""
    return 0


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Run a ``with`` block without profiling it."""
    yield


def _nothing(*_: object) -> None:
    """Do nothing, for functions of CuPy that have no effect here."""


class _Namespace(SimpleNamespace):
    """Object with names of a module of ``cupy.cuda``; any other name raises AttributeError.

    Args:
        title: Name of the module, for the message.
        **names: The names and their values.
    """

    def __init__(self, title: str, **names: Any) -> None:
        super().__init__(**names)
        self._title = title

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the simulator's cupy.cuda.{self.__dict__.get('_title', '')} has no {name!r}")


def _properties(device: int) -> dict[str, Any]:
    Device(device)
    return dict(PROPERTIES)


runtime = _Namespace(
    "runtime",
    deviceSynchronize=_nothing,
    getDevice=lambda: 0,
    getDeviceCount=lambda: 1,
    getDeviceProperties=_properties,
    is_hip=False,
    memGetInfo=lambda: Device().mem_info,
    setDevice=lambda device: Device(device).use(),
    streamSynchronize=_nothing,
)
profiler = _Namespace("profiler", start=_nothing, stop=_nothing)
nvtx = _Namespace(
    "nvtx", Mark=_nothing, MarkC=_nothing, RangePop=_nothing, RangePush=_nothing, RangePushC=_nothing, available=False
)
memory = _Namespace("memory", MemoryPointer=MemoryPointer, MemoryPool=MemoryPool, alloc=alloc)
stream = _Namespace(
    "stream",
    Event=Event,
    Stream=Stream,
    get_current_stream=get_current_stream,
    get_elapsed_time=get_elapsed_time,
)
device = _Namespace("device", Device=Device)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"the simulator's cupy.cuda has no {name!r}")
