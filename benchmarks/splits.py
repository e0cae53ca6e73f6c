"""Products from pieces, how fast and how accurate: ``python -m benchmarks.splits``, on a GPU.

The variants that split operands and run on the device, with each of their schemes, of float32 and complex64, beside
``cupy.matmul`` and, of float32, split products by others: Triton's, where it and PyTorch are installed, and XLA's,
where JAX is. Errors are against float64, on data that is easy and data that is not; a float32 chain (the ``coalesced``
rung) stands beside cuBLAS. Exit status 1 if the scheme that is taken unasked breaks the promise of accuracy.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.ceiling import ceiling_table, load_all
from benchmarks.shapes import accuracy, keeps_promise
from tiledmm.bench.records import BASELINE, Size
from tiledmm.bench.tables import NONE, Table, significant
from tiledmm.cli import missing_gpu
from tiledmm.elements import ELEMENTS
from tiledmm.ladder import kernel_variants

RESULTS = Path(__file__).parent / "results" / "splits.json"
SIZES = (2048, 4096, 8192)
LAYOUTS = ("NN", "NT", "TN", "TT")
TYPES = ("float32", "complex64")

#: Rows and columns of C where errors are measured, and steps of k.
ROWS, STEPS = 512, (1, 16, 256, 1024, 8192, 65536)

Pair = tuple[Any, Any]


def _spread(xp: Any, rng: Any, shape: tuple[int, int], exponents: float) -> Any:
    values = rng.standard_normal(shape) * xp.exp2(rng.uniform(-exponents, exponents, shape))
    return values.astype(xp.float32)


def _cancelling(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    # The second half of each sum is the first, negated, but for a thousandth.
    half = (k + 1) // 2
    a, b = rng.standard_normal((m, half)), rng.standard_normal((half, n))
    left = xp.concatenate([a, -a * (1 + 1e-3 * rng.standard_normal((m, half)))], axis=1)[:, :k]
    return left.astype(xp.float32), xp.concatenate([b, b])[:k].astype(xp.float32)


def _graded(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    falls = xp.exp2(-40.0 * xp.arange(k) / k)
    return (a * falls).astype(xp.float32), (b * falls[:, None]).astype(xp.float32)


def _ill_scaled(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a = rng.standard_normal((m, k)) * xp.exp2(rng.uniform(-30, 30, (m, 1)))
    return a.astype(xp.float32), (rng.standard_normal((k, n)) * xp.exp2(rng.uniform(-30, 30, (1, n)))).astype(
        xp.float32
    )


def _counts(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    # How often words occur: most never, a few very often.
    a, b = (xp.floor(1 / (1e-6 + rng.random_sample(shape))) // 8 for shape in ((m, k), (k, n)))
    return a.astype(xp.float32), b.astype(xp.float32)


def _half_zero(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a = xp.maximum(rng.standard_normal((m, k)), 0)
    return a.astype(xp.float32), rng.standard_normal((k, n)).astype(xp.float32)


def _one_a_row(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a = xp.zeros((m, k), xp.float32)
    a[xp.arange(m), rng.randint(0, k, m)] = 1
    return a, rng.standard_normal((k, n)).astype(xp.float32)


def _of(draw: Callable[[Any, Any, tuple[int, int]], Any]) -> Callable[[Any, Any, int, int, int], Pair]:
    """Both operands alike."""
    return lambda xp, rng, m, n, k: (
        draw(xp, rng, (m, k)).astype(xp.float32),
        draw(xp, rng, (k, n)).astype(xp.float32),
    )


#: Operands by what they are: ``(xp, rng, m, n, k)``, where ``xp`` is CuPy or NumPy and ``rng`` its ``RandomState``.
KINDS: dict[str, Callable[[Any, Any, int, int, int], Pair]] = {
    "normal": _of(lambda xp, rng, shape: rng.standard_normal(shape)),
    "uniform from 0 to 1": _of(lambda xp, rng, shape: rng.random_sample(shape)),
    "half of A zero": _half_zero,
    "exponents from -12 to 12": _of(lambda xp, rng, shape: _spread(xp, rng, shape, 12)),
    "exponents from -60 to 60": _of(lambda xp, rng, shape: _spread(xp, rng, shape, 60)),
    "rows and columns scaled": _ill_scaled,
    "graded": _graded,
    "cancelling": _cancelling,
    "integers to 64": _of(lambda xp, rng, shape: rng.randint(-64, 65, shape)),
    "integers to 4095": _of(lambda xp, rng, shape: rng.randint(-4095, 4096, shape)),
    "counts of words": _counts,
    "one 1 a row": _one_a_row,
}


def operands(kind: str, dtype: str, xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    """Operands of a kind. The imaginary parts of complex ones are the real parts of other steps of k."""
    a, b = KINDS[kind](xp, rng, m, n, k)
    if dtype == "float32":
        return a, b
    left, right = xp.empty((m, k), dtype), xp.empty((k, n), dtype)
    left.real, left.imag = a, xp.roll(a, 1, axis=1)
    right.real, right.imag = b, xp.roll(b, 2, axis=0)
    return left, right


def kernels(dtype: str) -> list[tuple[str, str]]:
    """What splits operands of a type on the current device, the fastest variant first, and each of its schemes."""
    import cupy

    capability, element = divmod(int(cupy.cuda.Device().compute_capability), 10), ELEMENTS[dtype]
    rows = (row for row in kernel_variants() if row.splits and row.multiplies(element))
    return [(row.name, scheme) for row in rows if row.runs_on(capability, element) for scheme, _ in row.schemes]


def splits(a: Any, b: Any, variant: str, scheme: str) -> bool:
    """Whether the data goes to tensor cores."""
    import cupy

    from tiledmm.launch import Plan
    from tiledmm.operands import describe, resolve
    from tiledmm.selection import select

    plan = Plan(select(variant, None, resolve(describe(a), describe(b)), {"scheme": scheme}))
    if not plan.findings:
        return False  # nobody asks: K is short
    del plan.launches[-1]  # which is for other data
    c = cupy.full((a.shape[0], b.shape[1]), cupy.nan, a.dtype)
    return not bool(cupy.isnan(plan.run(a, b, c)).any())


def measure_accuracy(dtype: str) -> list[dict[str, Any]]:
    """A row a kind of data and K."""
    import cupy

    rows = []
    (first, scheme), *others = kernels(dtype)
    for kind in KINDS:
        for k in STEPS:
            a, b = operands(kind, dtype, cupy, cupy.random.RandomState(11), ROWS, ROWS, k)
            c = cupy.empty((ROWS, ROWS), dtype)
            calls = {**_of_kernels(others, a, b, c), **_of_others(a, b, c)}
            rivals = {name: functools.partial(call, 0) for name, call in calls.items()}
            found = accuracy(a, b, rivals, variant=first, precision=scheme)
            tensor = splits(a, b, first, scheme)
            rows.append({"kind": kind, "k": k, "splits": tensor, "variant": f"{first} {scheme}", "errors": found})
            print(f"{dtype}, {kind}, K = {k}: {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def measure_speed(dtype: str, seconds: float) -> list[dict[str, Any]]:
    """A row a size and layout: 2MNK operations, of which each of complex numbers is four real ones."""
    import cupy

    from tiledmm.bench import timing
    from tiledmm.bench.comparison import operand_sets

    rows = []
    for size in SIZES:
        for layout in LAYOUTS:
            a, b, c = operand_sets(Size(size, size, size), dtype, layout)[0]
            rivals: dict[str, timing.Call] = {
                BASELINE: functools.partial(lambda i, a, b, c: cupy.matmul(a, b, out=c), a=a, b=b, c=c),
                **_of_kernels(kernels(dtype), a, b, c),
                **_of_others(a, b, c),
            }
            samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
            row: dict[str, Any] = {"size": size, "layout": layout}
            for name, sample in samples.items():
                tflops = 2 * size**3 / sample.seconds / 1e12
                row[name] = {"tflops": tflops, "ratio": sample.speed_over(samples[BASELINE])}
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    return rows


def measure_loads(seconds: float) -> list[dict[str, Any]]:
    """A row a product that runs for seconds; of 16-bit floats, too, which are what is multiplied."""
    import cupy

    import tiledmm
    from tiledmm.bench.comparison import operand_sets

    rivals = []
    for size, dtype in itertools.product(SIZES[1:], ("float32", "float16", "bfloat16")):
        a, b, c = operand_sets(Size(size, size, size), dtype, "NN")[0]
        for name, call in (("auto", tiledmm.matmul), (BASELINE, cupy.matmul)):
            rivals.append((name, f"{dtype} {size}", 2.0 * size**3, functools.partial(call, a, b, out=c)))
    return load_all(rivals, seconds)


def _of_kernels(names: list[tuple[str, str]], a: Any, b: Any, c: Any) -> dict[str, Callable[[int], Any]]:
    """This package's products, by variants and schemes of these names."""
    import tiledmm

    def call(i: int, variant: str, scheme: str) -> Any:
        return tiledmm.matmul(a, b, out=c, variant=variant, precision=scheme)

    return {" ".join(each): functools.partial(call, variant=each[0], scheme=each[1]) for each in names}


def _of_others(a: Any, b: Any, c: Any) -> dict[str, Callable[[int], Any]]:
    """Split products by other libraries, where they are installed, and of float32."""
    if a.dtype != "float32":
        return {}
    modules = (_installed("triton_products"), _installed("xla_products"))
    return {name: call for module in modules if module for name, call in module.calls(a, b, c).items()}


@functools.cache
def _installed(name: str) -> Any:
    """A module of this folder that needs what need not be there; None where it is not."""
    try:
        return importlib.import_module(f"benchmarks.{name}")
    except ImportError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


def accuracy_table(rows: list[dict[str, Any]], dtype: str = "float32") -> Table:
    """A row a kind of data and K."""
    cells = []
    others = list(
        dict.fromkeys(name for row in rows for name in row["errors"] if name not in ("auto", "cublas", "chain"))
    )
    for row in rows:
        errors = row["errors"]
        pairs = (
            (f"{errors[name][i]:.2g}" if name in errors else NONE for i in range(2))
            for name in ("auto", "cublas", "chain", *others)
        )
        cells.append(
            (row["kind"], f"{row['k']:,}", "tensor" if row["splits"] else "CUDA", *(e for pair in pairs for e in pair))
        )
    names = rows[0].get("variant", "split_float32"), "cuBLAS", "a chain", *others
    headings = "<data", "K", "<cores", *(f"{name}, {what}" for name in names for what in ("norm", "worst"))
    return Table(f"errors of {dtype} products, {ROWS} x {ROWS}", headings, tuple(cells))


def speed_table(rows: list[dict[str, Any]], dtype: str = "float32") -> Table:
    """A row a size and layout."""
    names = [name for name in rows[0] if name not in ("size", "layout", BASELINE)]
    cells = []
    for row in rows:
        pairs = (
            (significant(row[name]["tflops"]), significant(row[name]["ratio"])) if name in row else (NONE, NONE)
            for name in names
        )
        cells.append(
            (
                f"{row['size']:,}",
                row["layout"],
                significant(row[BASELINE]["tflops"]),
                *(e for pair in pairs for e in pair),
            )
        )
    headings = ("size", "<layout", "cupy.matmul", *(each for name in names for each in (name, "x cupy.matmul")))
    return Table(f"{dtype}, TFLOP/s", headings, tuple(cells))


def main() -> int:
    """Measures, prints the tables, writes the results; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="time for each rival, size and layout; tenfold under load"
    )
    parser.add_argument(
        "--dtypes", nargs="+", choices=TYPES, default=list(TYPES), help="of these types only; give --out, too"
    )
    options = parser.parse_args()
    if reason := missing_gpu():
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    from rich.console import Console

    from tiledmm.bench.machine import this_machine

    results: dict[str, Any] = {"machine": asdict(this_machine())}
    tables, broken = [], []
    for dtype in filter(kernels, options.dtypes):
        of_type = "" if dtype == "float32" else f"_{dtype}"
        results[f"speed{of_type}"] = speed = measure_speed(dtype, options.seconds)
        results[f"accuracy{of_type}"] = errors = measure_accuracy(dtype)
        tables += [speed_table(speed, dtype), accuracy_table(errors, dtype)]
        broken += [row for row in errors if not keeps_promise(row)]
    if "float32" in options.dtypes:
        results["loads"] = measure_loads(10 * options.seconds)
        tables.append(ceiling_table(results["loads"]))
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    console = Console(width=None if sys.stdout.isatty() else 200)
    for table in tables:
        console.print(table.rich())
    for row in broken:
        print(f"the promise is broken on {row}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
