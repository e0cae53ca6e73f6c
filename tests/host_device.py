"""A stand-in device for streaming products, which runs operations late and in any permitted order.

Operations on streams are recorded with what they must wait for: earlier operations on their stream, and events that the
stream waits for. They run when the host waits for an event, or earlier at random, in random order. Therefore a missing
wait makes a result wrong.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiledmm.distributed import streaming


@dataclass
class Operation:
    """An operation on a stream.

    Attributes:
        name: Kind of operation: ``"in"``, ``"product"`` or ``"out"``.
        run: Function that performs it.
        after: Numbers of the operations that it must wait for.
        done: Whether it has run.
    """

    name: str
    run: Callable[[], None]
    after: set[int]
    done: bool = False


@dataclass
class Stream:
    """A sequence of operations: the number of the last one, and the events that the next one waits for."""

    last: int | None = None
    events: set[int] = field(default_factory=set)


def _described(*arrays: Any) -> tuple[Any, ...]:
    """Return what a kernel is selected by: shapes, strides and types."""
    return tuple((x.shape, x.strides, x.dtype) for x in arrays)


class HostDevice:
    """A stand-in for ``cuda_device.Device``.

    Attributes:
        operations: All operations that its streams were given.
        most: Limit of allocations in bytes; None for no limit.
        allocated: Allocated bytes.
        eager: Probability, from 0 to 1, that an operation runs before it is waited for.
        fails_at: Number of the product that fails with an error; None if none does.
    """

    name = "a host"

    def __init__(self, seed: int = 0, free: int = 1 << 30, eager: float = 0.3) -> None:
        self.operations: list[Operation] = []
        self.most: int | None = None
        self.allocated, self.eager, self.products, self.copied = 0, eager, 0, 0
        self.fails_at: int | None = None
        self.is_closed = False
        self._free, self._random, self._lock = free, random.Random(seed), threading.RLock()
        self._memory = np.empty(0, np.uint8)
        self._workspace = 0
        self._locked: list[np.ndarray] = []
        self._described: set[tuple[Any, ...]] = set()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> HostDevice:
        """Make this the device of streaming products."""
        monkeypatch.setattr(streaming, "device_module", lambda name: SimpleNamespace(Device=lambda: self))
        return self

    def activate(self) -> None:
        pass

    # Memory

    def free_bytes(self) -> int:
        return self._free

    def workspace(self, a: Any, b: Any, out: Any, has_addend: bool, precision: str) -> int:
        """Return bytes of workspace that are not monotone in the panel's size, as on a device."""
        (m, k), n = a.shape, b.shape[1]
        self._described.add(_described(a, b, out))
        return (m + n) * k + 64 * (m % 3) + 32 * has_addend

    def allocate(self, workspace: int, size: int) -> None:
        self.allocated = workspace + size
        assert self.most is None or self.allocated <= self.most, f"{self.allocated} bytes of {self.most}"
        self._memory, self._workspace = np.full(size, 255, np.uint8), workspace

    def rows(self, begin: int, shape: tuple[int, int], pitch: int, dtype: Any) -> np.ndarray:
        assert begin % 256 == 0 and pitch % 16 == 0, "kernels read by TMA"
        return np.ndarray(shape, dtype, self._memory.data, begin, (pitch, np.dtype(dtype).itemsize))

    def page_locked(self, size: int) -> np.ndarray:
        return self.lock(np.full(size, 255, np.uint8))

    def lock(self, x: np.ndarray) -> np.ndarray:
        """Mark an array as page-locked and return it."""
        self._locked.append(x)
        return x

    def is_page_locked(self, x: np.ndarray) -> bool:
        return any(np.may_share_memory(x, each) for each in self._locked)

    # Streams

    def stream(self) -> Stream:
        return Stream()

    def record(self, stream: Stream) -> set[int]:
        with self._lock:
            return set(stream.events if stream.last is None else {*stream.events, stream.last})

    def wait(self, stream: Stream, event: set[int]) -> None:
        with self._lock:
            stream.events |= event

    def synchronize(self, event: set[int]) -> None:
        with self._lock:
            self._run_for(event)

    def close(self) -> None:
        self.synchronize(set(range(len(self.operations))))
        self.is_closed = True

    def copy_in(self, rows: np.ndarray, host: np.ndarray, stream: Stream) -> None:
        self._check_copy(rows, host)
        self.copied += host.nbytes
        self._give(stream, "in", lambda: np.copyto(rows, host))

    def copy_out(self, host: np.ndarray, rows: np.ndarray, stream: Stream) -> None:
        self._check_copy(rows, host)
        self._give(stream, "out", lambda: np.copyto(host, rows))

    def product(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, addend: Any, precision: str, stream: Any) -> None:
        if self.products == self.fails_at:
            raise RuntimeError("the device failed")
        self.products += 1
        assert _described(a, b, out) in self._described, "its kernel was chosen for others"
        assert addend is None or (addend.strides, addend.dtype) == (out.strides, out.dtype) or out.itemsize == 2
        assert self.workspace(a, b, out, addend is not None, precision) <= self._workspace
        wide = np.complex128 if a.dtype.kind == "c" else np.float64

        def run() -> None:
            found = np.einsum("ik,kj->ij", a.astype(wide), b.astype(wide))  # the same bits wherever operands are
            out[...] = found if addend is None else found + addend

        self._give(stream, "product", run)

    def _check_copy(self, rows: np.ndarray, host: np.ndarray) -> None:
        assert rows.shape == host.shape and rows.dtype == host.dtype and 0 not in rows.shape
        assert self.is_page_locked(host), "copies of other memory are not asynchronous"
        for x in (rows, host):
            assert x.shape[1] == 1 or x.strides[1] == x.itemsize
            assert x.shape[0] == 1 or x.strides[0] >= x.shape[1] * x.itemsize

    def _give(self, stream: Stream, name: str, run: Callable[[], None]) -> None:
        with self._lock:
            after = {*stream.events, *(() if stream.last is None else (stream.last,))}
            self.operations.append(Operation(name, run, after))
            stream.last, stream.events = len(self.operations) - 1, set()
            while self._random.random() < self.eager and (ready := self._ready()):
                self._run(self._random.choice(ready))

    def _ready(self) -> list[int]:
        return [
            number
            for number, each in enumerate(self.operations)
            if not each.done and all(self.operations[before].done for before in each.after)
        ]

    def _run_for(self, event: set[int]) -> None:
        needed = self.ancestors(event)
        while not all(self.operations[number].done for number in needed):
            self._run(self._random.choice(self._ready()))

    def _run(self, number: int) -> None:
        with np.errstate(all="ignore"):
            self.operations[number].run()
        self.operations[number].done = True

    def ancestors(self, event: set[int]) -> set[int]:
        """Return an event's operations, and all operations that these must wait for."""
        found: set[int] = set()
        rest = [*event]
        while rest:
            if (number := rest.pop()) not in found:
                found.add(number)
                rest.extend(self.operations[number].after - found)
        return found
