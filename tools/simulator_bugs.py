"""Check that the simulator finds bugs planted in kernels, one at a time, and names their lines.

    python -m tools.simulator_bugs                    # all of them, some minutes
    python -m tools.simulator_bugs -k reduce          # those with "reduce" in their kernel, cause or name
    python -m tools.simulator_bugs --json FILE        # also writes the verdict on each to a file
    python -m tools.simulator_bugs --held-out         # bugs whose authors did not know what it finds

The bugs in ``tests/simulator/bugs/*.toml`` are edits of the kernels in ``tests/simulator/kernels``, and of kernels that
this package renders. Each runs in a child process, which it may crash or hang. First each kernel runs unedited: it must
be right, without a finding.

A bug is *found* if a finding names a planted line: by default a line of the edit, otherwise one that the bug lists
(such as the accesses that race where a barrier was removed). ``Verdict`` lists the other outcomes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tiledmm.simulator.check.finding_kinds import NOT_WRITTEN
from tools.broken_kernels import WRONG, AnyKernel, Found, LearnersKernel, Outcome, OwnKernel
from tools.children import Children, End
from tools.trees import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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
class Bug:
    """An edit that plants a bug in a kernel.

    Attributes:
        kernel: Name in ``KERNELS``, or in ``kernels`` of the bug's own file.
        name: Short description of the bug.
        cause: Kind of mistake; the table has one row for each.
        old, new: Text that occurs exactly once, and its replacement; both empty if only the launch is wrong.
        lines: Parts of the edited text's lines that a finding may name; if empty, the lines of the edit.
        kinds: Kinds of findings, one of which must name the line; if empty, any.
        launch: Wrong keywords of ``simulator.launch``.
        error: Part of the error message if the launch itself must fail.
    """

    kernel: str
    name: str
    cause: str
    old: str = ""
    new: str = ""
    lines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    launch: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def id(self) -> str:
        """Kernel and name, which identify the bug."""
        return f"{self.kernel}: {self.name}"

    @property
    def keywords(self) -> dict[str, Any]:
        """Keywords of ``simulator.launch`` for the run."""
        return {"checks": "full", **self.launch} if self.cause.startswith("read before set") else self.launch

    def planted(self, text: str) -> str:
        """Return the kernel's text with the bug.

        Raises:
            ValueError: If ``old`` does not occur exactly once, or if a part of a line does not occur.
        """
        if not self.old:
            return text
        if text.count(self.old) != 1:
            raise ValueError(f"{self.id}: the kernel has {text.count(self.old)} times {self.old!r}")
        edited = text.replace(self.old, self.new)
        for part in self.lines:
            if part not in edited:
                raise ValueError(f"{self.id}: the edited kernel has no {part!r}")
        return edited

    def planted_lines(self, text: str) -> set[int]:
        """Return the line numbers (from 1) of the edited text that a finding may name."""
        if self.lines:
            edited = self.planted(text).splitlines()
            return {number for number, line in enumerate(edited, 1) if any(part in line for part in self.lines)}
        first = text[: text.index(self.old)].count("\n") + 1
        return set(range(first, first + self.new.count("\n") + 1))


@dataclass(frozen=True)
class Judgement:
    """A verdict on a bug, with the findings or the error on which it is based."""

    verdict: Verdict
    findings: tuple[Found, ...] = ()
    error: str = ""

    @property
    def said(self) -> str:
        """First finding or line of the error, for a list of bugs."""
        if self.findings:
            return self.findings[0].message
        lines = self.error.splitlines()
        return next((line for line in lines if "error:" in line), lines[0] if lines else "")


def judge(bug: Bug, text: str, outcome: Outcome) -> Judgement:
    """Judge the outcome of running a bug."""
    lines = bug.planted_lines(text)
    if outcome.error:
        found = bool(bug.error) and bug.error in outcome.error
        return Judgement(Verdict.FOUND if found else Verdict.REFUSED, error=outcome.error)
    if not outcome.findings and any({each.line, each.other_line} & lines for each in outcome.warnings):
        return Judgement(Verdict.WARNED, outcome.warnings)
    if not outcome.findings:
        return Judgement(Verdict.MISSED if outcome.right else Verdict.WRONG)
    for each in outcome.findings:
        if (bug.kinds and each.kind not in bug.kinds) or (
            each.kind == WRONG and bug.cause not in (*_BY_RESULT, *_LEAVE_OUT)
        ):
            continue
        if (
            {each.line, each.other_line} & lines
            or (each.kind == WRONG and bug.cause in _BY_RESULT)
            or (each.kind in (WRONG, NOT_WRITTEN) and not each.line and bug.cause in _LEAVE_OUT)
        ):
            return Judgement(Verdict.FOUND, outcome.findings)
    return Judgement(Verdict.ELSEWHERE, outcome.findings)


# ---- the suite ----


@dataclass(frozen=True)
class Suite:
    """All bugs, and this package's kernels in which they are planted, by name."""

    bugs: tuple[Bug, ...]
    own: dict[str, OwnKernel]

    def kernel(self, name: str) -> AnyKernel:
        """Return the kernel of a bug by its name."""
        return self.own[name] if name in self.own else LearnersKernel(name)


def read(folder: Path = BUGS) -> Suite:
    """Read the bugs of all files; a bug with several kernels becomes one for each."""
    bugs: list[Bug] = []
    own: dict[str, OwnKernel] = {}
    for path in sorted(folder.glob("*.toml")):
        rows = tomllib.loads(path.read_text("utf-8"))
        for name, row in rows.get("kernels", {}).items():
            own[name] = OwnKernel(**{**row, "sizes": tuple(row.get("sizes", OwnKernel.sizes))})
        for row in rows["bug"]:
            names = row.pop("kernel")
            fixed = row | {key: tuple(row[key]) for key in ("lines", "kinds") if key in row}
            bugs += [Bug(kernel=name, **fixed) for name in ([names] if isinstance(names, str) else names)]
    return Suite(tuple(bugs), own)


# ---- a run ----


def judge_all(
    suite: Suite, bugs: Sequence[Bug], workers: int, progress: Callable[[Bug, Judgement], None] = lambda *_: None
) -> dict[str, Judgement]:
    """Run and judge all bugs in parallel; return the judgements by the bugs' ids."""
    lock = threading.Lock()
    with Children(workers) as children, ThreadPoolExecutor(workers) as pool:
        names = list(dict.fromkeys(bug.kernel for bug in bugs))
        bases = dict(zip(names, pool.map(lambda name: children.run(suite.kernel(name)), names), strict=True))

        def one(bug: Bug) -> Judgement:
            base = bases[bug.kernel]
            kernel = suite.kernel(bug.kernel)
            if isinstance(base, End) or not base.sound:
                why = base.value if isinstance(base, End) else base.error or str(base.findings[:1] or "wrong result")
                judgement = Judgement(Verdict.BASE, error=why)
            else:
                text = kernel.text()
                outcome = children.run(kernel, bug.planted(text), bug.keywords)
                judgement = Judgement(Verdict(outcome.value)) if isinstance(outcome, End) else judge(bug, text, outcome)
            with lock:
                progress(bug, judgement)
            return judgement

        return dict(zip((bug.id for bug in bugs), pool.map(one, bugs), strict=True))


# ---- what is printed ----


def rates(bugs: Iterable[Bug], judgements: dict[str, Judgement]) -> dict[str, Counter[str]]:
    """Count the bugs of each verdict, by cause."""
    counts: dict[str, Counter[str]] = {}
    for bug in sorted(bugs, key=lambda bug: bug.cause):
        counts.setdefault(bug.cause, Counter())[judgements[bug.id].verdict.value] += 1
    return counts


def table(counts: dict[str, Counter[str]]) -> Table:
    """Format one row per cause."""
    made = Table(title="Bugs planted in kernels")
    for heading in ("cause", *(verdict.value for verdict in Verdict), "of"):
        made.add_column(heading, justify="left" if heading == "cause" else "right", no_wrap=True)
    total = sum(counts.values(), Counter())
    for cause, row in (*counts.items(), ("all", total)):
        made.add_row(cause, *(str(row[verdict.value] or "-") for verdict in Verdict), str(row.total()))
    return made


def results(bugs: Sequence[Bug], judgements: dict[str, Judgement]) -> dict[str, Any]:
    """Return the contents of the result file."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    found = sum(each.verdict is Verdict.FOUND for each in judgements.values())
    return {
        "date": date.today().isoformat(),
        "commit": commit,
        "found": found,
        "bugs": len(bugs),
        "causes": {cause: dict(counts) for cause, counts in rates(bugs, judgements).items()},
        "verdicts": {bug.id: judgements[bug.id].verdict.value for bug in bugs},
    }


def _lines(bugs: Iterable[Bug], judgements: dict[str, Judgement]) -> Iterator[str]:
    for bug in bugs:
        judgement = judgements[bug.id]
        if judgement.verdict is not Verdict.FOUND:
            yield f"{judgement.verdict.value:12} {bug.id} ({bug.cause}) {judgement.said[:300]}"


def main() -> int:
    """Run the selected bugs and print a row per cause; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="bugs whose kernel, cause or name has these words in it")
    parser.add_argument("-j", type=int, default=min(2, os.cpu_count() or 1), help="how many at a time")
    parser.add_argument("--held-out", action="store_true", help="the bugs of tests/simulator/held_out")
    parser.add_argument("--json", type=Path, help="a file for what became of each")
    parser.add_argument("--details", type=Path, help="a file for all findings")
    arguments = parser.parse_args()
    suite = read(HELD_OUT if arguments.held_out else BUGS)
    bugs = [bug for bug in suite.bugs if all(word in f"{bug.id} {bug.cause}" for word in arguments.k.split())]
    if not bugs:
        parser.error(f"no bug has {arguments.k!r} in its kernel, cause or name")
    console = Console() if sys.stdout.isatty() else Console(width=160)
    with console.status("") as status:
        done = Counter[Verdict]()

        def progress(bug: Bug, judgement: Judgement) -> None:
            done[judgement.verdict] += 1
            status.update(f"{done.total()} of {len(bugs)}: {bug.id}")

        judgements = judge_all(suite, bugs, arguments.j, progress)
    console.print(table(rates(bugs, judgements)))
    print(*_lines(bugs, judgements), sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(results(bugs, judgements), indent=1) + "\n", "utf-8")
    if arguments.details:
        details = {bug.id: asdict(judgements[bug.id]) for bug in bugs}
        arguments.details.write_text(json.dumps(details, indent=1, default=str) + "\n", "utf-8")
    found = done[Verdict.FOUND]
    print(f"{found} of {len(bugs)} found at their line ({found / len(bugs):.1%})")
    return 0 if found == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
