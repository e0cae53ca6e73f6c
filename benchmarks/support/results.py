"""Result files: their paths, and their records of the machine and the sources behind them."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import tiledmm
from benchmarks.support import kernels, runs
from tiledmm.bench.results import ComparisonReport, Machine, to_json
from tiledmm.report.documents import json_text

#: The repository, and its results, one file per run.
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "results"

#: The page of all results: what wrote each, where and when, and which are older than today's kernels.
PAGE = "benchmarks/results/README.md"


def commit(root: Path = ROOT) -> str:
    """Return the commit of a checkout, with ``"+changes"`` if kernels or host code differ; empty if there is none.

    ``TILEDMM_COMMIT`` names the commit of a tree without a git directory.
    """
    if told := os.environ.get("TILEDMM_COMMIT"):
        return told

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return ""  # a copy inside another repository
        changes = "+changes" if git("status", "--porcelain", "--", "cuda_src", "tiledmm") else ""
        return git("rev-parse", "--short=12", "HEAD") + changes
    except (OSError, subprocess.CalledProcessError):
        return ""


_commit = functools.cache(commit)


def sources(names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the measured sources: the commit, if it is known, and a hash for each kernel.

    Args:
        names: Names of the kernels, as in ``kernels``; None for those that this process has compiled for a GPU.
    """
    known = {"commit": _commit()} if _commit() else {}
    return known | {"kernels": kernels.hashes(kernels.loaded() if names is None else names)}


def measured(
    machine: Machine | Mapping[str, str],
    found: Mapping[str, Any],
    beside: Mapping[str, Any] | None = None,
    names: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Return a run's results together with the machine and the sources.

    Args:
        machine: Machine that measured them.
        found: Results by name.
        beside: Older results that stay in the file, with the hashes of their kernels. If they are of another commit,
            the file names none.
        names: Names of the kernels, as for ``sources``.
    """
    head: dict[str, Any] = {"machine": asdict(machine) if isinstance(machine, Machine) else dict(machine)}
    head["sources"] = sources(names)
    if beside is not None:
        former = beside.get("sources", {})
        if former.get("commit") != head["sources"].get("commit"):
            head["sources"].pop("commit", None)
        head["sources"]["kernels"] |= former.get("kernels", {})
    return head | dict(found)


def save(path: Path, results: Mapping[str, Any]) -> None:
    """Write results to a file, and create its folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json_text(dict(results)), encoding="utf-8")


def save_report(path: Path, report: ComparisonReport) -> None:
    """Write a report and its sources to a file that ``from_json`` reads."""
    save(path, {**json.loads(to_json(report)), "sources": sources()})


def changed_kernels(results: Mapping[str, Any]) -> list[str]:
    """Return the kernels that have changed since the results; ``"unknown"`` for results that name none."""
    known = results.get("sources", {}).get("kernels")
    return ["unknown"] if known is None else kernels.changed(known)


def origins(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Format where, when and in how many runs results were measured, by their names: one sentence per machine."""
    places: dict[str, list[str]] = {}
    for name, results in sorted(found.items(), key=lambda each: str(each[1]["machine"]["date"][:10])):
        when = ", ".join(filter(None, [results["machine"]["date"][:10], runs.which(results)]))
        places.setdefault(_place(results["machine"]), []).append(f"`{name}.json` ({when})")
    return " ".join(f"{place}: {', '.join(files)}." for place, files in places.items())


def _place(machine: Mapping[str, str]) -> str:
    """Say on which machine, or by what, results were measured."""
    by, name = next(iter(machine.items()))
    if by == "simulated":
        return f"Counted by {name}"
    return f"{name[:1].upper()}{name[1:]}" if by == "counted" else f"Measured on {name}"


def details(results: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the machine, commit and number of runs of results, as shown on the page of all results."""
    machine = results["machine"]
    where = str(Machine(**machine)) if "gpu" in machine else ", ".join(machine.values())
    seeds = ", ".join(str(seed) for seed in results.get("seeds", [results.get("seed")]) if seed is not None)
    again = ", ".join(filter(None, [runs.in_words(results), f"seed {seeds}" * bool(seeds)]))
    return where, results.get("sources", {}).get("commit", ""), again


def simulating_machine(cores: int) -> dict[str, str]:
    """Describe the machine that runs a simulation, with today's date."""
    from tiledmm.simulator.build import cxx

    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "cores used": f"{cores} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": cxx.compiler_version().splitlines()[0],
        "tiledmm": tiledmm.__version__,
        "date": date.today().isoformat(),
    }
