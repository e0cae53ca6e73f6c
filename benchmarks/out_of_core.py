"""Time products larger than device memory: ``python -m benchmarks.out_of_core --size 65536 --memory 16e9``.

The operands are square float32 matrices in page-locked memory. For comparison, measures the rate of ``tiledmm.matmul``
on the device and the rate of copies to it. Needs a GPU and host memory for three matrices; the exit status is 1 if the
result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.command import options_on_gpu
from benchmarks.support.large import is_right, median_seconds, synchronize_devices
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "out_of_core.json"

#: Largest square that is multiplied on the device, for comparison.
IN_MEMORY = 32768

# Rows of random numbers, which are repeated.
_ROWS = 1024

# Bytes of a copy that is timed.
_COPIED = 1 << 30


def measure(size: int, memory: float, times: int) -> dict[str, Any]:
    """Check and time one size; return a row with TFLOP/s from host memory and on the device, and GB/s of copies."""
    import cupy
    import cupyx

    import tiledmm
    from tiledmm import out_of_core

    def seconds_of(call: Callable[[], Any]) -> float:
        return median_seconds(call, times, wait=synchronize_devices)

    rng = np.random.default_rng(size)
    a, b, c = (cupyx.empty_pinned((size, size), np.float32) for _ in range(3))
    for x in (a, b):
        block = rng.standard_normal((min(_ROWS, size), size), dtype=np.float32)
        for begin in range(0, size, _ROWS):
            x[begin : begin + _ROWS] = block[: size - begin]
    seconds = seconds_of(lambda: out_of_core.matmul(a, b, c, memory=memory))
    ok = is_right(a, b, c)
    cupy.get_default_memory_pool().free_all_blocks()
    inner = min(size, IN_MEMORY)
    x, y, out = (cupy.zeros((inner, inner), np.float32) for _ in range(3))
    for each, host in ((x, a), (y, b)):
        each.set(np.ascontiguousarray(host[:inner, :inner]))
    in_memory = seconds_of(lambda: tiledmm.matmul(x, y, out=out))
    flat = a.reshape(-1)[: _COPIED // 4]
    target = out.reshape(-1)[: flat.size]
    copy = seconds_of(lambda: target.set(flat))
    return {
        "type": "float32", "size": size, "memory": memory, "seconds": seconds, "tflops": 2 * size**3 / seconds / 1e12,
        "in_memory_size": inner, "in_memory_tflops": 2 * inner**3 / in_memory / 1e12,
        "copy_gb_per_s": target.nbytes / copy / 1e9, "ok": ok,
    }  # fmt: skip


def out_of_core_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per product."""
    columns = (
        "<size",
        "memory (GB)",
        "seconds",
        "TFLOP/s",
        "size, on the device",
        "TFLOP/s, on the device",
        "copies to the device (GB/s)",
    )
    cells = (
        (
            f"{row['size']}", significant(row["memory"] / 1e9), significant(row["seconds"]),
            significant(row["tflops"]), f"{row['in_memory_size']}", significant(row["in_memory_tflops"]),
            significant(row["copy_gb_per_s"]),
        )
        for row in rows
    )  # fmt: skip
    return Table("Products from the host's memory", columns, tuple(cells))


def main() -> int:
    """Measure all sizes, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", nargs="+", type=int, default=[65536], help="of the squares")
    parser.add_argument("--memory", type=float, default=16e9, help="bytes of device memory")
    parser.add_argument("--times", type=int, default=3, help="how often each is measured")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows = [measure(size, options.memory, options.times) for size in options.size]
    print(out_of_core_table(rows).markdown())
    save(options.out, measured(this_machine(), {"rows": rows}))
    wrong = [row for row in rows if not row["ok"]]
    print(f"{len(wrong)} of {len(rows)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
