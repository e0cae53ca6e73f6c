"""Tests of the NCCL communicator with a fake CuPy and NCCL: agreement of ranks, sent data, and faults."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import queue
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tests.strategies import small_integers
from tiledmm.distributed import guard, local, nccl, worker_nccl
from tiledmm.distributed.communicators import ROW, Broadcast, TcpCommunicator
from tiledmm.distributed.grid import Layout, choose_layout
from tiledmm.distributed.guard import guarded
from tiledmm.distributed.rings import CollectiveError, listen
from tiledmm.distributed.summa import summa
from tiledmm.distributed.worker_nccl import nccl_communicator

DEADLINE = 5.0


class Device(contextlib.nullcontext[None]):
    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.id, self.pci_bus_id = number, f"0000:0{number}:00.0"


class ndarray(np.ndarray):
    """An array on a device."""

    device = Device()

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


ndarray.__module__ = "cupy"


class Stream:
    ptr = 0

    def __init__(self, **options: Any) -> None:
        pass

    def record(self) -> Any:
        return SimpleNamespace(ptr=0)

    def wait_event(self, event: Any) -> None:
        pass


class Nccl(types.ModuleType):
    """A stand-in for ``cupy.cuda.nccl``, whose calls between ``groupStart`` and ``groupEnd`` happen at the end."""

    NCCL_UINT8, available = 1, True

    def __init__(self) -> None:
        super().__init__("cupy.cuda.nccl")
        self.sent: defaultdict[Any, queue.SimpleQueue[bytes]] = defaultdict(queue.SimpleQueue)
        self.unique, self.group, self.sends = itertools.count(), threading.local(), 0
        fake = self

        class NcclCommunicator:
            def __init__(self, size: int, identifier: bytes, rank: int) -> None:
                assert type(identifier) is bytes and len(identifier) == 128
                self.size, self.identifier, self.rank, self.is_aborted = size, identifier, rank, False

            def bcast(self, address: int, count: int, kind: int, root: int, stream: int) -> None:
                if self.rank == root:
                    for peer in set(range(self.size)) - {root}:
                        self.send(address, count, kind, peer, stream)
                else:
                    self.recv(address, count, kind, root, stream)

            def send(self, address: int, count: int, kind: int, peer: int, stream: int) -> None:
                def call() -> None:
                    fake.sends += 1
                    fake.sent[self.identifier, self.rank, peer].put(ctypes.string_at(address, count))

                fake.group.calls.append(call)

            def recv(self, address: int, count: int, kind: int, peer: int, stream: int) -> None:
                fake.group.calls.append(lambda: self.receive(address, count, peer))

            def receive(self, address: int, count: int, root: int) -> None:
                while not self.is_aborted:
                    with contextlib.suppress(queue.Empty):
                        found = fake.sent[self.identifier, root, self.rank].get(timeout=0.05)
                        assert len(found) == count
                        ctypes.memmove(address, found, count)
                        return

            def check_async_error(self) -> None:
                pass

            def abort(self) -> None:
                self.is_aborted = True

        self.NcclCommunicator = NcclCommunicator

    def get_unique_id(self) -> bytes:
        return bytes([next(self.unique)]) * 128

    def groupStart(self) -> None:
        self.group.calls = []

    def groupEnd(self) -> None:
        for call in self.group.calls:
            call()


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> Nccl:
    """Provide NCCL between devices on the host as the only way to send panels, with little data per call."""
    made, cupy, cuda = Nccl(), types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
    status = SimpleNamespace(eventQuery=lambda event: 0, CUDARuntimeError=RuntimeError)
    for name, value in {"nccl": made, "runtime": status, "Stream": Stream, "get_current_stream": Stream}.items():
        setattr(cuda, name, value)
    cupy.cuda = cuda  # type: ignore[attr-defined]
    cupy.empty = lambda shape, dtype: np.full(shape, 7, dtype).view(ndarray)  # type: ignore[attr-defined]
    cupy.ascontiguousarray = lambda x: np.ascontiguousarray(x).view(ndarray)  # type: ignore[attr-defined]
    for name, module in {"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.nccl": made, "cupy.cuda.runtime": status}.items():
        monkeypatch.setitem(sys.modules, name, module)

    def add(a: Any, b: Any, c: Any, *, out: Any, **others: Any) -> None:
        out += np.matmul(a, b)

    monkeypatch.setattr(
        local, "api", SimpleNamespace(matmul=lambda a, b, out, precision: np.matmul(a, b, out=out), gemm=add)
    )
    monkeypatch.setattr(worker_nccl, "_device_of", lambda like: str(like.device.id))
    monkeypatch.setattr(nccl, "_MOST_BYTES", 100)
    monkeypatch.setattr(TcpCommunicator, "broadcast", None)
    return made


def on_device(x: Any, number: int) -> Any:
    found = np.array(x).view(ndarray)
    found.device = Device(number)
    return found


def layout_of(m: int, n: int, k: int, size: int) -> Layout:
    layout = choose_layout(m, n, k, size, ((m,), (k,)), ((k,), (n,)))
    assert layout is not None
    return layout


def run(layout: Layout, workers: list[Any], work: Callable[[int, TcpCommunicator], Any]) -> list[Any]:
    """Run each rank in a thread, and return what each returns."""
    listeners = [listen("127.0.0.1") for _ in workers]
    addresses = [each.getsockname() for each in listeners]

    def of_rank(rank: int) -> Any:
        with listeners[rank] as listener:
            tcp = TcpCommunicator(layout, rank, listener, addresses, bytes(16), DEADLINE)
            try:
                return work(rank, tcp)
            finally:
                tcp.close()

    with ThreadPoolExecutor(len(workers)) as threads:
        return list(threads.map(of_rank, range(len(workers))))


def made_by(
    layout: Layout, workers: list[Any], deadline: float = DEADLINE, devices: Sequence[int] | None = None
) -> list[Any]:
    """Return each rank's communicator; rank i uses device i unless devices are given."""

    def work(rank: int, tcp: TcpCommunicator) -> Any:
        like = on_device([0], devices[rank] if devices else rank)
        found = nccl_communicator(workers[rank], tcp, like, layout, rank, deadline)
        tcp.finish()
        return found

    return run(layout, workers, work)


# ---- What the ranks agree on


@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_communicators_are_kept_and_made_together(size: int, fake: Nccl) -> None:
    layout = layout_of(40, 50, 60, size)
    workers = [SimpleNamespace() for _ in range(size)]
    assert made_by(layout, workers, devices=[0] * size) == [None] * size, "a GPU is shared"
    made = made_by(layout, workers)
    assert len({each.generation for each in made}) == 1
    assert made_by(layout, workers) == made, "kept"
    made[1].close()
    again = made_by(layout, workers)
    assert not set(map(id, again)) & set(map(id, made)), "made again by all"
    assert len({each.generation for each in again}) == 1
    worker_nccl._thread_of(workers[1]).is_stuck = True
    assert made_by(layout, workers) == [None] * size, "no rank waits for a thread that is stuck"


def test_communicators_used_last_are_kept(fake: Nccl) -> None:
    layout, workers = layout_of(40, 50, 60, 3), [SimpleNamespace() for _ in range(3)]
    orders = list(itertools.permutations(range(3)))

    def made(order: tuple[int, ...]) -> list[Any]:
        return made_by(layout, [workers[device] for device in order], devices=order)

    known = {order: made(order) for order in orders}
    for worker in workers:
        assert list(worker_nccl._thread_of(worker).communicators) == [
            (layout.grid, *map(str, order)) for order in orders[2:]
        ]
    closed = [each for order in orders[:2] for each in known[order]]
    assert all(axis is None or axis.is_aborted for each in closed for axis in each._of_axis.values())
    assert made(orders[2]) == known[orders[2]], "kept, and the last one now"
    assert made(orders[0]) != known[orders[0]], "made again"
    assert made(orders[2]) == known[orders[2]]
    assert made(orders[3]) != known[orders[3]]


@pytest.mark.parametrize("identifier", [bytes(range(128)), tuple(range(-64, 64))])
def test_identifiers_of_any_cupy(identifier: Any) -> None:
    assert worker_nccl._identifier(worker_nccl._text(identifier)) == identifier


# ---- Products


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        pytest.param(dtype, size, marks=slow_unless(dtype == "float32" or size == 3))
        for dtype in ("float32", "complex64", "int8")
        for size in (2, 3, 4, 6)
    ],
)
def test_products(size: int, dtype: str, fake: Nccl) -> None:
    rng, workers = np.random.default_rng(size), [SimpleNamespace() for _ in range(size)]
    for m, n, k in ((40, 50, 60), (90, 10, 60), (10, 90, 60), (40, 50, 60)):  # on several grids of the same devices
        a, b, layout = small_integers(rng, (m, k), dtype), small_integers(rng, (k, n), dtype), layout_of(m, n, k, size)

        def multiply(rank: int, tcp: TcpCommunicator, a: Any = a, b: Any = b, layout: Layout = layout) -> Any:
            i, j = layout.place(rank)
            rows, depths = (np.cumsum([0, *sizes]) for sizes in (layout.rows, layout.a_depths))
            b_depths, columns = (np.cumsum([0, *sizes]) for sizes in (layout.b_depths, layout.columns))
            left = on_device(a[rows[i] : rows[i + 1], depths[j] : depths[j + 1]], rank)
            right = on_device(b[b_depths[i] : b_depths[i + 1], columns[j] : columns[j + 1]], rank)
            before = left.copy(), right.copy()
            found = nccl_communicator(workers[rank], tcp, left, layout, rank, DEADLINE)
            assert found is not None
            c = summa(left, right, layout, rank, found, width=7)
            tcp.finish()
            assert np.array_equal(left, before[0]) and np.array_equal(right, before[1])
            return c

        blocks = run(layout, workers, multiply)
        p_r, p_c = layout.grid
        found = np.block([[blocks[layout.rank(i, j)] for j in range(p_c)] for i in range(p_r)])
        np.testing.assert_array_equal(found, a @ b)
    assert fake.sends


# ---- Faults


def one_of_two(deadline: float = DEADLINE) -> Any:
    """Return the communicator of a rank whose peer does nothing."""
    layout = Layout((4,), (2, 3), (3, 3), (6,))
    found = made_by(layout, [SimpleNamespace(), SimpleNamespace()], deadline)[0]
    found.check = lambda: None
    return found


def test_a_silent_rank_is_an_error_at_the_deadline() -> None:
    communicator, begin = one_of_two(0.3), time.monotonic()
    with pytest.raises(CollectiveError, match=r"0\.3 s"):
        communicator.broadcast([Broadcast(ROW, 1, None, (4, 3))], on_device([0.0], 0))
    assert time.monotonic() - begin < 3
    communicator.close()


def test_a_panel_that_does_not_arrive_is_an_error_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    communicator, begin = one_of_two(0.3), time.monotonic()
    monkeypatch.setattr(sys.modules["cupy.cuda.runtime"], "eventQuery", lambda event: 600)
    received = communicator.broadcast([Broadcast(ROW, 0, on_device(np.ones((4, 3)), 0), (4, 3))], on_device([0.0], 0))
    with pytest.raises(CollectiveError, match=r"0\.3 s"):
        received()
    assert time.monotonic() - begin < 3
    communicator.close()
    assert not communicator._thread.is_stuck


def test_a_launch_that_does_not_return_keeps_the_thread(monkeypatch: pytest.MonkeyPatch, fake: Nccl) -> None:
    communicator, ends = one_of_two(0.2), threading.Event()
    monkeypatch.setattr(fake, "groupEnd", lambda: ends.wait(DEADLINE))
    with pytest.raises(CollectiveError, match=r"0\.2 s"):
        communicator.broadcast([Broadcast(ROW, 0, on_device(np.ones((4, 3)), 0), (4, 3))], on_device([0.0], 0))
    communicator.close()
    assert communicator._thread.is_stuck
    ends.set()


def test_a_rank_that_gives_up_is_an_error_at_once() -> None:
    communicator, begin = one_of_two(), time.monotonic()

    def check() -> None:
        raise CollectiveError("a peer gave up")

    communicator.check = check
    with pytest.raises(CollectiveError, match="peer"):
        communicator.broadcast([Broadcast(ROW, 1, None, (4, 3))], on_device([0.0], 0))
    assert time.monotonic() - begin < 1
    communicator.close()


def test_an_error_of_the_device_is_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    communicator = one_of_two()
    monkeypatch.setattr(sys.modules["cupy.cuda.runtime"], "eventQuery", lambda event: 700)
    received = communicator.broadcast([Broadcast(ROW, 0, on_device(np.ones((4, 3)), 0), (4, 3))], on_device([0.0], 0))
    with pytest.raises(RuntimeError, match="700"):
        received()


@pytest.mark.parametrize("late", [False, True])
def test_a_thread_that_is_stuck(late: bool, fake: Nccl, monkeypatch: pytest.MonkeyPatch) -> None:
    connected = threading.Event()
    monkeypatch.setattr(fake, "NcclCommunicator", lambda *arguments: connected.wait(DEADLINE if late else 0))
    thread = nccl.NcclThread()
    arguments = (thread, layout_of(4, 5, 6, 2), 0, (b"", b""), "", Device(), 0.2)
    with contextlib.ExitStack() as stack:
        if late:
            stack.enter_context(pytest.raises(CollectiveError, match=r"0\.2 s"))
        nccl.NcclCommunicator(*arguments)
    assert thread.is_stuck == late
    connected.set()


# ---- Ranks that die


class Died(Exception):
    """A stand-in for the end of a process: its sockets close, and nothing else happens."""


def dying_at(number: int, tcp: TcpCommunicator) -> None:
    """Make a rank die before its exchange with this number, counted from 0."""
    exchange, numbers = tcp.exchange, itertools.count()

    def counted(message: bytes = b"") -> list[bytes]:
        if next(numbers) == number:
            raise Died
        return exchange(message)

    tcp.exchange = counted  # type: ignore[method-assign]


# Long enough for a test to fail that waits for it.
PATIENT = 60.0


def survivors(
    layout: Layout, workers: list[Any], work: Callable[[int, TcpCommunicator], Any], victim: int = 1
) -> tuple[list[Any], float]:
    """Return what each rank returns or raises, and the seconds until the last survivor has ended."""
    ended: dict[int, float] = {}

    def of_rank(rank: int, tcp: TcpCommunicator) -> Any:
        try:
            return work(rank, tcp)
        except Exception as error:
            return error
        finally:
            ended[rank] = time.monotonic()

    begin = time.monotonic()
    found = run(layout, workers, of_rank)
    return found, max(at for rank, at in ended.items() if rank != victim) - begin


def guarded_product(
    workers: list[Any], layout: Layout, x: Any, rank: int, tcp: TcpCommunicator, prepare: Callable[[int, Any], None]
) -> Any:
    """Do a rank's work as ``ranks._run`` does, where A and B are both ``x`` and rank 0 has its first columns."""
    used: list[Any] = []

    def work() -> Any:
        half = slice(3 * rank, 3 * rank + 3)
        left, right = on_device(x[:, half], rank), on_device(x[:, half], rank)
        found = nccl_communicator(workers[rank], tcp, left, layout, rank, PATIENT)
        assert found is not None
        used.append(found)
        try:
            prepare(rank, found)
            c = summa(left, right, layout, rank, found, width=1)
            tcp.finish()
            return c
        except BaseException:
            found.close()
            raise

    return guarded(work, tcp.check, lambda: [each.close() for each in used] and None)


TWO = Layout((6,), (3, 3), (3, 3), (6,))


@pytest.mark.parametrize("kept", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("number", range(4))
def test_a_rank_that_dies_before_an_exchange(number: int, kept: bool) -> None:
    """Check the death of a rank before each of its exchanges, with a new and with a kept communicator."""
    workers, x = [SimpleNamespace(), SimpleNamespace()], np.arange(36.0).reshape(6, 6)
    if kept:
        made_by(TWO, workers)

    def work(rank: int, tcp: TcpCommunicator) -> Any:
        if rank == 1:
            dying_at(number, tcp)
        return guarded_product(workers, TWO, x, rank, tcp, lambda rank, found: None)

    found, seconds = survivors(TWO, workers, work)
    ends = number < (3 if kept else 4)  # the second product has one exchange less
    assert isinstance(found[1], Died) == ends and isinstance(found[0], CollectiveError) == ends, found
    assert seconds < 3


@pytest.mark.parametrize("has_sent", [False, True], ids=["silently", "after its last message"])
def test_a_broadcast_whose_sender_has_died(has_sent: bool) -> None:
    """Check that a dead sender is noticed even if data that it sent before is unread on its socket."""
    workers, x = [SimpleNamespace(), SimpleNamespace()], np.ones((6, 6))

    def die(rank: int, found: Any) -> None:
        if rank == 1:
            if has_sent:
                sockets[1].rings[ROW]._send(bytes(8))
            raise Died

    sockets: dict[int, TcpCommunicator] = {}

    def work(rank: int, tcp: TcpCommunicator) -> Any:
        sockets[rank] = tcp
        return guarded_product(workers, TWO, x, rank, tcp, die)

    found, seconds = survivors(TWO, workers, work)
    assert isinstance(found[1], Died) and isinstance(found[0], CollectiveError) and "gave up" in str(found[0])
    assert seconds < 3 and not worker_nccl.is_stuck(workers[0]) and not worker_nccl._thread_of(workers[0]).communicators


def test_a_communicator_that_is_never_made_since_a_rank_has_died(fake: Nccl, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, x, ends = [SimpleNamespace(), SimpleNamespace()], np.ones((6, 6)), threading.Event()
    monkeypatch.setattr(nccl, "_GRACE", 0.3)

    def make(size: int, identifier: bytes, rank: int) -> None:
        if rank == 1:
            raise Died
        ends.wait(PATIENT)

    monkeypatch.setattr(fake, "NcclCommunicator", make)
    found, seconds = survivors(
        TWO, workers, lambda rank, tcp: guarded_product(workers, TWO, x, rank, tcp, lambda *made: None)
    )
    assert isinstance(found[0], CollectiveError) and "gave up" in str(found[0]) and seconds < 4
    assert worker_nccl.is_stuck(workers[0]) and not worker_nccl.hangs(workers[0]), (
        "the worker is restarted, and keeps its data"
    )
    ends.set()


@pytest.mark.parametrize("hanging", [False, True])
def test_a_call_of_cuda_that_waits_for_a_broadcast(hanging: bool, fake: Nccl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the guard notices a dead peer while a CUDA call, such as an allocation, blocks the thread."""
    workers, x, ends = [SimpleNamespace(), SimpleNamespace()], np.ones((6, 6)), threading.Event()
    blocks = threading.Event()
    monkeypatch.setattr(guard, "_GRACE", 0.3)
    abort = fake.NcclCommunicator.abort

    def aborted(self: Any) -> None:
        abort(self)
        if not hanging:
            ends.set()

    monkeypatch.setattr(fake.NcclCommunicator, "abort", aborted)

    def wait(rank: int, found: Any) -> None:
        if rank == 1:
            assert blocks.wait(PATIENT)
            raise Died
        blocks.set()
        assert ends.wait(PATIENT)

    found, seconds = survivors(TWO, workers, lambda rank, tcp: guarded_product(workers, TWO, x, rank, tcp, wait))
    assert isinstance(found[0], guard.HangingError if hanging else CollectiveError)
    assert isinstance(found[0], guard.HangingError) == hanging and seconds < 4
    ends.set()


@pytest.mark.parametrize("late", [False, True], ids=["of a product", "of one that was kept"])
def test_an_abort_that_does_not_return(late: bool, fake: Nccl, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, x, ends = [SimpleNamespace(), SimpleNamespace()], np.ones((6, 6)), threading.Event()
    made_by(TWO, workers)
    monkeypatch.setattr(nccl, "_GRACE", 0.3)
    monkeypatch.setattr(fake.NcclCommunicator, "abort", lambda self: ends.wait(PATIENT))
    if late:  # its peer has died in another product, and been started again
        workers[1] = SimpleNamespace()

    def die(rank: int, found: Any) -> None:
        if rank == 1:
            raise Died

    found, seconds = survivors(TWO, workers, lambda rank, tcp: guarded_product(workers, TWO, x, rank, tcp, die))
    assert isinstance(found[0], CollectiveError) and seconds < 5
    assert worker_nccl.is_stuck(workers[0]) and worker_nccl.hangs(workers[0]), (
        "the worker is restarted, whatever it has"
    )
    ends.set()


def test_guarded_work_returns_and_raises() -> None:
    assert guard.guarded(lambda: 5, lambda: None, lambda: None) == 5
    with pytest.raises(Died):
        guard.guarded(lambda: (_ for _ in ()).throw(Died()), lambda: None, lambda: None)


def test_what_has_finished_meanwhile_counts() -> None:
    """Check that the result is returned if a check fails just as the work ends."""
    ends = threading.Event()

    def check() -> None:
        raise CollectiveError("a peer gave up")

    def work() -> int:
        assert ends.wait(DEADLINE)
        return 7

    assert guard.guarded(work, check, ends.set) == 7
