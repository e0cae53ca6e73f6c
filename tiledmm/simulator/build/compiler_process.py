"""Runs of the C++ compiler: by this process, or by one that was started before this process gave up the right to."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import TypeAlias

Done: TypeAlias = "subprocess.CompletedProcess[str]"

_pool: ProcessPoolExecutor | None = None


def run_compiler(command: Sequence[str], folder: Path) -> Done:
    """Run a compiler with messages in English, and return its exit status and what it printed.

    Args:
        command: The compiler and its arguments.
        folder: The folder that it works in.
    """
    return _run(command, folder) if _pool is None else _pool.submit(_run, command, folder).result()


def start_compiler_process() -> None:
    """Start the process that runs every compiler from now on, so that this one need not start any more processes."""
    global _pool
    _pool = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
    started: Future[int] = _pool.submit(os.getpid)
    started.result()


def _run(command: Sequence[str], folder: Path) -> Done:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
