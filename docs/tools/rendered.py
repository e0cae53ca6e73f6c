"""Rendered kernels for pages: as the templates make them, never pasted."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from tiledmm.codegen.page import page_of
from tiledmm.codegen.rendering import render
from tiledmm.codegen.specialization import Specialization, specialize
from tiledmm.elements import ELEMENTS
from tiledmm.registry import variants
from tiledmm.registry.variants import find_variant

_LAYOUTS = ("NT", "TN", "TT")
_TYPES = ("float16", "float64", "complex64", "int8", "int64")


def tabs(variant: str) -> str:
    """A kernel's page in its tiles, and its default tile in other types and layouts, a tab each.

    Lines that differ from the first tab's are marked, and a tab that repeats it is left out. So are the headers before
    a page: ``tiledmm source`` has them.
    """
    first, *others = _kernels(variant)
    usual = page(first[1])
    lines = set(usual.splitlines())
    shown = [_tab(first[0], fenced(usual, "cuda"))]
    for label, spec in others:
        text = page(spec)
        if text == usual:
            continue
        changed = [number for number, line in enumerate(text.splitlines(), 1) if line not in lines]
        shown.append(_tab(label, fenced(text, "cuda", changed)))
    return "\n\n".join(shown) + "\n"


def row(variant: str) -> str:
    """A variant's row of the registry, as it stands there."""
    tree = ast.parse(inspect.getsource(variants))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(
            each.arg == "name" and isinstance(each.value, ast.Constant) and each.value.value == variant
            for each in node.keywords
        ):
            lines = inspect.getsource(variants).splitlines()[node.lineno - 1 : node.end_lineno]
            return fenced(textwrap.dedent("\n".join(lines)), "python")
    raise ValueError(f"variants.py has no row {variant!r}")


def page(spec: Specialization) -> str:
    """A rendered kernel without the headers before it."""
    return page_of(render(spec))


def fenced(text: str, language: str, marked: list[int] | None = None) -> str:
    """Text as a block of code, some lines of it marked."""
    lines = f' hl_lines="{" ".join(map(str, marked))}"' if marked else ""
    return f"````{{ .{language}{lines} }}\n{text.rstrip()}\n````\n"


def _tab(label: str, text: str) -> str:
    return f'=== "{label}"\n\n{textwrap.indent(text, "    ")}'


def _kernels(variant: str) -> Iterator[tuple[str, Specialization]]:
    row = find_variant(variant)
    usual = row.default_type
    yield f"{usual}, tile {row.default_tile}" if row.tiles else usual, specialize(variant).kernel
    for tile in row.tiles:
        if tile != row.default_tile:
            yield f"tile {tile}", specialize(variant, tile=tile).kernel
    for layout in _LAYOUTS:
        yield layout, specialize(variant, layout=layout).kernel
    for dtype in _TYPES:
        if dtype != usual and row.multiplies(ELEMENTS[dtype]):
            yield dtype, specialize(variant, dtype=dtype).kernel
