"""The CUDA C of kernels that were compiled, kept on disk: where it is found, neither Jinja nor templates are needed.

That it is there also says that the machine code is in a cache, CuPy's or this package's.
"""

from __future__ import annotations

import contextlib

from tiledmm.codegen.specialization import Specialization
from tiledmm.codegen.template_files import fingerprint
from tiledmm.compile.disk_cache import (
    MAX_BYTES,
    bound,
    digest,
    find_file,
    kernels_folder,
    stays_in_memory,
    write_file,
)


def find_text(specialization: Specialization, target: str) -> str | None:
    """The text of a kernel, as ``keep_text`` was given it."""
    if not _is_kept(specialization):
        return None
    found = find_file(kernels_folder(), _name(specialization, target), ".cu")
    with contextlib.suppress(OSError):  # taken away meanwhile
        return None if found is None else found.read_text(encoding="utf-8")
    return None


def keep_text(specialization: Specialization, target: str, text: str) -> None:
    """Writes the text of a kernel, once it is compiled, where that can be done.

    Args:
        specialization: The kernel.
        target: What compiled it, and for what.
        text: What ``codegen.rendering.render`` says.
    """
    if not _is_kept(specialization):
        return
    folder = kernels_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder, _name(specialization, target), ".cu", text.encode())
        bound(folder, MAX_BYTES)


def _is_kept(specialization: Specialization) -> bool:
    """A registered template is rendered each time: it may include files that nobody here knows of."""
    return specialization.variant.text is None and not stays_in_memory()


def _name(specialization: Specialization, target: str) -> str:
    spec = specialization
    elements = [each.name for each in (spec.a, spec.b, spec.compute, spec.c)]
    parts = spec.variant.name, spec.variant.template, spec.config, elements, spec.layout, spec.condition
    return f"{spec.symbol}-{digest(repr((fingerprint(), target, parts)).encode())}"
