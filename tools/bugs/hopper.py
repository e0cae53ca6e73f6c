"""Bugs planted in Hopper kernels, which the simulator must find at their lines.

The bugs in ``tests/simulator/hopper/bugs/*.toml`` are edits of the kernels in ``tests/simulator/hopper/kernels``, of
their launches and tensor maps, and of kernels that this package renders; those in ``tests/simulator/hopper/held_out``
are by an author who did not know what the simulator finds. Each runs in a child process, which it may crash or hang:
with checks, and if they find nothing with full checks. First each case runs unedited: it must be right, without a
finding.

A bug is *found* if a finding names a planted line, or *accepted* if it names another line that the bug accepts. A
refusal before the launch counts if the bug is one of those that a driver refuses, or if it names a planted line.
``Verdict`` lists the other outcomes.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from tests.simulator.hopper import planted_bugs
from tests.simulator.hopper.planted_bugs import HopperBug
from tests.simulator.hopper.simulate import named_places, simulated_launches
from tests.strategies import small_integers
from tiledmm.elements import compute_element
from tiledmm.errors import TiledmmError
from tiledmm.kernels.tensor_maps import ALIGNMENT
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.simulated.product import simulate_product
from tiledmm.simulator.check.finding_kinds import NOT_WRITTEN, WRONG_RESULT
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.report import Report
from tools.bugs.children import Children, End
from tools.bugs.fates import Fate, Progress

# A kernel that waits forever must be a finding long before the process is ended, also in the runs of full checks.
_TIMEOUT, _PROCESS_TIMEOUT = 40, 300


class Verdict(str, Enum):
    """Outcome of running a bug."""

    FOUND = "found"  # a finding names a planted line
    ACCEPTED = "accepted"  # a finding names a line that the bug accepts instead
    ELSEWHERE = "elsewhere"  # findings, all of other lines
    WARNED = "warned"  # no finding, and a warning names a planted or an accepted line
    WRONG = "wrong result"  # no finding, and the result is wrong
    MISSED = "missed"  # no finding, and the result is right
    REFUSED = "refused"  # an error of this package, as a driver's, or one that names such a line
    REFUSED_ELSEWHERE = "refused elsewhere"  # another error of this package
    ERROR = "error"  # another exception
    KILLED = "killed"  # the process ended
    HUNG = "hung"  # the process did not end
    BASE = "base fails"  # the case without the bug is wrong, has findings, or does not run


@dataclass(frozen=True)
class Found:
    """A finding or warning of the simulator: its kind, its message and the places that it names, as file and line."""

    kind: str
    message: str
    places: frozenset[str]


@dataclass(frozen=True)
class Outcome:
    """Result of one run.

    Attributes:
        right: Whether all arrays are what they should be.
        findings, warnings: What the simulator found, without wrong results.
        refused: The error of this package that ended the run; empty if there was none.
        error: Another exception; empty if there was none.
    """

    right: bool
    findings: tuple[Found, ...] = ()
    warnings: tuple[Found, ...] = ()
    refused: str = ""
    error: str = ""

    @classmethod
    def of(cls, reports: Iterable[Report]) -> Outcome:
        """Return the outcome of the launches of a run, which are made here and may raise errors."""
        findings: list[Found] = []
        warnings: list[Found] = []
        try:
            for report in reports:
                for into, these in ((findings, report.findings), (warnings, report.warnings)):
                    into += [Found(each.kind, each.message, named_places(report, each)) for each in these]
        except TiledmmError as error:
            return cls(False, tuple(findings), tuple(warnings), refused=f"{type(error).__name__}: {error}")
        right = all(each.kind != WRONG_RESULT for each in findings)
        found = tuple(each for each in findings if each.kind != WRONG_RESULT)
        return cls(right and not found, found, tuple(warnings))

    @property
    def sound(self) -> bool:
        """Whether the result is right, without findings or errors."""
        return self.right and not (self.findings or self.refused or self.error)

    @property
    def is_silent(self) -> bool:
        """Whether nothing was found, so that more checks are worth a try."""
        return not (self.findings or self.refused or self.error)


#: The file that places in a rendered text have.
RENDERED = "rendered.cu"

# Operands of a rendered kernel are small integers up to this, whose sums are exact.
_BOUND = 3


def simulate_rendered(bug: HopperBug, text: str, **settings: Any) -> Outcome:
    """Run a product with the edited text of a kernel that this package renders, by the product's own launches.

    Args:
        bug: The bug; ``bug.rendered`` says which kernel, sizes and number of blocks show it.
        text: The kernel's text, with or without the bug.
        **settings: Fields of ``Settings``.

    Returns:
        The outcome, whose places are ``"rendered.cu:LINE"`` with lines of ``text``.

    Raises:
        ValueError: If the bug is not one of a rendered kernel.
    """
    if (rendered := bug.rendered) is None:
        raise ValueError(f"{bug.id}: {bug.kernel} is not rendered")
    compute, (m, n, k) = compute_element(rendered.dtype), rendered.sizes
    k = max(k, rendered.spec.variant.operands.shortest)  # another kernel computes shorter sums
    rng = np.random.default_rng(0)
    x1, x2 = (
        _with_aligned_rows(small_integers(rng, shape, compute.dtype, _BOUND), letter)
        for shape, letter in zip(((m, k), (k, n)), rendered.layout, strict=True)
    )
    wide = np.complex128 if compute.components > 1 else np.int64
    right = (x1.astype(wide) @ x2.astype(wide)).astype(compute.dtype)
    config = {"split_k": rendered.partitions} if rendered.partitions > 1 else None
    kernel = KernelKeywords(rendered.variant, rendered.tile, config, precision_of(compute))
    ufunc = UfuncKeywords(dtype=dtype_of(compute))
    same = True

    def reports(path: Path) -> Iterator[Report]:
        nonlocal same
        done = simulate_product(x1, x2, None, ufunc, kernel, Settings(sms=rendered.blocks, **settings), path)
        found = tuple(each for each in done.report.findings if each.kind != NOT_WRITTEN)
        same = np.array_equal(done.result, right)
        yield replace(done.report, findings=found)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, RENDERED)
        path.write_text(text, "utf-8")
        outcome = Outcome.of(reports(path))
    return outcome if same else replace(outcome, right=False)


def _with_aligned_rows(x: np.ndarray[Any, Any], letter: str) -> np.ndarray[Any, Any]:
    """Copy a matrix to contiguous rows (N) or columns (T) at multiples of 16 bytes, which TMA reads in place."""
    rows = x if letter == "N" else x.T
    chunk = ALIGNMENT // x.itemsize
    padded = np.zeros((len(rows), -(-rows.shape[1] // chunk) * chunk), x.dtype)[:, : rows.shape[1]]
    padded[...] = rows
    return padded if letter == "N" else padded.T


def run(name: str, planted: bool, checks: bool | str) -> Outcome:
    """Run a bug, or what it edits without it.

    Args:
        name: The bug's ``id``: a bug itself does not travel to another process.
        planted: Whether the bug is planted.
        checks: Value of the setting.
    """
    bug = _bugs()[name]
    settings: dict[str, Any] = {"checks": checks, "counts": False, "timeout": _TIMEOUT, "workers": 1}
    text = bug.planted()[0] if planted else bug.text
    if bug.rendered:
        return simulate_rendered(bug, text, **settings)
    case = bug.shown_by if planted else bug.unedited_case
    offsets = {each: changes["offset"] for each, changes in bug.maps.items() if planted and "offset" in changes}
    return Outcome.of(simulated_launches(case, text, offsets=offsets, **settings))


@functools.cache
def _bugs() -> dict[str, HopperBug]:
    return {each.id: each for each in (*every_bug(), *held_out_bugs())}


def every_bug() -> list[HopperBug]:
    """Return the bugs that were written before any of the checks."""
    return list(planted_bugs.every_bug())


def held_out_bugs() -> list[HopperBug]:
    """Return the bugs whose author saw neither the checks nor the other bugs."""
    return list(planted_bugs.held_out_bugs())


def verdict(bug: HopperBug, outcome: Outcome) -> Fate:
    """Judge the outcome of running a bug."""
    _, lines, others = bug.planted()
    file = RENDERED if bug.rendered else f"{bug.kernel}.cu"
    planted, accepted = ({f"{file}:{line}" for line in each} for each in (lines, others))
    for verdict, places in ((Verdict.FOUND, planted), (Verdict.ACCEPTED, accepted)):
        for each in outcome.findings:
            if each.places & places:
                return _fate(verdict, each.message)
    if outcome.refused:
        at_line = any(f"{place}:" in outcome.refused for place in planted | accepted)
        return _fate(Verdict.REFUSED if bug.refused or at_line else Verdict.REFUSED_ELSEWHERE, outcome.refused)
    if outcome.error:
        return _fate(Verdict.ERROR, outcome.error)
    if outcome.findings:
        return _fate(Verdict.ELSEWHERE, outcome.findings[0].message)
    for each in outcome.warnings:
        if each.places & (planted | accepted):
            return _fate(Verdict.WARNED, each.message)
    return _fate(Verdict.MISSED if outcome.right else Verdict.WRONG)


def _fate(outcome: Verdict, detail: str = "") -> Fate:
    caught = outcome in (Verdict.FOUND, Verdict.ACCEPTED, Verdict.REFUSED)
    return Fate(outcome.value, caught, detail[:400])


def judge(bugs: Sequence[HopperBug], workers: int, progress: Progress = lambda _: None) -> list[Fate]:
    """Run and judge bugs in parallel; return their fates in order."""
    with Children(workers, _PROCESS_TIMEOUT) as children, ThreadPoolExecutor(workers) as pool:

        def outcome(bug: HopperBug, *, planted: bool) -> Outcome | End:
            def with_checks(checks: bool | str) -> Outcome | End:
                answer = children.run(functools.partial(run, bug.id, planted, checks))
                if isinstance(answer, Exception):
                    return Outcome(False, error=f"{type(answer).__name__}: {answer}")
                return answer

            found = with_checks(True)
            return with_checks("full") if isinstance(found, Outcome) and found.is_silent else found

        def base_of(bug: HopperBug) -> str:
            return bug.kernel if bug.rendered else bug.case or bug.kernel

        edited = {base_of(bug): bug for bug in bugs}
        bases = dict(zip(edited, pool.map(functools.partial(outcome, planted=False), edited.values()), strict=True))

        def one(bug: HopperBug) -> Fate:
            base = bases[base_of(bug)]
            found = outcome(bug, planted=True) if isinstance(base, Outcome) and base.sound else base
            progress(bug.id)
            if found is base:
                why = base.value if isinstance(base, End) else base.refused or base.error or str(base.findings[:1])
                return _fate(Verdict.BASE, why)
            return _fate(Verdict(found.value)) if isinstance(found, End) else verdict(bug, found)

        return list(pool.map(one, bugs))
