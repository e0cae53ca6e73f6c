"""Run everything that needs a GPU: the tests, and compute-sanitizer's four tools over every kernel.

    python tests/gpu/check.py --logs build/gpu

Needs compute-sanitizer on PATH (it is part of the CUDA toolkit). Prints a short table at the end; details are in the
logs. The exit status is 0 only if every step ran and passed.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
SANITIZE = [sys.executable, "-m", "tools.sanitize"]
# The tools, and how many times as many processes each needs to end with the others.
TOOLS = {"memcheck": 1, "racecheck": 1, "initcheck": 3, "synccheck": 1}

# The end of a tool's log if it found nothing. Anything else, such as a crash of the tool, is a failure.
CLEAN = re.compile(r"=+ (ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards displayed \(0 errors, 0 warnings\))")
FOUND = re.compile(r"=+ (ERROR SUMMARY: [1-9]\d* error|RACECHECK SUMMARY: [1-9]\d* hazard)")

#: Exit status of compute-sanitizer when its tool reports something.
REPORTED = 99

FIRST_USE = """
import time
import cupy, tiledmm
cupy.zeros(1).get()   # the driver's own start is not the kernels'
for dtype in ("float32", "complex128"):
    for variant in tiledmm.variants()[:5]:
        tiles = (None,) if variant in ("naive", "coalesced") else (32, 64)
        for tile in tiles:
            start = time.perf_counter()
            tiledmm.kernel(variant, tile=tile, dtype=dtype)
            print(f"{variant} {tile} {dtype}: {time.perf_counter() - start:.2f} s")
"""


@dataclass
class Outcome:
    """Result of one step, a row of the table."""

    step: str
    passed: bool
    seconds: float
    note: str
    log: str = ""


def execute(command: list[str], limit: float, environment: dict[str, str] | None = None) -> tuple[int | None, str]:
    """Run a command in its own session.

    Returns:
        Its exit status (None if it was killed after ``limit`` seconds) and its output.
    """
    # In a session of its own: compute-sanitizer's child would outlive it and hold the pipe open.
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PATHS, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output + f"\nkilled after {limit:.0f} s\n"
    return process.returncode, output


def timed(step: str, work: Callable[[], tuple[bool, str, str]]) -> Outcome:
    """Run and time a step that returns (passed, note, log)."""
    start = time.monotonic()
    passed, note, log = work()
    return Outcome(step, passed, time.monotonic() - start, note, log)


def tests(workers: int, limit: float, arguments: list[str]) -> Outcome:
    """Run the GPU tests."""
    # -v: a run that is killed has printed which tests failed.
    command = [sys.executable, "-m", "pytest", str(ROOT / "tests" / "gpu"), "-v", "--durations=15"]
    command += ["-p", "no:cacheprovider"]
    if find_spec("pytest_benchmark"):
        command += ["-p", "no:benchmark"]
    if find_spec("pytest_timeout"):
        command += ["--timeout=200"]
    if find_spec("xdist"):
        command += ["-n", str(workers), "--dist", "worksteal"]

    def work() -> tuple[bool, str, str]:
        status, log = execute(command + arguments, limit)
        # A run that skipped everything, for want of a device, must not look like one that passed.
        counts = re.findall(r"(\d+) (passed|failed|skipped|errors?|xfailed)", log.strip().split("\n")[-1])
        note = ", ".join(f"{count} {what}" for count, what in counts) or "no summary"
        return status == 0 and any(what == "passed" for _, what in counts), note, log

    return timed("tests", work)


def sanitizer(tool: str, limit: float, arguments: list[str]) -> tuple[int | None, str]:
    """Run ``tools.sanitize`` under a tool of compute-sanitizer."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(REPORTED), "--print-limit", "20"]
    if tool == "memcheck":
        # CuPy asks the driver for what it may not have; only what kernels do counts here.
        command += ["--report-api-errors", "no"]
    return execute([*command, *SANITIZE, *arguments], limit)


def planted(tool: str, limit: float) -> Outcome:
    """Run a bug that the tool must find."""

    def work() -> tuple[bool, str, str]:
        status, log = sanitizer(tool, limit, ["--planted", tool])
        # Not always REPORTED: after an access that is out of bounds the program itself fails, too.
        found = status not in (0, None) and FOUND.search(log) is not None and CLEAN.search(log) is None
        return found, "found" if found else f"NOT found (exit status {status})", log

    return timed(f"{tool}: planted bug", work)


def every_kernel(step: str, kernels: str, shards: int, run: Callable[[list[str]], tuple[int | None, str]]) -> Outcome:
    """Run every kernel, in several processes.

    Args:
        step: ``"uninstrumented"`` or the name of the tool.
        kernels: Regular expression that the kernels' lines match.
        shards: Number of processes.
        run: Function that runs ``tools.sanitize`` with the given arguments.
    """

    def work() -> tuple[bool, str, str]:
        with ThreadPoolExecutor(shards) as pool:
            runs = list(
                pool.map(
                    lambda shard: run(["--kernels", kernels, "--shard", f"{shard}/{shards}"]), range(1, shards + 1)
                )
            )
        log = "\n".join(
            f"---- part {i} of {shards}, exit status {status}\n{text}" for i, (status, text) in enumerate(runs, 1)
        )
        counts = re.findall(r"^(\d+) of (\d+) kernels ran$", log, re.M)
        ran, every = sum(int(part) for part, _ in counts), int(counts[0][1]) if counts else 0
        silent = all(status == 0 and not FOUND.search(text) for status, text in runs)
        if step in TOOLS:
            silent = silent and all(CLEAN.search(text) for _, text in runs)
        return silent and 0 < ran == every, f"{ran} of {every} kernels{'' if silent else ', NOT clean'}", log

    return timed(step, work)


def first_use(limit: float) -> Outcome:
    """Measure the seconds of a kernel's first use with an empty cache, for information only."""

    def work() -> tuple[bool, str, str]:
        with tempfile.TemporaryDirectory() as folder:
            status, log = execute([sys.executable, "-c", FIRST_USE], limit, {"CUPY_CACHE_DIR": folder})
        slowest = {
            dtype: max((float(s) for s in re.findall(rf"{dtype}: ([\d.]+) s", log)), default=float("nan"))
            for dtype in ("float32", "complex128")
        }
        note = ", ".join(f"{dtype} {seconds:.2f} s at most" for dtype, seconds in slowest.items())
        return status == 0, note, log

    return timed("first compile", work)


def main() -> int:
    """Run all steps, write logs and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = os.cpu_count() or 1
    parser.add_argument("--logs", type=Path, help="folder for the logs; a temporary one if not given")
    parser.add_argument("--workers", type=int, default=min(12, cores), help="processes that run tests")
    parser.add_argument("--shards", type=int, default=max(1, min(4, cores // 4)), help="processes a sanitizer tool")
    parser.add_argument("--only", choices=("tests", "sanitizer"), help="leave the other out")
    parser.add_argument(
        "--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="compute-sanitizer's tools, if not all"
    )
    parser.add_argument(
        "--kernels", default="", help="kernels for compute-sanitizer: a regular expression that their lines match"
    )
    parser.add_argument("--limit", type=float, default=420, help="seconds that a step may take")
    options, arguments = parser.parse_known_args()
    logs = options.logs or Path(tempfile.mkdtemp(prefix="tiledmm-gpu-"))
    logs.mkdir(parents=True, exist_ok=True)

    outcomes: list[Outcome] = []
    written: set[str] = set()

    def report(*done: Outcome) -> None:
        for outcome in done:
            outcomes.append(outcome)
            name = re.split(r"\W", outcome.step)[0]
            mode = "a" if name in written else "w"
            written.add(name)
            with (logs / f"{name}.log").open(mode, encoding="utf-8") as file:
                file.write(f"#### {outcome.step}: {outcome.note}\n{outcome.log}\n")
            print(f"{'ok  ' if outcome.passed else 'FAIL'} {outcome.step} ({outcome.seconds:.0f} s)", flush=True)

    if options.only != "sanitizer":
        report(tests(options.workers, options.limit, arguments))
    if options.only != "tests":
        if shutil.which("compute-sanitizer") is None:
            report(Outcome("sanitizer", False, 0.0, "compute-sanitizer is not on PATH"))
        else:
            # Fills CuPy's disk cache on all cores: otherwise each of the four tools would compile every kernel.
            every = functools.partial(every_kernel, kernels=options.kernels)
            report(every("uninstrumented", shards=cores, run=lambda part: execute([*SANITIZE, *part], options.limit)))
            with ThreadPoolExecutor(2 * len(TOOLS) + 1) as pool:
                steps = [pool.submit(planted, tool, options.limit) for tool in options.tools]
                for tool in options.tools:
                    run = functools.partial(sanitizer, tool, options.limit)
                    steps.append(pool.submit(every, tool, shards=TOOLS[tool] * options.shards, run=run))
                for step in steps:
                    report(step.result())
    if options.only is None:
        report(first_use(options.limit))

    for outcome in outcomes:
        if not outcome.passed:
            tail = "\n".join(outcome.log.strip().split("\n")[-40:])
            print(f"\n==== {outcome.step}: {outcome.note}\n{tail}")
    print(f"\nlogs: {logs}\n")
    width = max(len(outcome.step) for outcome in outcomes)
    for outcome in outcomes:
        state = "ok" if outcome.passed else "FAIL"
        print(f"{outcome.step:<{width}}  {state:<4}  {outcome.seconds:5.0f} s  {outcome.note}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
