"""Keep and use the timings to which a shipped table of rates was fitted, in ``results/timings-GPU.json``.

    python -m benchmarks.timings --begin   # on a GPU: tiledmm calibrate continues from the kept timings
    tiledmm calibrate
    python -m benchmarks.timings --keep    # keeps its timings and ships its table

After a change of the cost model or of the fit, fit a shipped table again, without a GPU:

    python -m benchmarks.timings --refit nvidia-h100-80gb-hbm3

Show how much slower the kernels that a table chooses are than the fastest of the timed kernels:

    python -m benchmarks.timings --regret nvidia-h100-80gb-hbm3
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.support.command import show
from benchmarks.support.results import FOLDER
from tiledmm.cli import missing_gpu
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table
from tiledmm.selection import rates as tables
from tiledmm.selection.cost import Cost
from tiledmm.tuning import calibrate as calibration
from tiledmm.tuning.fit import fit


def kept(stem: str) -> Path:
    """Return the path of the kept timings, by the name of a shipped table."""
    return FOLDER / f"timings-{stem}.json"


def refitted(shipped: tables.Rates, timings: dict[str, Any]) -> tables.Rates:
    """Fit a shipped table to its timings again, and keep its records of when and with what they were measured."""
    known = timings["known"]
    rows = [row for row in calibration.kernels_of(shipped) if calibration.name_of(row) in known]
    found = fit(shipped.gpu, tables.DeviceRates(**known["device"]), calibration.timed(rows, known))
    hashed = tuple(replace(row, kernel=known[calibration.name_of(row)]["text"]) for row in found.rows)
    return replace(shipped, device=found.device, rows=hashed)


@dataclass(frozen=True, slots=True)
class Regret:
    """A product that was timed with several kernels.

    Attributes:
        product: Its type, m, n, k, number of products, and layout.
        chosen, fastest: Kernels predicted and measured to be fastest: variant, tile, split-K factor.
        expected: Predicted microseconds of the chosen kernel.
        took, least: Measured microseconds of the chosen and of the fastest kernel.
    """

    product: tuple[Any, ...]
    chosen: tuple[str, int, int]
    fastest: tuple[str, int, int]
    expected: float
    took: float
    least: float

    @property
    def ratio(self) -> float:
        """Time of the chosen kernel divided by that of the fastest."""
        return self.took / self.least


def regrets(table: tables.Rates, timings: dict[str, Any]) -> list[Regret]:
    """Return what a table would choose among the timed kernels, per product with two or more, worst first."""
    cost, products = Cost(table.gpu, table), defaultdict(list)
    for kernel in calibration.timed(table.rows, timings["known"]):
        row = kernel.row
        for each in kernel.timings:
            problem = each.product.problem
            product = row.type, problem.m, problem.n, problem.k, problem.products, problem.layout
            timed = each.expected(cost, row), each.microseconds, (row.variant, row.tile, each.split)
            products[product].append(timed)
    found = []
    for product, times in products.items():
        if len(times) > 1:
            expected, took, chosen = min(times)
            _, least, fastest = min(times, key=lambda each: each[1])
            found.append(Regret(product, chosen, fastest, expected, took, least))
    return sorted(found, key=lambda each: -each.ratio)


def regret_table(found: Sequence[Regret], worst: int = 10) -> Table:
    """Format the worst choices, and the geometric mean of all ratios."""
    mean = math.exp(sum(math.log(each.ratio) for each in found) / len(found))
    cells = [
        (
            " x ".join(map(str, each.product[1:4])),
            *map(str, (each.product[4], each.product[0], each.product[5])),
            *(
                f"{variant} {tile}" + f", split-K {split}" * (split > 1)
                for variant, tile, split in (each.chosen, each.fastest)
            ),
            *map(significant, (each.expected, each.took, each.least, each.ratio)),
        )
        for each in found[:worst]
    ]
    columns = (
        "<m x n x k", "products", "<type", "<layout", "<chosen", "<fastest",
        "expected (us)", "took (us)", "fastest (us)", "ratio",
    )  # fmt: skip
    title = f"{len(found)} products: chosen kernels take {mean:.4f} times as long as the fastest (geometric mean)"
    return Table(title, columns, tuple(cells))


def _compact(timings: dict[str, Any]) -> str:
    """Return JSON with one kernel per line and times of four digits."""
    lines = []
    for name, found in timings["known"].items():
        cases = [(case, time and float(f"{time:.4g}")) for case, time in found.get("cases", ())]
        text = json.dumps(found | ({"cases": cases} if cases else {}), separators=(",", ":"))
        lines.append(f"{json.dumps(name)}: {text}")
    head = json.dumps({name: value for name, value in timings.items() if name != "known"})
    return f'{head[:-1]}, "known": {{\n' + ",\n".join(lines) + "\n}}\n"


def main(arguments: list[str] | None = None) -> int:
    """Perform the selected action; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--begin", action="store_true", help="copy kept timings to where tiledmm calibrate keeps its own"
    )
    action.add_argument("--keep", action="store_true", help="keep those of tiledmm calibrate, and ship its table")
    action.add_argument("--refit", metavar="TABLE", help="fit a shipped table to its timings again")
    action.add_argument("--regret", metavar="TABLE", help="how good the choices of a shipped table are")
    options = parser.parse_args(arguments)
    if options.regret:
        table = tables.read(tables.shipped_path(options.regret))
        timings = json.loads(kept(options.regret).read_text(encoding="utf-8"))
        show(regret_table(regrets(table, timings)), width=180)
        return 0
    if options.refit:
        path = tables.shipped_path(options.refit)
        timings = json.loads(kept(options.refit).read_text(encoding="utf-8"))
        tables.write(path, refitted(tables.read(path), timings))
        print(path)
        return 0
    if reason := missing_gpu():
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    from tiledmm.launch.devices import device_model

    own = tables.own_path(device_model().gpu.name)
    timings_path = own.with_suffix(".timings.json")
    if options.begin:
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept(own.stem), timings_path)
        print(timings_path)
        return 0
    kept(own.stem).write_text(_compact(json.loads(timings_path.read_text(encoding="utf-8"))), encoding="utf-8")
    shutil.copyfile(own, tables.shipped_path(own.stem))
    print(kept(own.stem), tables.shipped_path(own.stem), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
