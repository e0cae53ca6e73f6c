"""Measure speed and accuracy of float32, tf32 and complex64 from limbs: ``python -m benchmarks.splits``. Needs a GPU.

Measures the variants that decompose operands into limbs and run on this device, with each of their schemes. They are
compared with ``cupy.matmul`` and, for float32, with the emulated products of Triton (if it and PyTorch are installed)
and XLA (if JAX is installed). In tf32, ``cupy.matmul`` uses tf32, too, and the others are the kernels that multiply
tf32 itself, and ``torch.mm`` (if PyTorch is installed). Errors are relative to float64, on easy and difficult data
(``benchmarks/support/data.py``), and shown with those of cuBLAS and of a float32 chain (``coalesced``). The exit
status is 1 if the default scheme exceeds the promised error.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.support.accuracy import accuracy, keeps_promise
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.data import KINDS, LEFT_OUT, operands
from benchmarks.support.power import load_all, load_table
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.results import BASELINE
from tiledmm.bench.sizes import Size
from tiledmm.elements import TF32, Element, compute_element
from tiledmm.kernels.variants import kernel_spec, kernel_variants
from tiledmm.problem.call import precision_of
from tiledmm.report.cells import NONE, significant
from tiledmm.report.tables import Table
from tiledmm.schedule.schedule import fallbacks

PARTS = ("speed", "accuracy", "loads")
SIZES = (2048, 4096, 8192)
LAYOUTS = ("NN", "NT", "TN", "TT")
TYPES = ("float32", "complex64", "tf32")

#: Types whose products run for seconds, by the name of their results: with the type of the limbs; of double precision.
LOADS = {"loads": ("float32", "float16", "bfloat16"), "double": ("float64", "complex128")}

#: Rows and columns of C where errors are measured, and values of K.
ROWS, STEPS = 512, (1, 16, 256, 1024, 8192, 65536)


def kernels(dtype: str) -> list[tuple[str, str]]:
    """Return the variants with tensor cores for a type on the current device, with the values of ``precision=``.

    Those that decompose operands come first, fastest first, with each of their schemes.
    """
    import cupy

    capability, compute = divmod(int(cupy.cuda.Device().compute_capability), 10), compute_element(dtype)
    rows = (row for row in kernel_variants() if row.tensor_cores and row.multiplies(compute))
    found = {row: row.operands.schemes_of(compute) for row in rows if row.runs_on(capability, compute)}
    own = [(row.name, scheme) for row, schemes in found.items() for scheme in schemes]
    return [*own, *((row.name, precision_of(compute)) for row, schemes in found.items() if not schemes)] if own else []


def uses_tensor_cores(a: Any, b: Any, variant: str, scheme: str) -> bool:
    """Return whether the operand scan on the device sends this data to the tensor cores."""
    import cupy

    from tiledmm.launch.plan import Plan
    from tiledmm.problem.arrays import describe
    from tiledmm.problem.product import resolve
    from tiledmm.selection.choose import select, with_precision

    product = with_precision(resolve(describe(a), describe(b)), scheme)
    plan = Plan(select(variant, None, product, {"scheme": scheme}))
    if not plan.scans:
        return False  # K is short: there is no operand scan
    del plan.launches[-1]  # the kernel for other data
    c = cupy.full((a.shape[0], b.shape[1]), cupy.nan, a.dtype)
    return not bool(cupy.isnan(plan.run(a, b, c)).any())


def measure_accuracy(dtype: str, peers: bool) -> Iterator[dict[str, Any]]:
    """Measure the errors of all products; yield one row per kind of data and K."""
    import cupy

    from tiledmm.bench.comparison import cupy_takes

    (first, scheme), *others = kernels(dtype)
    compute = compute_element(dtype)
    for kind in KINDS:
        for k in STEPS:
            a, b = operands(kind, compute.dtype.name, cupy, cupy.random.RandomState(11), ROWS, ROWS, k)
            c = cupy.empty((ROWS, ROWS), compute.dtype)
            calls = {**_of_kernels(others, a, b, c), **(_of_others(a, b, c, compute) if peers else {})}
            rivals = {name: functools.partial(call, 0) for name, call in calls.items()}
            row: dict[str, Any] = {"kind": kind, "k": k, "variant": f"{first} {scheme}"}
            if compute == TF32:  # cuBLAS divides K, and sums of fewer terms have smaller errors
                native = fallbacks(kernel_spec(first, dtype=dtype))[0].spec.variant.name
                row |= {"split_k": _partitions(a, b, first), "bounds": ("cublas", f"{native} {dtype}")}
            with cupy_takes(compute):
                config = {"split_k": row.get("split_k", 1)}
                row["errors"] = accuracy(a, b, rivals, variant=first, precision=scheme, config=config)
            yield row | {"splits": uses_tensor_cores(a, b, first, scheme)}


def _partitions(a: Any, b: Any, variant: str) -> int:
    """Return the number of split-K partitions with which ``auto`` considers a variant for a product in tf32."""
    import tiledmm

    choices = (choice.spec for choice in tiledmm.explain(a, b, precision="tf32").choices)
    return next((each.config.launch.split_k for each in choices if each.variant.name == variant), 1)


def measure_speed(dtype: str, seconds: float, peers: bool) -> Iterator[dict[str, Any]]:
    """Time square products; yield one row per size and layout."""
    import cupy

    from tiledmm.bench import timing
    from tiledmm.bench.comparison import cupy_takes
    from tiledmm.bench.operand_sets import operand_sets

    compute = compute_element(dtype)
    for size in SIZES:
        for layout in LAYOUTS:
            a, b, c = operand_sets(Size(size, size, size), dtype, layout)[0]
            rivals: dict[str, timing.TimedCall] = {
                BASELINE: functools.partial(lambda i, a, b, c: cupy.matmul(a, b, out=c), a=a, b=b, c=c),
                **_of_kernels(kernels(dtype), a, b, c),
                **(_of_others(a, b, c, compute) if peers else {}),
            }
            with cupy_takes(compute):
                samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
            row: dict[str, Any] = {"size": size, "layout": layout}
            for name, sample in samples.items():
                tflops = _operations(size, dtype) / sample.seconds / 1e12
                row[name] = {"tflops": tflops, "ratio": sample.speed_over(samples[BASELINE])}
            yield row


def measure_loads(seconds: float, *dtypes: str) -> Iterator[dict[str, Any]]:
    """Run each product for seconds; yield one row per product with its speed, power and clock."""
    import cupy

    import tiledmm
    from tiledmm.bench.operand_sets import operand_sets

    for size, dtype in itertools.product(SIZES[1:], dtypes):
        a, b, c = operand_sets(Size(size, size, size), dtype, "NN")[0]
        for name, call in (("auto", tiledmm.matmul), (BASELINE, cupy.matmul)):
            rival = name, f"{dtype} {size}", _operations(size, dtype), functools.partial(call, a, b, out=c)
            yield from load_all([rival], seconds)


def _operations(size: int, dtype: str) -> float:
    """Return the floating-point operations of a square product; a complex multiply-add counts as four real ones."""
    return 2.0 * size**3 * compute_element(dtype).multiplies


def _of_kernels(names: list[tuple[str, str]], a: Any, b: Any, c: Any) -> dict[str, Callable[[int], Any]]:
    """Return this package's products by the given variants and precisions, as functions by name."""
    import tiledmm

    def call(i: int, variant: str, precision: str) -> Any:
        return tiledmm.matmul(a, b, out=c, variant=variant, precision=precision)

    return {" ".join(each): functools.partial(call, variant=each[0], precision=each[1]) for each in names}


def _of_others(a: Any, b: Any, c: Any, compute: Element) -> dict[str, Callable[[int], Any]]:
    """Return the emulated float32 products, or tf32 products, of other installed libraries, as functions by name."""
    if compute == TF32:
        from tiledmm.bench.peers import matmuls_of_libraries

        def result(i: int, call: Callable[[int], Any]) -> Any:
            call(i)
            return c

        found = matmuls_of_libraries(("torch",), [(a, b, c)], compute)
        return {name: functools.partial(result, call=call) for name, call in found.items() if not isinstance(call, str)}
    if a.dtype != "float32":
        return {}
    modules = (_installed("triton_products"), _installed("xla_products"))
    return {name: call for module in modules if module for name, call in module.calls(a, b, c).items()}


@functools.cache
def _installed(name: str) -> Any:
    """Import a module of ``support`` whose library is optional; return None if it is not installed."""
    try:
        return importlib.import_module(f"benchmarks.support.{name}")
    except ImportError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


def promise_table(results: Mapping[str, list[dict[str, Any]]]) -> Table:
    """Format one row per product: how often its errors are within the promise of the default scheme."""
    cells: dict[str, list[str]] = {}
    for rows in results.values():
        for name, shown in _named(rows).items():
            of = [keeps_promise(row, name) for row in rows if name in row["errors"]]
            cells.setdefault(shown, []).append(f"{sum(of)} of {len(of)}")
    width = len(results)
    rows_of = tuple((name, *found, *(NONE,) * (width - len(found))) for name, found in cells.items())
    return Table("rows within the promise", ("<product", *results), rows_of)


def _named(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the names of the products with errors, and the names that tables show for them."""
    names = {"auto": rows[0]["variant"], "cublas": "cuBLAS", "chain": "a chain"}
    return names | {name: name for row in rows for name in row["errors"] if name not in names}


def accuracy_table(rows: list[dict[str, Any]], dtype: str = "float32") -> Table:
    """Format one row per kind of data and K: each product's error in the norm and, in brackets, its largest error."""
    names, cells = _named(rows), []
    for row in rows:
        of = (row["errors"].get(name) for name in names)
        errors = (f"{each[0]:.2g} ({each[1]:.2g})" if each else NONE for each in of)
        cells.append((row["kind"], f"{row['k']:,}", "tensor" if row["splits"] else "CUDA", *errors))
    headings = "<data", "K", "<cores", *names.values()
    return Table(f"errors of {dtype} products, {ROWS} x {ROWS}: norm (worst)", headings, tuple(cells))


def speed_table(rows: list[dict[str, Any]], dtype: str = "float32") -> Table:
    """Format one row per size and layout: TFLOP/s and, in brackets, the speed relative to ``cupy.matmul``."""
    names = [name for name in rows[0] if name not in ("size", "layout", BASELINE)]
    cells = []
    for row in rows:
        of = (row.get(name) for name in names)
        figures = (f"{significant(each['tflops'])} ({significant(each['ratio'])})" if each else NONE for each in of)
        cells.append((f"{row['size']:,}", row["layout"], significant(row[BASELINE]["tflops"]), *figures))
    headings = ("size", "<layout", "cupy.matmul", *names)
    return Table(f"{dtype}, TFLOP/s (x cupy.matmul)", headings, tuple(cells))


def main() -> int:
    """Measure the selected parts, print the tables and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results go, a file a part")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="measure these only")
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="time for each rival, size and layout; tenfold under load"
    )
    parser.add_argument("--dtypes", nargs="+", choices=TYPES, default=TYPES, help="of these types only")
    parser.add_argument("--no-peers", action="store_true", help="leave Triton and XLA out, whose compilers take long")
    options = options_on_gpu(parser)
    if LEFT_OUT:
        print(f"{' and '.join(LEFT_OUT)}: left out, as matplotlib's sample data is not installed", file=sys.stderr)
    from tiledmm.bench.environment import this_machine

    peers = not options.no_peers
    tables, broken = [], []

    def kept(part: str, rows_of: Mapping[str, Iterator[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """Collect all rows and save after each, so that a run that is cut off keeps what it has measured."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in rows_of}
        file = options.folder / f"splits_{part}.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        others = {name: rows for name, rows in before.items() if name not in ("machine", "sources", *found)}
        machine = this_machine()
        for name, rows in rows_of.items():
            for row in rows:
                found[name].append(row)
                save(file, measured(machine, {**others, **found}, beside=before if others else None))
                print(part, name, row, file=sys.stderr, flush=True)
        return found

    dtypes = list(filter(kernels, options.dtypes))
    if "speed" in options.parts:
        speeds = kept("speed", {dtype: measure_speed(dtype, options.seconds, peers) for dtype in dtypes})
        tables += [speed_table(rows, dtype) for dtype, rows in speeds.items()]
    if "accuracy" in options.parts:
        errors = kept("accuracy", {dtype: measure_accuracy(dtype, peers) for dtype in dtypes})
        tables += [*(accuracy_table(rows, dtype) for dtype, rows in errors.items()), promise_table(errors)]
        broken += [row for rows in errors.values() for row in rows if not keeps_promise(row)]
    if "loads" in options.parts:
        loads = kept("loads", {name: measure_loads(10 * options.seconds, *of) for name, of in LOADS.items()})
        tables += map(load_table, loads.values())
    show(*tables)
    for row in broken:
        print(f"the promise is broken on {row}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
