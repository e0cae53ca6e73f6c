"""Child processes that run broken kernels, which may crash or hang them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from tools.broken_kernels import AnyKernel, Outcome

# A bug may make a kernel loop forever, and the simulator with it.
_SECONDS = 60


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
    """Run kernels that the parent sends, until it disconnects."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            kernel, text, keywords = connection.recv()
            try:
                outcome = kernel.run(kernel.text() if text is None else text, dict(keywords))
            except Exception as error:  # whatever a broken kernel makes the simulator raise
                outcome = Outcome(False, error=f"{type(error).__name__}: {error}")
            connection.send(outcome)


class Child:
    """A process that runs kernels, replaced whenever it has ended."""

    def __init__(self) -> None:
        self._process: Any = None

    def run(self, kernel: AnyKernel, text: str | None, keywords: Mapping[str, Any]) -> Outcome | End:
        """Run a kernel with a text (None for its own) and return its outcome, or how the process ended."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._connection.send((kernel, text, keywords))
            if self._connection.poll(_SECONDS):
                outcome: Outcome = self._connection.recv()
                return outcome
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
    """Several child processes, each of which runs one kernel at a time."""

    def __init__(self, number: int) -> None:
        self._all = [Child() for _ in range(number)]
        self._free: SimpleQueue[Child] = SimpleQueue()
        for child in self._all:
            self._free.put(child)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._all:
            child.end()

    def run(
        self, kernel: AnyKernel, text: str | None = None, keywords: Mapping[str, Any] | None = None
    ) -> Outcome | End:
        """Run a kernel in any free child, as ``Child.run`` does."""
        child = self._free.get()
        try:
            return child.run(kernel, text, keywords or {})
        finally:
            self._free.put(child)
