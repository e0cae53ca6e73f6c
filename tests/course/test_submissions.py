"""Tests of submissions and feedback: whose file is which exercise's, and names that are not harmless."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiledmm.course.exercise import exercises
from tiledmm.course.grading.feedback import points_table, write_feedback
from tiledmm.course.grading.grade import Graded
from tiledmm.course.grading.rubric import read_rubric
from tiledmm.course.grading.submissions import NO_FILE, submissions_in
from tiledmm.course.student_file import start_text
from tiledmm.errors import ConfigError

GUARD, COALESCED = exercises()["guard"], exercises()["coalesced"]


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def test_submissions_are_found(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "ann/deep/mine.cu": start_text(GUARD).encode(),
            "ann/coalesced.cu": b"no first line",
            "ben/one.cu": start_text(GUARD).encode(),
            "ben/two.cu": start_text(GUARD).encode(),
        },
    )
    (tmp_path / "ben" / "coalesced.cu").symlink_to("/etc/passwd")
    (tmp_path / "cleo").symlink_to(tmp_path / "ann")
    found = {(each.student, each.exercise): each for each in submissions_in(tmp_path, [GUARD, COALESCED])}
    assert {student for student, _ in found} == {"ann", "ben"}
    assert found["ann", "guard"].file == tmp_path / "ann" / "deep" / "mine.cu"
    assert found["ann", "coalesced"].file == tmp_path / "ann" / "coalesced.cu"
    assert found["ben", "guard"].file is None
    assert found["ben", "guard"].problem == "2 files belong to this exercise (one.cu, two.cu): none is checked"
    assert "not a text file" in found["ben", "coalesced"].problem
    with pytest.raises(ConfigError, match="is not a folder"):
        submissions_in(tmp_path / "nowhere", [GUARD])


def test_a_file_is_placed_by_its_first_line_then_its_name_then_its_kernel(tmp_path: Path) -> None:
    guard = start_text(GUARD).encode()
    without_first_line = guard.partition(b"\n")[2]
    write(
        tmp_path,
        {
            "ann/lab (3).cu": guard,
            "ann/homework.txt": start_text(COALESCED).encode("utf-16"),
            "ben/last.cu": without_first_line,
            "cleo/Guard.cu": without_first_line.replace(b"__global__", b"") + "// \u00e9t\u00e9".encode("latin-1"),
            "dora/guard.cu": guard,
            "dora/guard_old.cu": guard,
            "emil/softmax.cu": start_text(exercises()["softmax"]).encode(),
            "emil/notes.txt": b"no kernel",
            "emil/__MACOSX/guard.cu": guard,
            "finn/guard.cu": bytes(1000),
        },
    )
    found = {(each.student, each.exercise): each for each in submissions_in(tmp_path, [GUARD, COALESCED])}
    assert {which: each.file.name for which, each in found.items() if each.file} == {
        ("ann", "guard"): "lab (3).cu", ("ann", "coalesced"): "homework.txt", ("ben", "guard"): "last.cu",
        ("cleo", "guard"): "Guard.cu", ("dora", "guard"): "guard.cu",
    }  # fmt: skip
    assert "only guard.cu counts" in found["dora", "guard"].problem
    assert found["emil", "guard"].others == ("softmax.cu",) and found["emil", "guard"].problem == NO_FILE
    assert "not a text file" in found["finn", "guard"].problem


def test_the_folder_of_one_student_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"guard.cu": b"x", "coalesced.cu": b"x"})
    with pytest.raises(ConfigError, match="the folder of one student"):
        submissions_in(tmp_path, [GUARD])


def test_odd_names_do_no_harm(tmp_path: Path) -> None:
    """Check that all students keep a name and a file of feedback, which no program takes for something else."""
    students, rubric = tmp_path / "class", tmp_path / "lab.toml"
    names = [
        b"a b", b"a_b", b"A_B", b"=1+1", b"J\xf6rg", b"up\x1b[2A", b"two\nlines", b"-rf", b"`x` <b>", b"x" * 255,
        "\u202eback".encode(),
    ]  # fmt: skip
    for name in names:
        os.makedirs(os.fsencode(students / "") + b"/" + name)
    write(students, {"a b.cu": start_text(GUARD).encode(), "=1+1/|`[x](y).cu": b"nothing", "=1+1/b.cu": b"nothing"})
    rubric.write_text("[[exercise]]\nname = 'guard'\npoints.shown = 1")
    lab = read_rubric(str(rubric))
    found = submissions_in(students, [GUARD])
    shown = {each.student for each in found}
    assert len(shown) == 12 and {"a b", "a b.cu", "J\u00f6rg", "two lines"} <= shown
    assert all(each.isprintable() for each in shown)
    graded = [Graded(each.student, lab.tasks[0], problem=each.problem, others=each.others) for each in found]
    written = write_feedback(graded, lab, tmp_path / "feedback")
    assert len({each.name.casefold() for each in written}) == 12
    assert set((tmp_path / "feedback").iterdir()) == set(written)
    assert r"\|\`\[x\](y).cu" in (tmp_path / "feedback" / "_1_1.md").read_text()
    for for_spreadsheets, name in ((False, "=1+1"), (True, "'=1+1")):
        rows = points_table(graded, lab, for_spreadsheets=for_spreadsheets).rows
        assert name in {row[0] for row in rows}


def test_a_deep_folder_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path, {"ann/guard.cu": start_text(GUARD).encode(), "ben/notes.txt": b"x"})
    here = os.open(tmp_path / "ben", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert [each.problem for each in submissions_in(tmp_path, [GUARD])] == ["", NO_FILE]
