"""The tasks of a product of several ranks, as workers run them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from distributed import Worker, get_worker, secede
from distributed.comm import get_address_host

from tiledmm.distributed.communicators import Communicator, TcpCommunicator
from tiledmm.distributed.grid import Layout
from tiledmm.distributed.guard import HangingError, guarded
from tiledmm.distributed.local import hand_over, kind, nothing
from tiledmm.distributed.redistribution import Spread, block_of
from tiledmm.distributed.rings import TICK, CollectiveError, listen
from tiledmm.distributed.summa import summa
from tiledmm.distributed.worker_nccl import hangs, is_stuck, mark_hanging, nccl_communicator
from tiledmm.errors import OperandTypeError, UnsupportedTypeError

logger = logging.getLogger(__name__)

# Seconds between two checks whether a worker that waits for the scheduler is still running.
_TICK = 1.0

# Seconds that a worker whose device hangs waits for its restart.
_RESTART = 20.0

_Chunks: TypeAlias = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Collective:
    """Description of a product that several ranks compute. All ranks have the same description.

    Attributes:
        product: Name of the product, the same in all of its tasks.
        layout: Process grid and the sizes of its blocks.
        operands: Chunks of A and of B, with the rank that holds each chunk.
        kind: Library of the chunks, ``"numpy"`` or ``"cupy"``.
        dtype: Type of all elements.
        precision: Precision, as for ``tiledmm.matmul``.
        deadline: Seconds that another rank may be silent.
    """

    product: str
    layout: Layout
    operands: tuple[Spread, Spread]
    kind: str
    dtype: np.dtype[Any]
    precision: str
    deadline: float


#: Errors that a rank which is not started raises, by name.
ERRORS = {each.__name__: each for each in (CollectiveError, OperandTypeError, UnsupportedTypeError)}


def problem_of(chunks: tuple[_Chunks, _Chunks], collective: Collective, rank: int) -> tuple[str, str] | None:
    """Check whether a rank's chunks have the types and shapes that their Dask arrays state.

    Args:
        chunks: Chunks of A and chunks of B that the rank holds.
        collective: Product of all ranks.
        rank: Number of the rank.

    Returns:
        The class name and the message of an error; None if the chunks are as stated.
    """
    for name, held, spread in zip("AB", chunks, collective.operands, strict=True):
        for chunk, number in zip(held, spread.of(rank), strict=True):
            try:
                kind(chunk)
            except OperandTypeError as error:
                return type(error).__name__, str(error)
            shape = spread.shape(number)
            if (chunk.dtype, chunk.shape) != (collective.dtype, shape):
                found, wanted = f"{chunk.dtype} {chunk.shape}", f"{collective.dtype} {shape}"
                return UnsupportedTypeError.__name__, f"a chunk of {name} is {found}, but its Dask array says {wanted}"
    return None


def run_rank(a: _Chunks, b: _Chunks, collective: Collective, rank: int) -> Any:
    """Compute and return a rank's block of C.

    The task leaves its worker's thread pool, so that other tasks can run. Nothing is moved or multiplied before all
    ranks have their chunks and the chunks have been checked.

    Args:
        a, b: Chunks of A and B that the rank holds, in the order of their numbers in ``collective.operands``.
        collective: Product of all ranks.
        rank: Number of this rank.

    Raises:
        CollectiveError: If another rank failed, or was silent past the deadline.
        OperandTypeError: If chunks of any rank are not NumPy or CuPy arrays, or are of more than one library.
        UnsupportedTypeError: If chunks of any rank differ from the types and shapes that their Dask arrays state.
    """
    try:
        worker = get_worker()
    except ValueError as error:
        raise CollectiveError("this product was built for the workers of a Dask cluster; compute it there") from error
    key = worker.get_current_task()
    secede()

    lost: Future[str] | None = None

    def check() -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state in ("cancelled", "resumed"):
            raise CollectiveError("the product is no longer wanted")
        # Sockets do not report a host that has vanished, nor a rank that is not adjacent in a ring.
        is_answered = lost is not None and lost.done() and not lost.cancelled() and not lost.exception()
        if is_answered and lost is not None and (reason := lost.result()):
            raise CollectiveError(reason)

    _wait_for_restart(worker, check)
    host = "127.0.0.1" if worker.address.startswith("inproc") else get_address_host(worker.address)
    layout = collective.layout
    with listen(host) as listener:
        address = listener.getsockname()[:2]
        problem = problem_of((a, b), collective, rank)
        known = [*a, *b] or [nothing(collective.kind, collective.dtype)]
        seat = {"product": collective.product, "rank": rank, "size": layout.size, "worker": worker.address}
        seat |= {"address": address, "problem": problem, "kinds": [] if problem else sorted(set(map(kind, known)))}
        attempt, addresses = _ask(worker, "tiledmm_join", **seat)
        if isinstance(attempt, str):
            raise ERRORS[attempt](f"rank {rank} was not started: {addresses}")
        asked = worker.scheduler.tiledmm_lost(attempt=attempt)
        lost = asyncio.run_coroutine_threadsafe(asked, worker.loop.asyncio_loop)
        tcp: TcpCommunicator | None = None
        try:
            peers = [(host, port) for host, port in addresses]
            tcp = TcpCommunicator(layout, rank, listener, peers, attempt, collective.deadline, check)
            return _run(worker, tcp, (a, b), known[0], collective, rank)
        except Exception as error:
            # Reported before the peers notice, so that the first reason is the cause of the others.
            reason = f"rank {rank} on {worker.address}: {type(error).__name__}: {error}"
            first = _ask(worker, "tiledmm_failed", attempt=attempt, reason=reason)
            if first != reason and isinstance(error, CollectiveError):
                raise CollectiveError(f"{error}; before that, {first}") from error
            raise
        finally:
            if tcp is not None:
                tcp.close(wait=not hangs(worker))
            if is_stuck(worker):
                _restart(worker)


def _restart(worker: Worker) -> None:
    """Ask the scheduler to restart a worker, and return without waiting. Until then its products use TCP, not NCCL."""

    async def restart() -> None:
        if reason := await worker.scheduler.tiledmm_restart(worker=worker.address, hangs=hangs(worker)):
            logger.warning("NCCL is stuck on %s, which cannot be restarted: %s", worker.address, reason)

    logger.warning("NCCL is stuck on %s, which will be restarted", worker.address)
    asyncio.run_coroutine_threadsafe(restart(), worker.loop.asyncio_loop)


def _wait_for_restart(worker: Worker, check: Callable[[], None]) -> None:
    """Return at once if a worker's device works. If it hangs, wait for the worker's restart, which ends this process.

    A product that began on the device would hang, and so would the other ranks.

    Args:
        worker: Worker that runs this task.
        check: Function that is called during the wait. It raises if the product is no longer wanted.

    Raises:
        CollectiveError: If the worker has not been restarted within 20 s.
    """
    until = time.monotonic() + _RESTART
    while hangs(worker):
        check()
        if time.monotonic() > until:
            raise CollectiveError(f"the GPU of {worker.address} hangs, and the worker has not been restarted")
        time.sleep(TICK)


def _run(
    worker: Worker, tcp: TcpCommunicator, chunks: tuple[_Chunks, _Chunks], like: Any, collective: Collective, rank: int
) -> Any:
    used: list[Communicator] = []

    def work() -> Any:
        return _product(worker, tcp, chunks, like, collective, rank, used)

    def work_on_device() -> Any:
        with like.device:  # a new thread starts on device 0
            return work()

    def free() -> None:
        for each in used:
            each.close()

    if kind(like) == "numpy":  # NumPy's calls always return
        return work()
    try:
        return guarded(work_on_device, tcp.check, free)
    except HangingError:
        mark_hanging(worker)
        raise


def _product(
    worker: Worker,
    tcp: TcpCommunicator,
    chunks: tuple[_Chunks, _Chunks],
    like: Any,
    collective: Collective,
    rank: int,
    used: list[Communicator],
) -> Any:
    """Compute and return a rank's block of C, over NCCL if possible, else over TCP.

    Args:
        worker: Worker that runs the rank.
        tcp: Connection to the other ranks over TCP.
        chunks: Chunks of A and chunks of B that the rank holds.
        like: Array with the type and device of the block.
        collective: Product of all ranks.
        rank: Number of this rank.
        used: List to which the NCCL communicator is added, if there is one, so that the caller can close it.
    """
    layout = collective.layout
    communicator = nccl_communicator(worker, tcp, like, layout, rank, collective.deadline) or tcp
    if communicator is not tcp:
        used.append(communicator)
    try:
        a, b = (
            block_of(held, spread, blocks, layout, rank, communicator, like)
            for held, spread, blocks in zip(chunks, collective.operands, layout.block_sizes, strict=True)
        )
        c = summa(
            a,
            b,
            layout,
            rank,
            communicator,
            precision=collective.precision,
            on_step=lambda step: before_step(worker, rank, step),
        )
        # The last products may still be running, as with any task that launches work on the default stream. They depend
        # on no other rank, and Dask ends the task in the meantime.
        hand_over(c)
        tcp.finish()  # either all ranks have all panels, or none reports a block
        return c
    except BaseException:
        if communicator is not tcp:
            communicator.close()
        raise


def before_step(worker: Worker, rank: int, step: int) -> None:
    """Do nothing. It is called before each step of a rank, so that tests can replace it by a function that fails."""


def finished(c: Any, chunk: Any) -> None:
    """Do nothing. Dask runs this task when a rank has its block of C.

    ``chunk`` is an argument only so that Dask does not fuse the task with others.
    """


def all_finished(ranks: Sequence[None]) -> None:
    """Do nothing. Dask runs this task when all ranks have their blocks of C."""


def take(block: Any, all_ranks_have_finished: None) -> Any:
    """Return ``block``, a rank's block of C, as a chunk of the result.

    ``all_ranks_have_finished`` is an argument only so that Dask runs this task after all ranks, whether or not the
    other chunks are wanted.
    """
    return block


def _ask(at: Worker, operation: str, /, **arguments: Any) -> Any:
    """Call an operation of the scheduler's plugin, wait for it, and return its result.

    Raises:
        CollectiveError: If the worker has been closed, or the scheduler does not have the plugin.
    """
    loop: asyncio.AbstractEventLoop = at.loop.asyncio_loop
    asked = asyncio.run_coroutine_threadsafe(getattr(at.scheduler, operation)(**arguments), loop)
    while not wait([asked], _TICK).done:
        if loop.is_closed() or not loop.is_running():
            raise CollectiveError("the worker has been closed")
    if (found := asked.result()) is None:  # Dask's reply to an unknown operation
        raise CollectiveError("the scheduler has no plugin of tiledmm: this product was built for another cluster")
    return found
