"""The page of a trace: the kernels of a ``.cu`` file, instruction by instruction, in one HTML file.

The launch and its arguments are those of a check (``api.check``). One block of it is recorded (``recording``), and
``trace_page/`` draws the recording in a browser. The page of the documentation, ``docs/interactive``, is the same.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from tiledmm import __version__
from tiledmm.errors import ConfigError
from tiledmm.own_kernels.api import check_each, subjects_of
from tiledmm.own_kernels.argument_text import Said
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.chosen_kernel import read_program, template_arguments
from tiledmm.own_kernels.pipeline_recording import record_pipeline, uses_pipeline
from tiledmm.own_kernels.recording import MOST_PER_WARP, Recording, line_in, record_block
from tiledmm.own_kernels.subject import Subject
from tiledmm.own_kernels.trial import Trial
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.events import events_of
from tiledmm.simulator.report.report import Report
from tiledmm.simulator.report.requests import WARP

#: The files that draw the page.
PAGE = Path(__file__).with_name("trace_page")

#: What a page of this command has in its head.
GENERATOR = '<meta name="generator" content="tiledmm trace">'

# Accesses of a block that are recorded at most; where there are more, a thread ends after fewer: more than the runtime
# keeps before it records them, if the block has few threads.
_MOST_ACCESSES = 4 << 20
_FEW_THREADS, _ENDS_AFTER = 128, (34_000, 2_000)

# Lines of the kernel's output that are shown.
_PRINTED = 4

# Lines of a file that are shown on either side of those of its kernels, and the longest file that is shown as a whole.
_AROUND = 40
_WHOLE_FILE = 600

_CUT = (
    f"The recording ends after {MOST_PER_WARP:,} instructions of a warp; earlier if many warps differ in what they do."
)

_ENDED = "Some findings end the launch; the recording ends there, too."


@dataclass(frozen=True, slots=True)
class KernelTrace:
    """The trace of one block of one kernel.

    Attributes:
        name: The kernel's name, with template arguments.
        block: Index (x, y, z) of the block.
        facts: Launch and sizes, in one sentence.
        findings: What is wrong with the kernel, in sentences.
        notes: Sentences on what the check assumed, and on what the trace leaves out.
        recording: The block.
        pipeline: What the block does with mbarriers and asynchronous operations; None if it waits for no mbarrier.
    """

    name: str
    block: tuple[int, int, int]
    facts: str
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    recording: Recording
    pipeline: dict[str, Any] | None = None

    @property
    def instructions(self) -> int:
        """Number of recorded instructions of the warp that has most."""
        return max(len(each["steps"]) for each in self.recording.data["timelines"])


@dataclass(frozen=True, slots=True)
class FileTrace:
    """The traces of the kernels of a file.

    Attributes:
        file: Name of the file.
        traces: The kernels that were traced.
        missing: Why the other kernels were not traced, one sentence for each.
        page: The HTML page.
    """

    file: str
    traces: tuple[KernelTrace, ...]
    missing: tuple[str, ...]
    page: str


def trace_file(
    source: Path,
    kernel: str | None = None,
    *,
    grid: str = "",
    block: str = "",
    shared: str = "",
    args: str = "",
    size: str = "",
    define: Mapping[str, str | int] | Sequence[str] = (),
    include: Sequence[str | Path] = (),
    target: str = "sm_90",
    traced_block: Sequence[int] | None = None,
) -> FileTrace:
    """Run the kernels of a ``.cu`` file on the CPU, and make a page that shows one block of each, step by step.

    Args:
        source: Path of the file.
        kernel, grid, block, shared, args, size, define, include, target: As for ``tiledmm.check``.
        traced_block: Index of the block, one to three numbers; None for the block of the first finding, or else the
            first block.

    Raises:
        ConfigError: If launch or arguments are not known, if there is no such block, or if the block accesses no
            memory.
        CompilationError: If a kernel does not compile.
        MissingDependencyError: If there is no C++ compiler.
    """
    program = read_program(source, define, include, target)
    subjects = subjects_of(program, kernel, Said(grid, block, shared, args, size), target, checks=True)
    reports = check_each(subjects, kernel)
    traces: list[KernelTrace] = []
    missing = [f"{each.name}: {each.missing}" for each in reports if each.missing]
    for subject, report in zip(subjects, reports, strict=True):
        if report.trials:
            try:
                traces.append(_trace(subject, report, traced_block))
            except ConfigError as error:
                if len(subjects) == 1:
                    raise
                missing.append(str(error))
    if not traces:
        raise ConfigError(f"{program.file}: no kernel could be traced: " + "; ".join(missing))
    if any(each.pipeline for each in traces):
        others = [each.name for each in traces if not each.pipeline]
        missing += [f"{each}: it waits for no mbarrier; trace it alone, by its name" for each in others]
    page = _page(program.file, source.read_text(encoding="utf-8"), traces)
    return FileTrace(program.file, tuple(traces), tuple(missing), page)


def _trace(subject: Subject, report: KernelReport, traced_block: Sequence[int] | None) -> KernelTrace:
    """Record a block of the launch in which a check finds something, or else of its first launch."""
    trial = report.trials[0] if report.ok else next(each for each in report.trials if not each.ok)
    findings = () if report.ok else trial.report.findings
    at = _block(subject, trial, findings, traced_block)
    is_long = not trial.ends or _accesses(trial.report) > _MOST_ACCESSES
    recording, pipeline = _record(subject, trial, at, findings, is_long=is_long)
    notes = [each for each in report.notes if "--expect" not in each]
    notes += [each.message for each in trial.report.warnings]
    if trial.report.output:
        notes.append("The kernel prints: " + " | ".join(trial.report.output.splitlines()[:_PRINTED]))
    notes += [_ENDED] if findings else []
    notes += [_CUT] if recording.is_cut or is_long else []
    wrong = tuple(each.message for each in findings) or (() if report.ok else trial.explanations)
    return KernelTrace(report.name, at, _facts(trial, report, at), wrong, tuple(notes), recording, pipeline)


def _record(
    subject: Subject, trial: Trial, at: tuple[int, int, int], findings: Sequence[Finding], *, is_long: bool
) -> tuple[Recording, dict[str, Any] | None]:
    """Run a launch again, and record a block, and its pipeline if it has one.

    Args:
        subject: The kernel.
        trial: The launch.
        at: Index of the block.
        findings: What is wrong with the launch.
        is_long: Whether the threads may make more accesses than can be recorded.

    Raises:
        ConfigError: If there is nothing to record.
    """
    geometry, kernel = trial.geometry, trial.kernel or subject.kernel
    arguments = [each.copy() if isinstance(each, np.ndarray) else each for each in trial.arguments]
    launch = Launch(kernel, geometry.grid, geometry.block, arguments, geometry.shared_bytes, exact=False)
    settings = Settings(
        counts=False, target=subject.settings.target, workers=1, timeout=subject.settings.timeout,
        cooperative=subject.settings.cooperative,
        traced_block=at[0] + geometry.grid[0] * (at[1] + geometry.grid[1] * at[2]),
        max_steps=_ENDS_AFTER[math.prod(geometry.block) > _FEW_THREADS] if is_long else 0,
    )  # fmt: skip
    outcome = launch.run(kernel, settings, None)
    if not outcome.events:
        raise subject.error(f"has nothing to show: block {_index(at, geometry.grid)} accesses no memory")
    named = template_arguments(subject.program, subject.chosen)
    constants = subject.program.constants | {name: int(each) for name, each in named.items() if each.isdigit()}
    numbers = [each for each in arguments if isinstance(each, int)]
    file = subject.program.file
    recording = record_block(
        kernel, outcome, launch.placed, geometry.block, geometry.shared_bytes, file, numbers, constants
    )
    if not uses_pipeline(outcome):
        return recording, None
    events = list(events_of(kernel, outcome, launch.placed, geometry.block))
    return recording, record_pipeline(
        events, geometry.block, kernel.text, findings, lambda line: line_in(kernel, line, file)
    )


def _block(
    subject: Subject, trial: Trial, findings: Sequence[Finding], wanted: Sequence[int] | None
) -> tuple[int, int, int]:
    """Return the index of the block to trace.

    Raises:
        ConfigError: If the grid has no such block.
    """
    grid = trial.geometry.grid
    if wanted is None:
        found = next((each.block for each in findings), (0, 0, 0))
        return found if all(at < extent for at, extent in zip(found, grid, strict=True)) else (0, 0, 0)
    x, y, z = (*wanted, 0, 0)[:3]
    if not all(0 <= at < extent for at, extent in zip((x, y, z), grid, strict=True)):
        raise subject.error(f"is launched with {_extents(grid)} blocks: there is no block {_index((x, y, z), grid)}")
    return x, y, z


def _accesses(report: Report) -> int:
    """Return about how many accesses the threads of one block make."""
    requests: int = sum(getattr(report.source, each.name).requests for each in fields(report.source))
    return requests * WARP // math.prod(report.grid)


def _facts(trial: Trial, report: KernelReport, at: tuple[int, int, int]) -> str:
    """Return the launch and the sizes of a trial, in one sentence."""
    geometry = trial.geometry
    grid, threads = _extents(geometry.grid), _extents(geometry.block)
    dynamic = f", {geometry.shared_bytes:,} bytes of dynamic shared memory" if geometry.shared_bytes else ""
    sizes = "".join(f", {name} = {trial.sizes[name]}" for name in trial.sizes)
    return f"Block {_index(at, geometry.grid)} of {grid}, with {threads} threads{dynamic}{sizes} ({report.launch})."


def _extents(extents: tuple[int, int, int]) -> str:
    return " x ".join(map(str, extents if extents[2] > 1 else extents[:2] if extents[1] > 1 else extents[:1]))


def _index(at: tuple[int, int, int], extents: tuple[int, int, int]) -> str:
    return str(at if extents[2] > 1 else at[:2] if extents[1] > 1 else at[0])


def _page(file: str, text: str, traces: Sequence[KernelTrace]) -> str:
    """Return the page as one file: it names no other, and loads nothing.

    If kernels wait for mbarriers, it is the page of their pipelines; else it shows the accesses of all kernels.
    """
    if any(each.pipeline for each in traces):
        return _pipeline_page(file, text, [each for each in traces if each.pipeline])
    lines = text.expandtabs(4).splitlines()
    used = [
        step[0] for each in traces for part in each.recording.data["timelines"] for step in part["steps"] if step[0]
    ]
    first, last = 1, len(lines)
    if len(lines) > _WHOLE_FILE and used:
        first, last = max(1, min(used) - _AROUND), min(last, max(used) + _AROUND)
    recordings = [
        {
            **each.recording.data, "choice": {"kernel": each.name}, "facts": each.facts, "notes": each.notes,
            "findings": each.findings, "file": file, "first": first, "source": 0,
        }
        for each in traces
    ]  # fmt: skip
    data = {"sources": [lines[first - 1 : last]], "recordings": recordings}
    return _filled("page", file, traces, data)


def _pipeline_page(file: str, text: str, traces: Sequence[KernelTrace]) -> str:
    """Return the page of pipelines as one file."""
    lines = text.expandtabs(4).splitlines()
    data = [
        {
            **(each.pipeline or {}), "name": each.name, "note": each.findings[0] if each.findings else "",
            "facts": " ".join([each.facts, *each.notes]), "file": file, "first": 1, "changed": [], "source": lines,
        }
        for each in traces
    ]  # fmt: skip
    return _filled("pipeline", file, traces, data)


def _filled(page: str, file: str, traces: Sequence[KernelTrace], data: Any) -> str:
    """Return a page with its data, style and script."""
    names = " and ".join(each.name for each in traces) if len(traces) < 3 else f"{len(traces)} kernels"
    styles = dict.fromkeys(("page", page))
    return Template((PAGE / f"{page}.html").read_text(encoding="utf-8")).substitute(
        generator=GENERATOR,
        title=html.escape(f"{names} in {file}, step by step"),
        version=__version__,
        style="".join((PAGE / f"{each}.css").read_text(encoding="utf-8") for each in styles),
        # "<" would let a line of the kernel end the script.
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        script=(PAGE / f"{page}.js").read_text(encoding="utf-8"),
    )


def is_page(path: Path) -> bool:
    """Return whether a file is a page that this module has made, or does not exist."""
    return not path.exists() or GENERATOR in path.read_text(encoding="utf-8", errors="replace")[:4000]
