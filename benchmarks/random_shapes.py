"""Compare ``auto`` with ``cupy.matmul`` on random products: ``python -m benchmarks.random_shapes``.

Sizes are log-uniform, three in ten products are batches, all four layouts occur, and each run draws new seeds unless
some are given, so that nothing can be tuned to these products. Each has two times, as in ``benchmarks.shapes``: per
call in a loop of calls, and on the device alone. The latter is shown with the time that the cost model predicted.
Needs a GPU; the exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import random
import secrets
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.beside_cupy import beside_cupy, set_count
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.elements import compute_element
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table
from tiledmm.tuning.cases import Case, product_of

RESULTS = FOLDER / "random_shapes.json"

TYPES = ("float32", "float64", "complex64", "complex128", "float16", "bfloat16", "int32", "int8")

#: Limits of random products: log2 of sides and of batches, fraction of batches, multiplications, elements.
SIDES, BATCHES, BATCHED, MULTIPLICATIONS, ELEMENTS = 14, 10, 0.3, (2**12, 2**36), 2**28

#: Number of new seeds per run.
SEEDS = 3

# CuPy has no batches of products of these types.
_NO_BATCHES = ("bfloat16",)

_CHECKED_ROWS = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """A product (m, k) @ (k, n), the layouts of A and B, and the batch size (0 for no batch dimension)."""

    m: int
    n: int
    k: int
    layout: str
    batch: int

    def __str__(self) -> str:
        times = f"{self.batch} x " if self.batch else ""
        return f"{times}({self.m}, {self.k}) @ ({self.k}, {self.n})"

    @property
    def case(self) -> Case:
        """The same product, described as in the cost model's calibration."""
        return Case(max(self.batch, 1), self.m, self.n, self.k, self.layout)


def drawn(dtype: str, count: int, seed: int) -> list[Shape]:
    """Draw random products of a type, with a size that a GPU computes in reasonable time."""
    generator, found = random.Random(f"{seed} {dtype}"), list[Shape]()
    while len(found) < count:
        m, n, k = (int(2 ** generator.uniform(0, SIDES)) for _ in range(3))
        batch = int(2 ** generator.uniform(0, BATCHES)) if generator.random() < BATCHED else 0
        if batch and dtype in _NO_BATCHES:
            continue
        layout, products = generator.choice(("NN", "NT", "TN", "TT")), max(batch, 1)
        multiplications, elements = products * m * n * k, products * (m * k + k * n + m * n)
        if MULTIPLICATIONS[0] <= multiplications <= MULTIPLICATIONS[1] and elements <= ELEMENTS:
            found.append(Shape(m, n, k, layout, batch))
    return found


def operand_sets(shape: Shape, dtype: str) -> list[tuple[Any, Any, Any]]:
    """Return sets of A, B and C with random data, enough of them to fill twice the L2 cache."""
    import cupy

    kind, products = compute_element(dtype).dtype, max(shape.batch, 1)
    rng = cupy.random.default_rng(shape.m + shape.n + shape.k)

    def operand(rows: int, cols: int, letter: str) -> Any:
        size = (products, rows, cols) if letter == "N" else (products, cols, rows)
        if kind.kind in "iu":
            x = rng.integers(-100, 100, size, dtype=cupy.int32).astype(kind)
        elif kind.kind == "c":
            x = (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(kind)
        else:
            x = rng.standard_normal(size, dtype=cupy.float64 if dtype == "float64" else cupy.float32).astype(kind)
        x = x if letter == "N" else x.swapaxes(-1, -2)
        return x if shape.batch else x[0]

    m, n, k = shape.m, shape.n, shape.k
    moved = kind.itemsize * products * (m * k + k * n + m * n)
    size = (shape.batch, m, n)[not shape.batch :]
    return [
        (operand(m, k, shape.layout[0]), operand(k, n, shape.layout[1]), cupy.empty(size, kind))
        for _ in range(set_count(moved))
    ]


def is_right(a: Any, b: Any, c: Any, columns: int | None = None) -> bool:
    """Check some rows of a product, or of the first and last product of a batch, against the reference.

    Args:
        a, b, c: The operands and the result.
        columns: Maximum number of columns that are checked; None for all.
    """
    from tiledmm.bench import reference

    if c.ndim == 3:
        return all(is_right(a[i], b[i], c[i], columns) for i in (0, -1))
    down, across = -(-c.shape[0] // _CHECKED_ROWS), 1 if columns is None else -(-c.shape[1] // columns)
    return reference.judge(c[::down, ::across], reference.reference(a[::down], b[:, ::across])).ok


def measure(dtype: str, shapes: list[Shape], seconds: float) -> list[dict[str, Any]]:
    """Check and time products of one type, and return one row per product."""
    import cupy

    import tiledmm
    from tiledmm.compile.compilation import raw_kernels
    from tiledmm.launch.devices import device_model

    best = [next(iter(device_model().rank(product_of(shape.case, dtype)))) for shape in shapes]
    raw_kernels([kernel for choice in best for kernel in choice.kernels])
    rows = []
    for shape in shapes:
        print(f"{dtype} {shape} {shape.layout} ...", file=sys.stderr, flush=True)
        sets = operand_sets(shape, dtype)

        explained = tiledmm.explain(*sets[0][:2])
        row: dict[str, Any] = {"type": dtype, **asdict(shape), "kernel": str(explained.choices[0])}
        row["expected"] = explained.expected_us
        sets[0][2].view(cupy.uint8)[...] = 0xFF  # NaN, and no right integer but by chance
        tiledmm.matmul(*sets[0][:2], out=sets[0][2])
        row["ok"] = is_right(*sets[0])
        row |= beside_cupy(sets, seconds)
        rows.append(row)
    return rows


def summary_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per type: speed relative to ``cupy.matmul``, and the errors of the cost model's predictions."""
    cells = []
    for dtype in dict.fromkeys(row["type"] for row in rows):
        of_type = [row for row in rows if row["type"] == dtype]
        figures = [dtype, f"{len(of_type)}"]
        for clock in ("loop", "device"):
            ratios = [row[clock]["ratio"] for row in of_type]
            low = sum(ratio < 0.97 for ratio in ratios)
            figures += [significant(statistics.geometric_mean(ratios)), significant(min(ratios)), f"{low}"]
        errors = [row["device"]["auto"] / row["expected"] for row in of_type if row["expected"]]
        figures += [significant(statistics.median(errors)), significant(max(errors))] if errors else ["", ""]
        cells.append(tuple(figures))
    columns = (
        "<type", "products", "call: x cupy", "lowest", "below 0.97", "device: x cupy", "lowest", "below 0.97",
        "measured / expected, median", "highest",
    )  # fmt: skip
    return Table("auto and cupy.matmul on random products", columns, tuple(cells))


def worst_table(rows: list[dict[str, Any]], count: int = 10) -> Table:
    """Format the products, of all types, on which ``auto`` is slowest relative to ``cupy.matmul`` on the device."""
    cells = [
        (
            str(Shape(*(row[name] for name in Shape.__dataclass_fields__))),
            row["type"],
            row["layout"],
            significant(row["loop"]["ratio"]),
            significant(row["device"]["auto"]),
            significant(row["expected"]) if row["expected"] else "",
            significant(row["device"]["ratio"]),
            row["kernel"].replace("tiledmm_", ""),
        )
        for row in sorted(rows, key=lambda row: float(row["device"]["ratio"]))[:count]
    ]
    columns = (
        "<shape", "<type", "<layout", "call: x cupy", "device (us)", "expected (us)", "device: x cupy", "<runs",
    )  # fmt: skip
    return Table("The worst", columns, tuple(cells))


def in_words(seeds: list[int]) -> str:
    """Format seeds for a sentence, such as ``"seeds 1, 2"``."""
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def main() -> int:
    """Measure all types, print the tables and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", help=f"one or more, of the products (default: {SEEDS} new ones)")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=TYPES)
    parser.add_argument("--count", type=int, default=40, help="products of each type and seed")
    parser.add_argument("--worst", type=int, default=10, help="products to show")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.015, help="time for each rival, product and clock")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    seeds = options.seed or [secrets.randbelow(10**6) for _ in range(SEEDS)]
    rows: list[dict[str, Any]] = []
    for dtype in options.types:
        shapes = [shape for seed in seeds for shape in drawn(dtype, options.count, seed)]
        rows += measure(dtype, shapes, options.seconds)
        # Written type by type: a run that is cut off leaves what it has measured.
        save(options.out, measured(this_machine(), {"seeds": seeds, "products": rows}))
    show(summary_table(rows), worst_table(rows, options.worst))
    wrong = [row for row in rows if not row["ok"]]
    print(f"{in_words(seeds)}; {len(wrong)} of {len(rows)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
