"""Result files: where they are, and what each says of the machine and the sources that it was made with."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import tiledmm
from benchmarks.support import runs
from tiledmm.bench.report_files import to_json
from tiledmm.bench.results import ComparisonReport, Machine
from tiledmm.codegen.template_files import kernels_hash
from tiledmm.report.documents import json_text

#: The repository, and its results: a file a run.
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "results"

#: What stands behind results of other kernel sources than today's.
OLDER = "older kernel sources"


def commit(root: Path = ROOT) -> str:
    """The commit of a checkout, ``"+changes"`` behind it if kernels or host code differ; empty if there is none.

    A tree without its git directory may be told its commit by ``TILEDMM_COMMIT``.
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


@functools.cache
def sources() -> dict[str, str]:
    """What is measured: the commit, if it is known, and a hash of the kernel sources."""
    known = {"commit": commit(), "kernels": kernels_hash()}
    return {name: text for name, text in known.items() if text}


def measured(
    machine: Machine | Mapping[str, str], found: Mapping[str, Any], beside: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A run's results, with the machine and the sources.

    Args:
        machine: Where it was.
        found: What it found, by name.
        beside: Older results that stay in the file. If they are of other sources, the file names none.
    """
    head: dict[str, Any] = {"machine": asdict(machine) if isinstance(machine, Machine) else dict(machine)}
    if beside is None or beside.get("sources") == sources():
        head["sources"] = sources()
    return head | dict(found)


def save(path: Path, results: Mapping[str, Any]) -> None:
    """Writes results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json_text(dict(results)), encoding="utf-8")


def save_report(path: Path, report: ComparisonReport) -> None:
    """Writes a report, with the sources; ``from_json`` reads it."""
    save(path, {**json.loads(to_json(report)), "sources": sources()})


def is_current(results: Mapping[str, Any]) -> bool:
    """Whether results are of the kernel sources as they are now."""
    return bool(results.get("sources", {}).get("kernels") == kernels_hash())


def origin(results: Mapping[str, Any]) -> str:
    """Machine, date and, where known, sources of results, in a line; several runs; and whether kernels have changed."""
    machine, known = results["machine"], results.get("sources", {})
    parts = [str(Machine(**machine)) if "gpu" in machine else ", ".join(machine.values())]
    if "commit" in known:
        parts.append(f"commit {known['commit']}")
    elif "kernels" in known:
        parts.append(f"kernel sources {known['kernels']}")
    parts += filter(None, [runs.in_words(results)])
    if not is_current(results):
        parts.append(OLDER)
    return ", ".join(parts)


def simulating_machine(cores: int) -> dict[str, str]:
    """What a simulation ran on, and when."""
    from tiledmm.simulator.compiler import cxx

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
