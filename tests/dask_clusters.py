"""Clusters of Dask on this machine, which nothing is to be left on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import distributed

#: Seconds. A product that has not ended by then hangs.
LIMIT = 25


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


def _exit_soon() -> None:
    threading.Timer(0.05, os._exit, [1]).start()
