"""Try and time products of other libraries' arrays: ``python -m benchmarks.libraries``.

Reports which types and options work for each library, and the host time of float32 products of 32 x 32, compared with
``torch.mm`` and CuPy's own product. Needs a GPU and PyTorch; JAX and Numba are included if they are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "libraries.json"

SIZE = 32


def measure(seconds: float) -> list[dict[str, Any]]:
    """Time each call on the host, and return one row per call with its name and microseconds."""
    import cupy
    import torch

    import tiledmm.torch
    from tiledmm.bench import timing

    a, b, out = (cupy.random.default_rng(i).standard_normal((SIZE, SIZE), dtype=cupy.float32) for i in range(3))
    x, y, z = map(torch.from_dlpack, (a, b, out))
    rivals: dict[str, timing.TimedCall] = {
        "CuPy: cupy.matmul": lambda i: cupy.matmul(a, b),
        "CuPy: tiledmm.matmul": lambda i: tiledmm.matmul(a, b),
        "CuPy: tiledmm.matmul, out=": lambda i: tiledmm.matmul(a, b, out=out),
        "PyTorch: torch.mm": lambda i: torch.mm(x, y),
        "PyTorch: torch.mm, out=": lambda i: torch.mm(x, y, out=z),
        "PyTorch: tiledmm.matmul": lambda i: tiledmm.matmul(x, y),
        "PyTorch: tiledmm.matmul, out=": lambda i: tiledmm.matmul(x, y, out=z),
        "PyTorch: tiledmm.torch.matmul": lambda i: tiledmm.torch.matmul(x, y),
    }
    if importlib.util.find_spec("numba") is not None:
        from numba import cuda

        left, right = cuda.as_cuda_array(a), cuda.as_cuda_array(b)
        rivals["Numba: tiledmm.matmul"] = lambda i: tiledmm.matmul(left, right)
    samples = timing.measure(rivals, timing.HostClock(), seconds=seconds)
    return [{"call": name, "us": sample.seconds * 1e6} for name, sample in samples.items()]


def support_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per library: the types, ``out=`` and streams that work."""
    stands = {True: "yes", False: "no", None: "-"}
    shown = ((row["library"], ", ".join(row["types"]), stands[row["out"]], stands[row["stream"]]) for row in rows)
    return Table("Products of arrays", ("<library", "<types", "<out=", "<ordered on its stream"), tuple(shown))


def times_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per call, in microseconds of host time."""
    return Table("Host time", ("<call", "time (us)"), tuple((row["call"], significant(row["us"])) for row in rows))


def main() -> int:
    """Measure, print both tables and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each call")
    options = options_on_gpu(parser)
    if importlib.util.find_spec("torch") is None:
        print("this needs PyTorch", file=sys.stderr)
        return 1
    from benchmarks.support import libraries
    from tiledmm.bench.environment import this_machine

    support = [libraries.supported(each) for each in libraries.installed()]
    rows = measure(options.seconds)
    save(options.out, measured(this_machine(), {"support": support, "rows": rows}))
    show(support_table(support), times_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
