"""Texts and cubins of kernels on disk, in a folder that processes share. Needs neither CuPy nor a GPU."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def kernels_folder() -> Path:
    """Return the folder of the texts and cubins of kernels: ``tiledmm`` in CuPy's cache, ``$CUPY_CACHE_DIR``."""
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache", "tiledmm")


def stays_in_memory() -> bool:
    """Return whether CuPy is configured to write no files (``CUPY_CACHE_IN_MEMORY=1``)."""
    return os.environ.get("CUPY_CACHE_IN_MEMORY") == "1"


def find_file(folder: Path, name: str, suffix: str) -> Path | None:
    """Find a file that ``write_file`` wrote; return None if there is none, or if it has changed since."""
    for path in folder.glob(f"{name}-*{suffix}"):
        with contextlib.suppress(OSError):  # another process removed it, or it belongs to another user
            if path.stem == f"{name}-{digest(path.read_bytes())}":
                return path
    return None


def write_file(folder: Path, name: str, suffix: str, data: bytes) -> Path:
    """Write a file atomically and return its path. Other processes see the complete file or none.

    The file's name is ``name``, a hash of the data, and ``suffix``.
    """
    path = folder / f"{name}-{digest(data)}{suffix}"
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)
    return path


def digest(data: bytes) -> str:
    """Return a hash of data for a file's name: 32 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:32]
