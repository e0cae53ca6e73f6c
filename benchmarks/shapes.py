"""Compare ``auto`` with ``cupy.matmul`` on many float32 shapes: ``python -m benchmarks.shapes --out FILE.json``.

Each shape has two times: per call in a loop of calls, which includes the host's work, and on the device alone. Operands
are normally distributed. Small ones alternate between many sets, so that they are read from memory and not from a
cache. Errors are relative to float64 and compared with the larger of cuBLAS's error and that of a sequential chain of
FMAs (``coalesced``). Needs a GPU; the exit status is 1 if a result exceeds the promised error.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.accuracy import accuracy, keeps_promise
from benchmarks.support.beside_cupy import beside_cupy, set_count
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

#: Paths of the results, by ``precision=``.
RESULTS = {
    "ieee": FOLDER / "shapes.json",
    "float32": FOLDER / "shapes_float32.json",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A product of size (m, n, k), the layouts of A and B (see ``tiledmm.source``), and the batch size.

    Attributes:
        kind: Group of shapes to which it belongs.
        m, n, k, layout: Sizes in elements, and layout.
        batch: Number of products; 0 for no batch dimension.
        shared: Whether all products of a batch use the same B (a stride of 0).
        same: Whether B is A transposed, in the same memory.
    """

    kind: str
    m: int
    n: int
    k: int
    layout: str = "NN"
    batch: int = 0
    shared: bool = False
    same: bool = False

    def __str__(self) -> str:
        times = f"{self.batch} x " if self.batch else ""
        return f"{times}({self.m}, {self.k}) @ ({self.k}, {self.n})"


def shapes() -> Iterator[Shape]:
    """Yield the published set of shapes."""
    for n in (16, 31, 32, 64, 100, 127, 128, 129, 255, 256, 257, 384, 511, 512, 513, 640, 768, 1000, 1023, 1024, 1025):
        yield Shape("square", n, n, n)
    for n in (1536, 2047, 2048, 2049, 3072, 4095, 4096, 4097, 8192, 16384):
        yield Shape("square", n, n, n)
    for layout in ("NT", "TN", "TT"):
        for n in (256, 1024, 4096, 8192):
            yield Shape("square", n, n, n, layout)
    for m, n, k in ((8192, 200, 200), (100_000, 64, 64), (65536, 128, 512), (200, 8192, 200), (257, 8192, 511)):
        yield Shape("tall or flat", m, n, k)
    for size, k in ((1, 1 << 22), (16, 1 << 20), (64, 1 << 20), (128, 1 << 16), (256, 1 << 14)):
        yield Shape("inner product", size, size, k)
    yield Shape("inner product", 64, 64, 1 << 18, "TN")
    for size, k in ((4096, 1), (4096, 16), (4096, 64), (8192, 32)):
        yield Shape("outer product", size, size, k)
    for m in (1, 2, 4, 8, 16, 24, 32, 48, 64):
        yield Shape("thin", m, 8192, 8192)
    for m in (1, 4, 16, 64):
        yield Shape("thin", m, 8192, 8192, "NT")
    for n in (1, 8, 64):
        yield Shape("thin", 8192, n, 8192)
    yield Shape("thin", 1, 4096, 4096)
    yield Shape("thin", 4096, 1, 4096)
    for n, batch in ((8, 16384), (16, 4096), (32, 4096), (64, 1024), (128, 512), (256, 256)):
        yield Shape("batch", n, n, n, batch=batch)
    yield Shape("batch", 64, 64, 64, "NT", batch=1024)
    yield Shape("batch", 64, 64, 64, "TN", batch=1024)
    yield Shape("batch", 128, 64, 256, batch=256, shared=True)
    yield Shape("batch", 1, 512, 512, batch=512)
    for n, batch in ((64, 1024), (256, 64)):
        yield Shape("batch", n, n, n, "GN", batch=batch)
    for n, layout in ((512, "NT"), (2048, "NT"), (4096, "NT"), (4096, "TN")):
        yield Shape("one array", n, n, n, layout, same=True)


def operand_sets(shape: Shape) -> list[tuple[Any, Any, Any]]:
    """Return sets of A, B and C, enough of them to fill twice the L2 cache."""
    import cupy

    cupy.random.seed(7)

    def operand(rows: int, cols: int, letter: str, shared: bool = False) -> Any:
        count = 1 if shared else max(shape.batch, 1)
        size = {"N": (count, rows, cols), "T": (count, cols, rows), "G": (count, rows, 2 * cols)}[letter]
        x = cupy.random.standard_normal(size, dtype=cupy.float32)
        x = {"N": x, "T": x.swapaxes(-1, -2), "G": x[..., ::2]}[letter]
        if not shape.batch:
            return x[0]
        return cupy.broadcast_to(x, (shape.batch, rows, cols)) if shared else x

    products = max(shape.batch, 1)
    moved = 4 * products * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    sets = []
    for _ in range(set_count(moved)):
        a = operand(shape.m, shape.k, shape.layout[0])
        b = a.T if shape.same else operand(shape.k, shape.n, shape.layout[1], shape.shared)
        sets.append((a, b, cupy.empty((shape.batch, shape.m, shape.n)[not shape.batch :], cupy.float32)))
    return sets


def measure(seconds: float, precision: str) -> list[dict[str, Any]]:
    """Measure the errors and times of all shapes, and return one row per shape."""
    import tiledmm

    rows = []
    for shape in shapes():
        print(f"{shape.kind} {shape} {shape.layout} ...", file=sys.stderr, flush=True)
        sets = operand_sets(shape)
        row: dict[str, Any] = asdict(shape) | {"errors": accuracy(*sets[0][:2], precision=precision)}
        row["kernel"] = str(tiledmm.explain(*sets[0][:2], precision=precision).choices[0])

        row |= beside_cupy(sets, seconds, precision=precision)
        rows.append(row)
    return rows


_FMA_SOURCE = r"""
extern "C" __global__ void __launch_bounds__(256) fma_ceiling(float* out, int steps) {
    float sums[32];
    for (int i = 0; i < 32; ++i) sums[i] = threadIdx.x + i;
    const float x = 0.999f + threadIdx.x * 1e-7f;
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int i = 0; i < 32; ++i) sums[i] = fmaf(sums[i], x, 0.5f);
    float total = 0;
    for (int i = 0; i < 32; ++i) total += sums[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
"""


def multiply_on_registers() -> tuple[float, Callable[[], Any]]:
    """Return the FLOP of a kernel that multiplies in registers only, and a function that launches it."""
    import cupy
    import numpy as np

    blocks, steps = 132 * 8 * 4, 4096
    out = cupy.empty(blocks * 256, cupy.float32)
    fma = cupy.RawKernel(_FMA_SOURCE, "fma_ceiling", options=("-std=c++17", "-use_fast_math"))
    return blocks * 256 * steps * 64, lambda: fma((blocks,), (256,), (out, np.int32(steps)))


def ceilings() -> dict[str, float]:
    """Measure a copy on the device (TB/s read and written) and float32 multiply-adds in registers (TFLOP/s)."""
    import cupy

    from tiledmm.bench import timing

    clock = timing.DeviceClock()
    x = cupy.random.standard_normal(1 << 28, dtype=cupy.float32)
    y = cupy.empty_like(x)
    flops, multiply = multiply_on_registers()
    calls = {"copy": lambda i: cupy.copyto(y, x), "fma": lambda i: multiply()}
    times = {name: statistics.median(clock.time(call, 5).seconds for _ in range(7)) for name, call in calls.items()}
    return {"copy": 2 * x.nbytes / times["copy"] / 1e12, "fma": flops / times["fma"] / 1e12}


def geometric_mean(rows: list[dict[str, Any]], clock: str) -> float:
    """Return the geometric mean of the speeds relative to ``cupy.matmul``, by one clock."""
    return math.exp(statistics.fmean(math.log(row[clock]["ratio"]) for row in rows))


def shapes_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per shape."""
    cells = []
    for row in rows:
        shape = Shape(**{name: row[name] for name in Shape.__dataclass_fields__ if name in row})
        products = max(shape.batch, 1)
        flops = 2 * products * shape.m * shape.n * shape.k
        b_products = 0 if shape.same else 1 if shape.shared else products
        moved = 4 * (products * (shape.m * shape.k + shape.m * shape.n) + b_products * shape.k * shape.n)
        micro = row["device"]["auto"]
        worst = max(row["errors"]["cublas"][0], row["errors"]["chain"][0])
        cells.append(
            (
                shape.kind,
                f"{shape}{', one B' if shape.shared else ''}",
                shape.layout,
                significant(row["loop"]["auto"]),
                significant(row["loop"]["ratio"]),
                significant(micro),
                significant(row["device"]["ratio"]),
                significant(flops / micro / 1e6),
                significant(moved / micro / 1e6),
                significant(row["errors"]["auto"][0] / worst) if worst else "exact",
                row["kernel"].replace("tiledmm_", ""),
            )
        )
    columns = (
        "<kind", "<shape", "<layout", "call (us)", "x cupy", "device (us)", "x cupy", "TFLOP/s", "TB/s", "x error",
        "<runs",
    )  # fmt: skip
    return Table("auto and cupy.matmul, float32", columns, tuple(cells))


def summary(results: dict[str, Any]) -> str:
    """Summarize the results, without products of an array with itself, which ``auto`` computes with half the work."""
    rows = [row for row in results["shapes"] if not row.get("same")]
    lines = []
    for clock, name in (("loop", "time per call"), ("device", "time on the device")):
        ratios = [row[clock]["ratio"] for row in rows]
        behind = sum(ratio < 0.97 for ratio in ratios)
        mean = significant(geometric_mean(rows, clock))
        lines.append(
            f"- {name}: {mean} times as fast as cupy.matmul (geometric mean of {len(rows)} shapes); "
            f"below 97% of its speed on {behind} shapes, at worst {min(ratios):.0%}"
        )
    kept = sum(map(keeps_promise, rows))
    lines.append(f"- accuracy: the promise holds on {kept} of {len(rows)} shapes")
    copy, fma = (significant(results["ceilings"][name]) for name in ("copy", "fma"))
    lines.append(f"- limits in the same run: {copy} TB/s for a copy, {fma} TFLOP/s for multiply-adds in registers")
    return "\n".join(lines)


def main() -> int:
    """Measure all shapes, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=RESULTS, default="float32", help="what float32 products may use")
    parser.add_argument("--out", type=Path, help="where the results go, if not to benchmarks/results")
    parser.add_argument("--seconds", type=float, default=0.1, help="time for each rival, shape and clock")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows = measure(options.seconds, options.precision)
    results = measured(this_machine(), {"ceilings": ceilings(), "shapes": rows})
    save(options.out or RESULTS[options.precision], results)
    show(shapes_table(rows))
    print(summary(results))
    return 0 if all(map(keeps_promise, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
