"""Compare ``a @ a.T``, whose result is symmetric, with ``a @ b.T``: ``python -m benchmarks.symmetric``.

For types such as ``hermitian-complex64``, compare ``gemm(a, a, adjoint_b=True)`` with ``gemm(a, b, adjoint_b=True)``.
Both run on the kernels that ``auto`` chooses. ``cupy.matmul(a, a.T)``, or ``cupy.matmul(a, a.conj().T)`` with the copy
that it needs, is timed in the same rounds. Times are those of the device. Needs a GPU; the exit status is 1 if a result
is wrong or not exactly symmetric or Hermitian.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.random_shapes import TYPES, Shape, is_right, operand_sets
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.elements import compute_element
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "symmetric.json"

#: Prefix of a type whose products are Hermitian.
HERMITIAN = "hermitian-"

MEASURED = (
    "float32", "float16", "bfloat16", "float64", "complex64", "int8", "int32", "hermitian-complex64",
    "hermitian-complex128",
)  # fmt: skip

#: Sizes of C and K.
SIZES = (
    (300, 300), (1000, 3000), (2048, 2048), (4096, 4096), (8192, 8192), (4096, 512), (2048, 65536), (4096, 16384)
)  # fmt: skip


def measure(dtype: str, n: int, k: int, layout: str, seconds: float) -> dict[str, Any]:
    """Check and time the products of one size, and return their row."""
    import cupy

    import tiledmm
    from tiledmm.bench.timing import DeviceClock
    from tiledmm.bench.timing import measure as timed

    print(f"{dtype} {n} x {n} x {k} {layout} ...", file=sys.stderr, flush=True)
    hermitian, element = dtype.startswith(HERMITIAN), dtype.removeprefix(HERMITIAN)
    sets = operand_sets(Shape(n, n, k, layout, 0), element)
    if dtype == "float16":  # sums of squares of normal numbers would overflow
        sets = [(a / 16, b, c) for a, b, c in sets]

    def ours(a: Any, b: Any, c: Any = None) -> Any:
        """Compute a @ b.T, or a @ b.conj().T, as this package does without a copy."""
        return tiledmm.gemm(a, b, adjoint_b=True, out=c) if hermitian else tiledmm.matmul(a, b.T, out=c)

    def cupys(a: Any, _: Any, c: Any) -> Any:
        return cupy.matmul(a, a.conj().T if hermitian else a.T, out=c)

    def product(i: int, function: Any, other: bool = False) -> Any:
        a, b, c = sets[i % len(sets)]
        return function(a, b.T if other else a, c)

    found = product(0, ours)
    row: dict[str, Any] = {"type": dtype, "n": n, "k": k, "layout": layout}
    row["kernel"] = str(_explained(sets[0][0], sets[0][0], hermitian).best)
    row["beside"] = str(_explained(sets[0][0], sets[0][1].T, hermitian).best)
    mirrored = found.T.conj() if hermitian else found.T
    on_one_side = ~cupy.eye(n, dtype=bool)  # the conjugate of 0 on the diagonal is -0
    bits, others = (x.copy().view(_bits(found)).reshape(n, n, -1) for x in (found, mirrored))
    row["exact"] = bool((bits == others)[on_one_side].all()) and not (hermitian and found.diagonal().imag.any())
    # The terms of the diagonal are all positive: in a long sum of them, tensor cores' truncation exceeds the tolerance
    # for random errors.
    least = sets[0][0][:, :4096]
    right = least.conj().T if hermitian else least.T
    row["ok"] = is_right(least, right, found if k <= 4096 else ours(least, least))
    rivals = {
        "symmetric": lambda i: product(i, ours),
        "any": lambda i: product(i, ours, other=True),
        "cupy": lambda i: product(i, cupys),
    }
    samples = timed(rivals, DeviceClock(), seconds=seconds)
    row |= {name: sample.seconds * 1e6 for name, sample in samples.items()}
    row["to_any"] = 1 / samples["symmetric"].speed_over(samples["any"])
    row["to_cupy"] = samples["symmetric"].speed_over(samples["cupy"])
    return row


def compile_kernels(dtype: str, sizes: list[tuple[int, ...]], layouts: list[str]) -> None:
    """Compile what the products of a type launch, several kernels at a time."""
    import cupy

    from tiledmm.compile.compilation import raw_kernels

    kernels = []
    for n, k in sizes:
        for layout in layouts:
            kind = compute_element(dtype.removeprefix(HERMITIAN)).dtype
            a, b = (cupy.empty((n, k) if layout == "NT" else (k, n), kind) for _ in range(2))
            a, b = (a, b) if layout == "NT" else (a.T, b.T)
            for right in (a, b):
                kernels += _explained(a, right, dtype.startswith(HERMITIAN)).best.kernels
    raw_kernels(list(dict.fromkeys(kernels)))


def _explained(a: Any, b: Any, hermitian: bool) -> Any:
    """Return the explanation of a @ b.T, or of a @ b.conj().T."""
    import tiledmm

    return tiledmm.explain(a, b, adjoint_b=True) if hermitian else tiledmm.explain(a, b.T)


def _bits(x: Any) -> str:
    """Return an integer type of the size of an array's elements, or of their parts, to compare bits."""
    return f"i{min(x.dtype.itemsize, 8)}"


def symmetric_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per product."""
    cells = tuple(
        (
            row["type"],
            f"{row['n']}",
            f"{row['k']}",
            row["layout"],
            significant(row["to_any"]),
            significant(row["to_cupy"]),
            row["kernel"].replace("tiledmm_", ""),
        )
        for row in rows
    )
    columns = ("<type", "M = N", "K", "<layout", "time / a @ b.T", "x cupy", "<runs")
    return Table("a @ a.T", columns, cells)


def summary_table(rows: list[dict[str, Any]]) -> Table:
    """Format the time relative to that of ``a @ b.T`` in layout NT: one row per size, one column per type."""
    found = {(row["n"], row["k"], row["type"]): row["to_any"] for row in rows if row["layout"] == "NT"}
    types = tuple(dict.fromkeys(row["type"] for row in rows))
    sizes = dict.fromkeys((row["n"], row["k"]) for row in rows)
    cells = tuple((f"{n}", f"{k}", *(significant(found[n, k, dtype]) for dtype in types)) for n, k in sizes)
    return Table("a @ a.T: time relative to a @ b.T", ("M = N", "K", *types), cells)


def main() -> int:
    """Measure all products, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", nargs="+", choices=(*TYPES, *MEASURED[-2:]), default=MEASURED)
    parser.add_argument("--sizes", nargs="+", help="sizes of C and K, such as 4096x512")
    parser.add_argument("--layouts", nargs="+", choices=("NT", "TN"), default=("NT",))
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.1, help="time for each rival and product")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    sizes = [tuple(map(int, each.split("x"))) for each in options.sizes or ()] or list(SIZES)
    rows: list[dict[str, Any]] = []
    for dtype in options.types:
        compile_kernels(dtype, sizes, options.layouts)
        rows += [measure(dtype, n, k, layout, options.seconds) for n, k in sizes for layout in options.layouts]
        save(options.out, measured(this_machine(), {"products": rows}))
    show(symmetric_table(rows))
    wrong = [row for row in rows if not (row["ok"] and row["exact"])]
    print(f"{len(wrong)} of {len(rows)} results are wrong, or not exactly symmetric or Hermitian")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
