"""Does the simulator find a bug, and name its line? Bugs planted in kernels, one at a time.

    python -m tools.simulator_bugs                    # all of them, some minutes
    python -m tools.simulator_bugs -k reduce          # those with "reduce" in their kernel, cause or name
    python -m tools.simulator_bugs --json FILE        # and what became of each, into a file

The bugs of ``tests/simulator/bugs/*.toml`` are edits of the kernels of ``tests/simulator/kernels``, and of kernels that
this package renders. Each runs in a child process, which it may end or hang. First each kernel runs unedited: it must
be right, without a finding.

A bug is *found* if a finding names a planted line: by default the lines of the edit, otherwise those that the bug
lists (where a barrier is removed, the accesses that race). What else may become of it is ``Verdict``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.simulator.kernels import KERNELS
from tools.trees import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BUGS = ROOT / "tests" / "simulator" / "bugs"

# A bug may make a kernel loop for ever, and the simulator with it.
_SECONDS = 60

# A kernel that waits for ever is to be a finding long before.
_TIMEOUT = 10

WRONG, NOT_WRITTEN = "wrong result", "result not written"

# Causes that leave elements of the result unwritten.
_LEAVE_OUT = ("result not written", "launch geometry")


class Verdict(str, Enum):
    """What became of a bug."""

    FOUND = "found"  # a finding names a planted line
    ELSEWHERE = "elsewhere"  # findings, all of other lines or of other kinds
    WRONG = "wrong result"  # no finding, and the result is wrong
    MISSED = "missed"  # no finding, and the result is right
    REFUSED = "error"  # an exception
    KILLED = "killed"  # the process ended
    HUNG = "hung"  # the process did not end
    BASE = "base fails"  # the kernel without the bug is wrong, has findings, or does not run


@dataclass(frozen=True)
class Bug:
    """One edit.

    Attributes:
        kernel: A name in ``KERNELS``, or in the file's own ``kernels``.
        name: What is wrong, in a few words.
        cause: What it is an example of: the table has a row for each.
        old, new: Text that occurs exactly once, and its replacement; both empty if only the launch is wrong.
        lines: Parts of lines of the edited text, each of which may be named; without any, the lines of the edit.
        kinds: Kinds of findings, one of which must name the line; any, if there are none.
        launch: Keywords of ``simulator.launch`` that are wrong.
        error: Part of the error's message, if the launch itself must fail.
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
        """Kernel and name."""
        return f"{self.kernel}: {self.name}"

    def planted(self, text: str) -> str:
        """The kernel's text with the bug.

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
        """The numbers, from 1, of the edited text's lines that a finding may name."""
        if self.lines:
            edited = self.planted(text).splitlines()
            return {number for number, line in enumerate(edited, 1) if any(part in line for part in self.lines)}
        first = text[: text.index(self.old)].count("\n") + 1
        return set(range(first, first + self.new.count("\n") + 1))


@dataclass(frozen=True)
class Found:
    """What a finding says."""

    kind: str
    line: int
    other_line: int
    message: str


@dataclass(frozen=True)
class Outcome:
    """What one run of a kernel showed."""

    right: bool
    findings: tuple[Found, ...] = ()
    error: str = ""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return self.right and not self.findings and not self.error


@dataclass(frozen=True)
class OwnKernel:
    """A kernel that this package renders.

    Attributes:
        variant, tile, dtype, layout, target, config: The call that runs it.
        sizes: m, n, k.
        auxiliary: The auxiliary kernel of that call which is edited, by its variant's name; empty for the main one.
    """

    variant: str
    tile: int | None = None
    dtype: str = "float32"
    layout: str = "NN"
    target: str = "sm_90"
    config: dict[str, int] = field(default_factory=dict)
    sizes: tuple[int, int, int] = (40, 50, 37)
    auxiliary: str = ""

    def operands(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Small integers in the layout."""
        m, n, k = self.sizes
        rng = np.random.default_rng(0)
        low = 0 if np.dtype(self.dtype).kind in "bu" else -4
        pair = (rng.integers(low, 5, shape).astype(self.dtype) for shape in ((m, k), (k, n)))
        left, right = (np.asfortranarray(x) if way == "T" else x for x, way in zip(pair, self.layout, strict=True))
        return left, right

    def text(self) -> str:
        """The rendered text."""
        from tiledmm.codegen.rendering import render

        return next(render(each.specialization) for each in self._launches() if self._edits(each))

    def _launches(self) -> Iterable[Any]:
        from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
        from tiledmm.problem.operands import begin_together, describe
        from tiledmm.schedule.schedule import schedule
        from tiledmm.selection.front_end import choose, resolve_call
        from tiledmm.simulator.simulate import _model

        a, b = self.operands()
        keywords = KernelKeywords(self.variant, self.tile, self.config or None, "float32")
        ufunc = UfuncKeywords.of("matmul", {})
        call = resolve_call(describe(a), describe(b), None, ufunc, "float32", begin_together(a, b))
        choice = choose(call, keywords, _model, tuned=False)
        planned = schedule(choice.parts[0].specialization, choice.parts[0].product.problem)
        return planned.launches

    def _edits(self, launch: Any) -> bool:
        return launch.specialization.variant.name == (self.auxiliary or self.variant)

    def run(self, text: str, keywords: dict[str, Any]) -> Outcome:
        """Runs the kernel with another text."""
        from tiledmm import simulator
        from tiledmm.simulator import simulated_kernel

        a, b = self.operands()
        call = {"variant": self.variant, "tile": self.tile, "target": self.target, "config": self.config or None}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "broken.cu"
            path.write_text(text, "utf-8")
            render = simulated_kernel.render
            if self.auxiliary:  # source= replaces the kernel that multiplies
                own = next(each.specialization for each in self._launches() if self._edits(each))
                simulated_kernel.render = lambda spec: text if spec == own else render(spec)
            try:
                c, report = simulator.run(
                    a, b, source=None if self.auxiliary else path, counts=False, workers=1, **call, **keywords
                )
            finally:
                simulated_kernel.render = render
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        exact = a @ b if a.dtype.kind in "iub" else a.astype(wide) @ b.astype(wide)
        return Outcome(bool(np.array_equal(c, exact.astype(c.dtype))), _found(report))


@dataclass(frozen=True)
class LearnersKernel:
    """One of ``KERNELS``."""

    name: str

    def text(self) -> str:
        """The file's text."""
        return KERNELS[self.name].path.read_text("utf-8")

    def run(self, text: str, keywords: dict[str, Any]) -> Outcome:
        """Launches the kernel with another text."""
        from tiledmm import simulator

        launch = KERNELS[self.name].prepare()
        call: dict[str, Any] = {
            "grid": launch.grid, "block": launch.block, "name": launch.name, "shared_bytes": launch.shared_bytes,
            "expected": launch.expected, "rtol": launch.rtol, "counts": False, "workers": 1, "timeout": _TIMEOUT,
        }  # fmt: skip
        arguments = list(launch.arguments)
        for position, value in keywords.pop("arguments", {}).items():
            arguments[int(position)] = value
        call |= {key: tuple(value) if isinstance(value, list) else value for key, value in keywords.items()}
        report = simulator.launch(text, call.pop("grid"), call.pop("block"), arguments, **call)
        right = all(
            np.array_equal(np.sort(launch.arguments[position]), np.sort(values))
            for position, values in launch.any_order.items()
        )
        findings = _found(report)
        return Outcome(right and all(each.kind != WRONG for each in findings), findings)


def _found(report: Any) -> tuple[Found, ...]:
    return tuple(Found(each.kind, each.line or 0, each.other_line or 0, each.message) for each in report.findings)


AnyKernel = OwnKernel | LearnersKernel


@dataclass(frozen=True)
class Judgement:
    """What became of a bug, and what was found."""

    verdict: Verdict
    findings: tuple[Found, ...] = ()
    error: str = ""

    @property
    def said(self) -> str:
        """A line that shows it."""
        return self.error or (self.findings[0].message if self.findings else "")


def judge(bug: Bug, text: str, outcome: Outcome) -> Judgement:
    """What an outcome comes to."""
    lines = bug.planted_lines(text)
    if outcome.error:
        found = bool(bug.error) and bug.error in outcome.error
        return Judgement(Verdict.FOUND if found else Verdict.REFUSED, error=outcome.error)
    if not outcome.findings:
        return Judgement(Verdict.MISSED if outcome.right else Verdict.WRONG)
    for each in outcome.findings:
        named = (
            {each.line, each.other_line} & lines
            # The line of a wrong element is that of the store, which need not be where the mistake is.
            or (each.kind == bug.cause == WRONG and each.line)
            # An element that nobody wrote has no line.
            or (each.kind in (WRONG, NOT_WRITTEN) and not each.line and bug.cause in _LEAVE_OUT)
        )
        if named and (not bug.kinds or each.kind in bug.kinds):
            return Judgement(Verdict.FOUND, outcome.findings)
    return Judgement(Verdict.ELSEWHERE, outcome.findings)


# ---- the suite ----


@dataclass(frozen=True)
class Suite:
    """All bugs, and this package's kernels that they are planted in, by name."""

    bugs: tuple[Bug, ...]
    own: dict[str, OwnKernel]

    def kernel(self, name: str) -> AnyKernel:
        """The kernel of a bug."""
        return self.own[name] if name in self.own else LearnersKernel(name)


def read(folder: Path = BUGS) -> Suite:
    """The bugs of all files. A bug with several kernels is one of each."""
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


# ---- child processes ----


def _end_with_parent() -> None:
    """Ends this process, whatever it runs, when its parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _serve(connection: Connection) -> None:
    """Runs kernels until the parent goes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            kernel, text, keywords = connection.recv()
            try:
                outcome = kernel.run(kernel.text() if text is None else text, dict(keywords))
            except Exception as error:  # whatever a broken kernel makes the simulator raise
                outcome = Outcome(False, error=f"{type(error).__name__}: {error}")
            connection.send(outcome)


class Child:
    """A process that runs kernels, and a new one whenever it has ended."""

    def __init__(self) -> None:
        self._process: Any = None

    def run(self, kernel: AnyKernel, text: str | None, keywords: dict[str, Any]) -> Outcome | Verdict:
        """The outcome, or how the process ended."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._connection.send((kernel, text, keywords))
            if self._connection.poll(_SECONDS):
                return self._connection.recv()
            verdict = Verdict.HUNG
        except (EOFError, OSError):
            verdict = Verdict.KILLED
        self.end()
        return verdict

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None


class Children:
    """Several, each of which runs one kernel at a time."""

    def __init__(self, number: int) -> None:
        self._all = [Child() for _ in range(number)]
        self._free: SimpleQueue[Child] = SimpleQueue()
        for child in self._all:
            self._free.put(child)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._all:
            child.end()

    def run(self, kernel: AnyKernel, text: str | None = None, keywords: dict[str, Any] | None = None) -> Any:
        """An outcome or a verdict, of any free one."""
        child = self._free.get()
        try:
            return child.run(kernel, text, keywords or {})
        finally:
            self._free.put(child)


def judge_all(
    suite: Suite, bugs: Sequence[Bug], workers: int, progress: Callable[[Bug, Judgement], None] = lambda *_: None
) -> dict[str, Judgement]:
    """Judgements by the bugs' ids."""
    lock = threading.Lock()
    with Children(workers) as children, ThreadPoolExecutor(workers) as pool:
        names = list(dict.fromkeys(bug.kernel for bug in bugs))
        bases = dict(zip(names, pool.map(lambda name: children.run(suite.kernel(name)), names), strict=True))

        def one(bug: Bug) -> Judgement:
            base = bases[bug.kernel]
            kernel = suite.kernel(bug.kernel)
            if isinstance(base, Verdict) or not base.sound:
                why = (
                    base.value if isinstance(base, Verdict) else base.error or str(base.findings[:1] or "wrong result")
                )
                judgement = Judgement(Verdict.BASE, error=why)
            else:
                text = kernel.text()
                outcome = children.run(kernel, bug.planted(text), bug.launch)
                judgement = Judgement(outcome) if isinstance(outcome, Verdict) else judge(bug, text, outcome)
            with lock:
                progress(bug, judgement)
            return judgement

        return dict(zip((bug.id for bug in bugs), pool.map(one, bugs), strict=True))


# ---- what is printed ----


def rates(bugs: Iterable[Bug], judgements: dict[str, Judgement]) -> dict[str, Counter[str]]:
    """How many there are of each verdict, by cause."""
    counts: dict[str, Counter[str]] = {}
    for bug in sorted(bugs, key=lambda bug: bug.cause):
        counts.setdefault(bug.cause, Counter())[judgements[bug.id].verdict.value] += 1
    return counts


def table(counts: dict[str, Counter[str]]) -> Table:
    """A row for each cause."""
    made = Table(title="Bugs planted in kernels")
    for heading in ("cause", *(verdict.value for verdict in Verdict), "of"):
        made.add_column(heading, justify="left" if heading == "cause" else "right", no_wrap=True)
    total = sum(counts.values(), Counter())
    for cause, row in (*counts.items(), ("all", total)):
        made.add_row(cause, *(str(row[verdict.value] or "-") for verdict in Verdict), str(row.total()))
    return made


def results(bugs: Sequence[Bug], judgements: dict[str, Judgement]) -> dict[str, Any]:
    """What is written to a file."""
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
    """Prints a row for each cause. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="bugs whose kernel, cause or name has these words in it")
    parser.add_argument("-j", type=int, default=min(2, os.cpu_count() or 1), help="how many at a time")
    parser.add_argument("--json", type=Path, help="a file for what became of each")
    parser.add_argument("--details", type=Path, help="a file for all findings")
    arguments = parser.parse_args()
    suite = read()
    bugs = [bug for bug in suite.bugs if all(word in f"{bug.id} {bug.cause}" for word in arguments.k.split())]
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
    print(f"{found} of {len(bugs)} found at their line ({found / max(len(bugs), 1):.1%})")
    return 0 if found == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
