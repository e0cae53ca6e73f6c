"""On which workers the tasks of a product run: a rank where its chunks are, and its chunks where the rank is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tiledmm.distributed.grid import pair

if TYPE_CHECKING:
    from distributed import Scheduler
    from distributed.scheduler import TaskState, WorkerState

#: What the name of a rank's task begins with. The product's token and the rank follow: ``(SUMMA + token, rank)``.
SUMMA = "tiledmm-summa-"

# How often a product is tried again after a rank has failed, unless the client asked for other retries.
_RETRIES = 2

# Ranks are in the workers' order unless another one leaves so much more of their elements where they are: each order
# is a communicator of its own.
_LEAST_GAIN = 0.25

# Tasks above a block that are looked at for where its elements are.
_MOST_SEEN = 1000

# Tasks that only one chunk needs are bound to its rank's worker if they are fewer.
_MOST_OWN = 100


def bind(scheduler: Scheduler, tasks: Iterable[Any]) -> None:
    """Binds each rank that is among new tasks to a worker of its own, and so the tasks that nothing but it needs.

    The bonds are loose: where a worker has died, its tasks run elsewhere.
    """
    products: dict[str, list[int]] = {}
    for key in tasks:
        if (found := rank_of(key)) and scheduler.tasks[key].state == "released":
            products.setdefault(found[0], []).append(found[1])
    for product, ranks in products.items():
        for rank, worker in _workers_of(scheduler, product, sorted(ranks)).items():
            task = scheduler.tasks[SUMMA + product, rank]
            task.retries = task.retries or _RETRIES
            for each in (task, *_own(task)):
                each.worker_restrictions, each.loose_restrictions = {worker}, True


def _workers_of(scheduler: Scheduler, product: str, ranks: list[int]) -> dict[int, str]:
    """A worker for each rank: in order, or those first that have most of its elements."""
    workers = sorted(worker.address for worker in scheduler.running)
    held = {
        (rank, worker.address): size
        for rank in ranks
        for worker, size in _holders(scheduler.tasks[SUMMA + product, rank]).items()
        if worker.address in workers
    }
    in_order = dict(zip(ranks, workers, strict=False))  # fewer workers: Dask places the others
    chosen = dict(pair((size, *place) for place, size in held.items()))
    gain = sum(held[place] for place in chosen.items()) - sum(held.get(place, 0) for place in in_order.items())
    if gain <= _LEAST_GAIN * sum(held.values()):
        return in_order
    free = [worker for worker in workers if worker not in chosen.values()]
    return chosen | dict(zip([rank for rank in ranks if rank not in chosen], free, strict=False))


def rank_of(key: Any) -> tuple[str, int] | None:
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
