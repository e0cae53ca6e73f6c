"""Draw charts of measured results: ``python -m benchmarks.charts``. Needs matplotlib, no GPU.

Reads ``results/ladder.json`` and ``results/sizes_*.json``, and writes to ``docs/charts/``: the ladder in percent of
cuBLAS; throughput, roofline and speedup by size; and a study of tiles. Each chart is drawn for light and dark pages, as
SVG and PNG.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.sizes import STUDIED, TYPES, file_of
from benchmarks.support.results import FOLDER, ROOT
from tiledmm.bench import charts
from tiledmm.bench.results import ComparisonReport, from_json

CHARTS = ROOT / "docs" / "charts"


def draw(report: ComparisonReport) -> dict[str, Callable[[], Figure]]:
    """Return the functions that draw the charts of one type's report, by chart name."""
    found, gpu, kinds = list(report.comparisons), charts.gpu_of(report.machine), {}
    if found[0].dtype == TYPES[0]:
        *found, tiles = found
        studied = [
            charts.Bar(row.variant, row.tile, row.tflops, row.occupancy)
            for row in tiles.rows
            if row.variant in STUDIED and row.tile and row.tflops
        ]
        kinds["speed-up"] = functools.partial(charts.speed_up, found)
        kinds["tiles"] = functools.partial(charts.tile_study, f"Tiles, {tiles.title}", studied)
    kinds[f"throughput-{found[0].dtype}"] = functools.partial(charts.throughput, found)
    kinds[f"roofline-{found[0].dtype}"] = functools.partial(charts.roofline, found, gpu)
    return kinds


def main(arguments: list[str] | None = None) -> int:
    """Draw the charts of every type that has results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder that benchmarks.sizes wrote to")
    parser.add_argument("--folder", type=Path, default=CHARTS, help="where the pictures go")
    options = parser.parse_args(arguments)
    pictures: dict[str, Callable[[], Figure]] = {}
    if (ladder := options.results / "ladder.json").is_file():
        first = from_json(ladder.read_text(encoding="utf-8")).comparisons[0]
        pictures["ladder"] = functools.partial(charts.percent_of_baseline, first)
    for file in filter(Path.is_file, (file_of(dtype, options.results) for dtype in TYPES)):
        pictures |= draw(from_json(file.read_text(encoding="utf-8")))
    for name, picture in pictures.items():
        for path in charts.save(picture, options.folder / name):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
