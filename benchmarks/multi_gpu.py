"""Time products on several GPUs of one process: ``python -m benchmarks.multi_gpu --sizes 16384 32768``.

Products are square, with both operands on device 0. Compared are ``tiledmm.matmul`` on that device,
``tiledmm.multi_gpu.matmul`` on all devices, and ``cupyx.distributed.array.matmul``, which multiplies rows of A by all
of B: with CuPy's products and, within ``tiledmm.replacing()``, with this package's. The operands of the last are
distributed before its time begins. The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.support.command import options_on_gpu
from benchmarks.support.large import is_right, median_seconds, synchronize_devices
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "multi_gpu.json"

#: Methods to compare, in the order of columns.
ONE, SEVERAL, CUPYX, REPLACED = "one GPU", "multi_gpu", "cupyx.distributed", "cupyx.distributed, replacing()"

# Rounds, after one that does not count.
_ROUNDS = 5


def measure(size: int, dtype: str, cupyx_up_to: int) -> dict[str, Any]:
    """Check and time one size, and return a row with the seconds of every method."""
    import cupy

    import tiledmm
    from tiledmm import multi_gpu

    def seconds_of(call: Callable[[], Any]) -> float:
        return median_seconds(call, _ROUNDS, wait=synchronize_devices)

    devices = range(cupy.cuda.runtime.getDeviceCount())
    rng = cupy.random.default_rng()
    a, b = (rng.standard_normal((size, size), dtype=cupy.float32).astype(dtype, copy=False) for _ in range(2))
    out = cupy.empty_like(a)
    seconds = {ONE: seconds_of(lambda: tiledmm.matmul(a, b, out=out))}
    out.fill(cupy.nan)
    seconds[SEVERAL] = seconds_of(lambda: multi_gpu.matmul(a, b, out, devices=devices))
    ok = is_right(a, b, out)
    if size <= cupyx_up_to:
        from cupyx.distributed.array import distributed_array, make_2d_index_map

        bounds = [size * i // len(devices) for i in range(len(devices) + 1)]
        rows = make_2d_index_map(bounds, [0, size], [[{device}] for device in devices])
        whole = make_2d_index_map([0, size], [0, size], [[set(devices)]])
        left, right = distributed_array(a, rows), distributed_array(b, whole)
        seconds[CUPYX] = seconds_of(lambda: left @ right)
        with tiledmm.replacing():
            seconds[REPLACED] = seconds_of(lambda: left @ right)
    return {"size": size, "dtype": dtype, "devices": len(devices), "ok": ok, "seconds": seconds}


def multi_gpu_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per size and type: TFLOP/s of each method, and the speed-up of ``multi_gpu`` over one GPU."""
    ways = (ONE, SEVERAL, CUPYX, REPLACED)
    cells = []
    for row in rows:
        seconds = row["seconds"]
        rates = [significant(2 * row["size"] ** 3 / seconds[way] / 1e12) if way in seconds else "-" for way in ways]
        gain = f"{seconds[ONE] / seconds[SEVERAL]:.2f}"
        cells.append((row["dtype"], f"{row['size']}", f"{row['devices']}", *rates, gain))
    columns = ("type", "m = n = k", "GPUs", *(f"{way} (TFLOP/s)" for way in ways), f"{SEVERAL} / {ONE}")
    return Table("Products on several GPUs of one process", columns, tuple(cells))


def main() -> int:
    """Measure all sizes, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16384, 32768, 65536], help="m = n = k")
    parser.add_argument("--dtypes", nargs="+", choices=["float32", "float16"], default=["float32", "float16"])
    parser.add_argument(
        "--cupyx", type=int, metavar="SIZE", default=32768, help="largest size of cupyx.distributed, which takes long"
    )
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows = []
    for dtype in options.dtypes:
        for size in options.sizes:
            rows.append(measure(size, dtype, options.cupyx))
            print(rows[-1], flush=True)
            save(options.out, measured(this_machine(), {"rows": rows}))
    print(multi_gpu_table(rows).markdown())
    wrong = [row for row in rows if not row["ok"]]
    print(f"{len(wrong)} of {len(rows)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
