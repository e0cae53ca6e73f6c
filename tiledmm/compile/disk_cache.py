"""Texts and cubins of kernels on disk, in a folder that processes share. Needs neither CuPy nor a GPU."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def kernels_folder() -> Path:
    """Where texts and cubins of kernels are: in the folder of CuPy's compiled kernels, ``$CUPY_CACHE_DIR``."""
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache", "tiledmm")


def stays_in_memory() -> bool:
    """Whether CuPy is told to write nothing."""
    return os.environ.get("CUPY_CACHE_IN_MEMORY") == "1"


def find_file(folder: Path, name: str, suffix: str) -> Path | None:
    """The file that ``write_file`` wrote, unless it was cut off or changed since."""
    for path in folder.glob(f"{name}-*{suffix}"):
        with contextlib.suppress(OSError):  # taken away meanwhile, or another user's
            if path.stem == f"{name}-{digest(path.read_bytes())}":
                return path
    return None


def write_file(folder: Path, name: str, suffix: str, data: bytes) -> Path:
    """A file in one step: who looks meanwhile finds all of it or none. Its name has a hash of what is in it, too."""
    path = folder / f"{name}-{digest(data)}{suffix}"
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)
    return path


def digest(data: bytes) -> str:
    """A hash for names of files."""
    return hashlib.sha256(data).hexdigest()[:32]
