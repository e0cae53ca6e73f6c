"""Nsight Compute's command-line tool, ncu: its location, command lines, errors and reports."""

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

# Folders where ncu may be installed, besides PATH and the toolkits that CUDA_HOME and CUDA_PATH name. The newest is
# used.
_FOLDERS = (
    "/opt/nvidia/nsight-compute/*",
    "/usr/local/cuda-*/bin",
    "/usr/local/cuda/bin",
    "C:/Program Files/NVIDIA Corporation/Nsight Compute *",
)

# Patterns in ncu's errors, and their meanings.
_REASONS = (
    (
        "ERR_NVGPUCTRPERM",
        "ncu may not read the GPU's performance counters: run this as root (start a container with "
        "--cap-add=SYS_ADMIN), or have an administrator load the driver's module with "
        "NVreg_RestrictProfilingToAdminUsers=0 (add the line 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' to "
        "a file in /etc/modprobe.d/, then restart)",
    ),
    (
        "driver resource was unavailable|resource.* busy",
        "another program uses the GPU's performance counters: stop it (DCGM, another profiler), then try again",
    ),
    (
        "not supported|unsupported|not compatible",
        "this ncu does not support this GPU or driver: install a newer Nsight Compute (ncu supports compute capability "
        "7.0 from release 2020.1 on, and newer GPUs and drivers need newer releases)",
    ),
    (
        "LibraryNotLoaded|InjectionLibrary|Failed to initialize the profiler",
        "ncu does not find the driver's profiling library, which virtual machines and sandboxes often hide: profile on "
        "a machine where the driver itself is installed",
    ),
)

# ncu's own messages in the output of the profiled program.
_COMPLAINT = re.compile(r"^==(ERROR|WARNING)==\s*(.*)", re.MULTILINE)

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")

#: Options for two pages of a report: launches, and their instructions.
RAW = ("--page", "raw", "--print-units", "base")
SOURCE = ("--page", "source", "--print-source", "sass")

# Maximum number of runs of ncu: after a run that rejects metrics, ncu runs again without them.
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Command:
    """A command for ncu.

    Attributes:
        program: Command line of the profiled program.
        metrics: Names of the metrics to collect, as Nsight Compute calls them.
        sections: Names of Nsight Compute's sections, which are sets of metrics.
        options: Further options, which select the launches to profile and how the GPU's clocks are set.
    """

    program: tuple[str, ...]
    metrics: tuple[str, ...]
    sections: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def line(self, ncu: str, report: str) -> list[str]:
        """Return the words of the command line that runs ncu.

        Args:
            ncu: Path of ncu.
            report: Path of the report that ncu writes.
        """
        sections = [word for section in self.sections for word in ("--section", section)]
        return [
            ncu, "--target-processes", "all", *self.options, *sections, "--metrics", ",".join(self.metrics),
            "--force-overwrite", "--export", report, *self.program,
        ]  # fmt: skip

    def without(self, names: set[str]) -> Command:
        """Return the same command without the metrics of the given names."""
        kept = tuple(metric for metric in self.metrics if metric not in names)
        return Command(self.program, kept, self.sections, self.options)


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """A launch that ncu has profiled.

    Attributes:
        name: Name of the kernel, as ncu prints it.
        values: Metrics by Nsight Compute's names, in base units (ns, bytes).
    """

    name: str
    values: Mapping[str, float]

    @property
    def code_name(self) -> str:
        """Name of the kernel in its code."""
        return code_name(self.name)


@dataclass(frozen=True, slots=True)
class Instructions:
    """Metrics of each instruction of a launch.

    Attributes:
        name: Name of the kernel, as ncu prints it.
        rows: Byte offset in the function, text, and metrics by Nsight Compute's headings, for each instruction.
    """

    name: str
    rows: tuple[tuple[int, str, Mapping[str, float]], ...]

    @property
    def code_name(self) -> str:
        """Name of the kernel in its code."""
        return code_name(self.name)


def code_name(printed: str) -> str:
    """Return a kernel's name in its code, with namespaces but without return type, template arguments and parameters.

    Example:
        >>> code_name("void math::mm<double, (int)8>(const T1 *, const T1 *, T1 *)")
        'math::mm'
    """
    named = re.sub(r"<unnamed>::|\(anonymous namespace\)::", "", printed)
    return re.split(r"[<(]", named.strip())[0].split()[-1]


def find_ncu() -> str | None:
    """Return the path of ncu; None if it is not installed."""
    return find_tool("ncu")


def find_tool(name: str) -> str | None:
    """Return the path of a program such as ``"ncu"``, from PATH or from the folders of CUDA and Nsight Compute.

    Return None if it is not there.
    """
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
    """Run a program under ncu, which writes a report to a file.

    If ncu rejects metrics, it runs again without them.

    Args:
        command: Program to profile, with the metrics.
        report: Path of the report, ``.ncu-rep``.
        folder: Working directory of the program; None for the current one.

    Returns:
        The command that ran. It lacks metrics that this ncu does not have on this GPU.

    Raises:
        ProfilingError: If ncu is missing, may not read the counters, or fails; or if the program fails.
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
    """Return the launches in a report, in order, with their metrics.

    Raises:
        ProfilingError: If ncu cannot read the report.
    """
    return parse_raw(page(report, *RAW))


def source_page(report: Path) -> list[Instructions]:
    """Return the metrics of instructions in a report, for each launch in order.

    Raises:
        ProfilingError: If ncu cannot read the report.
    """
    return parse_source(page(report, *SOURCE))


def parse_raw(text: str) -> list[ProfiledLaunch]:
    """Return the launches in the output of ``ncu --csv --page raw``, in order, with those metrics that are numbers."""
    rows = list(csv.reader(io.StringIO(_from(text, '"ID"'))))
    if not rows:
        return []
    headings = rows[0]
    launches = []
    for row in rows[1:]:
        if not row or not row[0].isdigit():  # units, or messages after the table
            continue
        cells = dict(zip(headings, row, strict=False))
        launches.append(ProfiledLaunch(cells["Kernel Name"].strip(), _numbers(cells)))
    return launches


def parse_source(text: str) -> list[Instructions]:
    """Return the metrics of instructions in the output of ``ncu --csv --page source --print-source sass``.

    There is one element per launch, in order.
    """
    blocks: list[tuple[str, list[tuple[int, str, Mapping[str, float]]]]] = []
    headings: list[str] = []
    first = 0
    for row in csv.reader(io.StringIO(text)):
        if len(row) >= 2 and row[0] == "Kernel Name":
            headings = []
            blocks.append((row[1].strip(), []))
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
    """Return the output of ``ncu --import`` for a page of a report, as CSV.

    Args:
        report: Path of the report.
        *options: Options that select the page, such as ``RAW``.

    Raises:
        ProfilingError: If ncu cannot read the report.
    """
    status, output = _run([_ncu(), "--import", str(report), "--csv", *options])
    if status:
        raise ProfilingError(f"ncu cannot read {report}:\n{output.strip()[-2000:]}")
    return output


def _ncu() -> str:
    found = find_ncu()
    if found is None:
        raise ProfilingError(
            "ncu (Nsight Compute) is neither on PATH nor where CUDA is installed: install the CUDA toolkit or NVIDIA's "
            "package nsight-compute, and add the folder of ncu to PATH"
        )
    return found


def _run(line: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    return done.returncode, done.stdout


def _reason(status: int, complaints: str, output: str) -> str:
    """Return a message that explains why ncu failed.

    Args:
        status: Exit status of ncu.
        complaints: Error messages and warnings of ncu.
        output: Whole output of ncu and the program.
    """
    for sign, meaning in _REASONS:
        if re.search(sign, complaints, re.IGNORECASE):
            return f"{meaning}. ncu's message: {complaints}"
    shown = output.strip()[-2000:]
    if "No kernels were profiled" in complaints:
        return f"ncu profiled no kernel:\n{shown}"
    return f"ncu failed with exit status {status}:\n{shown}"


def _from(text: str, start: str) -> str:
    """Return the part of ncu's output that begins with the first line that starts with ``start``.

    Lines that are messages of ncu are left out.
    """
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith(start)), len(lines))
    return "\n".join(line for line in lines[begin:] if not line.startswith("=="))


def _numbers(cells: Mapping[str, str]) -> dict[str, float]:
    """Return the values of the cells that are numbers, by heading."""
    return {name: value for name, cell in cells.items() if (value := number(cell)) is not None}


def number(cell: str) -> float | None:
    """Return the number that a cell of ncu's output shows, such as ``"1,234.5"``; None if it shows no number."""
    text = cell.strip().replace(",", "")
    return float(text) if _NUMBER.fullmatch(text) else None
