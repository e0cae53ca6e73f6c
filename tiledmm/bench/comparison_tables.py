"""Tables of comparisons: one product, the ladder, padding by layout, host time of calls."""

from __future__ import annotations

from typing import Any

from tiledmm.bench.results import BASELINE, Comparison, ComparisonReport, Row
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.report.cells import NONE, count, error_figure, percent, significant
from tiledmm.report.tables import Table, sentence


def comparison_table(comparison: Comparison) -> Table:
    """Return a table of one product, with one row per rival: times, rates, error and resources."""
    exact = comparison.tolerance == 0
    notes = [sentence(f"{row.label}: {row.note}") for row in comparison.rows if row.note]
    for row in comparison.rows:
        if not row.ok and not row.ours and not row.note:
            notes.append(f"The error of {row.label} is larger than the tolerance; this does not fail the comparison.")
    return Table(
        title=comparison.title,
        columns=(
            "<variant",
            "tile",
            "time (us)",
            "TFLOP/s",
            "GB/s",
            "of roofline",
            f"x {BASELINE}",
            "x naive",
            "wrong elements" if exact else "max error",
            "registers",
            "shared (B)",
            "occupancy",
            "<check",
        ),
        rows=tuple(_comparison_cells(row, exact=exact) for row in comparison.rows),
        notes=tuple(notes),
        bad=frozenset(i for i, row in enumerate(comparison.rows) if not row.ok and row.ours),
        about=product_about(comparison.size, comparison.dtype, comparison.layout),
    )


def product_about(size: Size, dtype: str, layout: str) -> dict[str, Any]:
    """Return the sizes, type and layout of a product by name, for ``Table.about`` of a table on this product."""
    return {**size._asdict(), "dtype": dtype, "layout": layout}


def _comparison_cells(row: Row, *, exact: bool) -> tuple[str, ...]:
    return (
        row.variant,
        count(row.tile),
        significant(row.microseconds),
        significant(row.tflops),
        significant(row.gbps),
        percent(row.of_roofline),
        significant(row.to_cupy),
        significant(row.to_naive),
        _error(row, exact=exact),
        count(row.registers),
        count(row.shared_bytes),
        percent(row.occupancy),
        _check(row, exact=exact),
    )


def _check(row: Row, *, exact: bool) -> str:
    if row.ok:
        return "exact" if exact else "ok"
    return NONE if row.error is None and row.note else "WRONG"


def _error(row: Row, *, exact: bool) -> str:
    if row.error is None and row.note:
        return NONE
    return percent(row.error) if exact and row.error is not None else error_figure(row.error)


def ladder_table(report: ComparisonReport, size: Size, dtype: str = "float32") -> Table:
    """Return the table of the performance page: every variant on one product of matrices with contiguous rows.

    Raises:
        ConfigError: If the report has no comparison of this product with ``naive``.
    """
    full = comparison_table(report.find(size, dtype, "NN", VariantTile("naive")))
    return full.with_columns([i for i, heading in enumerate(full.columns) if heading not in ("GB/s", "<check")])


def padding_table(report: ComparisonReport, size: Size, dtype: str = "float32") -> Table:
    """Return a table of the speedup of ``tiled_padded`` over ``tiled``, with a row per tile and a column per layout.

    Tiles that were not compared in every layout are left out.
    """
    layouts = ("NN", "NT", "TN", "TT")
    tiles = sorted(set.intersection(*(_padded_tiles(report, size, dtype, layout) for layout in layouts)))
    rows = []
    for tile in tiles:
        cells = [str(tile)]
        for layout in layouts:
            found = report.find(size, dtype, layout, VariantTile("tiled", tile), VariantTile("tiled_padded", tile))
            plain, padded = found.row("tiled", tile), found.row("tiled_padded", tile)
            gain = significant(padded.speed_over(plain))
            cells.append(f"{gain} ({significant(plain.tflops)} to {significant(padded.tflops)})")
        rows.append(tuple(cells))
    return Table(f"{size}  {dtype}: tiled_padded over tiled (TFLOP/s)", ("tile", *layouts), tuple(rows))


def _padded_tiles(report: ComparisonReport, size: Size, dtype: str, layout: str) -> set[int]:
    """Return the tiles with which ``tiled_padded`` was compared on a product, in a layout."""
    product = (size, dtype, layout)
    comparisons = [each for each in report.comparisons if (each.size, each.dtype, each.layout) == product]
    return {row.tile for each in comparisons for row in each.rows if row.variant == "tiled_padded" and row.tile}


def calls_table(report: ComparisonReport) -> Table:
    """Return a table of the host time of small calls."""
    return Table(
        "One call on small operands, host time",
        ("<call", "time (us)", f"of {BASELINE}", "of a bare launch"),
        tuple(
            (
                call.name,
                significant(call.microseconds),
                significant(call.time_to_cupy),
                significant(call.time_to_launch),
            )
            for call in report.calls
        ),
    )
