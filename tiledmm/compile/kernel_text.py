"""The CUDA C of a kernel to be compiled, kept on disk: where it is found, neither Jinja nor templates are needed."""

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


def kernel_text(specialization: Specialization) -> str:
    """``codegen.rendering.render``'s text, rendered unless an earlier process did.

    Registered templates are rendered each time: they may include files that nobody here knows of.
    """
    spec = specialization
    if spec.variant.text is not None or stays_in_memory():
        return _rendered(spec)
    elements = [each.name for each in (spec.a, spec.b, spec.compute, spec.c)]
    parts = fingerprint(), spec.variant.name, spec.variant.template, spec.config, elements, spec.layout, spec.condition
    name, folder = f"{spec.symbol}-{digest(repr(parts).encode())}", kernels_folder()
    if found := find_file(folder, name, ".cu"):
        with contextlib.suppress(OSError):  # taken away meanwhile
            return found.read_text(encoding="utf-8")
    text = _rendered(spec)
    with contextlib.suppress(OSError):  # a folder that cannot be written
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder, name, ".cu", text.encode())
        bound(folder, MAX_BYTES)
    return text


def _rendered(specialization: Specialization) -> str:
    from tiledmm.codegen.rendering import render

    return render(specialization)
