"""Measure what limits the tensor-core kernels, by Nsight Compute: ``python -m benchmarks.studies.tensor_pipes``.

Profiles one product of each kind, 4096 x 4096 x 4096, by this package and by ``cupy.matmul``: the fraction of an SM's
cycles in which its tensor cores work and in which a scheduler issues, and the bytes read from the L2 cache and from
memory. Needs a GPU, ``ncu`` on PATH and permission to read its counters.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.support import nsight
from benchmarks.support.command import show
from benchmarks.support.results import FOLDER
from tiledmm.bench.sizes import Size
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "tensor_pipes.json"
SIZE = 4096

#: Variant, computation type and layout. ``cublas`` stands beside those that it runs on tensor cores.
CASES = (
    ("tensor_core", "float64", "NN"),
    ("cublas", "float64", "NN"),
    ("tensor_core", "complex128", "NN"),
    ("cublas", "complex128", "NN"),
    ("tensor_core", "float16", "NN"),
    ("tensor_core", "int8", "NT"),
    ("wgmma", "bfloat16", "NN"),
    ("cublas", "bfloat16", "NN"),
    ("wgmma", "tf32", "NN"),
    ("wgmma", "tf32", "NT"),
    ("cublas", "tf32", "NN"),
    ("wgmma", "int8", "NT"),
    ("split_float32", "float32", "NN"),
    ("split_float32", "float32", "TN"),
    ("split_float32", "complex64", "NN"),
    ("split_tensor_core", "float32", "NN"),
    ("split_integer", "int32", "NN"),
    ("split_integer", "int64", "NN"),
)

#: The kernels, as ``benchmarks.support.kernels`` names them.
NAMES = {f"{variant} {dtype}" for variant, dtype, _ in CASES if variant != "cublas"}

METRICS = {
    "cycles": "sm__cycles_active.sum",
    "tensor": "sm__pipe_tensor_cycles_active.sum",
    "issued": "smsp__issue_active.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "read_sectors": "dram__sectors_read.sum",
    "written_sectors": "dram__sectors_write.sum",
}

_SECTOR = 32


def launch_all() -> None:
    """Run every product once, for the profiler to watch."""
    import cupy

    import tiledmm
    from tiledmm.bench.comparison import cupy_takes
    from tiledmm.bench.operand_sets import operand_sets
    from tiledmm.elements import compute_element
    from tiledmm.problem.call import precision_of

    for variant, dtype, layout in CASES:
        kind = compute_element(dtype)
        a, b, c = operand_sets(Size(SIZE, SIZE, SIZE), dtype, layout)[0]
        with cupy_takes(kind):
            tiledmm.matmul(a, b, out=c, variant=variant, precision=precision_of(kind))
        cupy.cuda.runtime.deviceSynchronize()


def pipes_table(counted: Sequence[dict[str, Any]]) -> Table:
    """Format one row per kernel."""
    cells = []
    for row in counted:
        count = {name: int(row[name]) for name in METRICS}
        cells.append(
            (
                str(row["symbol"]),
                significant(count["tensor"] / 4 / count["cycles"]),  # each SM has four
                significant(count["issued"] / 4 / count["cycles"]),
                significant(count["l2_sectors"] * _SECTOR / count["cycles"]),
                significant(count["read_sectors"] * _SECTOR / 1e6),
                significant(count["written_sectors"] * _SECTOR / 1e6),
            )
        )
    headings = (
        "<kernel", "tensor cores busy", "issue slots used", "L2, bytes per cycle per SM", "read (MB)", "written (MB)",
    )  # fmt: skip
    return Table(f"Tensor cores, {SIZE} x {SIZE} x {SIZE}", headings, tuple(cells))


def of_variant(counted: Sequence[dict[str, Any]], variant: str) -> list[dict[str, Any]]:
    """Select one variant's kernels, each followed by cuBLAS's kernels for the same product."""
    found, its = [], False
    for row in counted:
        symbol = str(row["symbol"])
        its = symbol.startswith(f"tiledmm_{variant}_") or (its and not symbol.startswith("tiledmm_"))
        found += [row] * its
    return found


def count_all() -> dict[str, Any]:
    """Profile all products and print the table; return the results to save."""
    counted = nsight.counts("benchmarks.studies.tensor_pipes", METRICS, kernels="gemm|nvjet|cutlass|^tiledmm")
    show(pipes_table(counted), width=160)
    return {"kernels": counted}


def main() -> int:
    """Profile all products, print the table and save the results; return the exit status."""
    return nsight.run(nsight.arguments(__doc__, RESULTS).parse_args(), launch_all, count_all, NAMES)


if __name__ == "__main__":
    sys.exit(main())
