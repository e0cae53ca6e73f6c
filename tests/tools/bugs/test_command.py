from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.bugs import __main__ as command
from tools.bugs import host
from tools.bugs.fates import Fate, Options, Progress
from tools.bugs.kernels import KernelBug

FATES = {
    "caught": Fate("found", True),
    "equivalent": Fate("same code", None),
    "known": Fate("survived", False, "a round number", expected=True),
    "missed": Fate("elsewhere", False, "line 7"),
}


def judged(names: Sequence[str]) -> list[tuple[KernelBug, Fate]]:
    return [(KernelBug("k", name, f"cause {len(name)}"), FATES[name]) for name in names]


def test_the_score_is_of_those_that_count() -> None:
    assert command.score(FATES.values()) == 1 / 3
    assert command.score([]) == 1


def test_results_count_each_outcome_and_name_what_was_missed() -> None:
    assert command.results(judged(list(FATES))) == {
        "groups": {
            "cause 10": {"same code": 1},
            "cause 5": {"survived": 1},
            "cause 6": {"found": 1, "elsewhere": 1},
        },
        "missed": {"k: known": "survived", "k: missed": "elsewhere"},
    }


@pytest.mark.parametrize(
    ("names", "status"), [(["caught", "equivalent", "known"], 0), (["caught", "missed"], 1), (["caught"], 0)]
)
def test_the_exit_status_is_1_if_a_bug_was_missed_that_is_not_known(
    names: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def judge(bugs: Sequence[KernelBug], workers: int, progress: Progress) -> list[Fate]:
        for bug in bugs:
            progress(bug.id)
        return [FATES[bug.name] for bug in bugs]

    monkeypatch.setattr(host, "every_bug", lambda: [bug for bug, _ in judged(names)])
    monkeypatch.setattr(host, "judge", judge)
    path = tmp_path / "bugs.json"
    assert command.main(["host", "--json", str(path)]) == status
    printed = capsys.readouterr().out
    assert [name for name in names if f"k: {name}" in printed] == [
        each for each in names if each in ("known", "missed")
    ]
    assert json.loads(path.read_text("utf-8"))["groups"] == command.results(judged(names))["groups"]
    assert command.main(["host", "-k", "caught"]) == 0
    with pytest.raises(SystemExit):
        command.main(["host", "-k", "nothing of that name"])


def test_options_choose_by_words_and_at_random() -> None:
    bugs = [bug for bug, _ in judged(list(FATES))]
    assert Options(("cause 6", "k:")).chosen(bugs) == [bugs[0], bugs[3]]
    assert Options().chosen(bugs) == bugs
    drawn = Options(limit=2, seed=1).chosen(bugs)
    assert len(drawn) == 2 and drawn == Options(limit=2, seed=1).chosen(bugs)
