"""Tests that bugs planted in kernels are found and that a planted line is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.support.results import FOLDER
from tools.bugs.broken_kernels import Found, Outcome
from tools.bugs.fates import Fate
from tools.bugs.kernels import BUGS, HELD_OUT, KernelBug, Verdict, every_bug, judge, read, verdict

#: One bug per frequent cause, for the everyday tests.
FEW = (
    "reduce_tree: no barrier after the loads",
    "matmul_shared: k to the width",
    "vector_add: no guard",
    "sgemm_2d_tile: a fragment of TM and one",
    "reduce_shuffle: half of a warp shuffles",
    "softmax_online: the sum begins nowhere",
    "decompose: the nearest maximum",
)


@pytest.mark.parametrize(("folder", "least"), [(BUGS, 400), (HELD_OUT, 280)])
def test_every_bug_fits_its_kernel(folder: Path, least: int) -> None:
    bugs = read(folder)
    assert len({bug.id for bug in bugs}) == len(bugs) >= least
    texts = {bug.kernel: bug.edited.text() for bug in bugs}
    for bug in bugs:
        text, lines = bug.planted(texts[bug.kernel])
        assert (text != texts[bug.kernel] or bug.launch) and lines, bug.id


def test_a_line_beside_the_planted_one_does_not_count() -> None:
    bug = KernelBug("kernel", "name", "cause", "b;\nc;", "d;")
    text, lines = bug.planted("a;\nb;\nc;\ne;")
    assert text == "a;\nd;\ne;" and lines == {2}
    for line, other, expected in ((2, 0, "FOUND"), (3, 2, "FOUND"), (3, 0, "ELSEWHERE"), (0, 0, "ELSEWHERE")):
        outcome = Outcome(True, (Found("kind", line, other, "message"),))
        assert verdict(bug, lines, outcome).outcome == Verdict[expected].value
    assert verdict(bug, lines, Outcome(True)) == Fate(Verdict.MISSED.value, False)
    assert verdict(bug, lines, Outcome(False)) == Fate(Verdict.WRONG.value, False)
    assert verdict(bug, lines, Outcome(False, error="TypeError: no")).outcome == Verdict.REFUSED.value


def test_a_few_bugs_are_found() -> None:
    bugs = [bug for bug in every_bug() if bug.id in FEW]
    assert len(bugs) == len(FEW)
    assert _lost(bugs, 1) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.full) for part in (1, 2))])
def test_no_bug_is_lost_that_was_found(part: int) -> None:
    """Check that a third of the bugs found before, from all kernels and causes, are still found."""
    before = json.loads((FOLDER / "simulator_bugs.json").read_text("utf-8"))["missed"]
    bugs = [bug for bug in every_bug() if bug.id not in before][part::3]
    lost = _lost(bugs, 2)
    again = [bug for bug in bugs if bug.id in lost]  # by themselves: those that never end have a limit of time
    assert _lost(again, 1) == {}


def _lost(bugs: list[KernelBug], workers: int) -> dict[str, str]:
    fates = zip(bugs, judge(bugs, workers), strict=True)
    return {bug.id: f"{fate.outcome}: {fate.detail}" for bug, fate in fates if not fate.caught}
