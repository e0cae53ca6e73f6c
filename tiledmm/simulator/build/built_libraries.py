"""Compiled libraries on disk: one process compiles each while others wait, and one that was cut off is compiled again.

The libraries are loaded as code, so they are kept in the user's own cache folder, where nobody else can write.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

from tiledmm.errors import CompilationError, TiledmmError
from tiledmm.simulator.build.shared_folder import one_at_a_time

_HASH_BYTES = hashlib.sha256().digest_size

_FULL = {errno.ENOSPC, errno.EDQUOT}
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}

_NO_SPACE = re.compile("No space left on device|Disk quota exceeded")

# What compilers and linkers die of where memory-mapped files cannot grow; elsewhere it has other causes.
_PERHAPS_NO_SPACE = re.compile("Bus error|signal 7|truncated", re.IGNORECASE)
_LITTLE_SPACE = 1 << 20


def cache_path() -> Path:
    """Return the path of the folder of compiled libraries, which need not exist.

    It is ``simulator`` in ``$TILEDMM_CACHE_DIR``, or in the folder where the system keeps the user's caches.
    """
    named = os.environ.get("TILEDMM_CACHE_DIR")
    folder = Path(named) if named else platformdirs.user_cache_path("tiledmm")
    return folder.absolute() / "simulator"


def cache_folder() -> Path:
    """Make the folder of ``cache_path()``, which only this user may write to, unless it exists, and return it.

    Raises:
        TiledmmError: If it cannot be made, or if other users may write to it.
    """
    folder = cache_path()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        if error.errno in _FULL:
            raise _no_space(folder) from error
        raise _refused(folder, error, "the simulator cannot create its cache folder") from error
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise TiledmmError(
            f"other users can write to {folder}, whose files are loaded as code: set TILEDMM_CACHE_DIR to a folder of "
            "your own"
        )
    return folder


def ensure(target: Path, compile_in: Callable[[Path], Path]) -> bool:
    """Compile a library, unless it exists and is complete.

    If several processes or threads need the library, one compiles it and the others wait.

    Args:
        target: Path of the complete library.
        compile_in: Function that compiles the library in a given folder and returns its path there.

    Returns:
        Whether it was compiled now.

    Raises:
        CompilationError: If ``compile_in`` raises it, or writes no library.
        TiledmmError: If the folder cannot be written, or if its disk is full.
    """
    if is_whole(target):
        return False
    with one_at_a_time(target):
        if is_whole(target):
            return False
        with scratch(target.parent) as folder:
            library = compile_in(folder)
            if not library.exists():
                raise CompilationError("the compiler wrote no library and reported no error")
            _seal(library)
            os.replace(library, target)
    return True


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder for the compiler's files, which is removed at the end of this context.

    Args:
        parent: The folder in which it is made; None for the system's folder of temporary files.

    Raises:
        TiledmmError: If it cannot be written, or if its disk is full.
    """
    try:
        with tempfile.TemporaryDirectory(dir=parent) as name:
            try:
                yield Path(name)
            except CompilationError as error:
                if _says_no_space(str(error), Path(name)):
                    raise _no_space(parent) from error
                raise
    except OSError as error:
        if error.errno in _FULL:
            raise _no_space(parent) from error
        if parent and error.errno in _READ_ONLY:
            raise _refused(parent, error, "the simulator cannot write to its cache folder") from error
        raise


def is_whole(path: Path) -> bool:
    """Return whether a library's file exists and is complete, as ``ensure`` leaves it.

    Loading a file that was cut off would end this process.
    """
    try:
        status = path.stat()
    except OSError:
        return False
    return _is_sealed(path, status.st_ino, status.st_size)


@functools.lru_cache(maxsize=512)
def _is_sealed(path: Path, inode: int, size: int) -> bool:
    """Return whether a file ends with the hash of the bytes before it.

    The result is cached; a file of another ``inode`` or ``size`` is read again.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return len(data) > _HASH_BYTES and hashlib.sha256(data[:-_HASH_BYTES]).digest() == data[-_HASH_BYTES:]


def _seal(library: Path) -> None:
    """Append the hash of a library's file to the file.

    Loaders and debuggers of ELF files ignore what follows their sections.
    """
    with library.open("r+b") as file:
        value = hashlib.sha256(file.read()).digest()
        file.write(value)


def _says_no_space(output: str, folder: Path) -> bool:
    if _NO_SPACE.search(output):
        return True
    disk = os.statvfs(folder)
    return bool(_PERHAPS_NO_SPACE.search(output)) and disk.f_bavail * disk.f_frsize < _LITTLE_SPACE


def _refused(folder: Path, error: OSError, what: str) -> TiledmmError:
    return TiledmmError(
        f"{what}, {folder} ({error.strerror or error}); set TILEDMM_CACHE_DIR to a folder that you can write to"
    )


def _no_space(folder: Path | None) -> TiledmmError:
    cache = f"in {folder} or " if folder else ""
    return TiledmmError(
        f"there is no disk space for a compiled kernel {cache}in {tempfile.gettempdir()}, where compilers also write: "
        "free some (tiledmm doctor --clear-caches), or set TILEDMM_CACHE_DIR or TMPDIR to a folder on another disk"
    )
