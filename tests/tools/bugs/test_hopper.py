"""Tests of how bugs planted in Hopper kernels are judged."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.simulator.hopper.planted_bugs import HopperBug
from tools.bugs import __main__ as command
from tools.bugs import hopper
from tools.bugs.children import End
from tools.bugs.hopper import Found, Outcome, judge, verdict

BUG = HopperBug(
    "redux_sync", "or for xor", "cause", "why", lines=("out[7 * threads + t]",), also=("const int value",),
    old='REDUX("xor.b32")', new='REDUX("or.b32")',
)  # fmt: skip
REFUSED = HopperBug("redux_sync", "no blocks", "cause", "why", launch={"grid": [0]}, refused=True)
LINE, OTHER = (f"redux_sync.cu:{min(lines)}" for lines in BUG.planted()[1:])


def found(*places: str) -> tuple[Found, ...]:
    return (Found("kind", "message", frozenset(places)),)


@pytest.mark.parametrize(
    ("bug", "outcome", "named", "caught"),
    [
        (BUG, Outcome(False, found("hopper.cuh:7", LINE)), "found", True),
        (BUG, Outcome(False, found(OTHER) + found(LINE)), "found", True),
        (BUG, Outcome(False, found(OTHER)), "accepted", True),
        (BUG, Outcome(False, found("redux_sync.cu:1")), "elsewhere", False),
        (BUG, Outcome(False, (), found(LINE)), "warned", False),
        (BUG, Outcome(False), "wrong result", False),
        (BUG, Outcome(True), "missed", False),
        (BUG, Outcome(False, refused=f"CompilationError: {LINE}: no"), "refused", True),
        (BUG, Outcome(False, refused=f"CompilationError: {LINE}0: no"), "refused elsewhere", False),
        (REFUSED, Outcome(False, refused="ConfigError: grid"), "refused", True),
        (REFUSED, Outcome(True), "missed", False),
        (BUG, Outcome(False, error="KeyError: 3"), "error", False),
    ],
)
def test_a_verdict(bug: HopperBug, outcome: Outcome, named: str, caught: bool) -> None:
    fate = verdict(bug, outcome)
    assert (fate.outcome, fate.caught) == (named, caught)


def test_what_is_silent_runs_again_with_full_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []
    answers = {
        (False, True): Outcome(True), (False, "full"): Outcome(True), (True, True): Outcome(True),
        (True, "full"): Outcome(False, found(LINE)),
    }  # fmt: skip

    def run(_: object, job: partial[object]) -> object:
        name, planted, checks = job.args
        asked.append((planted, checks))
        return End.HUNG if planted and name == REFUSED.id else answers[planted, checks]

    monkeypatch.setattr("tools.bugs.children.Children.run", run)
    monkeypatch.setattr(hopper, "every_bug", lambda: [BUG, REFUSED])
    assert [fate.outcome for fate in judge([BUG, REFUSED], 1)] == ["found", "hung"]
    assert asked == [*answers, (True, True)]
    path = tmp_path / "fates.json"
    assert command.main(["hopper", "--fates", str(path), "-k", "or for"]) == 0
    assert json.loads(path.read_text("utf-8")) == {
        BUG.id: {"group": "cause", "outcome": "found", "noticed": True, "detail": "message"}
    }


def test_a_kernel_that_is_wrong_by_itself_shows_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.bugs.children.Children.run", lambda _, job: Outcome(True, found(LINE)))
    (fate,) = judge([BUG], 1)
    assert (fate.outcome, fate.caught) == ("base fails", False)
