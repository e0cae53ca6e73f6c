"""Time large products in all layouts, compared with cuBLAS through CuPy and PyTorch: ``python -m benchmarks.layouts``.

Needs a GPU; the exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, save_report
from tiledmm.bench.results import ComparisonReport, Row
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "layouts.json"

LAYOUTS = ("NN", "NT", "TN", "TT")

#: Rows of cuBLAS.
CUBLAS = ("cupy.matmul", "torch.mm")

_AUTO = VariantTile("auto")
_SPLIT_FLOAT64 = VariantTile("split_float64", 256), VariantTile("split_float64_tensor_core", 128)

#: Variants and sizes, by type. ``auto`` may decompose operands of all but 16-bit floats and tf32; of float32,
#: ``warp_tiled`` does not, nor does ``tensor_core`` of float64 and complex128.
PRODUCTS: dict[str, tuple[tuple[VariantTile, ...], tuple[int, ...]]] = {
    "float32": ((VariantTile("warp_tiled", 256), _AUTO), (4096, 8192)),
    "tf32": ((_AUTO,), (4096, 8192)),
    "float16": ((_AUTO,), (4096, 8192)),
    "bfloat16": ((_AUTO,), (4096, 8192)),
    "float64": ((VariantTile("tensor_core", 128), *_SPLIT_FLOAT64, _AUTO), (2048, 4096, 8192, 16384)),
    "complex128": ((VariantTile("tensor_core", 64), *_SPLIT_FLOAT64, _AUTO), (2048, 4096, 8192)),
}

#: Types of double precision, and the others; each group has a table.
DOUBLE, OTHERS = ("float64", "complex128"), ("float32", "tf32", "float16", "bfloat16")


def layouts_table(report: ComparisonReport, dtypes: Sequence[str] = tuple(PRODUCTS)) -> Table:
    """Format one row per variant, type and size: TFLOP/s in each layout, and the ratio to the faster call of cuBLAS."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for comparison in (each for each in report.comparisons if each.dtype in dtypes):
        timed = [row for row in comparison.rows if row.microseconds]
        fastest = min(row.microseconds or 0 for row in timed if row.variant in CUBLAS)
        for row in timed:
            if row.variant not in CUBLAS:
                cells = found.setdefault((comparison.dtype, str(comparison.size), row.label), {})
                cells[comparison.layout] = _cell(row, fastest)
    rows = (
        (dtype, size, variant, *(cells.get(layout, "-") for layout in LAYOUTS))
        for (dtype, size, variant), cells in found.items()
    )
    return Table("TFLOP/s (x cuBLAS)", ("<type", "<size", "<variant", *LAYOUTS), tuple(rows))


def _cell(row: Row, fastest: float) -> str:
    return f"{significant(row.tflops)} ({significant(fastest / (row.microseconds or fastest))})"


def main() -> int:
    """Measure, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", nargs="+", choices=PRODUCTS, default=tuple(PRODUCTS))
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of each type's own")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=LAYOUTS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.05, help="time for each rival and product")
    options = options_on_gpu(parser)
    from tiledmm.bench.comparison import compare
    from tiledmm.bench.environment import this_machine

    report = ComparisonReport(this_machine(), ())
    for dtype in options.types:
        rivals, sizes = PRODUCTS[dtype]
        for size in options.sizes or sizes:
            for layout in options.layouts:
                found = compare(
                    Size(size, size, size),
                    dtype=dtype,
                    layout=layout,
                    variant_tiles=rivals,
                    seconds=options.seconds,
                    peers=["torch"],
                )
                took = ", ".join(f"{row.variant} {row.microseconds or float('nan'):.0f} us" for row in found.rows)
                print(f"{dtype} {size} {layout}: {took}", flush=True)
                report = replace(report, comparisons=(*report.comparisons, found))
                save_report(options.out, report)
    show(layouts_table(report), width=120)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
