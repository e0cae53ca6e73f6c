"""The communicator over NCCL: panels move from device to device.

One thread per worker makes all NCCL calls that may wait; other threads only create identifiers and abort. NCCL may wait
for a rank that has died, so the wait for a call that only NCCL can end, such as an abort, lasts seconds, not forever.
Environment variables such as ``NCCL_NVLS_ENABLE`` are left to the user.

Source: NVIDIA, "NCCL User Guide", Communicator Creation and Fault Tolerance.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any

from tiledmm.distributed.communicators import COLUMN, ROW, Broadcast, Communicator
from tiledmm.distributed.grid import Layout
from tiledmm.distributed.rings import CollectiveError

# Results of cudaEventQuery: cudaSuccess if the event has happened, and cudaErrorNotReady if it has not.
_DONE, _NOT_YET = 0, 600

# NCCL's counts are C ints. Elements are sent as bytes: NCCL has no complex types, and not every CuPy has bfloat16.
_MOST_BYTES = 1 << 30

# Seconds between two checks whether a panel has arrived, and whether all ranks are still there.
_TICK, _LOOK = 2e-5, 0.1

# Seconds within which NCCL must notice what the ranks know: that one has died, or that a communicator is aborted.
_GRACE = 5.0


class NcclThread:
    """The thread that makes a worker's NCCL calls, and the communicators that it has created.

    Attributes:
        communicators: Communicators that are kept, by grid and devices, in the order of their last use.
        is_stuck: Whether a call has not returned within its deadline. The thread makes no other call then.
        hangs: Whether the device may hang, too: an abort or a CUDA call has not returned. Data on the device are lost
            then.
    """

    def __init__(self) -> None:
        self.communicators: dict[tuple[Any, ...], NcclCommunicator] = {}
        self.is_stuck = self.hangs = False
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        # A daemon: a call that never returns must not keep the worker from exiting.
        threading.Thread(target=self._work, name="tiledmm-nccl", daemon=True).start()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Queue a function that makes NCCL calls, and return the future of its result.

        The thread runs queued functions one after the other.
        """
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
            del future, call  # release the arrays that they refer to, before the next call


class NcclCommunicator(Communicator):
    """Communicator of ranks with one GPU each. All ranks must create it at the same time.

    Args:
        thread: Worker's thread for NCCL calls.
        layout: Process grid and the sizes of its blocks.
        rank: Number of this rank.
        ids: NCCL identifiers of the communicators of this rank's grid row and grid column.
        generation: Text that is the same on all ranks that created the communicator together.
        device: ``cupy.cuda.Device`` of this rank.
        deadline: Seconds that one operation may take.
        check: Function that is called every 0.1 s during a wait. It raises if the wait is in vain.

    Attributes:
        check: Function that is called every 0.1 s during a wait, of the product that currently uses the communicator.

    Raises:
        CollectiveError: If the communicator was not created within the deadline, or a rank has gone. If NCCL does not
            return then, the thread is stuck.
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
                # Higher priority than products, which wait for the same multiprocessors.
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
            # A communicator that is being created cannot be aborted. In most cases NCCL notices by itself that a rank
            # has gone.
            wait([made], 0 if made.done() else min(_GRACE, deadline))
            self.close()
            raise

    def broadcast(self, wanted: Sequence[Broadcast], like: Any) -> Callable[[], list[Any]]:
        """Start broadcasts, and return a function that waits for their panels; see ``Communicator.broadcast``.

        That function makes both the host and the current stream wait.
        """
        import cupy
        from cupy.cuda import nccl

        found, sent = [each.panel for each in wanted], list[tuple[Broadcast, Any]]()
        with self._device:
            for i, each in enumerate(wanted):
                if self._sizes[each.axis] > 1:
                    # Allocated on the current stream: CuPy's pool reuses the memory only after the work that still
                    # reads it.
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
                nccl.groupStart()  # one group: broadcasts from different roots use both directions of a link
                try:
                    for each, buffer in sent:
                        for begin in range(0, buffer.nbytes, _MOST_BYTES):
                            self._begin(each, buffer.data.ptr + begin, min(_MOST_BYTES, buffer.nbytes - begin))
                finally:
                    nccl.groupEnd()
                return self._stream.record()

        begun = self._begun = self._thread.submit(call)
        # Wait for the launch. Otherwise the next product would fill the GPU, and the broadcast would wait for its end.
        self._wait(begun.done)

        def received() -> list[Any]:
            self._wait(lambda: _has_happened(begun.result()))
            with self._device:
                cupy.cuda.get_current_stream().wait_event(begun.result())
            sent.clear()  # releases the copies that were sent
            return found

        return received

    def _begin(self, wanted: Broadcast, address: int, size: int) -> None:
        """Enqueue the broadcast of ``size`` bytes of a panel, at an address on the device.

        Between two ranks, one sends the bytes and the other one receives them: NCCL runs the broadcasts of a group one
        after the other, but sends and receives at the same time.
        """
        of_axis, arguments = self._of_axis[wanted.axis], (address, size, self._type)
        if self._sizes[wanted.axis] > 2:
            of_axis.bcast(*arguments, wanted.root, self._stream.ptr)
        elif wanted.panel is None:
            of_axis.recv(*arguments, wanted.root, self._stream.ptr)
        else:
            of_axis.send(*arguments, 1 - wanted.root, self._stream.ptr)

    def _wait(self, is_done: Callable[[], bool], late: str = "") -> None:
        """Block the host until ``is_done`` returns True.

        Raises:
            CollectiveError: If another rank fails, the communicator is closed, or the deadline passes; with the message
                ``late`` in the last case, if it is not empty.
        """
        look = time.monotonic()
        until = look + self.deadline
        while not is_done():
            if (now := time.monotonic()) > until:
                raise CollectiveError(
                    late or f"no panel arrived over NCCL for {self.deadline:g} s: the deadline has passed"
                )
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
        """Abort the communicator, and remove it from those that are kept for later products.

        Any thread may call this while another one waits for a broadcast. If a rank has died, NCCL may not return from
        the abort, either. Then the worker's NCCL thread is marked as stuck, and its device as one that may hang.
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

        # The worker's thread for NCCL may wait in a call that only the abort ends, so another daemon thread aborts.
        threading.Thread(target=abort, name="tiledmm-abort", daemon=True).start()
        if wait([aborted], _GRACE).not_done:
            self._thread.is_stuck = self._thread.hangs = True
        if self._begun is not None:
            self._thread.is_stuck |= bool(wait([self._begun], _LOOK).not_done)


def _has_happened(event: Any) -> bool:
    """Return whether an event on the device has happened.

    Raises:
        CUDARuntimeError: If work on the device has failed; CuPy's ``Event.done`` would be False.
    """
    from cupy.cuda import runtime

    if (status := runtime.eventQuery(event.ptr)) not in (_DONE, _NOT_YET):
        raise runtime.CUDARuntimeError(status)
    return bool(status == _DONE)
