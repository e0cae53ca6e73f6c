"""What warp_tiled's numbers are worth: ``python -m benchmarks.warp_tiles``, float32, 4096 x 4096 x 4096, on a GPU.

Each of its configurations, and changes of one number at a time, beside cupy.matmul on all four layouts.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tiledmm.bench.records import BASELINE, Size
from tiledmm.cli import missing_gpu
from tiledmm.report.tables import Table, significant

RESULTS = Path(__file__).parent / "results" / "warp_tiles.json"
SIZE = 4096
LAYOUTS = ("NN", "NT", "TN", "TT")

#: Of a variant and a tile, the numbers that are changed.
Trial = tuple[str, int, dict[str, int]]

TRIALS: dict[str, Trial] = {
    "64 x 64": ("warp_tiled", 64, {}),
    "64 x 64, 16 steps of K": ("warp_tiled", 64, {"bk": 16}),
    "128 x 128": ("warp_tiled", 128, {}),
    "128 x 128, 16 steps of K, two stages": ("warp_tiled", 128, {"bk": 16, "stages": 2}),
    "128 x 128, one block an SM": ("warp_tiled", 128, {"min_blocks": 1}),
    "128 x 128, 8 x 16 a thread": ("warp_tiled", 128, {"tn": 16, "wn": 128}),
    "128 x 256": ("warp_tiled", 256, {}),
    "128 x 256, warps 64 x 64": ("warp_tiled", 256, {"wm": 64, "wn": 64}),
    "128 x 256, warps 128 x 32": ("warp_tiled", 256, {"wm": 128, "wn": 32}),
    "256 x 128, 16 x 8 a thread": ("warp_tiled", 256, {"bm": 256, "bn": 128, "wm": 128, "wn": 32, "tm": 16, "tn": 8}),
    "128 x 256, two stages": ("warp_tiled", 256, {"stages": 2}),
    "128 x 256, no padding": ("warp_tiled", 256, {"pad": 0}),
    "128 x 256, padding 8": ("warp_tiled", 256, {"pad": 8}),
    "128 x 256, blocks column by column": ("warp_tiled", 256, {"group": 1}),
    "128 x 256, groups of 16 columns": ("warp_tiled", 256, {"group": 16}),
}


def measure(trials: dict[str, Trial], seconds: float) -> list[dict[str, Any]]:
    """A row a trial: registers, and the speed of cupy.matmul that it reaches, by layout."""
    import cupy

    from tiledmm.bench import timing
    from tiledmm.bench.comparison import operand_sets
    from tiledmm.compile.compilation import compiled
    from tiledmm.launch import Plan
    from tiledmm.problem.operands import describe, resolve
    from tiledmm.selection.select import select

    rows: dict[str, dict[str, Any]] = {name: {"trial": name} for name in trials}
    for layout in LAYOUTS:
        a, b, c = operand_sets(Size(SIZE, SIZE, SIZE), "float32", layout)[0]
        product = resolve(describe(a), describe(b))
        expected = cupy.matmul(a, b)
        rivals: dict[str, timing.Call] = {BASELINE: lambda i, a=a, b=b, c=c: cupy.matmul(a, b, out=c)}
        for name, (variant, tile, changes) in trials.items():
            choice = select(variant, tile, product, changes)
            plan = Plan(choice)
            c.fill(cupy.nan)
            plan.run(a, b, c)
            if not cupy.allclose(c, expected, rtol=1e-3, atol=1e-3):
                raise RuntimeError(f"{name}, {layout}: wrong")
            kernel = compiled(choice.specialization)
            rows[name] |= {"registers": kernel.registers, "blocks_per_sm": kernel.blocks_per_sm}
            rivals[name] = lambda i, plan=plan, a=a, b=b, c=c: plan.run(a, b, c)
        samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
        for name in trials:
            rows[name][layout] = samples[name].speed_over(samples[BASELINE])
    return list(rows.values())


def trials_table(rows: list[dict[str, Any]]) -> Table:
    """A row a trial."""
    cells = (
        (row["trial"], str(row["registers"]), str(row["blocks_per_sm"]), *(significant(row[each]) for each in LAYOUTS))
        for row in rows
    )
    headings = ("<kernel", "registers", "blocks an SM", *(f"{layout}, x cupy.matmul" for layout in LAYOUTS))
    return Table(f"float32, {SIZE} x {SIZE} x {SIZE}", headings, tuple(cells))


def main(trials: dict[str, Trial] = TRIALS, results: Path = RESULTS) -> int:
    """Measures, prints the table, writes the results; returns the exit status."""
    parser = argparse.ArgumentParser(description="Kernels with other numbers than their own, beside cupy.matmul.")
    parser.add_argument("--out", type=Path, default=results, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.1, help="time for each rival and layout")
    options = parser.parse_args()
    if reason := missing_gpu():
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    from rich.console import Console

    from tiledmm.bench.machine import this_machine

    rows = measure(trials, options.seconds)
    options.out.write_text(json.dumps({"machine": asdict(this_machine()), "trials": rows}, indent=1) + "\n")
    Console(width=None if sys.stdout.isatty() else 160).print(trials_table(rows).rich())
    return 0


if __name__ == "__main__":
    sys.exit(main())
