"""Command ``tiledmm variants``: lists the variants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tiledmm.cli.output import Csv, Json, Markdown, Output

if TYPE_CHECKING:
    from tiledmm.kernels.variant import Variant
    from tiledmm.report.cells import Figure


def variants(
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """List the variants: what each one adds, its tiles, its types and its minimum compute capability. Needs no GPU.

    They are in ladder order: most build on those above them. 'auto' chooses among them for each product.

        tiledmm variants
        tiledmm variants --json
    """
    from tiledmm.kernels.variants import VARIANTS
    from tiledmm.report.tables import Table

    out = Output(json=json, csv=csv, markdown=markdown)
    full = Table(
        "Variants, in ladder order",
        ("<variant", "<tiles", "<compute capability", "<what it is", "<types"),
        tuple((row.name, _tiles(row), capability_of(row), row.summary, types_of(row)) for row in VARIANTS.values()),
        (
            "* The default tile. Compute capability: the minimum, or the only one; in brackets, the minimum of a type.",
            "tiledmm source VARIANT prints a variant's CUDA C. tiledmm explain SIZE says which one 'auto' chooses.",
            "Your own kernels can be variants, too: register them with --kernel FILE.cu or --import FILE.py in a "
            "command, or with tiledmm.register in Python.",
        ),
    )
    if out.for_programs or markdown:
        out.table(full)
    else:  # two tables that are legible in 80 columns
        out.table(replace(full.with_columns([0, 3]), notes=()))
        out.table(replace(full.with_columns([0, 1, 2, 4]), title="Their tiles, compute capability and types"))
    out.end(ok=True)


def _tiles(row: Variant) -> Figure:
    from tiledmm.report.cells import NONE, Figure

    shown = (f"{tile}*" if tile == row.default_tile else str(tile) for tile in row.tiles)
    return Figure(" ".join(shown) or NONE, list(row.tiles))


def capability_of(row: Variant) -> Figure:
    """Return a table cell with a variant's minimum compute capability.

    Its value in JSON is the minimum compute capability of each computation type.
    """
    from tiledmm.report.cells import NONE, Figure

    if row.is_baseline:
        return Figure(NONE, None)
    needs = _needs(row)
    only = " only" if row.hopper.arch else ""
    return Figure(f"{_dotted(min(needs.values()))}{only}", {name: _dotted(each) for name, each in needs.items()})


def types_of(row: Variant) -> Figure:
    """Return a table cell with the computation types of a variant, or "every type".

    Its value in JSON is a list of the names of all its types.
    """
    from tiledmm.report.cells import Figure

    needs = _needs(row)
    least = min(needs.values())
    shown = [name if each == least else f"{name} ({_dotted(each)})" for name, each in needs.items()]
    return Figure(", ".join(shown) if row.types else "every type", list(needs))


def _needs(row: Variant) -> dict[str, tuple[int, int]]:
    """Return the minimum compute capability of a variant by computation type."""
    from tiledmm.elements import ELEMENTS
    from tiledmm.hardware.architectures import TARGETS

    return dict(row.types) or dict.fromkeys(ELEMENTS, min(each.capability for each in TARGETS.values()))


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
