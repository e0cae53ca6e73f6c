"""Files from which kernels are made: their folder, and a fingerprint that changes whenever one of them changes."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from tiledmm import __version__
from tiledmm.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[1]


def template_folder() -> Path:
    """Return the path of ``cuda_src/``, the folder of the templates.

    It is inside the installed package, or beside it in a source tree and an editable install.

    Raises:
        ConfigError: If the folder does not exist.
    """
    for folder in (_PACKAGE / "cuda_src", _PACKAGE.parent / "cuda_src"):
        if folder.is_dir():
            return folder
    raise ConfigError(f"cuda_src/ is neither in nor beside {_PACKAGE}: the installation is incomplete")


@functools.cache
def fingerprint() -> str:
    """Return a hash of everything besides a ``KernelSpec`` on which the source of the package's kernels depends.

    It covers the version, and the names, sizes and modification times of the package's modules and templates. Hashing
    their contents would take longer than rendering a kernel.
    """
    found = hashlib.sha256(__version__.encode())
    for folder in (str(_PACKAGE), str(template_folder())):
        for name, size, changed in sorted(_files(folder)):
            found.update(f"\0{name}\0{size}\0{changed}".encode())
    return found.hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path, the size and the modification time of each module and template below a folder.

    The size is in bytes, the time in nanoseconds.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith((".py", ".j2", ".cuh")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
