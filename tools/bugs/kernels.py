"""Bugs planted in kernels by hand, which the simulator must find at their lines.

The bugs in ``tests/simulator/bugs/*.toml`` are edits of the kernels in ``tests/simulator/kernels``, and of kernels that
this package renders; those in ``tests/simulator/held_out`` are by authors who did not know what the simulator finds.
Each runs in a child process, which it may crash or hang. First each kernel runs unedited: it must be right, without a
finding.

A bug is *found* if a finding names a planted line: by default a line of the edit, otherwise one that the bug lists
(such as the accesses that race where a barrier was removed). ``Verdict`` lists the other outcomes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from tiledmm.simulator.check.finding_kinds import NOT_WRITTEN
from tools.bugs.broken_kernels import WRONG, AnyKernel, LearnersKernel, Outcome, OwnKernel
from tools.bugs.children import Children, End
from tools.bugs.edits import edit_cuda
from tools.bugs.fates import Fate, Progress, tomllib
from tools.trees import ROOT

BUGS = ROOT / "tests" / "simulator" / "bugs"
HELD_OUT = ROOT / "tests" / "simulator" / "held_out"

# Causes that leave elements of the result unwritten.
_LEAVE_OUT = ("result not written", "launch geometry")

# Causes that show in the result alone: the line is that of the store, which need not be where the mistake is, and an
# element that nobody wrote has none.
_BY_RESULT = (WRONG, "views of dynamic shared memory", "read before set: global", "overflow", "wrong type")


class Verdict(str, Enum):
    """Outcome of running a bug."""

    FOUND = "found"  # a finding names a planted line
    WARNED = "warned"  # no finding, and a warning names a planted line
    ELSEWHERE = "elsewhere"  # findings, all of other lines or of other kinds
    WRONG = "wrong result"  # no finding, and the result is wrong
    MISSED = "missed"  # no finding, and the result is right
    REFUSED = "error"  # an exception
    KILLED = "killed"  # the process ended
    HUNG = "hung"  # the process did not end
    BASE = "base fails"  # the kernel without the bug is wrong, has findings, or does not run


@dataclass(frozen=True)
class KernelBug:
    """An edit that plants a bug in a kernel.

    Attributes:
        kernel: Name in ``KERNELS``, or in ``kernels`` of the bug's own file.
        name: Short description of the bug.
        cause: Kind of mistake; the table has one row for each.
        old, new: Tokens of the kernel, and their replacement; both empty if only the launch is wrong.
        which: Number of the occurrence of ``old``, from 1, and the number of all.
        lines: Parts of the edited text's lines that a finding may name; if empty, the lines of the edit.
        kinds: Kinds of findings, one of which must name the line; if empty, any.
        launch: Wrong keywords of ``simulator.launch``.
        error: Part of the error message if the launch itself must fail.
        own: The kernel, if this package renders it.
    """

    kernel: str
    name: str
    cause: str
    old: str = ""
    new: str = ""
    lines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    which: tuple[int, int] = (1, 1)
    launch: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    own: OwnKernel | None = None

    @property
    def edited(self) -> AnyKernel:
        """Kernel that is edited."""
        return self.own or LearnersKernel(self.kernel)

    @property
    def id(self) -> str:
        """Kernel and name, which identify the bug."""
        return f"{self.kernel}: {self.name}"

    @property
    def group(self) -> str:
        """Kind of mistake."""
        return self.cause

    @property
    def keywords(self) -> dict[str, Any]:
        """Keywords of ``simulator.launch`` for the run."""
        return {"checks": "full", **self.launch} if self.cause.startswith("read before set") else self.launch

    def planted(self, text: str) -> tuple[str, set[int]]:
        """Return the kernel's text with the bug, and the numbers (from 1) of its lines that a finding may name.

        Raises:
            ValueError: If ``old`` occurs more or less often, or if a part of a line does not occur.
        """
        edited, at = text, 0
        if self.old:
            try:
                edited, at = edit_cuda(text, self.old, self.new, self.which)
            except ValueError as error:
                raise ValueError(f"{self.id}: {error}") from None
        for part in self.lines:
            if part not in edited:
                raise ValueError(f"{self.id}: the edited kernel has no {part!r}")
        if self.lines:
            lines = enumerate(edited.splitlines(), 1)
            return edited, {number for number, line in lines if any(part in line for part in self.lines)}
        first = text[:at].count("\n") + 1
        return edited, set(range(first, first + self.new.count("\n") + 1))


def verdict(bug: KernelBug, lines: set[int], outcome: Outcome) -> Fate:
    """Judge the outcome of running a bug, of which a finding may name the given lines."""
    if outcome.error:
        known = bool(bug.error) and bug.error in outcome.error
        return _fate(Verdict.FOUND if known else Verdict.REFUSED, outcome.error)
    if not outcome.findings and any(each.lines & lines for each in outcome.warnings):
        return _fate(Verdict.WARNED, outcome.warnings[0].message)
    if not outcome.findings:
        return _fate(Verdict.MISSED if outcome.right else Verdict.WRONG)
    for each in outcome.findings:
        if (bug.kinds and each.kind not in bug.kinds) or (
            each.kind == WRONG and bug.cause not in (*_BY_RESULT, *_LEAVE_OUT)
        ):
            continue
        if (
            each.lines & lines
            or (each.kind == WRONG and bug.cause in _BY_RESULT)
            or (each.kind in (WRONG, NOT_WRITTEN) and not each.line and bug.cause in _LEAVE_OUT)
        ):
            return _fate(Verdict.FOUND, each.message)
    return _fate(Verdict.ELSEWHERE, outcome.findings[0].message)


def _fate(found: Verdict, detail: str = "") -> Fate:
    return Fate(found.value, found is Verdict.FOUND, detail[:300])


def read(folder: Path) -> list[KernelBug]:
    """Read the bugs of all files; a bug with several kernels becomes one for each."""
    bugs: list[KernelBug] = []
    for path in sorted(folder.glob("*.toml")):
        rows = tomllib.loads(path.read_text("utf-8"))
        own = {
            name: OwnKernel(**{**row, "sizes": tuple(row.get("sizes", OwnKernel.sizes))})
            for name, row in rows.get("kernels", {}).items()
        }
        for row in rows["bug"]:
            names = row.pop("kernel")
            fixed = row | {key: tuple(row[key]) for key in ("lines", "kinds", "which") if key in row}
            for name in [names] if isinstance(names, str) else names:
                bugs.append(KernelBug(kernel=name, own=own.get(name), **fixed))
    return bugs


def every_bug() -> list[KernelBug]:
    """Return the bugs whose authors knew what the simulator finds."""
    return read(BUGS)


def held_out_bugs() -> list[KernelBug]:
    """Return the bugs whose authors did not know what the simulator finds."""
    return read(HELD_OUT)


def judge(bugs: Sequence[KernelBug], workers: int, progress: Progress = lambda _: None) -> list[Fate]:
    """Run and judge bugs in parallel; return their fates in order."""
    with Children(workers) as children, ThreadPoolExecutor(workers) as pool:

        def run(kernel: AnyKernel, text: str, keywords: dict[str, Any]) -> Outcome | End:
            answer = children.run(functools.partial(kernel.run, text, keywords))
            return (
                Outcome(False, error=f"{type(answer).__name__}: {answer}") if isinstance(answer, Exception) else answer
            )

        kernels = {bug.kernel: bug.edited for bug in bugs}
        bases = dict(
            zip(kernels, pool.map(lambda kernel: run(kernel, kernel.text(), {}), kernels.values()), strict=True)
        )

        def one(bug: KernelBug) -> Fate:
            base = bases[bug.kernel]
            if isinstance(base, End) or not base.sound:
                return _fate(
                    Verdict.BASE, base.value if isinstance(base, End) else base.error or str(base.findings[:1])
                )
            text, lines = bug.planted(kernels[bug.kernel].text())
            outcome = run(kernels[bug.kernel], text, bug.keywords)
            progress(bug.id)
            return _fate(Verdict(outcome.value)) if isinstance(outcome, End) else verdict(bug, lines, outcome)

        return list(pool.map(one, bugs))
