"""The files that kernels are made from: where they are, and a fingerprint that changes with them."""

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
    """Return ``cuda_src/``: inside the installed package, or beside it in a source tree and an editable install."""
    for folder in (_PACKAGE / "cuda_src", _PACKAGE.parent / "cuda_src"):
        if folder.is_dir():
            return folder
    raise ConfigError(f"cuda_src/ is neither in nor beside {_PACKAGE}: the installation is incomplete")


@functools.cache
def fingerprint() -> str:
    """Return a hash of all that the text of the package's kernels depends on besides a ``KernelSpec``.

    It covers the version, and the names, sizes and times of change of the package's files and templates: reading them
    all would take longer than rendering a kernel.
    """
    found = hashlib.sha256(__version__.encode())
    for folder in (str(_PACKAGE), str(template_folder())):
        for name, size, changed in sorted(_files(folder)):
            found.update(f"\0{name}\0{size}\0{changed}".encode())
    return found.hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and time of change of all modules and templates below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith((".py", ".j2", ".cuh")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
