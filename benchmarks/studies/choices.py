"""How well a table of rates chooses: times what there is to choose from, and judges any table by that.

For products drawn at random, every kernel that is expected within three times the fastest, each with the split-K factor
of the model and two others. These timings then judge any table, without a GPU:

    python -m benchmarks.studies.choices --seed 7                          # measure, on a GPU
    python -m benchmarks.studies.choices --judge                           # the package's table
    python -m benchmarks.studies.choices --judge table.json --worst 20     # one that tiledmm calibrate wrote
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.selection import TYPES, drawn
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.sizes import Size
from tiledmm.cli import missing_gpu
from tiledmm.problem.operands import Product
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table
from tiledmm.selection import rates as tables
from tiledmm.selection.choice import Choice
from tiledmm.selection.front_end import call_of
from tiledmm.selection.model import SPLIT_K_FACTORS, Model

RESULTS = FOLDER / "choices.json"

# Kernels that are expected to take so many times as long as the fastest, or so many microseconds, are left out.
_SLOW, _LONG = 3.0, 3000.0

# Other split-K factors are so many places from the model's.
_APART = 3


def considered(model: Model, product: Product) -> Iterator[Choice]:
    """Kernels for all of C, each with several split-K factors."""
    ranked = sorted(model.alone(product), key=lambda choice: choice.microseconds or 0.0)
    for choice in ranked:
        expected = choice.microseconds or 0.0
        if expected > _SLOW * (ranked[0].microseconds or 0.0) or expected > _LONG:
            return
        config = choice.specialization.config
        at = SPLIT_K_FACTORS.index(config.launch.split_k)
        for place in sorted({at, max(at - _APART, 0), min(at + _APART, len(SPLIT_K_FACTORS) - 1)}):
            split = SPLIT_K_FACTORS[place]
            if split == 1 or split <= product.problem.k // 32:
                changed = config.changed({"split_k": split})
                yield replace(choice, specialization=replace(choice.specialization, config=changed))


def named(choice: Choice) -> tuple[str, int]:
    """A kernel's name, packed operands included, and its split-K factor."""
    spec = choice.specialization
    return str(replace(spec, config=spec.config.changed({"split_k": 1}))), spec.config.launch.split_k


def measure(dtype: str, products: list[tuple[Size, str]]) -> list[dict[str, Any]]:
    """The microseconds of each kernel and split-K factor, a row a product."""
    from tiledmm.compile.compilation import raw_kernels
    from tiledmm.devices import device_model
    from tiledmm.launch import Plan
    from tiledmm.tuning.bench import Bench
    from tiledmm.tuning.cases import Case

    model = device_model()
    bench, rows = Bench(model.gpu), []
    jobs = {
        (size, layout): list(considered(model, call_of(size, dtype, layout, "float32")[0].multiplied))
        for size, layout in products
    }
    planned = (each for choices in jobs.values() for choice in choices for each in choice.schedules)
    raw_kernels([launch.specialization for each in planned for launch in each.launches])
    for (size, layout), choices in jobs.items():
        sets, kernels = bench.operands(Case(1, *size, layout), dtype), []
        for choice in choices:
            plan = Plan(choice)
            seconds = bench.seconds(functools.partial(_run, plan, sets))
            kernels.append([*named(choice), seconds * 1e6])
        rows.append({"type": dtype, "size": [*size], "layout": layout, "kernels": kernels})
    return rows


def _run(plan: Any, sets: list[Any], i: int) -> None:
    plan.run(*sets[i % len(sets)])


def judged(model: Model, row: dict[str, Any]) -> tuple[float, tuple[str, int], tuple[str, int]]:
    """How fast a model's pick of what was timed is, as a fraction of the fastest; the pick, and the fastest."""
    taken = {(name, split): microseconds for name, split, microseconds in row["kernels"]}
    product = call_of(Size(*row["size"]), row["type"], row["layout"], "float32")[0].multiplied
    expected = {key: each.microseconds or 0.0 for each in model.every(product) if (key := named(each)) in taken}
    pick, fastest = min(expected, key=expected.__getitem__), min(taken, key=taken.__getitem__)
    return taken[fastest] / taken[pick], pick, fastest


def judge(results: dict[str, Any], rates: tables.Rates, worst: int) -> tuple[str, Table]:
    """How good a table's choices are, in a sentence, and the worst of them."""
    model = Model(rates.gpu, rates)
    found = sorted(((judged(model, row), row) for row in results["products"]), key=lambda each: each[0][0])
    ratios = [ratio for (ratio, _, _), _ in found]
    text = (
        f"{len(ratios)} products: the choice is {statistics.geometric_mean(ratios):.3f} x the fastest in the geometric "
        f"mean, {ratios[0]:.3f} at least, and below 0.8 for {sum(ratio < 0.8 for ratio in ratios)}."
    )
    cells = []
    for (ratio, *keys), row in found[:worst]:
        names = (f"{name}, {split}" for name, split in keys)
        cells.append((str(Size(*row["size"])), row["type"], row["layout"], *names, significant(ratio)))
    columns = "<shape", "<type", "<layout", "<chosen, split-K", "<fastest, split-K", "x the fastest"
    return text, Table("The worst choices", columns, tuple(cells))


def main() -> int:
    """Measures, or judges a table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go, or are")
    parser.add_argument("--seed", type=int, default=1, help="of the products")
    parser.add_argument("--products", type=int, default=40, help="of each type")
    parser.add_argument("--judge", nargs="?", const="", metavar="TABLE", help="judge a table by the results")
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
        save(options.out, measured(this_machine(), {"seed": options.seed, "products": rows}))
    results = json.loads(options.out.read_text(encoding="utf-8"))
    machine = results["machine"]
    rates = tables.shipped().get(machine["gpu"]) if not options.judge else tables.read(Path(options.judge))
    if rates is None:
        print(f"the package has no table of {machine['gpu']}: name one", file=sys.stderr)
        return 1
    from rich.console import Console

    text, table = judge(results, rates, options.worst)
    Console(width=None if sys.stdout.isatty() else 160).print(table.rich())
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
