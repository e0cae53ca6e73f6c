"""Dask clusters on this machine, and checks that products leave nothing behind on them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import distributed

#: Seconds after which a product counts as hanging.
LIMIT = 25

#: Seconds within which a product must end after one of its workers is killed.
MOST_AFTER_KILL = 30

#: Seconds after a product was begun at which workers are killed.
KILLS = tuple(each / 1000 for each in range(0, 101, 5))


@contextmanager
def threads_of(workers: int) -> Iterator[Any]:
    """Start a cluster of single-threaded workers in this process, where any blocking wait stops the other workers."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@contextmanager
def client_of(cluster: Any) -> Iterator[Any]:
    """Connect a client to such a cluster, and check that nothing is left on it at the end."""
    with distributed.Client(cluster) as client:
        yield client
        until = time.monotonic() + 10
        while not is_empty(cluster):
            assert time.monotonic() < until, "something is left"
            time.sleep(0.02)


def is_empty(cluster: Any) -> bool:
    """Return whether scheduler and workers hold nothing but what a client still wants."""
    plugin = cluster.scheduler.plugins.get("tiledmm-gang")
    left = [name for thread in threading.enumerate() if (name := thread.name).startswith("tiledmm-ring")]
    wanted = [task for task in list(cluster.scheduler.tasks.values()) if task.who_wants]
    data = [key for worker in cluster.workers.values() for key in worker.data]
    return not left and not (plugin and (plugin.gangs or plugin.attempts)) and (bool(wanted) or not data)


def kill(client: Any, worker: str) -> None:
    """Kill a worker process and wait until it has left the cluster."""
    client.run(_exit_soon, workers=[worker])
    until = time.monotonic() + LIMIT
    while worker in client.nthreads():
        assert time.monotonic() < until
        time.sleep(0.05)


#: Dask's configuration for clusters whose workers are killed: a cluster gives up workers that take long to come back.
PATIENT = {"distributed.deploy.lost-worker-timeout": "300s"}


def processes_of(cluster: Any) -> list[int]:
    """Return the process ids of the running workers.

    Workers that are still starting are left out, because their nannies would not restart them if they were killed.
    """
    nannies = [nanny.process for nanny in cluster.workers.values() if nanny.process is not None]
    return sorted(each.pid for each in nannies if each.status == distributed.core.Status.running)


def wait_for_processes(cluster: Any, client: Any, workers: int) -> None:
    """Wait until the given number of worker processes run."""
    until = time.monotonic() + 4 * LIMIT
    while min(len(processes_of(cluster)), len(client.nthreads())) < workers:
        assert time.monotonic() < until, "workers do not come back"
        time.sleep(0.05)


def outcome_of_kill(cluster: Any, z: Any, seconds: float, victim: int, result: Callable[[Any], Any]) -> Any:
    """Kill a worker during a product; return the result or the error, which must come in time.

    Args:
        cluster: Cluster whose workers are processes.
        z: The product.
        seconds: Seconds after the product's start at which the worker is killed.
        victim: Index of the running worker to kill.
        result: Function that computes the persisted product's result within ``MOST_AFTER_KILL`` seconds.
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
