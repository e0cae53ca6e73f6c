"""Time the simulator: ``python -m benchmarks.simulator``. Needs no GPU.

Simulates float32 products of 256 x 256 x 256 on two cores: without checks or counts, with every check, and with checks
and counts. Also times the compilation of the runtime (once per machine) and of a kernel, and a fresh process that
starts, compiles both in an empty cache, and prints a product.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tiledmm
from benchmarks.support.command import show
from benchmarks.support.kernels import of_variants
from benchmarks.support.results import FOLDER, measured, save, simulating_machine
from tiledmm import simulator
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.variants import general_variants
from tiledmm.report.cells import NONE, significant
from tiledmm.report.tables import Table
from tiledmm.simulator.build import toolchain

RESULTS = FOLDER / "simulator.json"

SIZE = 256
WORKERS = 2
ROUNDS = 5

#: Program whose total time is measured.
FIRST = "import numpy, tiledmm.simulator as s; x = numpy.ones((64, 64), 'f4'); print(s.matmul(x, x, variant='tiled'))"

MODES = {
    "bare": {"checks": False, "counts": False},
    "checks": {"checks": True, "counts": False},
    "checks and counts": {"checks": True, "counts": True},
}


def seconds(call: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the median seconds of several calls."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def measure() -> dict[str, Any]:
    """Time every kernel in every mode, and the compilations, in seconds."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, SIZE, SIZE), dtype=np.float32)
    toolchain.build_runtime()
    kernels = []
    for row in general_variants():
        for tile in [tile for tile in (16, 32) if tile in row.tiles] or [min(row.tiles, default=None)]:
            found: dict[str, Any] = {"variant": row.name, "tile": tile}
            for mode, options in MODES.items():

                def call(row=row, tile=tile, options=options) -> None:
                    simulator.run(a, b, variant=row.name, tile=tile, workers=WORKERS, **options)

                call()  # compiled, and loaded
                found[mode] = seconds(call)
            kernels.append(found)
    names = of_variants(*(row["variant"] for row in kernels))
    return measured(simulating_machine(WORKERS), {"kernels": kernels, "compilation": compilation()}, names=names)


def compilation() -> dict[str, float]:
    """Time the first compilations, in seconds, with an empty cache."""
    before = os.environ.get("TILEDMM_CACHE_DIR")
    text, symbol = tiledmm.source("tiled", tile=16), "tiledmm_tiled_f32_16x16x16_nn"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEDMM_CACHE_DIR"] = folder
        try:
            runtime = seconds(toolchain.build_runtime, rounds=1)
            turns = iter(range(1000))

            def build(how: str) -> None:
                """Compile a kernel whose text was never compiled before."""
                toolchain.build_kernel(f"{text}// {next(turns)}\n", symbol, target=TARGETS["sm_90"], build=how)

            return {
                "runtime, once per machine": runtime,
                "kernel, bare": seconds(lambda: build("bare")),
                "kernel, instrumented": seconds(lambda: build("checked")),
                "first result, empty cache": seconds(first_result),
            }
        finally:
            if before is None:
                del os.environ["TILEDMM_CACHE_DIR"]
            else:
                os.environ["TILEDMM_CACHE_DIR"] = before


def first_result() -> None:
    """Run the program ``FIRST`` in a fresh process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TILEDMM_CACHE_DIR": folder}
        subprocess.run([sys.executable, "-c", FIRST], check=True, stdout=subprocess.DEVNULL, env=environment)


def speed_table(results: dict[str, Any]) -> Table:
    """Format the seconds of each kernel in each mode."""
    rows = tuple(
        (row["variant"], NONE if row["tile"] is None else str(row["tile"]), *(significant(row[mode]) for mode in MODES))
        for row in results["kernels"]
    )
    runtime, bare, instrumented, first = (f"{significant(took)} s" for took in results["compilation"].values())
    return Table(
        f"Seconds to simulate {SIZE} x {SIZE} x {SIZE} float32 on {WORKERS} cores",
        ("<variant", "tile", *(f"{mode} (s)" for mode in MODES)),
        rows,
        notes=(
            f"Compiling the runtime takes {runtime} (once per machine), a bare kernel {bare}, and an instrumented "
            f"kernel {instrumented}. With an empty cache, the first result takes {first}.",
        ),
    )


def main() -> int:
    """Measure, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options = parser.parse_args()
    results = measure()
    save(options.out, results)
    show(speed_table(results), width=160)
    return 0


if __name__ == "__main__":
    sys.exit(main())
