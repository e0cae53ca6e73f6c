"""Time products from small to large by all variants, cuBLAS and, for float32, the CPU: ``python -m benchmarks.sizes``.

``python -m benchmarks.charts`` draws the results. Needs a GPU; the exit status is 1 if a kernel gave a wrong result.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.command import options_on_gpu
from benchmarks.support.results import FOLDER, save_report
from tiledmm.bench.results import Comparison, ComparisonReport, Row
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, expand, multiplying

SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)

#: Types. The first has all charts; the others, which have their own variants, have throughput and roofline.
TYPES = ("float32", "tf32", "float16", "int32")

#: Variants whose tiles are studied, and the product.
STUDIED, STUDIED_AT = ("tiled", "tiled_padded", "double_buffered"), Size(4096, 4096, 4096)


def file_of(dtype: str, folder: Path = FOLDER) -> Path:
    """Return the path of one type's results."""
    return folder / f"sizes_{dtype}.json"


def measure(dtype: str, seconds: float) -> Iterator[Comparison]:
    """Yield one comparison per size; those of the first type include the CPU, and a study of tiles follows them."""
    from tiledmm.bench.comparison import compare
    from tiledmm.bench.peers import CPU

    def tell(doing: str) -> None:
        print(f"{dtype} {doing} ...", file=sys.stderr, flush=True)

    rungs, first = multiplying([*expand(), VariantTile("auto")], dtype), dtype == TYPES[0]
    for n in SIZES:
        tell(str(n))
        found = compare(Size(n, n, n), dtype=dtype, variant_tiles=rungs, seconds=seconds, peers=[CPU] if first else [])
        yield replace(found, rows=(*found.rows, with_copies(found, seconds))) if first else found
    if first:
        tell("tiles")
        yield compare(STUDIED_AT, variant_tiles=expand(STUDIED, "all"), seconds=seconds)


def with_copies(found: Comparison, seconds: float) -> Row:
    """Time ``auto`` on the host with operands in host memory, copies to and from the device included."""
    import cupy
    import numpy as np

    import tiledmm
    from tiledmm.bench import timing
    from tiledmm.bench.chart_lines import WITH_COPIES

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((found.m, found.k), (found.k, found.n)))

    def call(i: int, a: Any, b: Any) -> Any:
        return cupy.asnumpy(tiledmm.matmul(cupy.asarray(a), cupy.asarray(b)))

    ok = bool(np.allclose(call(0, a, b), a @ b, rtol=1e-3, atol=1e-3 * found.k**0.5))
    sample = timing.measure({"": functools.partial(call, a=a, b=b)}, timing.HostClock(), seconds=seconds)[""]
    return Row(WITH_COPIES, ok=ok, microseconds=sample.seconds * 1e6, peer=True)


def main() -> int:
    """Measure all types and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results go, a file a type")
    parser.add_argument("--dtypes", nargs="+", choices=TYPES, default=TYPES, help="of these types only")
    parser.add_argument("--seconds", type=float, default=0.05, help="time for each rival and size")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    ok = True
    for dtype in options.dtypes:
        report = ComparisonReport(this_machine(), ())
        # Written one by one: a run that is cut off leaves what it has measured.
        for found in measure(dtype, options.seconds):
            report = replace(report, comparisons=(*report.comparisons, found))
            save_report(file_of(dtype, options.folder), report)
        ok = ok and report.ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
