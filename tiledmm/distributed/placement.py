"""Placement of a product's tasks: a rank runs where its chunks are, and tasks that only it needs run where it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tiledmm.distributed.grid import pair

if TYPE_CHECKING:
    from distributed import Scheduler
    from distributed.scheduler import TaskState, WorkerState

#: Prefix of the name of a rank's task. The product's token and the rank follow: ``(SUMMA + token, rank)``.
SUMMA = "tiledmm-summa-"

# Number of times that a failed rank is run again, unless the client asked for other retries.
_RETRIES = 2

# Ranks are in the order of the workers, unless another order leaves this much more of the elements where they are: each
# order needs another communicator.
_LEAST_GAIN = 0.25

# Maximum number of tasks above a block that are searched for the workers which hold its elements.
_MOST_SEEN = 1000

# Tasks that only one chunk needs are bound to its rank's worker if they are fewer than this.
_MOST_OWN = 100


def bind(scheduler: Scheduler, tasks: Iterable[Any]) -> None:
    """Choose a worker for each new task of a rank, and for the tasks whose results only that rank needs.

    The choice is stored as loose restrictions of the tasks: if the worker has died, its tasks run elsewhere.

    Args:
        scheduler: Scheduler of the tasks.
        tasks: Keys of the new tasks.
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
    """Return, by rank, the address of the worker that should run it. Each worker gets one rank at most.

    Ranks are assigned to workers in the order of their addresses, unless assigning each rank to the worker that holds
    most of its inputs leaves considerably more bytes where they are.
    """
    workers = sorted(worker.address for worker in scheduler.running)
    held = {
        (rank, worker.address): size
        for rank in ranks
        for worker, size in _holders(scheduler.tasks[SUMMA + product, rank]).items()
        if worker.address in workers
    }
    in_order = dict(zip(ranks, workers, strict=False))  # with fewer workers than ranks, Dask places the others
    chosen = dict(pair((size, *place) for place, size in held.items()))
    gain = sum(held[place] for place in chosen.items()) - sum(held.get(place, 0) for place in in_order.items())
    if gain <= _LEAST_GAIN * sum(held.values()):
        return in_order
    free = [worker for worker in workers if worker not in chosen.values()]
    return chosen | dict(zip([rank for rank in ranks if rank not in chosen], free, strict=False))


def rank_of(key: Any) -> tuple[str, int] | None:
    """Return the name of the product and the number of the rank, if a task's key is that of a rank; else None."""
    if type(key) is tuple and len(key) == 2 and type(key[0]) is str and key[0].startswith(SUMMA):
        return key[0].removeprefix(SUMMA), key[1]
    return None


def _own(rank: TaskState) -> set[TaskState]:
    """Return the tasks that have not run and whose results only this rank needs.

    The rank needs a result directly, or because another such task needs it.
    """
    found: set[TaskState] = set()
    for chunk in rank.dependencies:
        tasks, following = {chunk}, [chunk]
        while following and _is_free(following[-1]) and len(tasks) < _MOST_OWN:
            new = following.pop().dependencies - tasks
            tasks |= new
            following += new
        # The task ``finished`` of the rank needs a chunk, too.
        if not following and all(task.dependents <= tasks | {rank} | rank.dependents for task in tasks):
            found |= tasks
    return found


def _is_free(task: TaskState) -> bool:
    """Return whether a task has not run and may run on any worker."""
    return task.state == "released" and not (
        task.worker_restrictions or task.host_restrictions or task.resource_restrictions
    )


def _holders(task: TaskState) -> Counter[WorkerState]:
    """Return how many bytes of a task's inputs each worker holds.

    For an input that is not computed yet, the inputs of its own task are counted.
    """
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
