"""Measure the results from which most documented tables are made: ``python -m benchmarks.ladder``.

Needs a GPU; the exit status is 1 if a kernel gave a wrong result. ``python -m benchmarks.readme`` then writes the
tables into the documents.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.support.results import FOLDER, save_report
from tiledmm.bench.comparison_tables import calls_table, comparison_table, ladder_table, padding_table
from tiledmm.bench.results import ComparisonReport
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, expand
from tiledmm.cli import missing_gpu

LAYOUTS = ("NN", "NT", "TN", "TT")
PADDED_TILES = (8, 16, 32)
LADDER_TILES = (32, 64, 128, 256)


def measure(size: Size, seconds: float) -> ComparisonReport:
    """Time all variants in layout NN, padding in every layout, and the host cost of a small call."""
    from tiledmm.bench.call_costs import compare_calls
    from tiledmm.bench.comparison import compare
    from tiledmm.bench.environment import this_machine
    from tiledmm.bench.peers import PEERS

    def tell(doing: str) -> None:
        print(f"{doing} ...", file=sys.stderr, flush=True)

    ladder = [*expand(tiles=LADDER_TILES), VariantTile("auto")]
    comparisons = [compare(size, variant_tiles=ladder, seconds=seconds, peers=PEERS, progress=tell)]
    rungs = expand(("tiled", "tiled_padded"), PADDED_TILES)
    for layout in LAYOUTS:
        tell(layout)
        comparisons.append(compare(size, layout=layout, variant_tiles=rungs, seconds=seconds, progress=tell))
    tell("calls on small operands")
    return ComparisonReport(this_machine(), tuple(comparisons), compare_calls())


def show(report: ComparisonReport, size: Size) -> None:
    """Print all tables, and the project's performance goals with the measured values."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(str(report.machine), highlight=False)
    tables = [ladder_table(report, size), *map(comparison_table, report.comparisons[1:])]
    for table in (*tables, padding_table(report, size), calls_table(report)):
        console.print(table.rich())
    for line in goals(report, size):
        console.print(line, highlight=False)


def goals(report: ComparisonReport, size: Size) -> list[str]:
    """Format each performance goal, set for an H100 in float32 at 4096, with the measured ratio."""
    ladder = report.find(size, "float32", "NN", VariantTile("naive"))
    nt = report.find(size, "float32", "NT", VariantTile("tiled", 32), VariantTile("tiled_padded", 32))
    found = (
        ("coalesced over cupy.matmul", ladder.row("coalesced").to_cupy, 0.12),
        ("tiled 32 over cupy.matmul", ladder.row("tiled", 32).to_cupy, 0.17),
        (
            "tiled_padded 32 over tiled 32, NT",
            nt.row("tiled_padded", 32).speed_over(nt.row("tiled", 32)),
            2.5,
        ),
        (
            "double_buffered 32 over tiled 32",
            ladder.row("double_buffered", 32).speed_over(ladder.row("tiled", 32)),
            1.05,
        ),
    )
    lines = [_goal(name, value, goal, at_least=True) for name, value, goal in found]
    ours = next(call for call in report.calls if call.name == "tiledmm.matmul")
    return [
        *lines,
        _goal("time of a 32 x 32 call over cupy.matmul's", ours.time_to_cupy, 0.65, at_least=False),
        _goal("time of a 32 x 32 call over a bare launch's", ours.time_to_launch, 1.3, at_least=False),
    ]


def _goal(name: str, value: float | None, goal: float, *, at_least: bool) -> str:
    met = value is not None and (value >= goal if at_least else value <= goal)
    bound = f"{'at least' if at_least else 'at most'} {goal}"
    return f"{name}: {value or 0:.3f} ({bound}{'' if met else ', MISSED'})"


def main() -> int:
    """Measure, save ``results/ladder.json`` and print the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=0.6, help="about how long to time each rival")
    parser.add_argument("--out", type=Path, default=FOLDER / "ladder.json")
    arguments = parser.parse_args()
    if reason := missing_gpu():
        print(f"no GPU: {reason}", file=sys.stderr)
        return 1
    size = Size(arguments.size, arguments.size, arguments.size)
    report = measure(size, arguments.seconds)
    save_report(arguments.out, report)
    show(report, size)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
