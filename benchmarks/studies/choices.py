"""Judge how well a table of rates chooses, by the measured times of all kernels that it may choose.

Draws random products and times every kernel that is predicted to be within three times the fastest, each with three
split-K factors. Any table can later be compared with these times, without a GPU:

    python -m benchmarks.studies.choices --seed 7                              # measure, on a GPU
    python -m benchmarks.studies.choices --judge results.json                  # the package's tables
    python -m benchmarks.studies.choices --judge results.json --table t.json   # one that tiledmm calibrate wrote
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.selection import TYPES, drawn
from benchmarks.support.command import show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.sizes import Size
from tiledmm.cli import missing_gpu
from tiledmm.kernels.spec import KernelSpec
from tiledmm.problem.product import Product
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table
from tiledmm.selection import rates as tables
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import call_of
from tiledmm.selection.model import SPLIT_K_FACTORS, Model

# Kernels that are expected to take so many times as long as the fastest, or so many microseconds, are left out; the
# fastest never is.
_SLOW, _LONG = 3.0, 3000.0

# A choice below this fraction of the fastest is counted as a bad one.
_LOW = 0.8

# Other split-K factors are so many places from the model's.
_APART = 3


def considered(model: Model, product: Product) -> Iterator[Choice]:
    """Yield the kernels that compute all of C and are predicted to be fast, each with several split-K factors."""
    ranked = sorted(model.alone(product), key=lambda choice: choice.microseconds or 0.0)
    fastest = ranked[0].microseconds or 0.0
    for choice in ranked:
        if (choice.microseconds or 0.0) > max(min(_SLOW * fastest, _LONG), fastest):
            return
        config = choice.spec.config
        at = SPLIT_K_FACTORS.index(config.launch.split_k)
        for place in sorted({at, max(at - _APART, 0), min(at + _APART, len(SPLIT_K_FACTORS) - 1)}):
            split = SPLIT_K_FACTORS[place]
            if split == 1 or split <= product.problem.k // 32:
                changed = config.changed({"split_k": split})
                yield replace(choice, spec=replace(choice.spec, config=changed))


def named(choice: Choice) -> str:
    """Return a kernel's name, which includes its packed operands and split-K factor."""
    return _named(choice.spec)


@functools.cache  # the same kernels are expected for each product of a type and layout
def _named(spec: KernelSpec) -> str:
    return str(spec).removeprefix("tiledmm_")


def measure(dtype: str, products: list[tuple[Size, str]]) -> list[dict[str, Any]]:
    """Time each kernel and split-K factor in microseconds, and return one row per product."""
    from tiledmm.bench.timing import one_after_the_other
    from tiledmm.compile.compilation import raw_kernels
    from tiledmm.launch.devices import device_model
    from tiledmm.launch.plan import Plan
    from tiledmm.tuning.bench import Bench
    from tiledmm.tuning.cases import Case

    model = device_model()
    bench, rows = Bench(model.gpu), []
    jobs = {
        (size, layout): list(considered(model, call_of(size, dtype, layout, "float32")[0].multiplied))
        for size, layout in products
    }
    raw_kernels([kernel for choices in jobs.values() for choice in choices for kernel in choice.kernels])
    for (size, layout), choices in jobs.items():
        sets, kernels = bench.operands(Case(1, *size, layout), dtype), {}
        for choice in choices:
            seconds = bench.seconds(one_after_the_other(Plan(choice), sets))
            kernels[named(choice)] = float(f"{seconds * 1e6:.4g}")
        rows.append({"type": dtype, "size": [*size], "layout": layout, "kernels": kernels})
    return rows


@dataclass(frozen=True, slots=True)
class Judgement:
    """A table's choice for a product among the timed kernels, the fastest kernel, and the choice's relative speed."""

    product: str
    pick: str
    fastest: str
    ratio: float


def judged(model: Model, row: dict[str, Any]) -> Judgement | None:
    """Judge a model's choice for one product; return None if none of its kernels was timed, as in older results."""
    taken, size = row["kernels"], Size(*row["size"])
    product = call_of(size, row["type"], row["layout"], "float32")[0].multiplied
    expected = {key: each.microseconds or 0.0 for each in model.every(product) if (key := named(each)) in taken}
    if not expected:
        return None
    pick, fastest = min(expected, key=expected.__getitem__), min(taken, key=taken.__getitem__)
    return Judgement(f"{size} {row['type']} {row['layout']}", pick, fastest, taken[fastest] / taken[pick])


def judge(results: dict[str, Any], rates: tables.Rates) -> list[Judgement]:
    """Judge a table's choices on the GPU of the results, worst first."""
    measured = tables.shipped().get(results["machine"]["gpu"], rates)
    model = Model(measured.gpu, rates)
    found = (judged(model, row) for row in results["products"])
    return sorted((each for each in found if each), key=lambda each: each.ratio)


def choices_table(results: dict[str, Any]) -> Table:
    """Format how well each shipped table chooses on the GPU of the results, starting with the table of that GPU."""
    own = results["machine"]["gpu"]
    rows = []
    for name, rates in sorted(tables.shipped().items(), key=lambda each: each[0] != own):
        ratios = [each.ratio for each in judge(results, rates)]
        low = sum(ratio < _LOW for ratio in ratios)
        mean = statistics.geometric_mean(ratios)
        rows.append(
            (
                str(rates) + ("" if name == own else ", scaled"),
                f"{len(ratios)}",
                f"{mean:.3f}",
                f"{ratios[0]:.3f}",
                f"{low}",
            )
        )
    columns = "<rates", "products", "x the fastest, geometric mean", "lowest", f"below {_LOW}"
    return Table("", columns, tuple(rows))


def main() -> int:
    """Measure, or judge tables by earlier results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the results go (default: results/choices-GPU.json)")
    parser.add_argument("--seed", type=int, default=1, help="of the products")
    parser.add_argument("--products", type=int, default=28, help="of each type")
    parser.add_argument("--judge", type=Path, metavar="RESULTS", help="judge by these results, without a GPU")
    parser.add_argument("--table", type=Path, help="the table to be judged (default: the package's)")
    parser.add_argument("--worst", type=int, default=10, help="choices to show")
    options = parser.parse_args()
    if options.judge is None:
        if reason := missing_gpu():
            print(f"this needs a GPU: {reason}", file=sys.stderr)
            return 1
        from tiledmm.bench.environment import this_machine

        rows: list[dict[str, Any]] = []
        for dtype in TYPES:
            print(f"{dtype} ...", file=sys.stderr, flush=True)
            rows += measure(dtype, drawn(dtype, options.products, options.seed))
        machine = this_machine()
        path = options.out or FOLDER / f"choices-{tables.own_path(machine.gpu).stem}.json"
        save(path, measured(machine, {"seed": options.seed, "products": rows}))
        print(path)
        return 0
    results = json.loads(options.judge.read_text(encoding="utf-8"))
    if options.table is None:
        show(choices_table(results))
        return 0
    found = judge(results, tables.read(options.table))
    ratios = [each.ratio for each in found]
    columns = "<product", "<chosen", "<fastest", "x the fastest"
    worst = ((each.product, each.pick, each.fastest, significant(each.ratio)) for each in found[: options.worst])
    show(Table("The worst choices", columns, tuple(worst)))
    print(
        f"{len(ratios)} products: {statistics.geometric_mean(ratios):.3f} x the fastest in the geometric mean, "
        f"{ratios[0]:.3f} at least, and below {_LOW} for {sum(ratio < _LOW for ratio in ratios)}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
