"""How well ``auto`` chooses: ``python -m benchmarks.selection --out FILE.json``.

Times what ``auto`` may choose from, and ``auto`` itself, on shapes from small to large, square to thin. The rule in
``tiledmm/selection.py`` was read off this table. Needs a GPU; exit status 1 if a kernel gave a wrong result.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tiledmm.bench.records import BASELINE, Report, Rung, Size, to_json
from tiledmm.bench.tables import Table, significant
from tiledmm.cli import missing_gpu

RESULTS = Path(__file__).parent / "results" / "selection.json"

SQUARES = (32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096)
OTHERS = (Size(64, 64, 4096), Size(16, 4096, 4096), Size(1, 4096, 4096), Size(4096, 4096, 16), Size(257, 511, 2048))
TYPES = ("float32", "float64", "complex64", "complex128", "float16", "int8", "int64")


def measure(seconds: float) -> Report:
    """Every shape with every type."""
    from tiledmm.bench.comparison import compare
    from tiledmm.bench.machine import this_machine
    from tiledmm.selection import AUTO, AUTO_KERNELS

    rungs = [*(Rung(name, tile) for name, tile in AUTO_KERNELS), Rung(AUTO)]
    comparisons = []
    for dtype in TYPES:
        for size in (*(Size(n, n, n) for n in SQUARES), *OTHERS):
            print(f"{dtype} {size} ...", file=sys.stderr, flush=True)
            comparisons.append(compare(size, dtype=dtype, rungs=rungs, seconds=seconds))
    return Report(this_machine(), tuple(comparisons))


def selection_table(report: Report) -> Table:
    """A row a shape and type: what each kernel took, and ``auto`` beside the fastest."""
    labels = [row.label for row in report.comparisons[0].rows if row.variant not in ("auto", BASELINE)]
    rows = []
    for found in report.comparisons:
        times = {row.label: row.microseconds for row in found.rows}
        auto = found.row("auto")
        behind = [auto.speed_over(row) for row in found.rows if row.label in labels]
        rows.append(
            (
                str(found.size),
                found.dtype,
                *(significant(times[label]) for label in labels),
                significant(times["auto"]),
                significant(min((ratio for ratio in behind if ratio), default=None)),
                significant(auto.to_cupy),
            )
        )
    columns = ("<shape", "<type", *(f"{label} (us)" for label in labels), "auto (us)", "x the fastest", "x cupy.matmul")
    return Table("What auto chooses from, and what it chose", columns, tuple(rows))


def main() -> int:
    """Measures, prints the table, writes the results; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.05, help="time for each rival and shape")
    options = parser.parse_args()
    reason = missing_gpu()
    if reason:
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    report = measure(options.seconds)
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160).print(selection_table(report).rich())
    options.out.write_text(to_json(report), encoding="utf-8")
    return 0 if all(row.ok or row.note for each in report.comparisons for row in each.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
