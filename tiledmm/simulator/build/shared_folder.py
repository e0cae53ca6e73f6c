"""Folders of compiled kernels that processes share: kept while in use, bounded, cleared.

A process that compiles, or loads what was compiled, holds a shared lock of the folder meanwhile; one that removes files
holds an exclusive lock. Without locks (Windows, some network file systems) a file may go before it is loaded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: The most that kernels may take in a folder: about 4,000 simulated ones. Those used longest ago are removed first.
MAX_BYTES = 256 << 20

_LOCK = ".lock"

#: What a compilation that was killed leaves behind is removed after so many seconds.
_ABANDONED = 3600


@dataclass(frozen=True, slots=True)
class Contents:
    """Kernels in a folder.

    Attributes:
        files: How many.
        bytes: Their sizes.
    """

    files: int = 0
    bytes: int = 0


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep other processes from removing files of a folder: around compiling and loading."""
    with _locked(folder, exclusive=False, wait=True):
        yield


@contextlib.contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Let one process, and one of its threads, in for a file, while others wait; without locks, all at once."""
    path = file.with_name(f"tmp-{file.stem}.lock")  # one that a killed process left goes with its other files
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a folder that cannot be written, or a file system without locks
            while fcntl is not None:
                held = stack.enter_context(open(path, "a"))
                fcntl.flock(held, fcntl.LOCK_EX)
                if _is_at(path, held.fileno()):
                    stack.callback(path.unlink, missing_ok=True)  # while it is locked
                    break
                stack.pop_all().close()  # who had it before has removed it
        yield


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether an open file still has this path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def contents(folder: Path) -> Contents:
    """Count the compiled kernels in a folder; none where there is no folder."""
    sizes = [status.st_size for _, status in _files(folder)]
    return Contents(len(sizes), sum(sizes))


def clear(folder: Path) -> Contents:
    """Remove all kernels of a folder, once nobody uses it.

    Returns:
        What was removed.
    """
    return _remove(folder, keep=0, wait=True)


def bound(folder: Path, keep: int) -> Contents:
    """Remove files until a folder has no more than ``keep`` bytes, the one used longest ago first; none while in use.

    Returns:
        What was removed.
    """
    return _remove(folder, keep=keep, wait=False)


def mark_used(file: Path) -> None:
    """Make a file the last that ``bound`` removes."""
    with contextlib.suppress(OSError):  # it cannot be written, or is gone
        os.utime(file)


def _remove(folder: Path, *, keep: int, wait: bool) -> Contents:
    if not folder.is_dir():
        return Contents()
    files = size = kept = 0
    with _locked(folder, exclusive=True, wait=wait) as alone:
        for path, status in sorted(_files(folder), key=lambda each: -each[1].st_mtime_ns) if alone else ():
            kept += status.st_size
            if kept > keep:
                with contextlib.suppress(OSError):  # another user's, or loaded (Windows)
                    path.unlink()
                    files, size = files + 1, size + status.st_size
        for path in folder.glob("tmp*") if alone else ():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Contents(files, size)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in (*folder.glob("*.so"), *folder.glob("*.cubin"), *folder.glob("*.cu")):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            yield path, path.stat()


@contextlib.contextmanager
def _locked(folder: Path, *, exclusive: bool, wait: bool) -> Iterator[bool]:
    """Lock a folder, and yield whether the lock was taken or there are no locks."""
    with contextlib.ExitStack() as stack:
        taken = True
        with contextlib.suppress(OSError):  # a folder that cannot be written, or a file system without locks
            file = stack.enter_context(open(folder / _LOCK, "a"))
            if fcntl is not None:
                try:
                    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
                    fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
                except BlockingIOError:
                    taken = False
        yield taken
