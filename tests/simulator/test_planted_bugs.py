"""Tests that bugs planted in kernels are found and that a planted line is named."""

from __future__ import annotations

import json

import pytest

from benchmarks.support.results import FOLDER
from tools.broken_kernels import Found, Outcome
from tools.simulator_bugs import HELD_OUT, Bug, Judgement, Verdict, judge, judge_all, read

SUITE = read()

#: One bug per frequent cause, for the everyday tests.
FEW = (
    "reduce_tree: no barrier after the loads",
    "named_barrier: of 96 threads",
    "matmul_shared: k to the width",
    "vector_add: no guard",
    "vector_add: minus",
    "sgemm_2d_tile: a fragment of TM and one",
    "sgemm_vectorized: C from the third column",
    "transpose_padded: half of the rows is loaded",
    "reduce_shuffle: half of a warp shuffles",
    "scan_in_place: only those that add",
    "softmax_online: the sum begins nowhere",
    "decompose: the nearest maximum",
)


def test_every_bug_fits_its_kernel() -> None:
    assert len(SUITE.bugs) >= 400
    assert len({bug.id for bug in SUITE.bugs}) == len(SUITE.bugs)
    texts = {name: SUITE.kernel(name).text() for name in {bug.kernel for bug in SUITE.bugs}}
    for bug in SUITE.bugs:
        text = texts[bug.kernel]
        assert bug.planted(text) != text or bug.launch, bug.id
        assert bug.planted_lines(text), bug.id


def test_a_line_beside_the_planted_one_does_not_count() -> None:
    bug = Bug("kernel", "name", "cause", "b;\nc;", "d;")
    text = "a;\nb;\nc;\ne;"
    assert bug.planted(text) == "a;\nd;\ne;" and bug.planted_lines(text) == {2}
    for line, other, verdict in ((2, 0, "FOUND"), (3, 2, "FOUND"), (3, 0, "ELSEWHERE"), (0, 0, "ELSEWHERE")):
        outcome = Outcome(True, (Found("kind", line, other, "message"),))
        assert judge(bug, text, outcome).verdict is Verdict[verdict]
    assert judge(bug, text, Outcome(True)).verdict is Verdict.MISSED
    assert judge(bug, text, Outcome(False)).verdict is Verdict.WRONG
    assert judge(bug, text, Outcome(False, error="TypeError: no")).verdict is Verdict.REFUSED


def test_a_few_bugs_are_found() -> None:
    bugs = [bug for bug in SUITE.bugs if bug.id in FEW]
    assert len(bugs) == len(FEW)
    assert _lost(bugs, judge_all(SUITE, bugs, 1)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.full) for part in (1, 2))])
def test_no_bug_is_lost_that_was_found(part: int) -> None:
    """Check that a third of the bugs found before, from all kernels and causes, are still found."""
    before = json.loads((FOLDER / "simulator_bugs.json").read_text("utf-8"))["verdicts"]
    bugs = [bug for bug in SUITE.bugs if before.get(bug.id) == Verdict.FOUND.value][part::3]
    assert bugs
    lost = _lost(bugs, judge_all(SUITE, bugs, 2))
    again = [bug for bug in bugs if bug.id in lost]  # by themselves: those that never end have a limit of time
    assert _lost(again, judge_all(SUITE, again, 1)) == {}


def _lost(bugs: list[Bug], judgements: dict[str, Judgement]) -> dict[str, str]:
    return {
        bug.id: f"{judgements[bug.id].verdict.value}: {judgements[bug.id].said}"
        for bug in bugs
        if judgements[bug.id].verdict is not Verdict.FOUND
    }


def test_every_held_out_bug_fits_its_kernel() -> None:
    suite = read(HELD_OUT)
    assert len({bug.id for bug in suite.bugs}) == len(suite.bugs) >= 280
    for bug in suite.bugs:
        text = suite.kernel(bug.kernel).text()
        assert bug.planted(text) != text or bug.launch, bug.id
        assert bug.planted_lines(text), bug.id
