"""Kernels on the documentation's pages, always rendered from the templates, never pasted."""

from __future__ import annotations

import ast
import functools
import html
import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from docs.tools import instructions, plain
from tiledmm.cli.variants import capability_of, types_of
from tiledmm.codegen.rendering import page_of, render
from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.kernels import variants
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import find_variant, kernel_spec, kernel_variants
from tiledmm.report.tables import Table

#: Layouts of A and B, the usual one first.
LAYOUTS = ("NN", "NT", "TN", "TT")

# A line for clang-format.
_FORMATTING = re.compile(r"^// clang-format (?:on|off)\n", re.MULTILINE)

# `docs/rungs.js` opens the box at the kernel.
_ABOVE = "<span>Scroll up for its parameters and device functions.</span>"

#: Where the site has a variant's rendered kernels, from its page.
KERNELS = "kernels"


class Choice(NamedTuple):
    """A rendered kernel of a variant: its tile (None if the variant has only one), layout and type."""

    tile: int | None
    layout: str
    dtype: str

    @property
    def label(self) -> str:
        """Name of the choice, such as ``"32 NN float32"``."""
        return f"{self.tile or ''} {self.layout} {self.dtype}".strip()


def choices(variant: str) -> dict[Choice, KernelSpec]:
    """Return every kernel that a variant's page can show, the usual one first."""
    row = find_variant(variant)
    others = sorted(set(row.tiles) - {row.default_tile})
    tiles: list[int | None] = [row.default_tile, *others] if row.tiles else [None]
    types = dict.fromkeys([row.default_type, *_types(variant)])
    found: dict[Choice, KernelSpec] = {}
    symbols: set[str] = set()
    for choice in itertools.starmap(Choice, itertools.product(tiles, LAYOUTS, types)):
        spec = kernel_spec(variant, **choice._asdict()).kernel
        if spec.symbol not in symbols:  # a type without this tile has the kernel of another one
            symbols.add(spec.symbol)
            found[choice] = spec
    return found


def selectors(variant: str) -> str:
    """Return the usual kernel of a variant, and three selectors for the others, which ``docs/rungs.js`` shows.

    The headers before the kernel itself are folded, and so is the machine code of the usual kernel.
    """
    found = choices(variant)
    own, headers = _shown(next(iter(found.values())))
    fields = "".join(_selector(name, _values(found, name)) for name in Choice._fields)
    parts = [how_to_edit(variant), f'<div class="kernel" data-kernels="{KERNELS}/{variant}.js" markdown="1">']
    if fields:
        parts.append(f'<p class="kernel-choice" hidden>{fields}{_ABOVE}<span role="status"></span></p>')
    parts.append(fenced(own, "cuda"))
    lines = len(headers.splitlines())
    parts.append(f'<details markdown="1">\n<summary>The {lines} lines before it: types, conversions, copies</summary>')
    parts += [fenced(headers, "cuda"), "</details>", instructions.folded(variant), "</div>"]
    return "\n\n".join(parts) + "\n"


def how_to_edit(variant: str) -> str:
    """Say how to run an edited copy of a variant's usual kernel."""
    row = find_variant(variant)
    text = f"This is the package's kernel. `tiledmm source {variant} > mine.cu` writes all of it to a file. "
    return (
        f'{text}Edit the copy, and run it without a GPU: `simulator.run(a, b, variant="{variant}", source="mine.cu")`, '
        f"with row-major NumPy arrays of {row.default_type} "
        "([edit a rendered kernel](../own_kernels.md#edit-a-rendered-kernel))."
    )


def script(variant: str) -> str:
    """Return all kernels of ``choices`` for ``docs/rungs.js``: distinct lines as HTML, and each kernel's indices."""
    numbers: dict[str, int] = {}
    kernels = {}
    for choice, spec in choices(variant).items():
        kernels[choice.label] = [
            list(_runs(numbers.setdefault(line, len(numbers)) for line in _highlighted(part))) for part in _shown(spec)
        ]
    data = json.dumps({"lines": list(numbers), "kernels": kernels}, separators=(",", ":"))
    return f"tiledmmKernels({json.dumps(variant)}, {data});\n"


def row(variant: str) -> str:
    """Return a variant's row of the table of variants, as source code."""
    tree = ast.parse(inspect.getsource(variants))
    for node in ast.walk(tree):
        names = node.args[:1] if isinstance(node, ast.Call) else ()
        if any(isinstance(each, ast.Constant) and each.value == variant for each in names):
            lines = inspect.getsource(variants).splitlines()[node.lineno - 1 : node.end_lineno]
            return fenced(textwrap.dedent("\n".join(lines)), "python")
    raise ValueError(f"variants.py has no row {variant!r}")


def _ladder() -> str:
    """Return the tables of all variants with pages, a captioned table for each group of ``plain.groups``."""
    captions = {
        "cuda_cores": "CUDA cores",
        "tensor_cores": "Tensor cores",
        "special_shapes": "Special shapes, in [the catalogue](catalogue.md)",
        "decomposed": "Decomposed numbers, in [the catalogue](catalogue.md)",
    }
    return "\n\n".join(f"**{captions[name]}**\n\n{_group(name)}" for name in plain.groups())


def _group(name: str) -> str:
    """Return the table of a group of variants, and of what each adds to those before it."""
    rows = tuple((f"[`{rung}`](rungs/{rung}.md)", find_variant(rung).summary) for rung in plain.groups()[name])
    return Table("", ("<variant", "<adds"), rows).markdown(title=False)


def _tiles() -> str:
    """Return the table of variants with their types and tiles, default in bold, each with its tile of C."""

    def of_c(row: Variant, tile: int | None) -> str:
        config = row.config(tile, compute_element(row.default_type))
        size = f"{config.bm} x {config.bn}"
        return size if tile is None else f"{f'**{tile}**' if tile == row.default_tile else tile} ({size})"

    rows = tuple(
        (
            f"`{row.name}`",
            ", ".join(of_c(row, tile) for tile in row.tiles or (None,)),
            capability_of(row),
            types_of(row),
        )
        for row in kernel_variants()
    )
    return Table("", ("<variant", "<tiles", "<compute capability", "<types"), rows).markdown(title=False)


#: Tables of the variants by name, as pages have them: what they list is in the table of rows alone.
TABLES: dict[str, Callable[[], str]] = {
    "ladder": _ladder,
    "tiles": _tiles,
    **{name: functools.partial(_group, name) for name in ("special_shapes", "decomposed")},
}


def fenced(text: str, language: str) -> str:
    """Return text as a fenced block of code."""
    return f"````{{ .{language} }}\n{text.rstrip()}\n````\n"


def _shown(spec: KernelSpec) -> tuple[str, str]:
    """Return a kernel's own page and the headers before it, without comments for clang-format."""
    text = render(spec)
    own = page_of(text)
    return _FORMATTING.sub("", own), _FORMATTING.sub("", text.removesuffix(own))


def _types(variant: str) -> Iterator[str]:
    row = find_variant(variant)
    return (name for name, element in ELEMENTS.items() if element.per_packed == 1 and row.multiplies(element))


def _values(found: Iterable[Choice], field: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(choice, field)) for choice in found))


def _selector(name: str, values: list[str]) -> str:
    """Return one of the three selectors, or nothing if there is only one value."""
    if values == ["None"]:
        return ""
    usual, shown = values[0], sorted(values, key=int) if name == "tile" else values
    options = "".join(
        f"<option{' selected' if value == usual else ''}>{html.escape(value)}</option>" for value in shown
    )
    label = "type" if name == "dtype" else name
    return f'<label>{label} <select name="{name}">{options}</select></label> '


def _runs(numbers: Iterable[int]) -> Iterator[int]:
    """Yield the first number and the length of each run of successive numbers."""
    first = count = 0
    for number in numbers:
        if count and number == first + count:
            count += 1
            continue
        if count:
            yield from (first, count)
        first, count = number, 1
    if count:
        yield from (first, count)


def _highlighted(text: str) -> Iterator[str]:
    """Yield lines of CUDA C as HTML; a line that ends in a backslash is joined with the next."""
    joined: list[str] = []
    for line in text.rstrip().splitlines():
        joined.append(line)
        if not line.endswith("\\"):
            yield from _html("\n".join(joined))
            joined = []
    yield from _html("\n".join(joined)) if joined else ()


@functools.cache
def _html(text: str) -> list[str]:
    lines = highlight(text, _CUDA, _HTML).splitlines() if text.strip() else [""]
    assert len(lines) == text.count("\n") + 1, text
    return lines


_CUDA = get_lexer_by_name("cuda", stripnl=False)
_HTML = HtmlFormatter(nowrap=True)
