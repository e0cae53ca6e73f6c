"""Run the planted bugs of ``tools/kernel_bugs.py`` under compute-sanitizer, to compare it with the simulator.

python -m tools.sanitize_bugs              # each broken kernel on a GPU, under each tool, into results/bugs.json
python -m tools.sanitize_bugs --simulate   # adds what the simulator finds; needs no GPU
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.support.results import FOLDER, ROOT, measured, save
from tiledmm.compile.inspection import COMPILE_OPTIONS
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve
from tiledmm.schedule import schedule
from tools.kernel_bugs import BUGS, WRONG, Bug, operands, plant, simulate

TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")
FOUND = re.compile(r"=+ (?:ERROR SUMMARY: ([1-9]\d*) error|RACECHECK SUMMARY: ([1-9]\d*) hazard)")


def run(number: int) -> None:
    """Launch one broken kernel on arrays of exactly their size, with an uninitialized result."""
    import cupy
    import numpy as np

    cupy.cuda.set_allocator(None)  # an allocation for each array: a pool would hide overruns
    bug = BUGS[number]
    a, b = operands(bug)
    spec = kernel_spec(bug.variant, tile=bug.tile, dtype=bug.dtype, layout=bug.layout)
    problem = resolve(describe(a), describe(b)).problem
    with tempfile.TemporaryDirectory() as folder:
        text = plant(bug, Path(folder)).read_text()
    kernel = cupy.RawKernel(text, spec.symbol, options=(*COMPILE_OPTIONS, "-lineinfo"))
    left, right = cupy.asarray(a, order="K"), cupy.asarray(b, order="K")
    out = cupy.ndarray(a.shape[:1] + b.shape[1:], np.dtype(bug.dtype))
    (launch,) = schedule.schedule(spec, problem).launches
    kernel((launch.blocks,), spec.block, (left, right, out, launch.kernel_args.view(f"V{launch.kernel_args.nbytes}")))
    cupy.cuda.runtime.deviceSynchronize()


def judge(number: int, tool: str) -> int:
    """Run one bug under a tool; return the number of errors that it reports, or -1 if it printed no summary."""
    command = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--print-limit", "3"]
    if tool == "racecheck":
        command = command[:3] + command[5:]
    try:
        done = subprocess.run(
            [*command, sys.executable, "-m", "tools.sanitize_bugs", "--run", str(number)],
            capture_output=True, text=True, timeout=120, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1
    said = done.stdout + done.stderr
    match = FOUND.search(said)
    if match:
        return int(match[1] or match[2])
    return 0 if re.search(r"SUMMARY: 0 ", said) else -1


def simulated(bug: Bug) -> list[str]:
    """Return the kinds of the simulator's findings, or, if it has none, whether the result is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        right, report = simulate(bug, Path(folder))
    return sorted({found.kind for found in report.findings}) or ([] if right else [WRONG])


def main() -> int:
    """Run every bug under every tool and save what each reports; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FOLDER / "bugs.json")
    parser.add_argument("--simulate", action="store_true", help="add what the simulator finds to the results")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=12)
    options = parser.parse_args()
    if options.run is not None:
        run(options.run)
        return 0
    if options.simulate:
        results = json.loads(options.out.read_text())
        by_name = {bug.name: bug for bug in BUGS}
        for row in results["bugs"]:
            row["simulator"] = simulated(by_name[row["name"]])
        save(options.out, results)
        return 0
    from tiledmm.bench.environment import this_machine

    # Kernels for GPUs without cp.async do not run on one with it.
    chosen = [number for number, bug in enumerate(BUGS) if bug.target == "sm_90"]
    with ThreadPoolExecutor(options.workers) as pool:
        answers = {number: {tool: pool.submit(judge, number, tool) for tool in TOOLS} for number in chosen}
        bugs = [
            {"name": BUGS[number].name, **{tool: found.result() for tool, found in answers[number].items()}}
            for number in chosen
        ]
    names = {f"{BUGS[number].variant} {BUGS[number].dtype}" for number in chosen}
    save(options.out, measured(this_machine(), {"bugs": bugs}, names=names))
    for bug in bugs:
        print(bug)
    return 0


if __name__ == "__main__":
    sys.exit(main())
