"""The communicator over NCCL: panels go from device to device.

A communicator is kept for each ordered set of devices, on the worker. One thread a worker makes all calls of NCCL,
which are not safe beside each other. The ranks are connected over TCP first, with a deadline: NCCL itself would wait
for ever for a rank that does not come. There they agree on what to use, and see when a rank has failed. Environment
variables such as ``NCCL_NVLS_ENABLE`` are the user's.

NVIDIA, "NCCL User Guide", Communicator Creation and Fault Tolerance.
"""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from tiledmm.distributed.communicators import COLUMN, ROW, Communicator, TcpCommunicator
from tiledmm.distributed.grid import Layout
from tiledmm.distributed.local import kind
from tiledmm.distributed.rings import CollectiveError

# Counts are C ints. Elements go as bytes: NCCL has no complex types, and not each CuPy has bfloat16.
_MOST_BYTES = 1 << 30

# Seconds between two looks at whether a panel has arrived, and at whether all ranks are still there.
_TICK, _LOOK = 2e-5, 0.1


class NcclThread:
    """The thread that makes a worker's calls of NCCL, and the communicators that it has made.

    Attributes:
        communicators: Those that are kept, by their devices.
        is_stuck: Whether a call has not returned within its deadline: no other one will be made.
    """

    def __init__(self) -> None:
        self.communicators: dict[tuple[str, ...], NcclCommunicator] = {}
        self.is_stuck = False
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

    Raises:
        CollectiveError: It was not made within the deadline. The thread is stuck then.
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
    ) -> None:
        import cupy
        from cupy.cuda import nccl

        self.generation = generation
        self.check: Callable[[], None] = lambda: None
        self._thread, self._device, self._deadline = thread, device, deadline
        self._type = nccl.NCCL_UINT8
        self._of_axis: dict[int, Any] = {}
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

        try:
            thread.submit(make).result(deadline)
        except NotYet as error:
            thread.is_stuck = True
            raise CollectiveError(f"NCCL did not connect within {deadline:g} s") from error

    def broadcast(self, axis: int, root: int, panel: Any, shape: tuple[int, int], like: Any) -> Callable[[], Any]:
        """As ``Communicator.broadcast``. What waits is the current stream, not the host."""
        import cupy

        if self._sizes[axis] == 1:
            return lambda: panel
        with self._device:
            # In the current stream's pool: freed memory is written again only after what that stream still reads of it.
            buffer = cupy.empty(shape, like.dtype) if panel is None else cupy.ascontiguousarray(panel)
            before = cupy.cuda.get_current_stream().record()

        def call() -> Any:
            with self._device:
                self._stream.wait_event(before)
                for begin in range(0, buffer.nbytes, _MOST_BYTES):
                    count = min(_MOST_BYTES, buffer.nbytes - begin)
                    self._of_axis[axis].bcast(buffer.data.ptr + begin, count, self._type, root, self._stream.ptr)
                return self._stream.record()

        begun = self._thread.submit(call)

        def received() -> Any:
            look = time.monotonic()
            until = look + self._deadline
            while not (begun.done() and begun.result().done):
                if (now := time.monotonic()) > until:
                    raise CollectiveError(f"no panel came by NCCL for {self._deadline:g} s: the deadline has passed")
                if now > look:
                    self.check()
                    look = now + _LOOK
                time.sleep(_TICK)
            with self._device:
                cupy.cuda.get_current_stream().wait_event(begun.result())
            return buffer if panel is None else panel

        return received

    def close(self) -> None:
        """Aborts it. It is not kept any longer."""
        kept = self._thread.communicators
        for devices in [devices for devices, each in kept.items() if each is self]:
            del kept[devices]
        # Not in the worker's thread for NCCL, which may wait in a call that only this ends.
        for each in self._of_axis.values():
            if each is not None:
                each.abort()


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
    thread = _thread_of(worker)
    device = "" if thread.is_stuck else _device_of(like)
    devices = tuple(each.decode() for each in tcp.exchange(device.encode()))
    if not all(devices) or len(set(devices)) < len(devices):
        return None
    kept = thread.communicators.get(devices)
    generations = {each.decode() for each in tcp.exchange((kept.generation if kept else "").encode())}
    if kept is None or len(generations) > 1:
        if kept is not None:
            kept.close()
        from cupy.cuda import nccl

        # The first rank of each row and column makes its identifier, and rank 0 the generation.
        row, column = layout.place(rank)
        made = [
            uuid.uuid4().hex if rank == 0 else "",
            nccl.get_unique_id() if column == 0 else None,
            nccl.get_unique_id() if row == 0 else None,
        ]
        known = [json.loads(each) for each in tcp.exchange(json.dumps(made).encode())]
        ids = tuple(map(tuple, (known[layout.rank(row, 0)][1], known[layout.rank(0, column)][2])))
        kept = NcclCommunicator(thread, layout, rank, (ids[0], ids[1]), known[0][0], like.device, deadline)
        thread.communicators[devices] = kept
    kept.check = tcp.check
    return kept


def _device_of(like: Any) -> str:
    """The identifier of the GPU that an array is on; empty if there is none, or no NCCL."""
    if kind(like) == "numpy":
        return ""
    import cupy
    from cupy.cuda import nccl

    properties = cupy.cuda.runtime.getDeviceProperties(like.device.id)
    return bytes(properties["uuid"]).hex() if nccl.available else ""


def is_stuck(worker: Any) -> bool:
    """Whether a worker needs to be restarted before it can use NCCL again."""
    return _thread_of(worker).is_stuck


_lock = threading.Lock()


def _thread_of(worker: Any) -> NcclThread:
    """The state that is kept on a worker: each worker of a process has its own."""
    with _lock:
        thread: NcclThread | None = getattr(worker, "_tiledmm_nccl", None)
        if thread is None:
            thread = worker._tiledmm_nccl = NcclThread()
        return thread
