"""Draws what was measured: ``python -m benchmarks.charts``. Needs matplotlib, no GPU.

From ``results/sizes.json`` to ``docs/charts/``: throughput, roofline and speed-up by size, and tiles; each for light
and dark pages, as SVG and PNG.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from pathlib import Path

from benchmarks.sizes import RESULTS, STUDIED, TYPES
from tiledmm.bench import charts
from tiledmm.bench.records import Report, from_json

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "charts"


def draw(report: Report, folder: Path) -> list[Path]:
    """Every picture of a report; returns the files."""
    *by_size, tiles = report.comparisons
    of_type = {name: list(each) for name, each in itertools.groupby(by_size, key=lambda found: found.dtype)}
    gpu = charts.gpu_of(report.machine)
    studied = [
        charts.Bar(row.variant, row.tile, row.tflops, row.occupancy)
        for row in tiles.rows
        if row.variant in STUDIED and row.tile and row.tflops
    ]
    kinds = {
        "speed-up": functools.partial(charts.speed_up, of_type[TYPES[0]]),
        "tiles": functools.partial(charts.tile_study, f"Tiles, {tiles.title}", studied),
    }
    for dtype, found in of_type.items():
        kinds[f"throughput-{dtype}"] = functools.partial(charts.throughput, found)
        kinds[f"roofline-{dtype}"] = functools.partial(charts.roofline, found, gpu)
    return [path for name, each in kinds.items() for path in charts.save(each, folder / name)]


def main(arguments: list[str] | None = None) -> int:
    """Draws; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="what benchmarks.sizes wrote")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    options = parser.parse_args(arguments)
    for path in draw(from_json(options.results.read_text(encoding="utf-8")), options.folder):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
