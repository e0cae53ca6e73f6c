"""Clock for pytest-benchmark that runs only while the device does the timed work."""

from __future__ import annotations

from typing import Any

from tiledmm.bench.timing import DeviceClock


class DeviceTimer:
    """Seconds of device time since the first call, by events on the current stream.

    pytest-benchmark calls it before and after a loop of calls and subtracts. Each call waits for the device, reads
    the time, and then blocks the stream for a moment that is not counted. Calls queued meanwhile run back to back, no
    matter how long the host took to queue them.
    """

    def __init__(self) -> None:
        """Initialize without using the GPU."""
        self.hold_seconds = 0.0
        self._total = 0.0
        self._clock: DeviceClock | None = None
        self._resumed: Any = None

    def __repr__(self) -> str:
        """Return the name that pytest-benchmark writes to its files."""
        return "device_timer"

    def __call__(self) -> float:
        """Return the device time in seconds."""
        import cupy

        now = cupy.cuda.Event()
        now.record()
        now.synchronize()
        if self._clock is None:
            self._clock = DeviceClock()
        if self._resumed is not None:
            # Only differences count, so what an event pair says of the idle time between rounds does no harm.
            self._total += cupy.cuda.get_elapsed_time(self._resumed, now) * 1e-3
        self._clock.hold(self.hold_seconds)
        self._resumed = cupy.cuda.Event()
        self._resumed.record()
        return self._total


device_timer = DeviceTimer()
