"""Nsight Compute: where it is, what it is told, what it says when it cannot, and what it writes."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiledmm.errors import ProfilingError

# Where it is installed, besides PATH and the toolkits that CUDA_HOME and CUDA_PATH name; of several, the newest counts.
_FOLDERS = (
    "/opt/nvidia/nsight-compute/*",
    "/usr/local/cuda-*/bin",
    "/usr/local/cuda/bin",
    "C:/Program Files/NVIDIA Corporation/Nsight Compute *",
)

# What it says when it cannot, and what that means.
_REASONS = (
    (
        "ERR_NVGPUCTRPERM",
        "ncu may not read the GPU's performance counters: run this as root (in a container that was started with "
        "--cap-add=SYS_ADMIN), or have an administrator load the driver's module with "
        "NVreg_RestrictProfilingToAdminUsers=0 (a line 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' in "
        "/etc/modprobe.d/, then a restart)",
    ),
    (
        "driver resource was unavailable|resource.* busy",
        "something else uses the GPU's performance counters: stop it (DCGM, another profiler), and run this again",
    ),
    (
        "not supported|unsupported|not compatible",
        "this ncu does not profile this GPU or this driver: ncu 2020.1 and newer profile compute capability 7.0 and "
        "newer, each version the GPUs and drivers of its day; install a newer Nsight Compute",
    ),
    (
        "LibraryNotLoaded|InjectionLibrary|Failed to initialize the profiler",
        "ncu finds no library of the driver for profiling: virtual machines and sandboxes often hide it; profile where "
        "the driver itself is installed",
    ),
)

# Lines of its own, among those of the program that it watches.
_COMPLAINT = re.compile(r"^==(ERROR|WARNING)==\s*(.*)", re.MULTILINE)

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")

#: A report's pages that are read: launches, and their instructions.
RAW = ("--page", "raw", "--print-units", "base")
SOURCE = ("--page", "source", "--print-source", "sass")

# Metrics that it does not know are left out, and it is asked again: at most so often.
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Command:
    """What ncu is told to do.

    Attributes:
        program: The command line of what is profiled.
        metrics: Nsight Compute's names of what is counted.
        sections: Its own sets of metrics that are collected, too.
        options: Which launches are profiled, and how.
    """

    program: tuple[str, ...]
    metrics: tuple[str, ...]
    sections: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def line(self, ncu: str, report: str) -> list[str]:
        """The whole command line, which writes a report to a file."""
        sections = [word for section in self.sections for word in ("--section", section)]
        return [
            ncu, "--target-processes", "all", *self.options, *sections, "--metrics", ",".join(self.metrics),
            "--force-overwrite", "--export", report, *self.program,
        ]  # fmt: skip

    def without(self, names: set[str]) -> Command:
        """The same, but for some metrics."""
        kept = tuple(metric for metric in self.metrics if metric not in names)
        return Command(self.program, kept, self.sections, self.options)


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """A launch that was profiled.

    Attributes:
        name: The kernel's.
        values: What was counted, by Nsight Compute's names, in units without a prefix (ns, bytes).
    """

    name: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Instructions:
    """What was counted at each instruction of a launch.

    Attributes:
        name: The kernel's.
        rows: Of each instruction its place in the function, its text, and its counts by Nsight Compute's headings.
    """

    name: str
    rows: tuple[tuple[int, str, Mapping[str, float]], ...]


def find_ncu() -> str | None:
    """Where ncu is; None if it is not there."""
    return find_tool("ncu")


def find_tool(name: str) -> str | None:
    """Where a program is: on PATH, or where CUDA and Nsight Compute are installed; None if it is not there."""
    if found := shutil.which(name):
        return found
    homes = [Path(folder, "bin") for home in ("CUDA_HOME", "CUDA_PATH") if (folder := os.environ.get(home))]
    return next(filter(None, (shutil.which(name, path=str(folder)) for folder in [*homes, *_installed()])), None)


def _installed() -> Iterator[Path]:
    for pattern in _FOLDERS:
        path = Path(pattern)
        yield from sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))), key=_version, reverse=True)


def _version(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]


def profile(command: Command, report: Path, *, folder: Path | None = None) -> Command:
    """Runs a program under ncu, which writes a report.

    Args:
        command: The program, and what is counted.
        report: The file to write, ``.ncu-rep``.
        folder: Where the program runs, if not here.

    Returns:
        What was counted in the end: metrics that this ncu does not have on this GPU are left out.

    Raises:
        ProfilingError: If ncu is missing, may not read the counters, or did not profile; or if the program failed.
    """
    ncu = _ncu()
    for _ in range(_ATTEMPTS):
        status, output = _run(command.line(ncu, str(report)), folder)
        complaints = "\n".join(dict.fromkeys(found[2] for found in _COMPLAINT.finditer(output)))
        words = {word.strip(".:") for word in re.findall(r"[\w.:]+", complaints)}
        unknown = {metric for metric in command.metrics if {metric, metric.partition(".")[0]} & words}
        if status == 0 and report.is_file():
            return command
        if not unknown:
            break
        command = command.without(unknown)
    raise ProfilingError(_reason(status, complaints, output))


def raw_page(report: Path) -> list[ProfiledLaunch]:
    """The launches of a report, in order.

    Raises:
        ProfilingError: If ncu cannot read it.
    """
    return parse_raw(page(report, *RAW))


def source_page(report: Path) -> list[Instructions]:
    """The instructions of each launch of a report, in order.

    Raises:
        ProfilingError: If ncu cannot read it.
    """
    return parse_source(page(report, *SOURCE))


def parse_raw(text: str) -> list[ProfiledLaunch]:
    """What ``ncu --csv --page raw`` printed. What is no number there is left out."""
    rows = list(csv.reader(io.StringIO(_from(text, '"ID"'))))
    if not rows:
        return []
    headings = rows[0]
    found = []
    for row in rows[1:]:
        if not row or not row[0].isdigit():  # units, or what ncu says after the table
            continue
        cells = dict(zip(headings, row, strict=False))
        found.append(ProfiledLaunch(_plain(cells["Kernel Name"]), _numbers(cells)))
    return found


def parse_source(text: str) -> list[Instructions]:
    """What ``ncu --csv --page source --print-source sass`` printed: a block a launch, each with headings of its own."""
    blocks: list[tuple[str, list[tuple[int, str, Mapping[str, float]]]]] = []
    headings: list[str] = []
    first = 0
    for row in csv.reader(io.StringIO(text)):
        if len(row) >= 2 and row[0] == "Kernel Name":
            headings = []
            blocks.append((_plain(row[1]), []))
        elif "Address" in row and "Source" in row:
            headings = row
        elif blocks and headings:
            cells = dict(zip(headings, row, strict=False))
            if cells["Address"].startswith("0x"):
                rows = blocks[-1][1]
                address = int(cells["Address"], 16)
                first = first if rows else address
                rows.append((address - first, cells.get("Source", "").strip(), _numbers(cells)))
    return [Instructions(name, tuple(rows)) for name, rows in blocks]


def page(report: Path, *options: str) -> str:
    """What ncu prints of a report.

    Raises:
        ProfilingError: If it cannot read it.
    """
    status, output = _run([_ncu(), "--import", str(report), "--csv", *options])
    if status:
        raise ProfilingError(f"ncu cannot read {report}:\n{output.strip()[-2000:]}")
    return output


def _ncu() -> str:
    found = find_ncu()
    if found is None:
        raise ProfilingError(
            "ncu (Nsight Compute) is not on PATH, nor where CUDA is installed: it comes with the CUDA toolkit, or as "
            "NVIDIA's package nsight-compute; add the folder that it is in to PATH"
        )
    return found


def _run(line: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    return done.returncode, done.stdout


def _reason(status: int, complaints: str, output: str) -> str:
    """Why nothing was profiled."""
    for sign, meaning in _REASONS:
        if re.search(sign, complaints, re.IGNORECASE):
            return f"{meaning}. It said: {complaints}"
    said = output.strip()[-2000:]
    if "No kernels were profiled" in complaints:
        return f"ncu profiled no kernel:\n{said}"
    return f"ncu failed with exit status {status}:\n{said}"


def _from(text: str, start: str) -> str:
    """The lines from the first on that begins so, without what ncu says of itself."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith(start)), len(lines))
    return "\n".join(line for line in lines[begin:] if not line.startswith("=="))


def _plain(name: str) -> str:
    """A kernel's name without its parameters."""
    return name.partition("(")[0].strip() if name.startswith("tiledmm") else name.strip()


def _numbers(cells: Mapping[str, str]) -> dict[str, float]:
    """Those cells that are numbers."""
    return {name: value for name, cell in cells.items() if (value := number(cell)) is not None}


def number(cell: str) -> float | None:
    """A number as ncu prints it; None for what is none."""
    text = cell.strip().replace(",", "")
    return float(text) if _NUMBER.fullmatch(text) else None
