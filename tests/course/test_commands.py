"""Tests of ``tiledmm exercise``: what a student and a teacher do with files, and what stays in the folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import missing_simulator
from tiledmm.cli import app
from tiledmm.course.exercise import exercises, find_exercise
from tiledmm.course.grading.rubric import read_rubric
from tiledmm.course.progress import FILE, Progress
from tiledmm.course.student_file import solution_text

NAME = "coalesced"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words, answer="": CliRunner().invoke(app, ["exercise", *words], input=answer)


def test_work_is_never_overwritten(run) -> None:
    assert run("start", NAME).exit_code == 0
    file = Path(f"{NAME}.cu")
    file.write_text("mine")
    assert run("start", NAME).exit_code == 2 and file.read_text() == "mine"
    assert run("export", ".").exit_code == 2 and [*Path().iterdir()] == [file]


@pytest.mark.skipif(missing_simulator() is not None, reason=str(missing_simulator()))
def test_the_folder_keeps_what_is_done(run) -> None:
    run("start", NAME)
    file = Path(f"{NAME}.cu")
    assert run("check", str(file)).exit_code == 1
    assert Progress(Path())[NAME].checks == 1 and not Progress(Path())[NAME].done
    file.write_text(solution_text(find_exercise(NAME)))
    assert run("check", str(file), "--seed", "5", "--json").exit_code == 0
    assert Progress(Path())[NAME].done
    file.write_text("// Exercise coalesced: and no kernel\n__global__ void other(int* x) {}")
    found = run("check", str(file))
    assert found.exit_code == 2 and "no kernel coalesced" in " ".join(found.output.replace("│", " ").split())
    assert Progress(Path())[NAME].done, "what was done stays done"


def test_each_hint_is_shown_after_those_before_it(run) -> None:
    run("start", NAME)
    hints = [" ".join(each.split()) for each in find_exercise(NAME).hints]
    for count in (*range(1, len(hints) + 1), len(hints)):
        said = " ".join(run("hint", f"{NAME}.cu").output.split())
        assert [each in said for each in hints] == [at < count for at in range(len(hints))]


def test_the_solution_asks_first(run) -> None:
    solution = find_exercise(NAME).solution
    assert solution not in run("solution", NAME, answer="n\n").output and not Path(FILE).exists()
    assert solution in run("solution", NAME, answer="y\n").output
    assert Progress(Path())[NAME].solution
    assert find_exercise("naive").solution in run("solution", "naive", "--yes").output


def test_students_get_no_solutions(run) -> None:
    assert run("export", "handout", "--lesson", "4").exit_code == 0
    lesson = {f"{each.name}.cu" for each in exercises().values() if each.lesson == 4}
    assert {each.name for each in Path("handout").iterdir()} == lesson | {"LICENSE", "README.txt"}
    assert "MIT" in Path("handout/LICENSE").read_text()
    for each in exercises().values():
        if each.lesson == 4 and not each.questions:
            assert each.solution not in Path(f"handout/{each.name}.cu").read_text()
    assert run("export", "other", "--lesson", "77").exit_code == 2 and not Path("other").exists()


def test_a_labs_rubric_goes_with_its_exercises(run) -> None:
    assert run("export", "handout", "--lab", "memory").exit_code == 0
    lab = read_rubric("handout/lab.toml")
    files = {each.name for each in Path("handout").iterdir()} - {"lab.toml", "LICENSE", "README.txt"}
    assert files == {f"{each.exercise.name}.cu" for each in lab.tasks}
    assert "the labs are memory" in run("export", "other", "--lab", "nothing").output


def test_a_damaged_record_is_named_and_kept(run) -> None:
    Path(FILE).write_text("{")
    assert run().exit_code == 2 and Path(FILE).read_text() == "{"


def test_the_list_is_for_people_and_for_programs(run) -> None:
    Progress(Path()).change(NAME, done=True)
    assert f"1 of {len(exercises())} exercises are done" in run().output
    (table,) = json.loads(run("--json").stdout)["tables"]
    assert [row["name"] for row in table["rows"]] == [*exercises()]
