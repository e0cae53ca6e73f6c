"""Cache of kernels on disk, their CUDA C and cubins, in a folder that processes share. Needs neither CuPy nor a GPU.

A kernel's text is in this cache only if its machine code is in a cache, too, CuPy's or this one. Loading the kernel
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


def find_text(spec: KernelSpec, target: str) -> str | None:
    """Return the CUDA C that ``keep_text`` wrote for a kernel and target; None if there is none."""
    if not _is_kept(spec):
        return None
    found = find_file(kernels_folder(), _text_name(spec, target), ".cu")
    with contextlib.suppress(OSError):  # another process removed it
        return None if found is None else found.read_text(encoding="utf-8")
    return None


def keep_text(spec: KernelSpec, target: str, text: str) -> None:
    """Write the CUDA C of a compiled kernel to the cache on disk, if that folder can be written.

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
    """Return whether texts of this kernel are kept: not for registered templates, which may include any file."""
    return spec.variant.user is None and not stays_in_memory()


def _text_name(spec: KernelSpec, target: str) -> str:
    elements = [each.name for each in (spec.a, spec.b, spec.compute, spec.c)]
    fields = spec.variant.name, spec.variant.template, spec.config, elements, spec.layout, spec.condition
    return f"{spec.symbol}-{digest(repr((fingerprint(), target, fields)).encode())}"
