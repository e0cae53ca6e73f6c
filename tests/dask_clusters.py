"""Clusters of Dask on this machine, which nothing is to be left on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import distributed

#: Seconds. A product that has not ended by then hangs.
LIMIT = 25

#: Seconds within which a product ends one of whose workers is killed.
MOST_AFTER_KILL = 30

#: Seconds after a product was begun at which workers are killed.
KILLS = tuple(each / 1000 for each in range(0, 101, 5))


@contextmanager
def threads_of(workers: int) -> Iterator[Any]:
    """A cluster of workers in this process, with a thread each: whatever waits in it keeps others from running."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@contextmanager
def client_of(cluster: Any) -> Iterator[Any]:
    """A client of such a cluster; an error if anything is left at the end."""
    with distributed.Client(cluster) as client:
        yield client
        until = time.monotonic() + 10
        while not is_empty(cluster):
            assert time.monotonic() < until, "something is left"
            time.sleep(0.02)


def is_empty(cluster: Any) -> bool:
    """Whether nothing is left on scheduler and workers, but for what a client still wants."""
    plugin = cluster.scheduler.plugins.get("tiledmm-gang")
    left = [name for thread in threading.enumerate() if (name := thread.name).startswith("tiledmm-ring")]
    wanted = [task for task in cluster.scheduler.tasks.values() if task.who_wants]
    data = [key for worker in cluster.workers.values() for key in worker.data]
    return not left and not (plugin and (plugin.gangs or plugin.attempts)) and (bool(wanted) or not data)


def kill(client: Any, worker: str) -> None:
    """Ends a worker that is a process."""
    client.run(_exit_soon, workers=[worker])
    until = time.monotonic() + LIMIT
    while worker in client.nthreads():
        assert time.monotonic() < until
        time.sleep(0.05)


#: Dask's configuration for clusters whose workers are killed: a cluster gives up workers that take long to come back.
PATIENT = {"distributed.deploy.lost-worker-timeout": "300s"}


def processes_of(cluster: Any) -> list[int]:
    """The workers that are processes, and run.

    One that is killed while its nanny still starts it would not be started again.
    """
    nannies = [nanny.process for nanny in cluster.workers.values() if nanny.process is not None]
    return sorted(each.pid for each in nannies if each.status == distributed.core.Status.running)


def wait_for_processes(cluster: Any, client: Any, workers: int) -> None:
    """Waits for workers that are processes."""
    until = time.monotonic() + 4 * LIMIT
    while min(len(processes_of(cluster)), len(client.nthreads())) < workers:
        assert time.monotonic() < until, "workers do not come back"
        time.sleep(0.05)


def outcome_of_kill(cluster: Any, z: Any, seconds: float, victim: int, result: Callable[[Any], Any]) -> Any:
    """What a product leads to one of whose workers is killed: a result or an error, but something.

    Args:
        cluster: The cluster, whose workers are processes.
        z: The product.
        seconds: When the worker is killed, after the product was begun.
        victim: Which worker, of those that run.
        result: Computes the result of the persisted product, within ``MOST_AFTER_KILL`` seconds.
    """
    processes = processes_of(cluster)
    begun = z.persist()
    time.sleep(seconds)
    os.kill(processes[victim % len(processes)], signal.SIGKILL)
    begin = time.monotonic()
    try:
        return result(begun)
    except Exception as error:
        waited = time.monotonic() - begin
        assert waited < MOST_AFTER_KILL - 0.5, f"nothing came in {waited:.0f} s after {seconds * 1000:g} ms"
        return error


def _exit_soon() -> None:
    threading.Timer(0.05, os._exit, [1]).start()
