"""Measure how well ``auto`` chooses: ``python -m benchmarks.selection``; random products: ``--random 28 --seed 1``.

Times the kernels that ``auto`` considers, with the split-K factors that the cost model selects, and compares them with
the predicted times. Products range from small to large and from square to skinny. Such results show how good the tables
in ``tiledmm/selection/measured`` are. Needs a GPU; the exit status is 1 if a kernel gave a wrong result.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.results import BASELINE
from tiledmm.bench.sizes import Size
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import call_of
from tiledmm.selection.model import Model

RESULTS, RANDOM_RESULTS = FOLDER / "selection.json", FOLDER / "selection_random.json"

TYPES = ("float32", "float64", "complex64", "complex128", "float16", "bfloat16", "int8", "bool", "int32", "int64")
PRODUCTS = (
    *((Size(n, n, n), "NN") for n in (32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)),
    *((Size(n, n, n), "NT") for n in (256, 1024, 4096)),
    *((Size(m, 4096, 4096), layout) for m in (1, 4, 16, 40) for layout in ("NN", "NT")),
    (Size(64, 64, 65536), "NN"),
    (Size(64, 64, 65536), "NT"),
    (Size(4096, 4096, 16), "NN"),
    (Size(257, 511, 2048), "NN"),
    (Size(8192, 200, 200), "NN"),
)

# A kernel that is expected to take this many times as long as the best is left out.
_HOPELESS = 4.0


def drawn(dtype: str, count: int, seed: int) -> list[tuple[Size, str]]:
    """Draw random products: log-uniform sizes, every other one skinny, 60% with aligned rows, in all layouts."""
    generator, found = random.Random(f"{seed} {dtype}"), []
    for number in range(count):
        most = (2**6, 2**13) if number % 2 else (2**12, 2**12)
        sizes = [int(2 ** generator.uniform(0 if limit < 100 else 5, math.log2(limit))) for limit in (*most, 2**13)]
        if generator.random() < 0.5:
            sizes[:2] = sizes[1::-1]
        if generator.random() < 0.6:
            sizes = [size + -size % 16 for size in sizes]
        found.append((Size(*sizes), generator.choice(("NN", "NT", "TN", "TT"))))
    return found


def measure(dtype: str, products: Iterable[tuple[Size, str]], seconds: float) -> list[dict[str, Any]]:
    """Time every considered kernel; return one row per product, with predicted and measured microseconds."""
    import cupy

    from tiledmm.bench import reference, timing
    from tiledmm.bench.operand_sets import operand_sets
    from tiledmm.compile.compilation import raw_kernels
    from tiledmm.launch.devices import device_model
    from tiledmm.launch.plan import Plan

    considered = {product: _considered(device_model(), dtype, *product) for product in products}
    print(f"{dtype}: compiling ...", file=sys.stderr, flush=True)
    raw_kernels([kernel for choices in considered.values() for choice in choices for kernel in choice.kernels])
    rows = []
    for (size, layout), choices in considered.items():
        print(f"{dtype} {size} {layout} ...", file=sys.stderr, flush=True)
        sets = operand_sets(size, dtype, layout)
        first = sets[0]
        right = reference.reference(first.a, first.b)
        rivals: dict[str, timing.TimedCall] = {
            BASELINE: lambda i, s=sets: cupy.matmul(*s[i % len(s)][:2], out=s[i % len(s)].c)
        }
        kernels = []
        for choice in choices:
            spec = choice.spec
            launch = replace(spec.config.launch, split_k=1)  # tables name the partitions apart
            whole_k = replace(spec, config=replace(spec.config, launch=launch))
            name = str(whole_k).removeprefix("tiledmm_")
            name += f", and {len(choice.others)} other part{'s' * (len(choice.others) > 1)}" if choice.others else ""
            plan = Plan(choice)
            reference.poison(first.c, right)
            plan.run(*first)
            ok = reference.judge(first.c, right).ok
            kernels.append(
                {"kernel": name, "slices": spec.config.launch.split_k, "expected": choice.microseconds, "ok": ok}
            )
            rivals[name] = timing.one_after_the_other(plan, sets)
        samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
        for kernel in kernels:
            kernel["microseconds"] = samples[kernel["kernel"]].seconds * 1e6
        cupys = samples[BASELINE].seconds * 1e6
        rows.append({"size": [*size], "type": dtype, "layout": layout, "cupy": cupys, "kernels": kernels})
    return rows


def _considered(model: Model, dtype: str, size: Size, layout: str) -> list[Choice]:
    """Return the kernels that ``auto`` considers for a product, without hopelessly slow ones, fastest first."""
    call, _ = call_of(size, dtype, layout, "float32")
    ranked = sorted(model.rank(call.multiplied), key=lambda choice: choice.microseconds or 0.0)
    limit = _HOPELESS * (ranked[0].microseconds or 0.0)
    return [choice for choice in ranked if (choice.microseconds or 0.0) <= limit]


def selection_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per product: the kernel that ``auto`` selects, its predicted and measured time, and the best."""
    cells = []
    for row in rows:
        chosen = row["kernels"][0]
        fastest = min(row["kernels"], key=lambda kernel: kernel["microseconds"])
        partitions = f", split-K {chosen['slices']}" if chosen["slices"] > 1 else ""
        cells.append(
            (
                str(Size(*row["size"])),
                row["type"],
                row["layout"],
                f"{chosen['kernel']}{partitions}",
                significant(chosen["expected"]),
                significant(chosen["microseconds"]),
                significant(fastest["microseconds"] / chosen["microseconds"]),
                significant(row["cupy"] / chosen["microseconds"]),
            )
        )
    columns = (
        "<shape",
        "<type",
        "<layout",
        "<auto selects",
        "expected (us)",
        "measured (us)",
        "x the fastest",
        "x cupy.matmul",
    )
    return Table("The kernels that auto selects, and the fastest that it considers", columns, tuple(cells))


def quality(row: dict[str, Any]) -> float:
    """Return the speed of the kernel that ``auto`` selects, as a fraction of the fastest kernel's."""
    return float(min(kernel["microseconds"] for kernel in row["kernels"]) / row["kernels"][0]["microseconds"])


def summary(rows: list[dict[str, Any]]) -> str:
    """Summarize the quality of the choices in one sentence."""
    found = [quality(row) for row in rows]
    low = sum(each < 0.9 for each in found)
    return (
        f"{len(found)} products: auto's choice is {statistics.geometric_mean(found):.3f} x the fastest in the "
        f"geometric mean, {min(found):.3f} at least, and below 0.9 for {low}."
    )


def main() -> int:
    """Measure, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, help=f"where the results go, {RESULTS.name} or {RANDOM_RESULTS.name} if not told"
    )
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N products of each type, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="for these")
    parser.add_argument(
        "--types", nargs="+", choices=TYPES, default=TYPES, help="measure these, and keep the results of the others"
    )
    parser.add_argument("--seconds", type=float, default=0.03, help="time for each rival and product")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    path: Path = options.out or (RANDOM_RESULTS if options.random else RESULTS)
    before = json.loads(path.read_text()) if path.exists() and not options.random else {"products": []}
    rows: list[dict[str, Any]] = []
    for dtype in options.types:
        products = drawn(dtype, options.random, options.seed) if options.random else PRODUCTS
        rows += measure(dtype, products, options.seconds)
        # Written type by type: a run that is cut off leaves what it has measured.
        types = {row["type"] for row in rows}
        kept = [row for row in before["products"] if row["type"] not in types]
        every = sorted(kept + rows, key=lambda row: TYPES.index(row["type"]))
        found = {"products": every, **({"seed": options.seed} if options.random else {})}
        save(path, measured(this_machine(), found, beside=before if kept else None))
    show(selection_table(rows), width=160)
    print(summary(rows))
    return 0 if all(kernel["ok"] for row in rows for kernel in row["kernels"]) else 1


if __name__ == "__main__":
    sys.exit(main())
