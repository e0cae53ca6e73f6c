"""Results without a GPU that a later command need not compute again: counts of a simulation, and what NVRTC says."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tiledmm.codegen.template_files import fingerprint
from tiledmm.simulator.build.built_libraries import cache_folder, ensure, is_whole
from tiledmm.simulator.build.shared_folder import MAX_BYTES, bound, in_use, mark_used

T = TypeVar("T")

# Packages whose version may change a result.
_PACKAGES = ("numpy", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvdisasm")


def kept(key: tuple[Any, ...], compute: Callable[[], T]) -> T:
    """Return what a function returns, from the simulator's cache folder if it was called for the same key before.

    A key holds for this package's files as they are, and for these versions of the packages that it uses.

    Args:
        key: Everything else that the result depends on, as values whose ``repr`` tells them apart.
        compute: The function, whose result can be pickled.

    Raises:
        TiledmmError: If the folder cannot be written.
    """
    identity = repr((_circumstances(), key))
    folder = cache_folder()
    file = folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.result"
    with in_use(folder):
        if is_whole(file):
            mark_used(file)
            found: T = pickle.loads(file.read_bytes())
            return found
    found = compute()

    def write(within: Path) -> Path:
        (within / "result").write_bytes(pickle.dumps(found))
        return within / "result"

    ensure(file, write)
    bound(folder, MAX_BYTES)
    return found


@functools.cache
def _circumstances() -> tuple[str, dict[str, str]]:
    """Return what every result depends on: this package's files, and the versions of the packages that it uses."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return fingerprint(), found
