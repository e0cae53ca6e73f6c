"""Tables below the charts, which list every variant; those that the charts draw are in bold."""

from __future__ import annotations

from collections.abc import Container

from benchmarks.sizes import STUDIED
from tiledmm.bench.chart_lines import intensity, rates, readable, speed_ups
from tiledmm.bench.charts import gpu_of
from tiledmm.bench.results import BASELINE, Comparison, ComparisonReport
from tiledmm.problem.keywords import AUTO
from tiledmm.report.cells import NONE, percent, significant
from tiledmm.report.tables import Table


def throughput_table(report: ComparisonReport) -> Table:
    """Format the TFLOP/s of every variant, one column per size."""
    comparisons = _by_size(report)
    lines = rates(comparisons)
    drawn = readable(lines)
    rows = []
    for name, line in lines.items():
        found = {comparison.n: rate for comparison, rate in line}
        rows.append((_name(name, drawn), *(significant(found.get(each.n)) for each in comparisons)))
    return Table("TFLOP/s", (f"<TFLOP/s, {comparisons[0].dtype}", *(str(each.n) for each in comparisons)), tuple(rows))


def roofline_table(report: ComparisonReport) -> Table:
    """Format, per size, what memory bandwidth allows, the fastest variant, and its fraction of the roofline."""
    bandwidth = gpu_of(report.machine).bandwidth
    comparisons = _by_size(report)
    lines = rates(comparisons)
    rows = []
    for each in comparisons:
        found = {name: rate for name, line in lines.items() for at, rate in line if at is each}
        best = max((name for name in found if name not in (AUTO, BASELINE)), key=found.__getitem__)
        allowed = intensity(each) * bandwidth / 1e12
        rows.append(
            (
                str(each.n),
                significant(intensity(each)),
                significant(allowed),
                best,
                significant(found[best]),
                percent(each.row(best, _tile(each, best)).of_roofline),
                significant(found.get(AUTO)),
                significant(found.get(BASELINE)),
            )
        )
    columns = (
        "size",
        "FLOP/byte",
        "memory allows (TFLOP/s)",
        "<fastest variant",
        "reaches (TFLOP/s)",
        "of roofline",
        f"{AUTO} (TFLOP/s)",
        f"{BASELINE} (TFLOP/s)",
    )
    return Table("Roofline", columns, tuple(rows))


def speed_up_table(report: ComparisonReport) -> Table:
    """Format how many times as fast ``auto`` is, one column per size."""
    comparisons = _by_size(report)
    lines = speed_ups(comparisons)
    rows = []
    for name, line in lines.items():
        found = dict(line)
        rows.append((_name(name, lines), *(significant(found.get(float(each.n))) for each in comparisons)))
    return Table("Times as fast", ("<times as fast as", *(str(each.n) for each in comparisons)), tuple(rows))


def tiles_table(report: ComparisonReport) -> Table:
    """Format the TFLOP/s and occupancy of some variants, one column per tile."""
    rows = report.comparisons[-1].rows
    tiles = sorted({row.tile for row in rows if row.variant in STUDIED and row.tile})
    shown = []
    for variant in STUDIED:
        found = {row.tile: row for row in rows if row.variant == variant and row.tflops}
        cells = [
            f"{significant(found[tile].tflops)} ({percent(found[tile].occupancy)})" if tile in found else NONE
            for tile in tiles
        ]
        shown.append((variant, *cells))
    return Table("Tiles", ("<TFLOP/s (occupancy)", *map(str, tiles)), tuple(shown))


def _by_size(report: ComparisonReport) -> list[Comparison]:
    """Return a report's comparisons by size, without the comparison of tiles that follows them."""
    sizes: dict[int, Comparison] = {}
    for each in report.comparisons:
        sizes.setdefault(each.n, each)
    return list(sizes.values())


def _tile(comparison: Comparison, variant: str) -> int | None:
    """Return the tile of a variant's fastest row."""
    rows = [row for row in comparison.rows if row.variant == variant and row.tflops]
    return max(rows, key=lambda row: row.tflops or 0).tile


def _name(name: str, drawn: Container[str]) -> str:
    return f"**{name}**" if name in drawn else name
