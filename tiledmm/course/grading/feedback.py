"""Tables for the teacher and feedback for the students."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tiledmm.course.grading.grade import Graded, by_student, total_of
from tiledmm.course.grading.rubric import ITEMS, Rubric
from tiledmm.course.grading.submissions import NO_FILE
from tiledmm.report.cells import NONE
from tiledmm.report.tables import Table

# Number of a student's other files that are named.
_NAMED = 3

# Length of a file's name: systems allow 255 bytes.
_LONGEST_NAME = 60

# Characters that are markup in a line of Markdown; an underscore within a word is not.
_MARKUP = re.compile(r"[\\`*<>\[\]&|~#!]|(?<!\w)_|_(?!\w)")


def points_table(graded: Sequence[Graded], rubric: Rubric, *, for_spreadsheets: bool = False) -> Table:
    """Return a table with the points of each student for each exercise.

    Args:
        graded: The exercises of all students.
        rubric: The rubric.
        for_spreadsheets: Whether to put an apostrophe before a name that a spreadsheet would read as a formula.
    """
    rows = []
    for student, own in by_student(graded).items():
        total = total_of(each.total for each in own)
        name = f"'{student}" if for_spreadsheets and student.startswith(("=", "+", "-", "@")) else student
        rows.append((name, *(f"{each.total:g}" for each in own), f"{total:g}", _to_look_at(own) or NONE))
    heads = [f"{each.exercise.name} ({each.most:g})" for each in rubric.tasks]
    return Table(rubric.title, ("<student", *heads, f"total ({rubric.most:g})", "<to look at"), tuple(rows))


def details(graded: Sequence[Graded]) -> list[dict[str, object]]:
    """Return all details of each student's exercises, for JSON."""
    return [
        {
            "student": each.student, "exercise": each.task.exercise.name, "file": each.file,
            "points": dict(each.points), "total": each.total, "most": each.task.most, "done": each.done,
            "problem": each.problem, "others": list(each.others), "feedback": each.feedback,
        }
        for each in graded
    ]  # fmt: skip


def write_feedback(graded: Sequence[Graded], rubric: Rubric, folder: Path) -> list[Path]:
    """Write a file of Markdown for each student, and return their paths.

    Args:
        graded: The exercises of all students.
        rubric: The rubric.
        folder: The folder for the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    taken: set[str] = set()
    for student, own in by_student(graded).items():
        path = folder / f"{_file_name(student, taken)}.md"
        path.write_text(feedback_of(student, own, rubric), encoding="utf-8")
        written.append(path)
    return written


def feedback_of(student: str, own: Sequence[Graded], rubric: Rubric) -> str:
    """Return one student's feedback as Markdown: points per item, and what the check says."""
    total = total_of(each.total for each in own)
    lines = [f"# {_text(rubric.title)}: {_text(student)}", "", f"{total:g} of {rubric.most:g} points.", ""]
    if others := own[0].others:
        lines += [f"These files belong to no exercise of the lab, and were not checked: {_text(_names(others))}."]
        lines += ["Keep the first line of each file as it was handed out: it names the exercise.", ""]
    for each in own:
        exercise = each.task.exercise
        lines += [f"## {exercise.name}: {_text(exercise.title)}", "", f"{each.total:g} of {each.task.most:g} points."]
        if each.problem == NO_FILE:
            lines += ["", "You handed in no file for this exercise.", ""]
            continue
        if each.file:
            lines[-1] += f" The file is {_text(each.file)}."
            lines += ["", "| for | points |", "|---|---:|"]
            for item, worth in each.task.points.items():
                lines.append(f"| {ITEMS[item]} | {each.points.get(item, 0.0):g} of {worth:g} |")
        if each.problem:
            lines += ["", f"Your teacher will look at this exercise: {_text(each.problem)}."]
        if each.feedback:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", each.feedback)), default=0))
            lines += ["", f"{fence}text", each.feedback, fence]
        lines.append("")
    return "\n".join(lines)


def _to_look_at(own: Sequence[Graded]) -> str:
    """Return what a teacher should look at in one student's files; empty if there is nothing."""
    none = [each.task.exercise.name for each in own if each.problem == NO_FILE]
    said = []
    if none:
        said.append("no file for any exercise" if len(none) == len(own) else f"no file for {', '.join(none)}")
    if own[0].others:
        said.append(f"files that belong to no exercise: {_names(own[0].others)}")
    said += [f"{each.task.exercise.name}: {each.problem}" for each in own if each.problem not in ("", NO_FILE)]
    return "; ".join(said)


def _names(files: Sequence[str]) -> str:
    more = len(files) - _NAMED
    return ", ".join(files[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _file_name(student: str, taken: set[str]) -> str:
    """Return a file name for a student that no other student has, even if the file system ignores case."""
    usual = re.sub(r"[^\w.-]", "_", student).lstrip("-.")[:_LONGEST_NAME] or "_"
    name, number = usual, 1
    while name.casefold() in taken:
        number += 1
        name = f"{usual}_{number}"
    taken.add(name.casefold())
    return name


def _text(text: str) -> str:
    """Return a text as one line of Markdown, with all markup escaped."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", " ".join(text.split()))
