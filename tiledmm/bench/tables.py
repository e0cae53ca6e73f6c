"""Tables of what was found: one form for all, shown on a terminal by rich or written as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledmm.bench.records import BASELINE, Comparison, Report, Row, Rung, Size

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NONE = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: What it is about.
        columns: Headings; one that begins with ``"<"`` is aligned to the left, all others to the right.
        rows: Cells.
        notes: Sentences that belong below it.
        bad: Numbers of the rows that are to stand out because something is wrong in them.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    bad: frozenset[int] = frozenset()

    def rich(self) -> RichTable:
        """For a rich console."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(
            title=escape(self.title),
            caption=escape("\n".join(self.notes)) or None,
            title_justify="left",
            caption_justify="left",
            title_style="bold",
            caption_style="dim",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for heading in self.columns:
            left = heading.startswith("<")
            table.add_column(escape(heading.lstrip("<")), justify="left" if left else "right", no_wrap=left)
        for i, row in enumerate(self.rows):
            table.add_row(*map(escape, row), style="bold red" if i in self.bad else None)
        return table

    def markdown(self, *, title: bool = True) -> str:
        """As GitHub-flavoured Markdown, without a line end."""
        left = [heading.startswith("<") for heading in self.columns]
        lines = [f"**{self.title}**", ""] if title else []
        lines.append(_markdown_row(heading.lstrip("<") for heading in self.columns))
        lines.append("|" + "|".join("---" if is_left else "---:" for is_left in left) + "|")
        lines += map(_markdown_row, self.rows)
        if self.notes:
            lines += ["", " ".join(self.notes)]
        return "\n".join(lines)


def _markdown_row(cells: Any) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def comparison_table(comparison: Comparison) -> Table:
    """All rivals on one product."""
    exact = comparison.tolerance == 0
    notes = [f"{row.label}: {row.note}." for row in comparison.rows if row.note]
    for row in comparison.rows:
        if not row.ok and row.variant == BASELINE and not row.note:
            notes.append(f"{BASELINE} itself is off by more than the tolerance; that fails nothing.")
    return Table(
        title=comparison.title,
        columns=(
            "<variant",
            "tile",
            "time (us)",
            "TFLOP/s",
            "GB/s",
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
        bad=frozenset(i for i, row in enumerate(comparison.rows) if not row.ok and row.variant != BASELINE),
    )


def _comparison_cells(row: Row, *, exact: bool) -> tuple[str, ...]:
    return (
        row.variant,
        NONE if row.tile is None else str(row.tile),
        significant(row.microseconds),
        significant(row.tflops),
        significant(row.gbps),
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
    if row.error is None:
        return NONE if row.note else "NaN"
    return percent(row.error) if exact else f"{row.error:.1e}"


def significant(value: float | None, digits: int = 3) -> str:
    """A figure to so many significant digits, without exponents: ``0.0123``, ``1.23``, ``12,346``."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded figure
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def count(value: int | None) -> str:
    """A whole number, with commas."""
    return NONE if value is None else f"{value:,}"


def percent(value: float | None) -> str:
    """A fraction as a whole percentage; a small one is not shown as none."""
    if value is None:
        return NONE
    return "<1%" if 0 < value < 0.01 else f"{value:.0%}"


def ladder_table(report: Report, size: Size, dtype: str = "float32") -> Table:
    """The README's table: every variant on one product, rows contiguous."""
    full = comparison_table(report.find(size, dtype, "NN", Rung("naive")))
    shown = [i for i, heading in enumerate(full.columns) if heading not in ("GB/s", "<check")]
    return Table(
        title=full.title,
        columns=tuple(full.columns[i] for i in shown),
        rows=tuple(tuple(cells[i] for i in shown) for cells in full.rows),
        notes=full.notes,
        bad=full.bad,
    )


def padding_table(report: Report, size: Size, dtype: str = "float32") -> Table:
    """What padding gains: the speed of ``tiled_padded`` over ``tiled``, a row a tile, a column a layout."""
    layouts = ("NN", "NT", "TN", "TT")
    tiles = sorted(set.intersection(*(_padded_tiles(report, size, dtype, layout) for layout in layouts)))
    rows = []
    for tile in tiles:
        cells = [str(tile)]
        for layout in layouts:
            found = report.find(size, dtype, layout, Rung("tiled", tile), Rung("tiled_padded", tile))
            plain, padded = found.row("tiled", tile), found.row("tiled_padded", tile)
            gain = significant(padded.speed_over(plain))
            cells.append(f"{gain} ({significant(plain.tflops)} to {significant(padded.tflops)})")
        rows.append(tuple(cells))
    return Table(f"{size}  {dtype}: tiled_padded over tiled (TFLOP/s)", ("tile", *layouts), tuple(rows))


def _padded_tiles(report: Report, size: Size, dtype: str, layout: str) -> set[int]:
    """Tiles at which both ``tiled`` and ``tiled_padded`` were timed on a layout."""
    product = (size, dtype, layout)
    comparisons = [each for each in report.comparisons if (each.size, each.dtype, each.layout) == product]
    return {row.tile for each in comparisons for row in each.rows if row.variant == "tiled_padded" and row.tile}


def calls_table(report: Report) -> Table:
    """What one small call costs its caller."""
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
