"""Compare products with and without a prepared operand: ``python -m benchmarks.prepared``.

Each row is a product by ``auto`` whose larger operand is prepared or not: weights of a layer on the right, with few and
many rows of x, and the matrix of an iterative solver on the left. Two solvers are timed as a whole: a power iteration,
and conjugate gradients with several right-hand sides. Times are those on the device alone, with sets of operands that
exceed L2 in turn, and those of calls in a loop. The time of preparing is that of ``tiledmm.prepare`` for this product.
Needs a GPU; the exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.random_shapes import Shape, is_right, operand_sets
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.report.cells import NONE, count, significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "prepared.json"

#: Products whose right operand is prepared, and those whose left operand is. The float16 product is read in place.
RIGHT = (
    ("float32", Shape(4096, 4096, 4096, "NN", 0)), ("float32", Shape(512, 4096, 4096, "NT", 0)),
    ("float32", Shape(64, 4096, 4096, "NN", 0)), ("float32", Shape(64, 4096, 4096, "NT", 0)),
    ("float32", Shape(1, 4096, 4096, "NT", 0)), ("float32", Shape(512, 512, 512, "NN", 32)),
    ("complex64", Shape(4096, 4096, 4096, "NN", 0)), ("complex64", Shape(64, 4096, 4096, "NN", 0)),
    ("float64", Shape(4096, 4096, 4096, "NN", 0)), ("float64", Shape(512, 4096, 4096, "NN", 0)),
    ("float64", Shape(64, 4096, 4096, "NN", 0)),
    ("int32", Shape(64, 4096, 4096, "NN", 0)), ("int8", Shape(64, 4096, 4096, "NN", 0)),
    ("float16", Shape(64, 4096, 4096, "NN", 0)),
)  # fmt: skip
LEFT = (
    ("float32", Shape(4096, 64, 4096, "NN", 0)), ("float32", Shape(4096, 16, 4096, "NN", 0)),
    ("float64", Shape(4096, 64, 4096, "NN", 0)), ("float64", Shape(4096, 512, 4096, "NN", 0)),
)  # fmt: skip

#: Solvers' types, sizes of the matrix, and numbers of columns.
SOLVED = (("float32", 4096, 64), ("float32", 4096, 512), ("float64", 4096, 512))

# Iterations of each solver.
_STEPS = 20

_CHECKED_COLUMNS = 256


def power_iteration(multiply: Callable[[Any], Any], x: Any, steps: int = _STEPS) -> Any:
    """Return vectors after some steps of a power iteration, each column scaled to norm 1.

    Args:
        multiply: Function that multiplies a matrix with the columns of an array.
        x: The first vectors, as columns.
        steps: Number of steps.
    """
    for _ in range(steps):
        y = multiply(x)
        x = y / abs(y).max(axis=0)
    return x


def conjugate_gradients(multiply: Callable[[Any], Any], b: Any, steps: int = _STEPS) -> Any:
    """Return the solution of A x = b after some steps of conjugate gradients, for each column of b.

    Args:
        multiply: Function that multiplies A, symmetric and positive definite, with the columns of an array.
        b: Right-hand sides, as columns.
        steps: Number of steps.
    """
    x, rest = b * 0, b
    direction, square = rest, (rest * rest).sum(axis=0)
    for _ in range(steps):
        product = multiply(direction)
        step = square / (direction * product).sum(axis=0)
        x, rest = x + step * direction, rest - step * product
        before, square = square, (rest * rest).sum(axis=0)
        direction = rest + square / before * direction
    return x


def measure(dtype: str, shape: Shape, *, is_left: bool, seconds: float) -> dict[str, Any]:
    """Check a product with a prepared operand, time it with and without, and return a row with microseconds."""
    import cupy

    import tiledmm
    from tiledmm.bench import timing

    cupy.get_default_memory_pool().free_all_blocks()
    sets = operand_sets(shape, dtype)
    other = {"right": sets[0][1].shape} if is_left else {"left": sets[0][0].shape}

    def prepared(i: int) -> Any:
        return tiledmm.prepare(sets[i % len(sets)][not is_left], **other)

    operands = [prepared(i) for i in range(len(sets))]

    def plain(i: int) -> None:
        a, b, c = sets[i % len(sets)]
        tiledmm.matmul(a, b, out=c)

    def reusing(i: int) -> None:
        a, b, c = sets[i % len(sets)]
        operand = operands[i % len(sets)]
        tiledmm.matmul(*((operand, b) if is_left else (a, operand)), out=c)

    a, b, c = sets[0]
    both = (operands[0], b) if is_left else (a, operands[0])
    row: dict[str, Any] = {"type": dtype, "prepared": "left" if is_left else "right", **asdict(shape)}
    row["kernel"], row["kernel_prepared"] = (str(tiledmm.explain(*x).best) for x in ((a, b), both))
    ok = []
    for call in (plain, reusing, reusing):
        c.view(cupy.uint8)[...] = 0xFF  # NaN
        call(0)
        ok.append(is_right(a, b, c, columns=_CHECKED_COLUMNS))
    row |= {"ok": all(ok), "held_bytes": operands[0].held_bytes}
    rivals = {"plain": plain, "prepared": reusing}
    clocks: dict[str, timing.Clock] = {"us": timing.DeviceClock(), "loop_us": timing.HostClock()}
    for name, clock in clocks.items():
        samples = timing.measure(rivals, clock, seconds=seconds)
        row[name] = {rival: each.seconds * 1e6 for rival, each in samples.items()}
    made = timing.measure({"prepare": prepared}, clocks["us"], seconds=seconds)
    return row | {"prepare_us": made["prepare"].seconds * 1e6}


def solve(dtype: str, size: int, columns: int, seconds: float) -> list[dict[str, Any]]:
    """Time both solvers with and without a prepared matrix, and return a row with microseconds per step for each."""
    import cupy

    import tiledmm
    from tiledmm.bench import timing

    rng = cupy.random.default_rng(size)
    half = rng.standard_normal((size, size), dtype=cupy.dtype(dtype)) / size**0.5
    a = tiledmm.matmul(half, half.T) + cupy.eye(size, dtype=dtype)
    b = rng.standard_normal((size, columns), dtype=cupy.dtype(dtype))
    operand = tiledmm.prepare(a, right=b.shape)
    rows = []
    for name, solver in (("power iteration", power_iteration), ("conjugate gradients", conjugate_gradients)):
        calls: dict[str, Callable[[int], Any]] = {
            "plain": lambda i, solver=solver: solver(lambda x: tiledmm.matmul(a, x), b),  # type: ignore[misc]
            "prepared": lambda i, solver=solver: solver(lambda x: tiledmm.matmul(operand, x), b),  # type: ignore[misc]
        }
        first, second = (call(0).astype("f8") for call in calls.values())
        if solver is conjugate_gradients:
            wanted = tiledmm.matmul(a.astype("f8"), second, variant="cublas")
            error = float(abs(wanted - b).max() / abs(b).max())
        else:
            error = float(abs(first - second).max())
        samples = timing.measure(calls, timing.HostClock(), seconds=seconds)
        times = {rival: each.seconds * 1e6 / _STEPS for rival, each in samples.items()}
        ok = error <= (1e-3 if dtype == "float32" else 1e-6)
        rows.append({"solver": name, "type": dtype, "n": size, "columns": columns, "ok": ok, "us": times})
    return rows


def prepared_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per product: its times with and without preparation, and after how many products it pays off."""
    cells = []
    for row in rows:
        times, loop = row["us"], row["loop_us"]
        shape = Shape(*(row[name] for name in Shape.__dataclass_fields__))
        saved = times["plain"] - times["prepared"]
        cells.append(
            (
                f"{shape} {shape.layout}",
                row["type"],
                row["prepared"],
                significant(times["plain"]),
                significant(times["prepared"]),
                significant(times["plain"] / times["prepared"]),
                significant(loop["plain"] / loop["prepared"]),
                significant(row["held_bytes"] / 1e6),
                count(-int(-row["prepare_us"] // saved)) if row["held_bytes"] and saved > 0 else NONE,
            )
        )
    columns = (
        "<product", "<type", "<prepared", "without (us)", "prepared (us)", "x without", "in a loop: x without",
        "forms (MB)", "pays off after",
    )  # fmt: skip
    return Table("Products with a prepared operand", columns, tuple(cells))


def solvers_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per solver: its time per step with and without preparation."""
    cells = [
        (
            row["solver"], row["type"], f"{row['n']} x {row['n']}", f"{row['columns']}",
            significant(row["us"]["plain"]), significant(row["us"]["prepared"]),
            significant(row["us"]["plain"] / row["us"]["prepared"]),
        )
        for row in rows
    ]  # fmt: skip
    columns = ("<solver", "<type", "<matrix", "columns", "without (us per step)", "prepared", "x without")
    return Table("Solvers with a prepared matrix", columns, tuple(cells))


def main() -> int:
    """Measure all products and solvers, print the tables and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.1, help="time for each rival")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows: list[dict[str, Any]] = []
    for products, is_left in ((RIGHT, False), (LEFT, True)):
        for dtype, shape in products:
            print(f"{dtype} {shape} {shape.layout} ...", file=sys.stderr, flush=True)
            rows.append(measure(dtype, shape, is_left=is_left, seconds=options.seconds))
    solvers = [row for each in SOLVED for row in solve(*each, options.seconds)]
    save(options.out, measured(this_machine(), {"rows": rows, "solvers": solvers}))
    show(prepared_table(rows), solvers_table(solvers))
    wrong = [row for row in (*rows, *solvers) if not row["ok"]]
    print(f"{len(wrong)} of {len(rows) + len(solvers)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
