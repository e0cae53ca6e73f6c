"""The threads that run a launch's blocks, one per core."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

_WATCH_SECONDS = 0.1

# Number of cores that this process uses at most; None for no limit.
_most_cores: int | None = None


def cores() -> int:
    """Return the number of cores that this process may use."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # Linux, or not
    return min(here, _most_cores or here)


def use_at_most(number: int) -> None:
    """Set the number of cores that this process uses at most."""
    global _most_cores
    _most_cores = number


def work(
    library: Any,
    run: int,
    workers: int,
    blocks: int,
    progress: Callable[[int, int], None] | None,
    timeout: float | None,
    *,
    all_needed: bool = False,
) -> None:
    """Run the blocks of a launch in several threads, and return when no blocks are left. Ctrl-C ends them at once.

    Args:
        library: The runtime.
        run: The runtime's handle of the launch.
        workers: Number of threads.
        blocks: Number of blocks in the grid.
        progress: Function that is called from time to time with the number of finished blocks and of all blocks.
        timeout: Seconds after which the launch ends with a finding; None for no limit.
        all_needed: Whether the launch needs as many threads as ``workers`` says.

    Raises:
        MemoryError: If there is no memory for the stacks of a block's threads, or if threads are missing that are
            needed.
    """
    failures: list[int] = []
    left = [workers]
    ended = threading.Event()
    lock = threading.Lock()

    def one() -> None:
        if library.tiledmm_work(run):
            failures.append(1)
        with lock:
            left[0] -= 1
            if not left[0]:
                ended.set()

    threads = _started(one, workers)
    missing = workers - len(threads)
    if missing and all_needed:
        library.tiledmm_stop(run)
    with lock:
        left[0] -= missing
        if not left[0]:
            ended.set()
    begun = time.monotonic()
    try:
        # An interrupted Thread.join may take a running thread for one that has ended; an Event does not.
        while not ended.wait(_WATCH_SECONDS):
            if timeout is not None and time.monotonic() - begun > timeout:
                library.tiledmm_time_out(run)
            library.tiledmm_watch(run)
            if progress:
                progress(library.tiledmm_blocks_done(run), blocks)
        if progress:
            progress(library.tiledmm_blocks_done(run), blocks)
    except BaseException:
        library.tiledmm_stop(run)
        while not _waited(ended):
            library.tiledmm_watch(run)
        raise
    finally:
        for thread in threads:
            thread.join()
    if failures:
        raise MemoryError("there is not enough memory for the stacks of a block's threads")
    if missing and all_needed:
        raise MemoryError(
            f"{workers:,} blocks wait for each other, and each needs a thread of the operating system, but the system "
            f"allows only {len(threads):,}"
        )


def _started(work: Callable[[], None], workers: int) -> list[threading.Thread]:
    """Start threads that call ``work``, and return them.

    There are fewer than ``workers`` if the system allows no more; any number of threads runs all blocks.
    """
    threads: list[threading.Thread] = []
    for i in range(workers):
        thread = threading.Thread(target=work, name=f"tiledmm-{i}")
        try:
            thread.start()
        except RuntimeError:
            if not threads:
                raise
            break
        threads.append(thread)
    return threads


def _waited(ended: threading.Event) -> bool:
    """Wait up to 0.01 seconds for an event, and return whether it has happened; return False at Ctrl-C."""
    try:
        return ended.wait(0.01)
    except KeyboardInterrupt:
        return False
