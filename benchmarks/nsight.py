"""Runs a benchmark under Nsight Compute and reads its counters."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def parse(output: str, metrics: Mapping[str, str]) -> list[dict[str, int | str]]:
    """What ``ncu --csv --page raw`` printed: for each kernel its name, and its counts by the names of ``metrics``.

    Raises:
        ValueError: If a metric is missing or is no number.
    """
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    counted: list[dict[str, int | str]] = []
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if not row["ID"].isdigit():  # the row of units, or what ncu says after the table
            continue
        found: dict[str, int | str] = {"symbol": row["Kernel Name"]}
        for name, metric in metrics.items():
            text = (row.get(metric) or "").replace(",", "")
            if not text.isdigit():
                raise ValueError(f"ncu gave {text!r} for {metric} of {row['Kernel Name']}")
            found[name] = int(text)
        counted.append(found)
    return counted


def profile(
    module: str, metrics: Mapping[str, str], symbols: Sequence[str] | None = None, kernels: str = "^tiledmm"
) -> list[dict[str, int | str]]:
    """Counts of the kernels that ``python -m module --launch`` launches.

    Args:
        module: A module of this folder.
        metrics: Names of Nsight Compute's metrics, by names of one's own.
        symbols: The kernels that it launches, in order; None if their names are not known.
        kernels: What the names have that count, a regular expression.

    Raises:
        RuntimeError: If ncu is missing, may not read the counters, or saw other kernels than were expected.
        ValueError: If it did not give a count for every metric.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise RuntimeError("ncu (Nsight Compute) is not on PATH; it comes with the CUDA toolkit")
    command = [
        ncu,
        "--csv",
        "--page",
        "raw",
        "--metrics",
        ",".join(metrics.values()),
        "--kernel-name",
        f"regex:{kernels}",
    ]
    command += [sys.executable, "-m", module, "--launch"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[1])
    said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}".strip()
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:  # whatever the exit status
        raise RuntimeError(
            "ncu may not read the GPU's performance counters: run this as an administrator, or have the driver's "
            f"module loaded with NVreg_RestrictProfilingToAdminUsers=0. It said:\n{said}"
        )
    if done.returncode:
        raise RuntimeError(f"ncu failed with exit status {done.returncode}:\n{said}")
    counted = parse(done.stdout, metrics)
    if not counted:
        raise RuntimeError(f"ncu profiled no kernel:\n{said}")
    if symbols is not None and [row["symbol"] for row in counted] != list(symbols):
        raise RuntimeError(f"ncu saw {[row['symbol'] for row in counted]}, not {list(symbols)}")
    return counted
