"""Compare ``auto`` with ``cupy.matmul`` on squares from 64 to 4096: ``python -m benchmarks.squares``.

Squares are what people try first. As in ``benchmarks.random_shapes``, each product has two times: per call in a loop of
calls, and on the device alone. Needs a GPU; the exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.random_shapes import TYPES, Shape, measure
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "squares.json"

SIZES = (64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)


def squares_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per size, two columns per type: speed relative to ``cupy.matmul`` per call and on the device."""
    types = list(dict.fromkeys(row["type"] for row in rows))
    found = {(row["type"], row["m"], row["layout"]): row for row in rows}
    cells = []
    for size, layout in dict.fromkeys((row["m"], row["layout"]) for row in rows):
        of_size = [found.get((dtype, size, layout)) for dtype in types]
        ratios = [significant(row[clock]["ratio"]) if row else "-" for row in of_size for clock in ("loop", "device")]
        cells.append((f"{size}", layout, *ratios))
    columns = [f"{dtype}: {clock}" for dtype in types for clock in ("call", "device")]
    return Table("auto: times as fast as cupy.matmul", ("size", "<layout", *columns), tuple(cells))


def main() -> int:
    """Measure all squares, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", nargs="+", choices=TYPES, default=("float32", "float16", "float64", "complex128"))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--layouts", nargs="+", choices=("NN", "NT", "TN", "TT"), default=("NN",))
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.03, help="time for each rival, product and clock")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    shapes = [Shape(size, size, size, layout, 0) for size in options.sizes for layout in options.layouts]
    rows: list[dict[str, Any]] = []
    for dtype in options.types:
        rows += measure(dtype, shapes, options.seconds)
        save(options.out, measured(this_machine(), {"products": rows}))
    show(squares_table(rows))
    wrong = [row for row in rows if not row["ok"]]
    print(f"{len(wrong)} of {len(rows)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
