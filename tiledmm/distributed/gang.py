"""The scheduler's part of products of several ranks: it places them, and starts them together, in one order.

Dask starts tasks one by one. A rank's task leaves its worker's thread pool and asks here to ``join``. When all ranks of
a product wait here, and no rank of another product runs on their workers, all get the others' addresses at once. So
nothing is held while something is waited for, and overlapping products of any number of clients cannot block each
other. That a rank has ended, however it did, is seen in the transitions of its task: there is nothing to release. A
rank that is run again, because a worker died, joins again; the other ranks' tasks are run again, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

from tiledmm.distributed.grid import pair
from tiledmm.distributed.rings import Address

if TYPE_CHECKING:
    from distributed import Scheduler
    from distributed.scheduler import TaskState, WorkerState

#: What the name of a rank's task begins with. The product's token and the rank follow: ``(SUMMA + token, rank)``.
SUMMA = "tiledmm-summa-"

# The name of the error of a rank that is not started.
_NOT_STARTED = "CollectiveError"

# How often a product is tried again after a rank has failed, unless the client asked for other retries.
_RETRIES = 2

# Tasks above a block that are looked at for where its elements are.
_MOST_SEEN = 1000

# Tasks that only one chunk needs are bound to its rank's worker if they are fewer.
_MOST_OWN = 100


@dataclass(slots=True)
class _Seat:
    """A rank that waits.

    Attributes:
        worker, address: Where it is.
        kinds: The libraries of its blocks.
        problem: What is wrong with them: an error's name and text. None if nothing is.
        started: What it waits for: the attempt's secret and all addresses, or an error's name and text.
    """

    worker: str
    address: Address
    kinds: Sequence[str]
    problem: Sequence[str] | None
    started: asyncio.Future[Sequence[Any]]


@dataclass(slots=True)
class _Gang:
    """A product some of whose ranks wait."""

    size: int
    seats: dict[int, _Seat] = field(default_factory=dict)


@dataclass(slots=True)
class _Attempt:
    """A product whose ranks run."""

    product: str
    ranks: set[int]
    workers: set[str]
    reason: str = ""


class GangPlugin(SchedulerPlugin):  # type: ignore[misc]
    """Places ranks, and starts them together. ``tiledmm.dask`` registers it with the scheduler."""

    name = "tiledmm-gang"
    idempotent = True

    def __init__(self) -> None:
        self.gangs: dict[str, _Gang] = {}
        self.attempts: dict[bytes, _Attempt] = {}
        self._restarting = asyncio.Lock()

    async def start(self, scheduler: Scheduler) -> None:
        """What Dask calls when it is registered."""
        self.scheduler = scheduler
        calls = {"tiledmm_join": self.join, "tiledmm_failed": self.failed, "tiledmm_restart": self.restart_worker}
        scheduler.handlers.update(calls)

    # ---- Placing

    def update_graph(self, scheduler: Scheduler, *, tasks: Iterable[Any], **others: Any) -> None:
        """What Dask calls with new tasks before they may run: binds each rank to a worker of its own.

        So are the tasks that nothing but a rank needs: its chunks are computed where it is. The bonds are loose: where
        a worker has died, its tasks run elsewhere.
        """
        products: dict[str, list[int]] = {}
        for key in tasks:
            if (found := _rank_of(key)) and scheduler.tasks[key].state == "released":
                products.setdefault(found[0], []).append(found[1])
        for product, ranks in products.items():
            for rank, worker in self._workers_of(product, sorted(ranks)).items():
                task = scheduler.tasks[SUMMA + product, rank]
                task.retries = task.retries or _RETRIES
                for each in (task, *_own(task)):
                    each.worker_restrictions, each.loose_restrictions = {worker}, True

    def _workers_of(self, product: str, ranks: list[int]) -> dict[int, str]:
        """A worker for each rank: those that have most of its elements first, the rest in order."""
        workers = sorted(worker.address for worker in self.scheduler.running)
        held = (
            (size, rank, worker.address)
            for rank in ranks
            for worker, size in _holders(self.scheduler.tasks[SUMMA + product, rank]).items()
            if worker.address in workers
        )
        chosen = dict(pair(held))
        free = [worker for worker in workers if worker not in chosen.values()]
        rest = [rank for rank in ranks if rank not in chosen]
        return chosen | dict(zip(rest, free, strict=False))  # fewer workers: Dask places the others

    # ---- Starting

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
        """Waits until all ranks of a product have joined, and it is its turn.

        Returns:
            The attempt's secret, and the addresses of all ranks; or the name and the text of an error: the rank is not
            started. (Dask would log an exception whose worker has died.)
        """
        task = self.scheduler.tasks.get((SUMMA + product, rank))
        runs_at = task and task.processing_on
        if runs_at is None or runs_at.address != worker:
            return _NOT_STARTED, f"the scheduler knows no task of rank {rank} on {worker}"
        gang = self.gangs.setdefault(product, _Gang(size))
        if before := gang.seats.get(rank):
            _refuse(before, "it has joined again")
        started = asyncio.get_running_loop().create_future()
        gang.seats[rank] = seat = _Seat(worker, (address[0], address[1]), kinds, problem, started)
        self._advance()
        return await seat.started

    async def failed(self, attempt: bytes, reason: str) -> str:
        """A rank says why it failed. Returns what the first rank of its attempt has said: the cause of the others."""
        if attempt not in self.attempts:
            return reason
        self.attempts[attempt].reason = self.attempts[attempt].reason or reason
        return self.attempts[attempt].reason

    async def restart_worker(self, worker: str) -> str:
        """Restarts a worker of which a part is stuck, after its data have been copied to others. One after the other.

        Returns:
            Why it is not restarted; empty if it is.
        """
        scheduler = self.scheduler
        async with self._restarting:
            if worker not in scheduler.workers:
                return "it has left"
            if scheduler.workers[worker].nanny is None:
                return "it has no nanny that would start it again"
            if not await scheduler.retire_workers([worker], remove=False):
                return "there is no room for its data on other workers"
            await scheduler.restart_workers([worker], on_error="return", stimulus_id=f"tiledmm-restart-{worker}")
            return ""

    def transition(self, key: Any, start: str, finish: str, *args: Any, **others: Any) -> None:
        """What Dask calls when a task changes its state: a rank that is not processed any more has ended."""
        if not (found := _rank_of(key)):
            return
        product, rank = found
        if start == "processing" and finish != "processing":
            for attempt, running in list(self.attempts.items()):
                if running.product == product:
                    running.ranks.discard(rank)
                    if not running.ranks:
                        del self.attempts[attempt]
            if (gang := self.gangs.get(product)) and (seat := gang.seats.pop(rank, None)):
                _refuse(seat, "its task was cancelled")
        # Not here: this is in the middle of the scheduler's transitions.
        if self.gangs:
            asyncio.get_running_loop().call_soon(self._advance)

    def restart(self, scheduler: Scheduler) -> None:
        """What Dask calls when the scheduler forgets all tasks."""
        for product, gang in list(self.gangs.items()):
            self._disband(product, gang, "the scheduler was restarted")
        self.attempts.clear()

    def remove_worker(self, scheduler: Scheduler, worker: str, **others: Any) -> None:
        """What Dask calls when a worker has left."""
        for attempt in self.attempts.values():
            if worker in attempt.workers:
                attempt.reason = attempt.reason or f"worker {worker} left"

    def _advance(self) -> None:
        """Starts what can start, in the order of first ranks. What cannot is not overtaken on its workers."""
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
        self.attempts[secret] = _Attempt(product, set(gang.seats), workers)
        addresses = [gang.seats[rank].address for rank in range(gang.size)]
        for seat in gang.seats.values():
            if not seat.started.done():
                seat.started.set_result((secret, addresses))

    def _summon(self, product: str, gang: _Gang) -> None:
        """Runs the ranks again that have ended, for those that wait for them; or says that they will not come."""
        again = {}
        for rank in set(range(gang.size)) - gang.seats.keys():
            task = self.scheduler.tasks.get((SUMMA + product, rank))
            if task is None or task.state in ("erred", "forgotten"):
                self._disband(product, gang, f"rank {rank} " + ("is not wanted any more" if task is None else "failed"))
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
    """What is wrong with the ranks' blocks: an error's name and text; None if nothing is."""
    if found := next((seat.problem for seat in gang.seats.values() if seat.problem), None):
        return found
    if len(kinds := {each for seat in gang.seats.values() for each in seat.kinds}) > 1:
        return "OperandTypeError", f"chunks of a product are of one library; got {' and '.join(sorted(kinds))} arrays"
    return None


def _refuse(seat: _Seat, reason: str, error: str = _NOT_STARTED) -> None:
    if not seat.started.done():
        seat.started.set_result((error, reason))


def _rank_of(key: Any) -> tuple[str, int] | None:
    """Product and rank of a rank's task; None if it is another task."""
    if type(key) is tuple and len(key) == 2 and type(key[0]) is str and key[0].startswith(SUMMA):
        return key[0].removeprefix(SUMMA), key[1]
    return None


def _own(rank: TaskState) -> set[TaskState]:
    """Tasks of which nothing has run, and whose results go to a rank alone, one by another."""
    found: set[TaskState] = set()
    for chunk in rank.dependencies:
        tasks, following = {chunk}, [chunk]
        while following and _is_free(following[-1]) and len(tasks) < _MOST_OWN:
            new = following.pop().dependencies - tasks
            tasks |= new
            following += new
        # What says that the rank has finished needs a chunk, too.
        if not following and all(task.dependents <= tasks | {rank} | rank.dependents for task in tasks):
            found |= tasks
    return found


def _is_free(task: TaskState) -> bool:
    """Whether a task has not run, and may run anywhere."""
    return task.state == "released" and not (
        task.worker_restrictions or task.host_restrictions or task.resource_restrictions
    )


def _holders(task: TaskState) -> Counter[WorkerState]:
    """Bytes of a task's inputs on each worker, as far as they are computed already."""
    held: Counter[WorkerState] = Counter()
    seen, following = {task}, [task]
    while following and len(seen) < _MOST_SEEN:
        for each in following.pop().dependencies:
            if each not in seen:
                seen.add(each)
                if each.state != "memory":
                    following.append(each)
                for worker in each.who_has or ():
                    held[worker] += each.get_nbytes()
    return held
