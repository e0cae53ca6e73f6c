"""Cache of kernels on disk, with their CUDA C and cubins, in a folder that processes share.

Needs neither CuPy nor a GPU.

A kernel's source is in this cache only if its machine code is in a cache, too, CuPy's or this one. Loading the kernel
again then needs neither Jinja nor templates.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from tiledmm.codegen.template_files import fingerprint
from tiledmm.kernels.spec import KernelSpec
from tiledmm.simulator.build.shared_folder import MAX_BYTES, bound


def kernels_folder() -> Path:
    """Return the path of the folder with the sources and cubins of kernels.

    It is ``tiledmm`` in the folder of CuPy's cache, which is ``$CUPY_CACHE_DIR`` if that is set.
    """
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache", "tiledmm")


def stays_in_memory() -> bool:
    """Return whether CuPy is configured to write no files (``CUPY_CACHE_IN_MEMORY=1``)."""
    return os.environ.get("CUPY_CACHE_IN_MEMORY") == "1"


def find_file(folder: Path, name: str, suffix: str) -> Path | None:
    """Return the path of a file that ``write_file`` wrote; None if there is none, or if its data has changed since.

    Args:
        folder: The folder.
        name, suffix: As for ``write_file``.
    """
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
    """Return a hash of data for the name of a file, as 32 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:32]


def find_text(spec: KernelSpec, target: str) -> str | None:
    """Return the CUDA C that ``keep_text`` wrote for a kernel and a target; None if there is none.

    Args:
        spec: The kernel.
        target: Text that identifies the compiler and the architecture.
    """
    if not _is_kept(spec):
        return None
    found = find_file(kernels_folder(), _text_name(spec, target), ".cu")
    with contextlib.suppress(OSError):  # another process removed it
        return None if found is None else found.read_text(encoding="utf-8")
    return None


def keep_text(spec: KernelSpec, target: str, text: str) -> None:
    """Write the CUDA C of a compiled kernel to the cache on disk, unless its folder cannot be written.

    Sources of registered templates are not written.

    Args:
        spec: The kernel.
        target: Text that identifies the compiler and the architecture.
        text: CUDA C of the kernel, from ``codegen.rendering.render``.
    """
    if not _is_kept(spec):
        return
    folder = kernels_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder, _text_name(spec, target), ".cu", text.encode())
        bound(folder, MAX_BYTES)


def _is_kept(spec: KernelSpec) -> bool:
    """Return whether the cache on disk may hold a kernel's source.

    It may not hold those of registered templates, which may include any file, and nothing if CuPy writes no files.
    """
    return spec.variant.user is None and not stays_in_memory()


def _text_name(spec: KernelSpec, target: str) -> str:
    elements = [each.name for each in (spec.a, spec.b, spec.compute, spec.c)]
    fields = spec.variant.name, spec.variant.template, spec.config, elements, spec.layout, spec.condition
    return f"{spec.symbol}-{digest(repr((fingerprint(), target, fields)).encode())}"
