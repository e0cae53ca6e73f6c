"""Child processes that run broken kernels, which may crash or hang them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

# Seconds that the first job of a process takes besides, for its imports and the simulator's runtime.
_START = 30

# A process keeps what it compiled, so it is replaced after this many jobs.
_JOBS = 200


class End(Enum):
    """Reason why a child process did not answer."""

    KILLED = "killed"
    HUNG = "hung"


def _end_with_parent() -> None:
    """Wait until the parent process ends, then end this process, whatever it is running."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _serve(connection: Connection) -> None:
    """Run jobs that the parent sends, until it disconnects."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            job = connection.recv()
            try:
                answer = job()
            except Exception as error:  # whatever a broken kernel makes the simulator raise
                answer = error
            connection.send(answer)


class Child:
    """A process that runs jobs, replaced whenever it has ended."""

    def __init__(self, seconds: float) -> None:
        self._process: Any = None
        self._seconds = seconds
        self._jobs = 0

    def run(self, job: Callable[[], Any]) -> Any:
        """Run a job and return its result, the exception that it raised, or how the process ended."""
        if self._jobs == _JOBS:
            self.end()
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._jobs = 0
        limit = self._seconds + (0 if self._jobs else _START)
        self._jobs += 1
        try:
            self._connection.send(job)
            if self._connection.poll(limit):
                return self._connection.recv()
            end = End.HUNG
        except (EOFError, OSError):
            end = End.KILLED
        self.end()
        return end

    def end(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None


class Children:
    """Several child processes, each of which runs one job at a time.

    Args:
        number: Number of processes.
        seconds: Seconds after which a job's process is killed.
    """

    def __init__(self, number: int, seconds: float = 60) -> None:
        self._all = [Child(seconds) for _ in range(number)]
        self._free: SimpleQueue[Child] = SimpleQueue()
        for child in self._all:
            self._free.put(child)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._all:
            child.end()

    def run(self, job: Callable[[], Any]) -> Any:
        """Run a job in any free child, as ``Child.run`` does."""
        child = self._free.get()
        try:
            return child.run(job)
        finally:
            self._free.put(child)
