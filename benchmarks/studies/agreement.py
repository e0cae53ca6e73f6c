"""Compare the simulator's counts with Nsight Compute's.

    python -m benchmarks.studies.agreement              # counts on a GPU, into results/agreement.json
    python -m benchmarks.studies.agreement --simulate   # adds the simulator's counts; needs no GPU

Covers kernels of every kind, on products of whole tiles and on one with partial tiles. The counters are of
instructions and their requests to L1 and shared memory, so that none depends on caches or on time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support import nsight
from benchmarks.support.command import show
from benchmarks.support.results import FOLDER, save
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.report.cells import NONE
from tiledmm.report.tables import Table

RESULTS = FOLDER / "agreement.json"


class Case(NamedTuple):
    """A kernel and the product on which it is counted."""

    variant: str
    tile: int | None
    dtype: str
    layout: str
    sizes: tuple[int, int, int]

    @property
    def symbol(self) -> str:
        """The kernel's symbol."""
        return kernel_spec(self.variant, tile=self.tile, dtype=self.dtype, layout=self.layout).symbol

    def operands(self) -> list[np.ndarray[Any, Any]]:
        """Return A and B with small integers, in the case's layout."""
        m, n, k = self.sizes
        rng = np.random.default_rng(0)
        found = []
        for letter, shape in zip(self.layout, ((m, k), (k, n)), strict=True):
            values = rng.integers(0, 3, shape).astype(self.dtype)
            if letter == "G":
                values = np.repeat(np.repeat(values, 2, 0), 2, 1)[::2, ::2]
            found.append(np.asfortranarray(values) if letter == "T" else values)
        return found


_EVEN, _RAGGED = (256, 256, 256), (250, 130, 70)

CASES = [
    *(Case(name, None, "float32", layout, _EVEN) for name in ("naive", "coalesced") for layout in ("NN", "NT", "TN")),
    *(
        Case(name, tile, "float32", layout, _EVEN)
        for name in ("tiled", "tiled_padded", "double_buffered")
        for tile in (8, 16, 32, 64)
        for layout in ("NN", "NT", "TN", "TT")
    ),
    *(
        Case(name, 32, dtype, layout, _EVEN)
        for name in ("tiled", "double_buffered")
        for dtype in ("float16", "int8", "float64", "complex64", "complex128")
        for layout in ("NN", "NT")
    ),
    *(Case(name, 32, "float32", "GG", _EVEN) for name in ("tiled", "double_buffered")),
    *(
        Case(name, tile, "float32", layout, _RAGGED)
        for name, tile in (("naive", None), ("coalesced", None), ("tiled", 16), ("tiled", 64), ("double_buffered", 32))
        for layout in ("NN", "TT")
    ),
    *(
        Case("wgmma", tile, "float16", layout, _EVEN)
        for tile in (64, 128, 256, 512)
        for layout in ("NN", "NT", "TN", "TT")
    ),
    *(Case("wgmma", tile, "int8", "NT", _EVEN) for tile in (128, 256)),
]

#: The kernels, as ``benchmarks.support.kernels`` names them.
NAMES = {f"{case.variant} {case.dtype}" for case in CASES}

#: Nsight Compute's metrics, by the column that shows them.
METRICS = {
    "global loads": "smsp__sass_inst_executed_op_global_ld.sum",
    "global load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global stores": "smsp__sass_inst_executed_op_global_st.sum",
    "global store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "cp.async": "smsp__sass_inst_executed_op_ldgsts.sum",
    "shared loads": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared load wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared stores": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared store wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "ideal wavefronts": "memory_l1_wavefronts_shared_ideal",
    "float32 FMAs": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "wgmma": "sm__inst_executed_pipe_tensor_op_gmma.sum",
    "operand wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
    "TMA sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
}


def launch_all() -> None:
    """Run every kernel once, for the profiler to watch."""
    import cupy

    import tiledmm

    for case in CASES:
        a, b = case.operands()
        left, right = (_on_gpu(cupy, x) for x in (a, b))
        tiledmm.matmul(left, right, variant=case.variant, tile=case.tile)
    cupy.cuda.runtime.deviceSynchronize()


def _on_gpu(cupy: Any, array: np.ndarray[Any, Any]) -> Any:
    """Copy an array to the GPU with its strides."""
    whole = array if array.base is None or array.base.ndim != 2 else array.base
    copied = cupy.asarray(whole, order="K")
    if whole is array:
        return copied
    steps = tuple(stride // base for stride, base in zip(array.strides, whole.strides, strict=True))
    return copied[:: steps[0], :: steps[1]]


def simulated(case: Case) -> dict[str, int]:
    """Simulate a case, check its result, and return its counts by metric."""
    from tiledmm import simulator

    a, b = case.operands()
    c, report = simulator.run(a, b, variant=case.variant, tile=case.tile, sass=True, checks=False)
    if report.sass is None or not np.array_equal(c, a @ b):
        raise RuntimeError(f"{case.symbol} is wrong on the simulator")
    names = report.sass.nsight()
    counts = {name: int(names[metric]) for name, metric in METRICS.items() if metric in names}
    if case.dtype in ("float16", "float32", "complex64") and not find_variant(case.variant).tensor_cores:
        counts["float32 FMAs"] = report.flops // 2
    return counts


def agreement_table(kernels: list[dict[str, Any]]) -> Table:
    """Format one row per case: each count on the GPU, followed in brackets by the simulator's if it differs."""
    rows = []
    for kernel in kernels:
        cells = []
        for name in METRICS:
            theirs, ours = kernel["counted"][name], kernel["simulated"].get(name)
            same = f"{theirs:,}" if theirs else NONE
            cells.append(same if ours in (theirs, None) else f"{theirs:,} ({ours:,})")
        sizes = " x ".join(map(str, kernel["sizes"]))
        tile = NONE if kernel["tile"] is None else str(kernel["tile"])
        rows.append((kernel["variant"], tile, kernel["dtype"], kernel["layout"], sizes, *cells))
    return Table(
        "Counted by Nsight Compute on a GPU (in brackets by the simulator, where it differs)",
        ("<variant", "tile", "<type", "<layout", "<size", *METRICS),
        tuple(rows),
    )


def count_all() -> dict[str, Any]:
    """Count every case by Nsight Compute."""
    counted = nsight.counts("benchmarks.studies.agreement", METRICS, [case.symbol for case in CASES])
    kernels = [
        case._asdict() | {"symbol": row["symbol"], "counted": {name: row[name] for name in METRICS}, "simulated": {}}
        for case, row in zip(CASES, counted, strict=True)
    ]
    return {"kernels": kernels}


def simulate_all(path: Path) -> int:
    """Add the simulator's counts to the saved results and show the table; return the exit status."""
    results = json.loads(path.read_text())
    for case, kernel in zip(CASES, results["kernels"], strict=True):
        if case.symbol != kernel["symbol"]:
            print(f"the results are of {kernel['symbol']}, not {case.symbol}: count again", file=sys.stderr)
            return 1
        kernel["simulated"] = simulated(case)
    save(path, results)
    show(agreement_table(results["kernels"]), width=250)
    return 0


def main() -> int:
    """Count and save the results, or add the simulator's counts; return the exit status."""
    parser = nsight.arguments(__doc__, RESULTS)
    parser.add_argument("--simulate", action="store_true", help="add the simulator's counts to the results")
    options = parser.parse_args()
    return simulate_all(options.out) if options.simulate else nsight.run(options, launch_all, count_all, NAMES)


if __name__ == "__main__":
    sys.exit(main())
