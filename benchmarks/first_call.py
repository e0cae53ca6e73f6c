"""Time the first call in a fresh process: ``python -m benchmarks.first_call``. Needs a GPU.

Each process imports CuPy and the package, creates the operands, and then times one call until its result is ready. A
cold call finds no compiled kernels; before a warm call, an earlier process has compiled them. Python's bytecode is
cached in both cases, as for an installed package.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.kernels import of_auto
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.results import BASELINE
from tiledmm.report.cells import NONE, significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "first_call.json"

#: Type and size of square products.
PRODUCTS = (
    ("float32", 512), ("float32", 2048), ("float16", 2048), ("float64", 2048), ("complex64", 2048), ("int8", 2048),
)  # fmt: skip

_CALL = """
import time, cupy, tiledmm
a, b = (cupy.ones(({n}, {n}), {dtype!r}) for _ in "ab")
cupy.cuda.Device().synchronize()
start = time.perf_counter()
{call}(a, b)
cupy.cuda.Device().synchronize()
print(time.perf_counter() - start)
"""


def first_call(call: str, dtype: str, n: int, folder: Path) -> float:
    """Return the seconds that the first call takes in a fresh process.

    Args:
        call: ``"tiledmm.matmul"`` or ``"cupy.matmul"``.
        dtype, n: Type and size of its operands.
        folder: Where compiled kernels and bytecode are kept.
    """
    places = {
        "CUPY_CACHE_DIR": folder / "kernels",
        "CUDA_CACHE_PATH": folder / "kernels",  # NVRTC's own cache, since CUDA 13
        "PYTHONPYCACHEPREFIX": folder / "bytecode",
    }
    environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    code = _CALL.format(call=call, dtype=dtype, n=n)
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure(dtype: str, n: int, times: int) -> dict[str, Any]:
    """Time one product several times; return the median seconds of cold calls, of warm calls and of ``cupy.matmul``."""
    found: dict[str, list[float]] = {"cold": [], "warm": [], "cupy": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first_call("tiledmm.matmul", dtype, n, folder)  # writes the bytecode
        for _ in range(times):
            (folder / "kernels").rename(folder / f"kernels-{len(found['cold'])}")
            found["cold"].append(first_call("tiledmm.matmul", dtype, n, folder))
            found["warm"].append(first_call("tiledmm.matmul", dtype, n, folder))
            found["cupy"].append(first_call("cupy.matmul", dtype, n, folder))
    return {"type": dtype, "n": n, **{state: statistics.median(seconds) for state, seconds in found.items()}}


def first_call_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per product, in seconds."""
    cells = []
    for row in rows:
        times = (significant(row[state]) if row[state] else NONE for state in ("cold", "warm", "cupy"))
        cells.append((f"{row['n']:,}", row["type"], *times))
    columns = "size", "<type", "cold (s)", "warm (s)", f"{BASELINE} (s)"
    return Table("First calls", columns, tuple(cells))


def main() -> int:
    """Measure all products, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--times", type=int, default=5, help="processes for each figure")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows = []
    for dtype, n in PRODUCTS:
        rows.append(measure(dtype, n, options.times))
        print(rows[-1], file=sys.stderr, flush=True)
    show(first_call_table(rows), width=160)
    save(options.out, measured(this_machine(), {"first_calls": rows}, names=of_auto(*(dtype for dtype, _ in PRODUCTS))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
