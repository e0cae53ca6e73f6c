"""Time batched products in several types: ``python -m benchmarks.batches``. Needs a GPU.

``auto`` is compared with ``cupy.matmul``, which first widens batches of 16-bit floats to float32 and may not accept
batches of bfloat16. Results are checked against float64 before anything is timed; the exit status is 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.results import BASELINE
from tiledmm.bench.sizes import Size
from tiledmm.elements import ELEMENTS
from tiledmm.report.cells import NONE, significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "batches.json"
TYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "int8")

#: Number of products, and their size.
BATCHES = ((64, Size(512, 512, 512)), (512, Size(128, 128, 128)), (4096, Size(32, 32, 32)))
LAYOUTS = ("NN", "NT", "TN")

_SEED = 5


def operands(count: int, size: Size, dtype: str, layout: str) -> tuple[Any, Any, Any]:
    """Return random A and B in a layout and an empty C, each a stack of ``count`` matrices."""
    import cupy

    kind, rng = ELEMENTS[dtype].dtype, cupy.random.RandomState(_SEED)

    def stack(rows: int, cols: int, letter: str) -> Any:
        shape = (count, rows, cols) if letter == "N" else (count, cols, rows)
        values = rng.randint(-9, 10, shape) if kind.kind == "i" else rng.standard_normal(shape, "f4")
        if kind.kind == "c":
            values = values + 1j * rng.standard_normal(shape, "f4")
        matrices = values.astype(kind)
        return matrices if letter == "N" else matrices.swapaxes(1, 2)

    c = cupy.empty((count, size.m, size.n), kind)
    return stack(size.m, size.k, layout[0]), stack(size.k, size.n, layout[1]), c


def measure(count: int, size: Size, dtype: str, layout: str, seconds: float) -> dict[str, Any]:
    """Check and time one batch, and return its row in microseconds; ``cupy`` is None if CuPy rejects the type."""
    import cupy

    import tiledmm
    from tiledmm.bench import reference, timing

    a, b, c = operands(count, size, dtype, layout)
    rivals: dict[str, timing.TimedCall] = {}
    ok = True
    for name, multiply in (("auto", tiledmm.matmul), (BASELINE, cupy.matmul)):
        call: Callable[[int], Any] = functools.partial(lambda i, multiply: multiply(a, b, out=c), multiply=multiply)
        try:
            call(0)
        except Exception as error:  # whatever a version of CuPy says of bfloat16
            if name == "auto":
                raise
            print(f"cupy.matmul does not take {dtype}: {error}", file=sys.stderr)
            continue
        rivals[name] = call
        if name == "auto":
            ends = (0, count - 1)
            ok = all(reference.judge(c[i], reference.reference(a[i], b[i])).ok for i in ends)
    samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
    times = {name: samples[name].seconds * 1e6 if name in samples else None for name in ("auto", BASELINE)}
    ratio = samples["auto"].speed_over(samples[BASELINE]) if BASELINE in samples else None
    return {
        "count": count, "size": [*size], "type": dtype, "layout": layout, "ok": ok,
        "auto": times["auto"], "cupy": times[BASELINE], "ratio": ratio,
    }  # fmt: skip


def batches_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per batch, type and layout."""
    cells = []
    for row in rows:
        size = Size(*row["size"])
        flops = 2 * row["count"] * size.m * size.n * size.k * ELEMENTS[row["type"]].multiplies
        cells.append(
            (
                f"{row['count']:,} x {size}",
                row["type"],
                row["layout"],
                significant(row["auto"]),
                significant(flops / row["auto"] / 1e6),
                significant(row["cupy"]) if row["cupy"] else NONE,
                significant(row["ratio"]) if row["ratio"] else NONE,
            )
        )
    columns = "<batch", "<type", "<layout", "auto (us)", "TFLOP/s", "cupy.matmul (us)", "x cupy.matmul"
    return Table("Batches", columns, tuple(cells))


def main() -> int:
    """Measure all batches, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.03, help="time for each rival and batch")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows = []
    for (count, size), dtype, layout in itertools.product(BATCHES, TYPES, LAYOUTS):
        rows.append(measure(count, size, dtype, layout, options.seconds))
        print(rows[-1], file=sys.stderr, flush=True)
    show(batches_table(rows), width=160)
    save(options.out, measured(this_machine(), {"batches": rows}))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
