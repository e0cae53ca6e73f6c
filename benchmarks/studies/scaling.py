"""Predict products on more GPUs than were measured: ``python -m benchmarks.studies.scaling``. Needs no GPU.

The constants of a model of the collective product are fitted to what ``benchmarks.distributed`` measured on a few GPUs:
the times of products and of broadcasts of panels, and the time that simultaneous broadcasts add to products. The
model is first compared with measured times, then used to predict other grids.

E. Solomonik, J. Demmel, "Communication-Optimal Parallel 2.5D Matrix Multiplication and LU Factorization", 2011.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.distributed import BLOCKS, COLLECTIVE, ONE, RESULTS
from tiledmm.distributed.grid import Layout, choose_layout
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

#: Bytes per second between a GPU and other hosts: a host of eight GPUs has a 400 Gbit/s port for each, by data sheet.
NETWORK = 50e9

#: Grids and sizes that are predicted: GPUs, whether they are of several hosts, and m = n = k.
PREDICTED = (
    (8, False, (16384, 32768, 65536, 131072)),
    (1000, True, (65536, 262144, 1048576)),
)

#: Numbers of layers to try: each layer of ranks multiplies a part of k, and their sums are added.
REPLICATIONS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Constants:
    """Measured rates of a GPU, of its links and of Dask.

    Attributes:
        rate: FLOP/s of products of panels.
        sums: Seconds per byte of C for reading and writing it in each of them.
        link: Bytes per second that a rank receives from broadcasts.
        latency: Seconds per step and per rank that a panel passes, independent of its bytes.
        exposed: Seconds that broadcasts add to products, as a fraction of the broadcasts' own time.
        dask: Seconds that Dask adds to the collective product, apart from ``dask_rank``.
        dask_rank: Seconds that Dask adds per rank.
    """

    rate: float
    sums: float
    link: float
    latency: float
    exposed: float
    dask: float
    dask_rank: float


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the busiest rank, for a layout and a panel width.

    Attributes:
        flops: Floating-point operations of its products.
        added: Bytes of C that all its products read and write.
        received: Bytes received from broadcasts.
        passed: Number of ranks that panels pass, summed over all steps.
        summed: Bytes received to add up the layers' sums.
    """

    flops: float
    added: float
    received: float
    passed: int
    summed: float = 0.0


def work_of(layout: Layout, itemsize: int, width: int, replication: int = 1) -> Work:
    """Return a rank's work in one of ``replication`` layers; C is in float32 for elements of 2 bytes."""
    (p_r, p_c), steps = layout.grid, layout.steps(width)
    m, n, k = max(layout.rows), max(layout.columns), sum(layout.a_depths)
    begin, end = min(map(layout.own, range(layout.size)), key=lambda own: own[1] - own[0])
    products = sum(not begin <= panel.begin < end for step in steps for panel in step) + (end > begin)
    c = m * n * max(itemsize, 4)
    received = itemsize * k * (m * (p_c - 1) / p_c + n * (p_r - 1) / p_r)
    summed = c * (replication - 1) / replication
    return Work(2.0 * m * n * k, c * products, received, len(steps) * (p_r + p_c - 2), summed)


def fitted(row: Mapping[str, Any], dask_rank: float) -> Constants:
    """Fit the constants to a measured row: products and broadcasts with two panel widths, and the whole product."""
    layout = _layout(row["size"], row["workers"])
    itemsize = {"float32": 4, "float16": 2}[row["dtype"]]
    wide, narrow = row["parts"]
    one, other = (work_of(layout, itemsize, each["width"]) for each in (wide, narrow))
    sums = max(0.0, (narrow["products"] - wide["products"]) / (other.added - one.added))
    latency = max(0.0, (narrow["broadcasts"] - wide["broadcasts"]) / (other.passed - one.passed))
    rate = one.flops / (wide["products"] - sums * one.added)
    link = one.received / (wide["broadcasts"] - latency * one.passed)
    seconds = row["seconds"]
    exposed = max(0.0, (seconds[COLLECTIVE] - wide["products"]) / wide["broadcasts"])
    dask = max(0.0, seconds[BLOCKS] - seconds[COLLECTIVE] - dask_rank * row["workers"])
    return Constants(rate, sums, link, latency, exposed, dask, dask_rank)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted times of a product, in seconds.

    Attributes:
        products, broadcasts, sums: Seconds of the products, of the broadcasts, and of adding up the layers.
        dask: Seconds that Dask adds.
        exposed: Fraction of the broadcasts' time that adds to the products' time.
    """

    products: float
    broadcasts: float
    sums: float
    dask: float
    exposed: float

    @property
    def collective(self) -> float:
        """Seconds without Dask."""
        return max(self.products + self.exposed * self.broadcasts, self.broadcasts) + self.sums

    @property
    def seconds(self) -> float:
        """Seconds of the whole product."""
        return self.collective + self.dask

    @property
    def bound(self) -> str:
        """Name of the part that takes longest."""
        parts = {
            "products": self.products,
            "broadcasts": self.broadcasts,
            "adding layers": self.sums,
            "Dask": self.dask,
        }
        return max(parts, key=parts.__getitem__)


def predicted(
    constants: Constants, size: int, ranks: int, itemsize: int = 4, replication: int = 1, link: float | None = None
) -> Prediction | None:
    """Predict a square product on ranks in layers; ``link`` is in bytes per second. None if ranks do not divide."""
    if ranks % replication or size // replication < 1:
        return None
    layout = choose_layout(
        size, size, size // replication, ranks // replication, ((size,), (size,)), ((size,), (size,))
    )
    if layout is None:
        return None
    work = work_of(layout, itemsize, layout.panel_width(), replication)
    link = link or constants.link
    return Prediction(
        work.flops / constants.rate + work.added * constants.sums,
        work.received / link + work.passed * constants.latency,
        work.summed / link,
        constants.dask + ranks * constants.dask_rank,
        constants.exposed,
    )


def _layout(size: int, ranks: int) -> Layout:
    layout = choose_layout(size, size, size, ranks, ((size,), (size,)), ((size,), (size,)))
    assert layout is not None
    return layout


def constants_table(constants: Constants) -> Table:
    """Format the constants."""
    rows = (
        ("products of panels", f"{significant(constants.rate / 1e12)} TFLOP/s"),
        ("reading and writing C", f"{significant(1e-9 / constants.sums) if constants.sums else '-'} GB/s"),
        ("broadcasts, into a rank", f"{significant(constants.link / 1e9)} GB/s"),
        ("latency per step and per rank passed", f"{significant(constants.latency * 1e6)} us"),
        ("exposed: share of the broadcasts' time that is added", f"{100 * constants.exposed:.0f}%"),
        ("Dask", f"{significant(constants.dask * 1e3)} ms, and {significant(constants.dask_rank * 1e3)} ms per rank"),
    )
    return Table("", ("<constant", "measured"), rows)


def measured_table(constants: Constants, rows: list[Mapping[str, Any]]) -> Table:
    """Format the measured times with the model's, which is fitted to one of the rows."""
    cells = []
    for row in rows:
        found = predicted(constants, row["size"], row["workers"])
        assert found is not None
        seconds = row["seconds"]
        times = (seconds[ONE], seconds[COLLECTIVE], found.collective, seconds[BLOCKS], found.seconds)
        cells.append((f"{row['size']}", f"{row['workers']}", *(significant(1e3 * each) for each in times)))
    columns = (
        "m = n = k", "GPUs", "one GPU (ms)", "collective (ms)", "collective, predicted (ms)", "through Dask (ms)",
        "through Dask, predicted (ms)",
    )  # fmt: skip
    return Table("", columns, tuple(cells))


def predictions_table(constants: Constants, one: float) -> Table:
    """Format predictions for larger grids; ``one`` is the rate of one GPU in FLOP/s."""
    cells = []
    for ranks, on_hosts, sizes in PREDICTED:
        for size in sizes:
            link = NETWORK if on_hosts else None
            tried = {each: predicted(constants, size, ranks, replication=each, link=link) for each in REPLICATIONS}
            found = {each: prediction for each, prediction in tried.items() if prediction}
            best = min(found, key=lambda each: found[each].seconds)
            rows = {1: found[1], best: found[best]}
            for replication, each in rows.items():
                ideal = 2 * size**3 / (ranks * one)
                grid = "x".join(map(str, _layout(size, ranks // replication).grid))
                memory = 3 * size * size * 4 / ranks * (replication + 2) / 3
                cells.append(
                    (
                        f"{ranks}",
                        f"{size}",
                        f"{grid} x {replication}",
                        significant(memory / 1e9),
                        significant(each.products),
                        significant(each.broadcasts),
                        significant(each.sums),
                        significant(each.dask),
                        significant(each.seconds),
                        f"{100 * ideal / each.seconds:.0f}%",
                        each.bound,
                    )
                )
    columns = (
        "GPUs", "m = n = k", "grid x layers", "blocks (GB)", "products (s)", "broadcasts (s)", "adding layers (s)",
        "Dask (s)", "in all (s)", "of ideal speed", "<bottleneck",
    )  # fmt: skip
    return Table("", columns, tuple(cells))


#: Names of the tables.
TABLES = ("constants", "measured", "predictions")


def scaling_tables(results: Mapping[str, Any]) -> dict[str, Table]:
    """Return all tables of a run of ``benchmarks.distributed``, with constants from its largest float32 product."""
    rows = [row for row in results["rows"] if row["dtype"] == "float32" and "parts" in row]
    last = max(rows, key=lambda row: row["size"])
    constants = fitted(last, results["dask_rank"])
    one = 2 * last["size"] ** 3 / last["seconds"][ONE]
    tables = constants_table(constants), measured_table(constants, rows), predictions_table(constants, one)
    return dict(zip(TABLES, tables, strict=True))


def main() -> int:
    """Print the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="of benchmarks.distributed")
    options = parser.parse_args()
    if not options.results.exists():
        print(f"{options.results} is not there: python -m benchmarks.distributed measures it", file=sys.stderr)
        return 1
    for table in scaling_tables(json.loads(options.results.read_text(encoding="utf-8"))).values():
        print(table.markdown(title=False), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
