"""Bugs planted in this package's kernels, run on a GPU under each tool of compute-sanitizer.

The bugs are those of ``tests/simulator/bugs/rendered.toml``, each in the first of its kernels, so that the result shows
what the simulator finds and compute-sanitizer does not, and vice versa.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tiledmm.compile.inspection import COMPILE_OPTIONS
from tools.bugs import kernels
from tools.bugs.broken_kernels import OwnKernel, planned
from tools.bugs.fates import Fate, Progress
from tools.bugs.kernels import KernelBug
from tools.trees import ROOT

TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")
_FOUND = re.compile(r"=+ (?:ERROR SUMMARY: ([1-9]\d*) error|RACECHECK SUMMARY: ([1-9]\d*) hazard)")
_NO_END = -1


def every_bug() -> list[KernelBug]:
    """Return the bugs of kernels that read A and B and write C, one for each edit.

    Those of kernels without cp.async are left out, since they are for older GPUs, and so are kernels that never end,
    which no tool reports.
    """
    first: dict[tuple[str, str], KernelBug] = {}
    for bug in kernels.every_bug():
        kernel = bug.own
        if bug.cause in ("endless loop", "waits for a later block"):
            continue
        if kernel is not None and kernel.target == "sm_90" and planned(kernel)[0].operands == ("A", "B", "C"):
            first.setdefault((bug.name, bug.old), bug)
    return list(first.values())


def launch(kernel: OwnKernel, text: str) -> None:
    """Launch an edited kernel on arrays of exactly their size, with an uninitialized result."""
    import cupy
    import numpy as np

    cupy.cuda.set_allocator(None)  # an allocation for each array: a pool would hide overruns
    a, b = kernel.operands()
    planned_launch, _ = planned(kernel)
    spec = planned_launch.spec
    raw = cupy.RawKernel(text, spec.symbol, options=(*COMPILE_OPTIONS, "-lineinfo"))
    left, right = cupy.asarray(a, order="K"), cupy.asarray(b, order="K")
    out = cupy.ndarray(a.shape[:1] + b.shape[1:], np.dtype(kernel.dtype))
    arguments = planned_launch.kernel_args.view(f"V{planned_launch.kernel_args.nbytes}")
    raw((planned_launch.blocks,), spec.block, (left, right, out, arguments), shared_mem=spec.dynamic_shared_bytes)
    cupy.cuda.runtime.deviceSynchronize()


def errors(bug: KernelBug, tool: str) -> int:
    """Return the number of errors that a tool reports for a bug, or ``_NO_END`` if it printed no summary."""
    command = ["compute-sanitizer", "--tool", tool]
    if tool != "racecheck":
        command += ["--report-api-errors", "no", "--print-limit", "3"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    try:
        done = subprocess.run(
            [*command, sys.executable, "-m", "tools.bugs.sanitizer", bug.id],
            capture_output=True, text=True, timeout=60, cwd=ROOT, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _NO_END
    printed = done.stdout + done.stderr
    if match := _FOUND.search(printed):
        return int(match[1] or match[2])
    return 0 if re.search(r"SUMMARY: 0 ", printed) else _NO_END


def judge(bugs: Sequence[KernelBug], workers: int, progress: Progress = lambda _: None) -> list[Fate]:
    """Run bugs under all tools; the outcome of each names the tools that report it."""
    with ThreadPoolExecutor(workers) as pool:
        counts = [{tool: pool.submit(errors, bug, tool) for tool in TOOLS} for bug in bugs]
        fates = []
        for bug, row in zip(bugs, counts, strict=True):
            found = {tool: count.result() for tool, count in row.items()}
            progress(bug.id)
            names = ", ".join(tool for tool in TOOLS if found[tool] > 0)
            no_end = any(count == _NO_END for count in found.values())
            fates.append(Fate(names or ("no end" if no_end else "missed"), bool(names)))
        return fates


if __name__ == "__main__":
    wanted = next(bug for bug in every_bug() if bug.id == sys.argv[1])
    if wanted.own is not None:
        launch(wanted.own, wanted.planted(wanted.own.text())[0])
