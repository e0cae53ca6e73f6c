"""The communicator over NCCL: panels go from device to device.

A worker keeps the communicators that it has used last: making one takes longer than most products, and each takes
memory of the device. One thread a worker makes all calls of NCCL that may wait; others only make identifiers, and
abort. The ranks are connected over TCP first, with a deadline: NCCL itself would wait forever for a rank that does not
come. There they agree on what to use, and see when a rank has failed, whatever they wait for. What only NCCL can end,
aborting included, is waited for in seconds, not forever: NCCL may wait for a rank that has died. Environment variables
such as ``NCCL_NVLS_ENABLE`` are the user's.

NVIDIA, "NCCL User Guide", Communicator Creation and Fault Tolerance.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any

from tiledmm.distributed.communicators import COLUMN, ROW, Broadcast, Communicator, TcpCommunicator
from tiledmm.distributed.grid import Layout
from tiledmm.distributed.local import kind
from tiledmm.distributed.rings import CollectiveError

# Statuses of an event that has happened, and of one that has not yet: cudaSuccess and cudaErrorNotReady.
_DONE, _NOT_YET = 0, 600

# Counts are C ints. Elements go as bytes: NCCL has no complex types, and not each CuPy has bfloat16.
_MOST_BYTES = 1 << 30

# Communicators that a worker keeps: grids of two GPUs, ranks in either order.
_MOST_KEPT = 4

# Seconds between two looks at whether a panel has arrived, and at whether all ranks are still there.
_TICK, _LOOK = 2e-5, 0.1

# Seconds that NCCL gets to notice what the ranks know: that one of them has died, or that a communicator is aborted.
_GRACE = 5.0


class NcclThread:
    """The thread that makes a worker's calls of NCCL, and the communicators that it has made.

    Attributes:
        communicators: Those that are kept, by their grid and its devices; the one used last is the last one.
        is_stuck: Whether a call has not returned within its deadline: no other one will be made.
        hangs: Whether the device may hang, too: an abort or a call of CUDA has not returned. Then its data are lost.
    """

    def __init__(self) -> None:
        self.communicators: dict[tuple[Any, ...], NcclCommunicator] = {}
        self.is_stuck = self.hangs = False
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        # A daemon: a call that never returns must not keep the worker from exiting.
        threading.Thread(target=self._work, name="tiledmm-nccl", daemon=True).start()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Makes a call, after those before it."""
        future: Future[Any] = Future()
        self._calls.put((future, call))
        return future

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            del future, call  # and what they hold, before the next one comes


class NcclCommunicator(Communicator):
    """Ranks with a GPU each. Make it where all ranks do at the same time.

    Args:
        thread: The worker's thread for NCCL.
        layout: The grid.
        rank: The rank.
        ids: NCCL's identifiers of the grid row's and the grid column's communicators.
        generation: The same on all ranks that made it together.
        device: The ``cupy.cuda.Device``.
        deadline: Seconds that an operation may take.
        check: Called now and then while it waits; raises if it waits in vain.

    Attributes:
        check: The same, of the product that uses it now.

    Raises:
        CollectiveError: It was not made within the deadline, or a rank has gone. Where NCCL does not return, the thread
            is stuck then.
    """

    def __init__(
        self,
        thread: NcclThread,
        layout: Layout,
        rank: int,
        ids: tuple[Any, Any],
        generation: str,
        device: Any,
        deadline: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        import cupy
        from cupy.cuda import nccl

        self.generation, self.deadline = generation, deadline
        self.check = check
        self._closing, self._is_closed = threading.Lock(), False
        self._thread, self._device = thread, device
        self._type = nccl.NCCL_UINT8
        self._of_axis: dict[int, Any] = {}
        self._begun: Future[Any] | None = None
        row, column = layout.place(rank)
        p_r, p_c = layout.grid
        self._sizes = {ROW: p_c, COLUMN: p_r}

        def make() -> None:
            with device:
                # Before the products that wait for the same multiprocessors.
                self._stream = cupy.cuda.Stream(non_blocking=True, priority=-1)
                self._of_axis = {
                    ROW: nccl.NcclCommunicator(p_c, ids[ROW], column) if p_c > 1 else None,
                    COLUMN: nccl.NcclCommunicator(p_r, ids[COLUMN], row) if p_r > 1 else None,
                }

        self._begun = made = thread.submit(make)
        try:
            self._wait(made.done, f"NCCL did not connect within {deadline:g} s")
            made.result()
        except BaseException:
            # NCCL sees by itself that a rank has gone, in most cases: what is being made cannot be aborted.
            wait([made], 0 if made.done() else min(_GRACE, deadline))
            self.close()
            raise

    def broadcast(self, wanted: Sequence[Broadcast], like: Any) -> Callable[[], list[Any]]:
        """As ``Communicator.broadcast``. What waits for the panels is the current stream, and the host."""
        import cupy
        from cupy.cuda import nccl

        found, sent = [each.panel for each in wanted], list[tuple[Broadcast, Any]]()
        with self._device:
            for i, each in enumerate(wanted):
                if self._sizes[each.axis] > 1:
                    # In the current stream's pool: freed memory is written again only after what it still reads.
                    buffer = cupy.empty(each.shape, like.dtype) if each.panel is None else each.panel
                    sent.append((each, cupy.ascontiguousarray(buffer)))
                    found[i] = buffer
            if not sent:
                return lambda: found
            before = cupy.cuda.get_current_stream().record()

        def call() -> Any:
            if self._is_closed:
                raise CollectiveError("the communicator is closed")
            with self._device:
                self._stream.wait_event(before)
                nccl.groupStart()  # all at once: those of different roots use both directions of a link
                try:
                    for each, buffer in sent:
                        for begin in range(0, buffer.nbytes, _MOST_BYTES):
                            self._begin(each, buffer.data.ptr + begin, min(_MOST_BYTES, buffer.nbytes - begin))
                finally:
                    nccl.groupEnd()
                return self._stream.record()

        begun = self._begun = self._thread.submit(call)
        # The product that is launched next would fill the GPU, and the broadcast wait for its end.
        self._wait(begun.done)

        def received() -> list[Any]:
            self._wait(lambda: _has_happened(begun.result()))
            with self._device:
                cupy.cuda.get_current_stream().wait_event(begun.result())
            sent.clear()  # the copies that were sent
            return found

        return received

    def _begin(self, wanted: Broadcast, address: int, size: int) -> None:
        """Bytes of a panel. Of two ranks, one sends and the other one receives.

        NCCL makes the broadcasts of a group one after the other, but sends and receives at the same time.
        """
        of_axis, arguments = self._of_axis[wanted.axis], (address, size, self._type)
        if self._sizes[wanted.axis] > 2:
            of_axis.bcast(*arguments, wanted.root, self._stream.ptr)
        elif wanted.panel is None:
            of_axis.recv(*arguments, wanted.root, self._stream.ptr)
        else:
            of_axis.send(*arguments, 1 - wanted.root, self._stream.ptr)

    def _wait(self, is_done: Callable[[], bool], late: str = "") -> None:
        """Waits on the host for NCCL: so that a rank that fails is seen by the others."""
        look = time.monotonic()
        until = look + self.deadline
        while not is_done():
            if (now := time.monotonic()) > until:
                raise CollectiveError(late or f"no panel came by NCCL for {self.deadline:g} s: the deadline has passed")
            if now > look:
                self.check()
                if self._is_closed:
                    raise CollectiveError("the communicator was closed meanwhile")
                for each in self._of_axis.values():
                    if each is not None:
                        each.check_async_error()
                look = now + _LOOK
            time.sleep(_TICK)

    def close(self) -> None:
        """Aborts it. It is not kept any longer. Any thread may do so, while another one waits in it.

        NCCL may not return from that either, where a rank has died: the thread is stuck then, and the device may hang.
        """
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
        kept = self._thread.communicators
        for key in [key for key, each in list(kept.items()) if each is self]:
            kept.pop(key, None)
        made = [each for each in self._of_axis.values() if each is not None]
        aborted: Future[None] = Future()

        def abort() -> None:
            try:
                for each in made:
                    each.abort()
                aborted.set_result(None)
            except BaseException as error:
                aborted.set_exception(error)

        # Not in the worker's thread for NCCL, which may wait in a call that only this ends. A daemon, as that one.
        threading.Thread(target=abort, name="tiledmm-abort", daemon=True).start()
        if wait([aborted], _GRACE).not_done:
            self._thread.is_stuck = self._thread.hangs = True
        if self._begun is not None:
            self._thread.is_stuck |= bool(wait([self._begun], _LOOK).not_done)


def nccl_communicator(
    worker: Any,
    tcp: TcpCommunicator,
    like: Any,
    layout: Layout,
    rank: int,
    deadline: float,
) -> NcclCommunicator | None:
    """A communicator over NCCL, made or kept; None without CuPy arrays, without NCCL, or where ranks share a GPU.

    All ranks call it, and all get one or none does.
    """
    device = "" if is_stuck(worker) else _device_of(like)
    devices = tuple(each.decode() for each in tcp.exchange(device.encode()))
    if not all(devices) or len(set(devices)) < len(devices):
        return None
    thread, key = _thread_of(worker), (layout.grid, *devices)
    kept = thread.communicators.get(key)
    generations = {each.decode() for each in tcp.exchange((kept.generation if kept else "").encode())}
    if kept is None or len(generations) > 1:
        if kept is not None:
            kept.close()
            if thread.is_stuck:  # the other ranks see that this one gives up
                raise CollectiveError("NCCL does not return from aborting a communicator whose ranks have gone")
        from cupy.cuda import nccl

        # The first rank of each row and column of several makes its identifier, and rank 0 the generation.
        (row, column), (p_r, p_c) = layout.place(rank), layout.grid
        made = [
            uuid.uuid4().hex if rank == 0 else "",
            _text(nccl.get_unique_id()) if column == 0 and p_c > 1 else None,
            _text(nccl.get_unique_id()) if row == 0 and p_r > 1 else None,
        ]
        known = [json.loads(each) for each in tcp.exchange(json.dumps(made).encode())]
        ids = _identifier(known[layout.rank(row, 0)][1]), _identifier(known[layout.rank(0, column)][2])
        for unused in list(thread.communicators.values())[: 1 - _MOST_KEPT]:
            unused.close()  # a worker has a rank of one product at a time: no other one uses it
        kept = NcclCommunicator(thread, layout, rank, ids, known[0][0], like.device, deadline, tcp.check)
    thread.communicators.pop(key, None)
    thread.communicators[key] = kept
    kept.check, kept.deadline = tcp.check, deadline
    return kept


def _text(identifier: Any) -> list[Any]:
    """An identifier of NCCL as JSON has it: bytes, or a tuple of integers in CuPy before 14."""
    return [type(identifier).__name__, list(identifier)]


def _identifier(text: list[Any] | None) -> Any:
    return text and {"bytes": bytes, "tuple": tuple}[text[0]](text[1])


def _has_happened(event: Any) -> bool:
    """Whether an event has. CuPy's ``Event.done`` takes an error of the device for "not yet"."""
    from cupy.cuda import runtime

    if (status := runtime.eventQuery(event.ptr)) not in (_DONE, _NOT_YET):
        raise runtime.CUDARuntimeError(status)
    return bool(status == _DONE)


def _device_of(like: Any) -> str:
    """A name of the GPU that an array is on; empty if there is none, or no NCCL."""
    if kind(like) == "numpy":
        return ""
    import cupy
    from cupy.cuda import nccl

    # The UUID alone will not do: CuPy's ends at its first byte of 0.
    unique = bytes(cupy.cuda.runtime.getDeviceProperties(like.device.id)["uuid"]).hex()
    return f"{socket.gethostname()} {like.device.pci_bus_id} {unique}" if nccl.available else ""


def is_stuck(worker: Any) -> bool:
    """Whether a worker needs to be restarted before it can use NCCL again."""
    thread: NcclThread | None = getattr(worker, "_tiledmm_nccl", None)
    return thread is not None and thread.is_stuck


def hangs(worker: Any) -> bool:
    """Whether a worker's device may hang: it needs to be restarted, though what is on the device is lost."""
    thread: NcclThread | None = getattr(worker, "_tiledmm_nccl", None)
    return thread is not None and thread.hangs


def mark_hanging(worker: Any) -> None:
    """Notes that a call of CUDA has not returned on a worker."""
    thread = _thread_of(worker)
    thread.is_stuck = thread.hangs = True


_lock = threading.Lock()


def _thread_of(worker: Any) -> NcclThread:
    """The state that is kept on a worker: each worker of a process has its own."""
    with _lock:
        thread: NcclThread | None = getattr(worker, "_tiledmm_nccl", None)
        if thread is None:
            thread = worker._tiledmm_nccl = NcclThread()
        return thread
