"""The CUDA C of kernels that were compiled, kept on disk: where it is found, neither Jinja nor templates are needed.

That it is there also says that the machine code is in a cache, CuPy's or this package's.
"""

from __future__ import annotations

import contextlib

from tiledmm.codegen.template_files import fingerprint
from tiledmm.compile.disk_cache import digest, find_file, kernels_folder, stays_in_memory, write_file
from tiledmm.kernels.spec import KernelSpec
from tiledmm.simulator.build.shared_folder import MAX_BYTES, bound


def find_text(spec: KernelSpec, target: str) -> str | None:
    """The text of a kernel, as ``keep_text`` was given it."""
    if not _is_kept(spec):
        return None
    found = find_file(kernels_folder(), _name(spec, target), ".cu")
    with contextlib.suppress(OSError):  # taken away meanwhile
        return None if found is None else found.read_text(encoding="utf-8")
    return None


def keep_text(spec: KernelSpec, target: str, text: str) -> None:
    """Writes the text of a kernel, once it is compiled, where that can be done.

    Args:
        spec: The kernel.
        target: What compiled it, and for what.
        text: What ``codegen.rendering.render`` says.
    """
    if not _is_kept(spec):
        return
    folder = kernels_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder, _name(spec, target), ".cu", text.encode())
        bound(folder, MAX_BYTES)


def _is_kept(spec: KernelSpec) -> bool:
    """A registered template is rendered each time: it may include files that nobody here knows of."""
    return spec.variant.text is None and not stays_in_memory()


def _name(spec: KernelSpec, target: str) -> str:
    elements = [each.name for each in (spec.a, spec.b, spec.compute, spec.c)]
    parts = spec.variant.name, spec.variant.template, spec.config, elements, spec.layout, spec.condition
    return f"{spec.symbol}-{digest(repr((fingerprint(), target, parts)).encode())}"
