"""Measure again the results whose kernels have changed, and those that are missing: ``python -m benchmarks.measure``.

Runs the commands listed in ``results/README.md`` one after another until the time is up, and prints how long each took.
Results from another GPU are left as they are. ``python -m benchmarks.readme --older`` lists what is out of date.
``--runs 3`` runs each command three times and keeps, for each product, the median run. ``--again`` also measures
results that are up to date. ``--merge FOLDER FOLDER FOLDER`` merges results measured elsewhere, such as on several GPUs
at a time.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.readme import command_of, commands, older
from benchmarks.support.results import FOLDER, ROOT, save
from benchmarks.support.runs import merged, processor
from tiledmm.cli import missing_gpu

# A command is not begun with fewer seconds left.
_LEAST = 20.0


def to_measure() -> list[str]:
    """Return the names of results whose kernels have changed, and of those that do not exist yet."""
    absent = [name for name, _, _ in commands() if "*" not in name and not (FOLDER / f"{name}.json").exists()]
    return [*older(), *absent]


def all_results() -> list[str]:
    """Return the names of all existing results that a listed command writes."""
    patterns = [name for name, _, _ in commands()]
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def gpu_of(run: str) -> str | None:
    """Return the GPU of a result; None if it was measured without one or does not exist yet."""
    path = _path(run)
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    gpu: str | None = found.get("machine", {}).get("gpu")
    return gpu


def main(arguments: list[str] | None = None) -> int:
    """Run the commands of the selected results; return the exit status: 1 if one failed or was cut off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["*"], help="of results, such as 'sizes_*' (default: all)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all of them (default: no limit)")
    parser.add_argument("--runs", type=int, default=1, help="of each command (default: 1)")
    parser.add_argument("--again", action="store_true", help="also results that are of today's kernels")
    parser.add_argument(
        "--merge", type=Path, nargs="+", metavar="FOLDER", help="run nothing: merge the results in these folders"
    )
    options = parser.parse_args(arguments)
    if options.merge:
        return _merge(options.names, options.merge)
    end, gpu = time.monotonic() + options.seconds, None
    if (reason := missing_gpu()) is None:
        from tiledmm.bench.environment import this_machine

        gpu = this_machine().gpu
    runs: dict[str, list[str]] = {}
    due = to_measure()
    every = list(dict.fromkeys([*due, *all_results()]))
    named = {name: fnmatch.filter(every, name) for name in options.names}
    if absent := [name for name, found in named.items() if not found]:
        print(f"no result is called {', '.join(absent)}")
        return 1
    for run in dict.fromkeys(itertools.chain(*named.values())):
        if not (options.again or run in due):
            continue
        command, needs = command_of(run)
        if needs.startswith("a GPU") and reason:
            print(f"{run}: needs a GPU: {reason}")
        elif gpu_of(run) not in (None, gpu):
            print(f"{run}: is of another GPU, {gpu_of(run)}")
        else:
            runs.setdefault(_runnable(command), []).append(run)
    failed = False
    for command, names in runs.items():
        begin = time.monotonic()
        status = _run(command, end - begin) if options.runs == 1 else _run_often(command, names, options.runs, end)
        failed |= not status.startswith(("measured", "no time left"))
        print(f"{', '.join(names)}: {status} in {time.monotonic() - begin:.0f} s: {command}", flush=True)
    return 1 if failed else 0


def _path(run: str) -> Path:
    return FOLDER / f"{run}.json"


def _runnable(command: str) -> str:
    """Remove the placeholder for a seed from a listed command, so that the command can be run."""
    return command.replace(" --seed <seed>", "")


def _run_often(command: str, names: list[str], runs: int, end: float) -> str:
    """Run a command several times until ``end`` (monotonic seconds), merge the completed runs, return the outcome."""
    status, found = "", list[dict[str, Any]]()
    for number in range(1, runs + 1):
        begin = time.monotonic()
        status = _run(command, end - begin)
        print(f"run {number} of {runs}: {status} in {time.monotonic() - begin:.0f} s: {command}", flush=True)
        if status != "measured":
            break
        found.append({name: json.loads(_path(name).read_text(encoding="utf-8")) for name in names})
    for name in names if found else ():
        try:
            save(_path(name), merged([each[name] for each in found]))
        except ValueError as error:  # the file has the last run
            return f"failed: {error}"
    return f"{status}, {len(found)} runs"


def _merge(patterns: list[str], folders: list[Path]) -> int:
    """Merge the results in several folders into one each; return the exit status: 1 if they do not match."""
    shared = set.intersection(*({path.stem for path in folder.glob("*.json")} for folder in folders))
    names = sorted(name for name in shared if any(fnmatch.fnmatch(name, pattern) for pattern in patterns))
    if not names:
        print("no result is in each of the folders")
        return 1
    for name in names:
        runs = [json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for folder in folders]
        try:
            result = merged(runs)
        except ValueError as error:
            print(f"{name}: {error}")
            return 1
        if gpu_of(name) not in (None, processor(result)):
            print(f"{name}: is of another GPU, {gpu_of(name)}")
            return 1
        save(_path(name), result)
        print(f"{name}: {len(runs)} runs")
    return 0


def _run(command: str, seconds: float) -> str:
    """Run a command for at most the given number of seconds; return the outcome."""
    if seconds < _LEAST:
        return "no time left"
    program, *rest = shlex.split(command)
    arguments = [sys.executable, *rest] if program == "python" else [sys.executable, "-m", program, *rest]
    limit = None if seconds == float("inf") else seconds
    try:
        done = subprocess.run(arguments, cwd=ROOT, timeout=limit, check=False, stdout=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "cut off"
    return "measured" if done.returncode == 0 else f"failed (exit status {done.returncode})"


if __name__ == "__main__":
    sys.exit(main())
