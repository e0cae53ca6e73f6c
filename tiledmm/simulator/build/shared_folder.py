"""Folders of compiled kernels on disk, which processes share, of bounded size.

A process holds a shared lock of the folder while it compiles a kernel or loads one, and an exclusive lock while it
removes files. Without locks (Windows, some network file systems) a file may be removed before it is loaded.
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

#: Maximum size of a folder of kernels, in bytes: about 4,000 simulated kernels. Least recently used ones are removed.
MAX_BYTES = 256 << 20

_LOCK = ".lock"

#: Seconds between two times that a folder is bounded: to read the size of each of its files takes milliseconds.
BETWEEN_BOUNDS = 60

# Age in seconds at which temporary files of a killed compilation are removed.
_ABANDONED = 3600


@dataclass(frozen=True, slots=True)
class Contents:
    """Number and size of the kernels in a folder.

    Attributes:
        files: Number of files.
        bytes: Total size of the files, in bytes.
    """

    files: int = 0
    bytes: int = 0


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Hold the folder's shared lock, so that no process removes its files within this context."""
    with _locked(folder, exclusive=False, wait=True):
        yield


@contextlib.contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Hold the lock of a file: one thread of one process is within this context at a time, and others wait.

    On file systems without locks nobody waits.
    """
    path = file.with_name(f"tmp-{file.stem}.lock")  # removed with other temporary files if a process is killed
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # the folder cannot be written, or the file system has no locks
            while fcntl is not None:
                held = stack.enter_context(open(path, "a"))
                fcntl.flock(held, fcntl.LOCK_EX)
                if _is_at(path, held.fileno()):
                    stack.callback(path.unlink, missing_ok=True)  # before the file is closed and so unlocked
                    break
                stack.pop_all().close()  # the previous owner has removed this file: open the new one
        yield


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path still names the file that is open as ``descriptor``."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def contents(folder: Path) -> Contents:
    """Return the number and size of the kernels in a folder, which need not exist."""
    sizes = [status.st_size for _, status in _files(folder)]
    return Contents(len(sizes), sum(sizes))


def clear(folder: Path) -> Contents:
    """Wait until no process uses a folder, then remove all its kernels.

    Returns:
        Number and size of the removed files.
    """
    return _remove(folder, keep=0, wait=True)


def bound(folder: Path, keep: int) -> Contents:
    """Remove the least recently used kernels until a folder has at most ``keep`` bytes.

    It does nothing while another process uses the folder, or if the folder was bounded within the last minute.

    Returns:
        Number and size of the removed files.
    """
    with contextlib.suppress(OSError):
        if time.time() - (folder / _LOCK).stat().st_mtime < BETWEEN_BOUNDS:
            return Contents()
    return _remove(folder, keep=keep, wait=False)


def mark_used(file: Path) -> None:
    """Mark a file as used now, so that ``bound`` removes older ones first."""
    with contextlib.suppress(OSError):  # the file cannot be written, or does not exist any more
        os.utime(file)


def _remove(folder: Path, *, keep: int, wait: bool) -> Contents:
    if not folder.is_dir():
        return Contents()
    files = size = kept = 0
    with _locked(folder, exclusive=True, wait=wait) as alone:
        if not alone:
            return Contents()
        with contextlib.suppress(OSError):
            os.utime(folder / _LOCK)
        found = list(_files(folder))
        if sum(status.st_size for _, status in found) > keep:
            for name, status in sorted(found, key=lambda each: -each[1].st_mtime_ns):
                kept += status.st_size
                if kept > keep:
                    with contextlib.suppress(OSError):  # it belongs to another user, or is loaded (Windows)
                        os.unlink(folder / name)
                        files, size = files + 1, size + status.st_size
        for path in folder.glob("tmp*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Contents(files, size)


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name and the status of each kernel in a folder."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".so", ".cubin", ".cu", ".result")):
                with contextlib.suppress(FileNotFoundError):  # another process removed it
                    yield entry.name, entry.stat()


@contextlib.contextmanager
def _locked(folder: Path, *, exclusive: bool, wait: bool) -> Iterator[bool]:
    """Lock a folder within this context and yield True, or yield False if another process holds the lock.

    With ``wait`` it waits for the other process instead. It yields True without a lock if locks are not available.
    """
    with contextlib.ExitStack() as stack:
        taken = True
        with contextlib.suppress(OSError):  # the folder cannot be written, or the file system has no locks
            file = stack.enter_context(open(folder / _LOCK, "a"))
            if fcntl is not None:
                try:
                    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
                    fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
                except BlockingIOError:
                    taken = False
        yield taken
