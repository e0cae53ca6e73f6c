"""Cache of the CUDA C of compiled kernels on disk, so that loading a kernel again needs neither Jinja nor templates.

A text in this cache also means that the kernel's machine code is in a cache, CuPy's or this package's.
"""

from __future__ import annotations

import contextlib

from tiledmm.codegen.template_files import fingerprint
from tiledmm.compile.disk_cache import digest, find_file, kernels_folder, stays_in_memory, write_file
from tiledmm.kernels.spec import KernelSpec
from tiledmm.simulator.build.shared_folder import MAX_BYTES, bound


def find_text(spec: KernelSpec, target: str) -> str | None:
    """Return the CUDA C that ``keep_text`` wrote for a kernel and target; None if there is none."""
    if not _is_kept(spec):
        return None
    found = find_file(kernels_folder(), _name(spec, target), ".cu")
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
        write_file(folder, _name(spec, target), ".cu", text.encode())
        bound(folder, MAX_BYTES)


def _is_kept(spec: KernelSpec) -> bool:
    """Return whether texts of this kernel are kept: not for registered templates, which may include any file."""
    return spec.variant.user is None and not stays_in_memory()


def _name(spec: KernelSpec, target: str) -> str:
    elements = [each.name for each in (spec.a, spec.b, spec.compute, spec.c)]
    parts = spec.variant.name, spec.variant.template, spec.config, elements, spec.layout, spec.condition
    return f"{spec.symbol}-{digest(repr((fingerprint(), target, parts)).encode())}"
