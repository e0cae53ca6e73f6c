"""Reports of a check: for people in 90 columns, as JSON, and as HTML in notebooks."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiledmm.own_kernels.accesses import Access
from tiledmm.own_kernels.bounds import Bound
from tiledmm.own_kernels.compiled import Compiled
from tiledmm.own_kernels.kernel_document import kernel_document
from tiledmm.own_kernels.trial import Trial

#: Characters of a line.
WIDTH = 90

#: Note on kernels without bounds checks.
ONLY_MULTIPLES = (
    "The kernel or its grid supports only sizes that the tile divides: the kernel compares no index with the sizes, or "
    "the grid does not round up. Findings at other sizes do not count."
)

#: Note on kernels that access vectors of four elements at any size.
ONLY_VECTORS = (
    "The kernel accesses vectors of 4 elements in rows that may begin at any element, so it is right only if the sizes "
    "are multiples of 4. Findings at other sizes do not count."
)

# Characters of a label, and of an access in the table.
_LABEL = 10
_ACCESS = 40


@dataclass(frozen=True, slots=True)
class Timed:
    """Time of one kernel on a GPU.

    Attributes:
        name: Name of the kernel, of a variant, or ``"cupy.matmul"``.
        microseconds: Time of one product in microseconds.
        tflops: Rate in TFLOP/s.
        to_cupy: Speedup over ``cupy.matmul``.
    """

    name: str
    microseconds: float
    tflops: float
    to_cupy: float


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Result of the check of one kernel.

    Attributes:
        name: Name of the kernel, with template arguments.
        location: File and line where it is defined.
        signature: Parameters, as they are written.
        launch: Source of its launch, such as a line of the host code, in a few words.
        trials: Launches of the check.
        accesses: Accesses to memory, in the order of the source.
        compiled: Resources that NVRTC reports; None if these are unknown.
        unknown: Reason why they are unknown.
        bound: Bound on its speed; None if it is not a product, or is wrong.
        times: Times on this machine's GPU; empty without a GPU, or if the kernel is not a product, or is wrong.
        timed: Sizes of the product that was timed.
        advice: Sentences on what makes it slow.
        notes: Sentences on what the check assumed and found.
        missing: Sentence that asks for what the check needs; empty if it ran.
    """

    name: str
    location: str
    signature: str
    launch: str = ""
    trials: tuple[Trial, ...] = ()
    accesses: tuple[Access, ...] = ()
    compiled: Compiled | None = None
    unknown: str = ""
    bound: Bound | None = None
    times: tuple[Timed, ...] = ()
    timed: str = ""
    advice: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: str = ""

    @property
    def ok(self) -> bool:
        """True if there are no findings, and every result that was compared is right."""
        return all(each.ok for each in self.trials if not self._is_beyond(each))

    @property
    def verdict(self) -> str:
        """Result of the check in a few words."""
        if self.missing:
            return "not checked"
        if not self.ok:
            return "WRONG" if any(each.right is False for each in self.trials) else "FINDINGS"
        if any(self._is_beyond(each) and not each.ok for each in self.trials):
            tiles = ONLY_MULTIPLES in self.notes
            return "right where the tile divides the sizes" if tiles else "right where 4 divides the sizes"
        return "right" if all(each.right for each in self.trials) else "no findings; no result to compare with"

    def _is_beyond(self, trial: Trial) -> bool:
        """Return whether a launch has sizes that the kernel does not support by design."""
        return not trial.divides and (ONLY_MULTIPLES in self.notes or ONLY_VECTORS in self.notes)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        yield from _wrapped("kernel", f"{self.name}({self.signature})  {self.location}")
        if self.missing:
            yield from _wrapped("missing", self.missing)
            return
        yield from _wrapped("launch", self._geometry())
        for trial in self.trials:
            yield from _wrapped("sizes" if trial.sizes else "run", self._outcome(trial))
        layout = next((each.layout for each in self.trials if each.right and each.layout), None)
        if layout:
            yield from _wrapped("layout", str(layout))
        for trial in self.trials:
            if not trial.ok:
                yield from self._brief(trial) if self._is_beyond(trial) else self._findings(trial)
        warnings = {(each.kind, each.line): each for trial in self.trials for each in trial.report.warnings}
        for each in warnings.values():
            yield from _wrapped("warning", each.message)
        for output in dict.fromkeys(trial.report.output for trial in self.trials if trial.report.output):
            yield from _wrapped("prints", " | ".join(output.splitlines()[:4]))
        if self.accesses:
            yield from self._table()
        yield from self._resources()
        for sentence in self.advice:
            yield from _wrapped("advice", sentence)
        for note in self.notes:
            yield from _wrapped("note", note)
        yield ""
        yield f"{self.name.partition('<')[0]}: {self.verdict}"

    def _geometry(self) -> str:
        def shown(index: tuple[int, int, int]) -> str:
            return " x ".join(map(str, index if index[2] > 1 else index[:2] if index[1] > 1 else index[:1]))

        first = self.trials[0].geometry
        dynamic = f", {first.shared_bytes:,} bytes of dynamic shared memory" if first.shared_bytes else ""
        return f"grid {shown(first.grid)}, block {shown(first.block)}{dynamic}, {self.launch}"

    def _outcome(self, trial: Trial) -> str:
        size = " x ".join(str(trial.sizes[each]) for each in "MNK") if trial.sizes else "one launch"
        if trial.right is None:
            said = "no findings" if trial.report.ok else "findings"
        else:
            said = "wrong" if not trial.right else "right" if trial.report.ok else "right, with findings"
        where = "" if not trial.sizes else ", which the tile divides" if trial.divides else ", which it does not divide"
        numbers = f", {trial.numbers}" if trial.numbers else ""
        return f"{size}{where if len(self.trials) > 1 else ''}{numbers}: {said}"

    def _findings(self, trial: Trial) -> Iterator[str]:
        for found in trial.report.findings:
            yield ""
            yield from _wrapped("finding", found.message)
            for location, text in {found.location: found.text, found.other_location: found.other_text}.items():
                if location and text:
                    yield f"{'':{_LABEL}}  {location} | {text.strip()}"[:WIDTH]
        for sentence in trial.explanations:
            yield from _wrapped("why", sentence)

    def _brief(self, trial: Trial) -> Iterator[str]:
        """Yield the first finding at sizes that the kernel does not support by design."""
        yield from _wrapped("finding", next((each.message for each in trial.report.findings), ""))

    def _table(self) -> Iterator[str]:
        yield ""
        yield f"{'line':>{_LABEL}}  {'access':{_ACCESS}} {'requests':>10} {'per request':>12} {'ideal':>6}"
        for each in self.accesses:
            line = each.location.rpartition(":")[2]
            what = f"{each.kind} {each.text or f'{each.space} memory'}"
            what = what if len(what) <= _ACCESS else f"{what[: _ACCESS - 3]}..."
            count = f"{each.units:>6.1f} {'sectors' if each.space == 'global' else 'wavefr.':7}"
            yield f"{line:>{_LABEL}}  {what:{_ACCESS}} {each.requests:>10,} {count}{each.ideal:>5.1f}"

    def _resources(self) -> Iterator[str]:
        yield ""
        if self.compiled:
            found = self.compiled
            spills = f"{found.spill_bytes} bytes of spills" if found.spill_bytes else "no spills"
            yield from _wrapped(
                "compiled",
                f"{found.registers} registers per thread, {spills}, {found.shared_bytes:,} bytes of shared memory; "
                f"{found.blocks} blocks per SM, occupancy {found.occupancy:.0%}, limited by {found.limited_by}",
            )
        elif self.unknown:
            yield from _wrapped("compiled", f"registers, spills and occupancy are unknown: {self.unknown}")
        if self.bound:
            bound = self.bound
            yield from _wrapped(
                "bound",
                f"at most {_tera(bound.flops)} on {bound.gpu}, limited by {bound.limited_by}: {bound.wavefronts:.2f} "
                "wavefronts of loads per multiply-add of a warp (a model of the loads as written, which a compiler may "
                "merge)",
            )
            yield from _wrapped("ladder", f"the nearest variant is {bound.rung}")
        if self.times:
            *ours, cupys = self.times
            shares = (f"{each.name} {each.tflops:.3g} TFLOP/s, {each.to_cupy:.0%} of it" for each in ours)
            speed = f"{cupys.name} {cupys.tflops:.3g} TFLOP/s"
            yield from _wrapped("on the GPU", f"{self.timed}: {speed}; {'; '.join(shares)}")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Result of the check of a file.

    Attributes:
        file: Name of the file.
        target: Target architecture.
        kernels: Results of its kernels.
        seconds: Duration of the check, in seconds.
    """

    file: str
    target: str
    kernels: tuple[KernelReport, ...]
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if at least one kernel ran, and none is wrong."""
        return self.ran and all(each.ok for each in self.kernels)

    @property
    def ran(self) -> bool:
        """True if at least one kernel ran."""
        return any(each.trials for each in self.kernels)

    def __str__(self) -> str:
        """Return the report for people, in lines of 90 characters."""
        lines: list[str] = []
        for each in self.kernels:
            lines += [*([""] if lines else []), *each.lines()]
        return "\n".join(line.rstrip() for line in lines)

    def check(self) -> None:
        """Raise SimulationError if something is wrong; the message is the report.

        Raises:
            SimulationError: If a kernel is wrong, or none ran.
        """
        from tiledmm.errors import SimulationError

        if not self.ok:
            raise SimulationError(f"{self.file}:\n{self}")

    def document(self) -> dict[str, Any]:
        """Return the report as numbers, strings, lists and dicts, which ``json`` converts to text."""
        return {"file": self.file, "target": self.target, "ok": self.ok, "seconds": self.seconds,
                "kernels": [kernel_document(each) for each in self.kernels]}  # fmt: skip

    def json(self) -> str:
        """Return the report as a JSON object."""
        return json.dumps(self.document(), indent=1)

    def _repr_html_(self) -> str:
        """Return the report as HTML, for notebooks."""
        color = "#1a7f37" if self.ok else "#cf222e"
        return f'<pre style="border-left: 4px solid {color}; padding-left: 1em">{html.escape(str(self))}</pre>'


def _wrapped(label: str, text: str) -> list[str]:
    """Return the lines of a paragraph with a label."""
    head = f"{label:<{_LABEL}}  "
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _tera(flops: float) -> str:
    return f"{flops / 1e12:.3g} TFLOP/s"
