"""Count what padding saves, by Nsight Compute: ``python -m benchmarks.studies.bank_conflicts --out FILE.json``.

Profiles ``tiled`` and ``tiled_padded`` at tiles 8, 16 and 32, and ``double_buffered`` at 32, in all four layouts:
instructions and wavefronts of shared memory, and the ideal wavefronts of those instructions. These are the counters
that Nsight Compute attributes to source lines; ``l1tex__data_bank_conflicts`` also counts arbitration and is not zero
for kernels without a conflict. Needs a GPU, ``ncu`` on PATH and permission to read its counters.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.support import nsight
from benchmarks.support.command import show
from benchmarks.support.kernels import of_variants
from benchmarks.support.results import FOLDER
from tiledmm.kernels.variants import kernel_spec
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "bank_conflicts.json"

SIZE = 512
LAYOUTS = ("NN", "NT", "TN", "TT")
KERNELS = [(name, tile) for name in ("tiled", "tiled_padded") for tile in (8, 16, 32)] + [("double_buffered", 32)]
CASES = [(name, tile, layout) for name, tile in KERNELS for layout in LAYOUTS]

METRICS = {
    "loads": "smsp__sass_inst_executed_op_shared_ld.sum",
    "load_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "stores": "smsp__sass_inst_executed_op_shared_st.sum",
    "store_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
}


def launch_all() -> None:
    """Run every kernel once, for the profiler to watch."""
    import cupy
    import numpy as np

    import tiledmm

    host = np.random.default_rng(0).standard_normal((2, SIZE, SIZE), dtype=np.float32)
    a, b = cupy.asarray(host[0]), cupy.asarray(host[1])
    for name, tile, layout in CASES:
        tiledmm.matmul(a.T if layout[0] == "T" else a, b.T if layout[1] == "T" else b, variant=name, tile=tile)
    cupy.cuda.runtime.deviceSynchronize()


def count_all() -> list[dict[str, Any]]:
    """Count every case by Nsight Compute, and return the counts in order.

    Raises:
        ProfilingError: As for ``nsight.counts``.
    """
    symbols = [kernel_spec(name, tile=tile, layout=layout).symbol for name, tile, layout in CASES]
    counted = nsight.counts("benchmarks.studies.bank_conflicts", METRICS, symbols)
    keys = ("variant", "tile", "layout")
    return [dict(zip(keys, case, strict=True)) | row for case, row in zip(CASES, counted, strict=True)]


def conflicts_table(counted: list[dict[str, Any]]) -> Table:
    """Format one row per kernel and layout: instructions and wavefronts per multiply-add of a warp."""
    multiply_adds = SIZE**3 / 32
    rows = []
    for row in counted:
        count = {name: int(row[name]) for name in METRICS}
        rows.append(
            (
                str(row["variant"]),
                str(row["tile"]),
                str(row["layout"]),
                *(significant(count[name] / multiply_adds) for name in ("loads", "load_wavefronts")),
                significant(count["store_wavefronts"] / count["stores"] if count["stores"] else None),
                significant(count["wavefronts"] / multiply_adds),
                significant(count["wavefronts"] / count["ideal_wavefronts"]),
            )
        )
    headings = ("loads", "load wavefronts", "wavefronts per store", "all wavefronts", "x ideal")
    title = f"Shared memory, {SIZE} x {SIZE} x {SIZE} float32: counts per multiply-add of a warp"
    return Table(title, ("<variant", "tile", "<layout", *headings), tuple(rows))


def count_and_show() -> dict[str, Any]:
    """Count every case, print the table, and return the results to save."""
    counted = count_all()
    show(conflicts_table(counted), width=160)
    return {"kernels": counted}


def main() -> int:
    """Profile all kernels, print the table and save the results; return the exit status."""
    names = of_variants(*dict(KERNELS))
    return nsight.run(nsight.arguments(__doc__, RESULTS).parse_args(), launch_all, count_and_show, names)


if __name__ == "__main__":
    sys.exit(main())
