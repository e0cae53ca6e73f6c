"""The scheduler plugin for products of several ranks: it starts all ranks of a product together.

Dask starts tasks one by one. The task of a rank leaves its worker's thread pool and calls ``join`` here. When all ranks
of a product have joined, and no rank of another product runs on their workers, all of them receive each other's
addresses at once. No rank holds anything while it waits, so overlapping products of any number of clients cannot block
each other. The plugin learns from the transitions of a task that its rank has ended, for whatever reason, so no rank
has to report its end. A rank that is run again because a worker died joins again, and the tasks of the other ranks are
run again, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

from tiledmm.distributed import placement
from tiledmm.distributed.placement import SUMMA, rank_of
from tiledmm.distributed.rings import Address

if TYPE_CHECKING:
    from distributed import Scheduler

# Name of the error that a rank raises if it is not started.
_NOT_STARTED = "CollectiveError"

# Seconds within which the data of a worker whose device hangs must be copied to other workers.
_COPY_IF_HANGING = 5.0


@dataclass(slots=True)
class _Seat:
    """A rank that has joined and waits for its start.

    Attributes:
        worker: Address of the worker that runs the rank.
        address: Host and port on which the rank listens.
        kinds: Libraries of the rank's chunks, ``"numpy"`` or ``"cupy"``.
        problem: Name and text of an error in the chunks; None if they are as expected.
        started: Future of the attempt's secret and all addresses, or of an error's name and text.
    """

    worker: str
    address: Address
    kinds: Sequence[str]
    problem: Sequence[str] | None
    started: asyncio.Future[Sequence[Any]]


@dataclass(slots=True)
class _Gang:
    """A product that has not started.

    Attributes:
        size: Number of its ranks.
        seats: Ranks that have joined so far, by number.
    """

    size: int
    seats: dict[int, _Seat] = field(default_factory=dict)


@dataclass(slots=True)
class _Attempt:
    """A product whose ranks are running.

    Attributes:
        product: Name of the product.
        ranks: Ranks that have not ended.
        workers: Addresses of the workers that run the ranks.
        lost: Future of the message that a worker has left; empty once all ranks have ended.
        reason: First cause of failure that was reported; empty if there is none.
    """

    product: str
    ranks: set[int]
    workers: set[str]
    lost: asyncio.Future[str]
    reason: str = ""

    def end(self, lost: str = "") -> None:
        """End the attempt: set the result of its future to the message ``lost``, unless it has one already."""
        if not self.lost.done():
            self.lost.set_result(lost)


class GangPlugin(SchedulerPlugin):  # type: ignore[misc]
    """Scheduler plugin that places ranks on workers and starts them together. ``tiledmm.dask`` registers it."""

    name = "tiledmm-gang"
    idempotent = True

    def __init__(self) -> None:
        self.gangs: dict[str, _Gang] = {}
        self.attempts: dict[bytes, _Attempt] = {}
        self._restarting = asyncio.Lock()

    async def start(self, scheduler: Scheduler) -> None:
        """Register the handlers that ranks call. Dask calls this when the plugin is registered."""
        self.scheduler = scheduler
        calls = {"tiledmm_join": self.join, "tiledmm_failed": self.failed, "tiledmm_restart": self.restart_worker}
        calls["tiledmm_lost"] = self.lost
        scheduler.handlers.update(calls)

    def update_graph(self, scheduler: Scheduler, *, tasks: Iterable[Any], **others: Any) -> None:
        """Choose the workers that will run the ranks among new tasks. Dask calls this before the tasks may run."""
        placement.bind(scheduler, tasks)

    async def join(
        self,
        product: str,
        rank: int,
        size: int,
        worker: str,
        address: Sequence[Any],
        kinds: Sequence[str],
        problem: Sequence[str] | None,
    ) -> Sequence[Any]:
        """Wait until all ranks of a product have joined and no other product runs on their workers.

        Args:
            product: Name of the product.
            rank: Number of the rank that joins.
            size: Number of ranks of the product.
            worker: Address of the worker that runs the rank.
            address: Host and port on which the rank listens.
            kinds: Libraries of the rank's chunks, ``"numpy"`` or ``"cupy"``.
            problem: Name and text of an error in the rank's chunks; None if they are as expected.

        Returns:
            The attempt's secret and the addresses of all ranks; or, if the rank is not started, an error's name and
            text. It is returned, not raised, because Dask would log an exception whose worker has died.
        """
        task = self.scheduler.tasks.get((SUMMA + product, rank))
        runs_at = task and task.processing_on
        if runs_at is None or runs_at.address != worker:
            return _NOT_STARTED, f"the scheduler has no task of rank {rank} on {worker}"
        gang = self.gangs.setdefault(product, _Gang(size))
        if before := gang.seats.get(rank):
            _refuse(before, "it has joined again")
        started = asyncio.get_running_loop().create_future()
        gang.seats[rank] = seat = _Seat(worker, (address[0], address[1]), kinds, problem, started)
        self._advance()
        return await seat.started

    async def failed(self, attempt: bytes, reason: str) -> str:
        """Record why a rank failed, and return the reason of the rank that failed first in the same attempt.

        The first failure causes the others. ``reason`` itself is returned if the attempt has ended.
        """
        if attempt not in self.attempts:
            return reason
        self.attempts[attempt].reason = self.attempts[attempt].reason or reason
        return self.attempts[attempt].reason

    async def lost(self, attempt: bytes) -> str:
        """Wait until a worker of an attempt leaves, and return a message about it; "" if all ranks end before that."""
        running = self.attempts.get(attempt)
        return await asyncio.shield(running.lost) if running else ""

    async def restart_worker(self, worker: str, hangs: bool = False) -> str:
        """Restart a worker that is stuck, after its data have been copied to other workers. Restart only one at a time.

        Args:
            worker: Address of the worker.
            hangs: Whether its device hangs. Then data that cannot be copied within seconds are lost, as if the worker
                had died.

        Returns:
            The reason why the worker is not restarted; empty if it is.
        """
        scheduler = self.scheduler
        async with self._restarting:
            if worker not in scheduler.workers:
                return "it has left"
            if scheduler.workers[worker].nanny is None:
                return "it has no nanny to restart it"
            try:
                retired = await asyncio.wait_for(
                    scheduler.retire_workers([worker], remove=False), _COPY_IF_HANGING if hangs else None
                )
            except asyncio.TimeoutError:
                retired = {}
            if not (retired or hangs):
                return "its data could not be copied to other workers"
            await scheduler.restart_workers([worker], on_error="return", stimulus_id=f"tiledmm-restart-{worker}")
            return ""

    def transition(self, key: Any, start: str, finish: str, *args: Any, **others: Any) -> None:
        """Record the end of a rank whose task is no longer processing. Dask calls this when a task's state changes."""
        if not (found := rank_of(key)):
            return
        product, rank = found
        if start == "processing" and finish != "processing":
            for attempt, running in list(self.attempts.items()):
                if running.product == product:
                    running.ranks.discard(rank)
                    if not running.ranks:
                        self.attempts.pop(attempt).end()
            if (gang := self.gangs.get(product)) and (seat := gang.seats.pop(rank, None)):
                _refuse(seat, "its task was cancelled")
        # Deferred, because the scheduler is in the middle of its transitions here.
        if self.gangs:
            asyncio.get_running_loop().call_soon(self._advance)

    def restart(self, scheduler: Scheduler) -> None:
        """Cancel all products. Dask calls this when the scheduler forgets all tasks."""
        for product, gang in list(self.gangs.items()):
            self._disband(product, gang, "the scheduler was restarted")
        for attempt in self.attempts.values():
            attempt.end()
        self.attempts.clear()

    def remove_worker(self, scheduler: Scheduler, worker: str, **others: Any) -> None:
        """End the attempts that use a worker. Dask calls this when the worker has left."""
        for attempt in self.attempts.values():
            if worker in attempt.workers:
                attempt.reason = attempt.reason or f"worker {worker} left"
                attempt.end(f"worker {worker} left")

    def _advance(self) -> None:
        """Start the products that can start, in the order in which their first ranks joined.

        A product can start if all its ranks have joined and their workers are free. While it waits for a worker, no
        product behind it starts there.
        """
        busy: set[str] = set().union(*(attempt.workers for attempt in self.attempts.values()))
        for product, gang in list(self.gangs.items()):
            if not gang.seats:
                del self.gangs[product]
            elif len(gang.seats) < gang.size:
                self._summon(product, gang)
            elif problem := _problem_of(gang):
                self._disband(product, gang, problem[1], problem[0])
            else:
                workers = {seat.worker for seat in gang.seats.values()}
                if not busy & workers:
                    self._begin(product, gang, workers)
                busy |= workers

    def _begin(self, product: str, gang: _Gang, workers: set[str]) -> None:
        del self.gangs[product]
        secret = uuid.uuid4().bytes
        lost = asyncio.get_running_loop().create_future()
        self.attempts[secret] = _Attempt(product, set(gang.seats), workers, lost)
        addresses = [gang.seats[rank].address for rank in range(gang.size)]
        for seat in gang.seats.values():
            if not seat.started.done():
                seat.started.set_result((secret, addresses))

    def _summon(self, product: str, gang: _Gang) -> None:
        """Run the ranks of a product again that have ended although others wait for them.

        If one of them cannot run, the product is cancelled: the ranks that wait get an error.
        """
        again = {}
        for rank in set(range(gang.size)) - gang.seats.keys():
            task = self.scheduler.tasks.get((SUMMA + product, rank))
            if task is None or task.state in ("erred", "forgotten"):
                self._disband(product, gang, f"rank {rank} " + ("is no longer wanted" if task is None else "failed"))
                return
            if task.state in ("memory", "released"):
                again[task.key] = "released" if task.state == "memory" else "waiting"
        if again:
            self.scheduler.transitions(again, f"tiledmm-again-{product}")

    def _disband(self, product: str, gang: _Gang, reason: str, error: str = _NOT_STARTED) -> None:
        del self.gangs[product]
        for seat in gang.seats.values():
            _refuse(seat, reason, error)


def _problem_of(gang: _Gang) -> Sequence[str] | None:
    """Return the class name and the message of an error in the chunks of a product's ranks; None if they are valid."""
    if found := next((seat.problem for seat in gang.seats.values() if seat.problem), None):
        return found
    if len(kinds := {each for seat in gang.seats.values() for each in seat.kinds}) > 1:
        return (
            "OperandTypeError",
            f"the operands' chunks must be arrays of the same library; got {' and '.join(sorted(kinds))} arrays",
        )
    return None


def _refuse(seat: _Seat, reason: str, error: str = _NOT_STARTED) -> None:
    if not seat.started.done():
        seat.started.set_result((error, reason))
