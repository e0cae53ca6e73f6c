"""What is between a large product and what the card can do: ``python -m benchmarks.ceiling``, float32, on a GPU.

``cupy.matmul``, ``auto`` with ``precision="ieee"``, and multiply-adds on registers, for some seconds each: TFLOP/s, and
beside them the power that the card draws and the clock that it has left, by ``nvidia-smi``. And of one product of each,
by Nsight Compute, in how many cycles an instruction was issued, and how many of the instructions multiply.
"""

from __future__ import annotations

import functools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import nsight
from benchmarks.shapes import multiply_on_registers
from tiledmm.bench.records import BASELINE, Size
from tiledmm.report.tables import Table, significant

RESULTS = Path(__file__).parent / "results" / "ceiling.json"

CASES = ((4096, "NN"), (4096, "NT"), (4096, "TN"), (4096, "TT"), (8192, "NN"))
PROFILED = CASES[0]
REGISTERS = "multiply-adds on registers"

METRICS = {
    "instructions": "smsp__inst_executed.sum",
    "multiply_adds": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "cycles": "smsp__cycles_active.sum",
    "issued": "smsp__issue_active.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
}


def readings(text: str) -> tuple[float, float]:
    """Mean watts and MHz of the second half of what ``nvidia-smi`` printed.

    Raises:
        ValueError: If it printed no two readings.
    """
    rows = [tuple(map(float, line.split(","))) for line in text.splitlines() if line.count(",") == 1]
    if len(rows) < 2:
        raise ValueError(f"nvidia-smi gave no readings: {text[-500:]!r}")
    watts, clocks = zip(*rows[len(rows) // 2 :], strict=True)
    return statistics.mean(watts), statistics.mean(clocks)


def under_load(call: Callable[[], Any], seconds: float) -> tuple[float, float, float]:
    """Calls it all the time. Returns seconds a call, watts and MHz; each of the second half of the time."""
    import cupy

    command = ["nvidia-smi", "-i", cupy.cuda.Device().pci_bus_id, "--query-gpu=power.draw,clocks.sm"]
    command += ["--format=csv,noheader,nounits", "-lms", "100"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(2):
            calls, begun = 0, time.perf_counter()
            while time.perf_counter() - begun < seconds / 2:
                for _ in range(8):
                    call()
                calls += 8
                cupy.cuda.get_current_stream().synchronize()
            taken = (time.perf_counter() - begun) / calls
    finally:
        watching.terminate()
        text, _ = watching.communicate()
    return taken, *readings(text)


def measure(seconds: float) -> list[dict[str, Any]]:
    """A row a rival and product."""
    import cupy

    import tiledmm
    from tiledmm.bench.comparison import operand_sets

    flops, on_registers = multiply_on_registers()
    rivals: list[tuple[str, str, float, Callable[[], Any]]] = [(REGISTERS, "", flops, on_registers)]
    for size, layout in CASES:
        a, b, c = operand_sets(Size(size, size, size), "float32", layout)[0]
        rivals.append((BASELINE, f"{size} {layout}", 2 * size**3, lambda a=a, b=b, c=c: cupy.matmul(a, b, out=c)))
        ours = functools.partial(tiledmm.matmul, a, b, out=c, precision="ieee")
        rivals.append(("auto", f"{size} {layout}", 2 * size**3, ours))
    return load_all(rivals, seconds)


def load_all(rivals: Sequence[tuple[str, str, float, Callable[[], Any]]], seconds: float) -> list[dict[str, Any]]:
    """A row each: name, product, floating-point operations of a call, and the call."""
    rows = []
    for name, product, flops, call in rivals:
        print(f"{name} {product} ...", file=sys.stderr, flush=True)
        call()
        taken, watts, clock = under_load(call, seconds)
        rows.append({"rival": name, "product": product, "tflops": flops / taken / 1e12, "watts": watts, "mhz": clock})
    return rows


def launch_all() -> None:
    """Runs the two products once, for a profiler to watch."""
    import cupy

    import tiledmm
    from tiledmm.bench.comparison import operand_sets

    size, layout = PROFILED
    a, b, c = operand_sets(Size(size, size, size), "float32", layout)[0]
    cupy.matmul(a, b, out=c)
    tiledmm.matmul(a, b, out=c, precision="ieee")
    cupy.cuda.runtime.deviceSynchronize()


def ceiling_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a rival and product."""
    cells = (
        (
            row["rival"],
            row["product"],
            *(significant(row[name]) for name in ("tflops", "watts", "mhz")),
            significant(row["tflops"] / row["watts"]),
        )
        for row in rows
    )
    headings = ("<what", "<product", "TFLOP/s", "W", "MHz", "TFLOP/s a watt")
    return Table("Large products and the card's limits", headings, tuple(cells))


def issue_table(counted: Sequence[dict[str, Any]]) -> Table:
    """A row a kernel: of a scheduler's cycles those in which it issued, of the instructions those that multiply."""
    cells = []
    for row in counted:
        count = {name: int(row[name]) for name in METRICS}
        multiplying = count["multiply_adds"] / 32
        cells.append(
            (
                str(row["symbol"]),
                significant(count["issued"] / count["cycles"]),
                significant(multiplying / count["instructions"]),
                significant(multiplying / count["cycles"]),
                significant(count["shared_wavefronts"] * 4 / count["cycles"]),
            )
        )
    headings = (
        "<kernel",
        "cycles that issue",
        "instructions that multiply",
        "cycles that multiply",
        "shared memory busy",
    )
    return Table("Issue slots", headings, tuple(cells))


def measure_all(seconds: float) -> dict[str, Any]:
    """Measures and counts, and shows the tables."""
    rows = measure(seconds)
    nsight.show(ceiling_table(rows))
    counted = nsight.counts("benchmarks.ceiling", METRICS, kernels="gemm|^tiledmm")
    nsight.show(issue_table(counted))
    return {"loads": rows, "kernels": counted}


def main() -> int:
    """Measures, profiles, prints the tables, writes the results; returns the exit status."""
    parser = nsight.arguments(__doc__, RESULTS)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each rival and product")
    options = parser.parse_args()
    return nsight.run(options, launch_all, lambda: measure_all(options.seconds))


if __name__ == "__main__":
    sys.exit(main())
