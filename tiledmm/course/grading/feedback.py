"""What a teacher and the students read of a grading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tiledmm.course.grading.grade import Graded, by_student
from tiledmm.course.grading.rubric import ITEMS, Rubric
from tiledmm.report.cells import NONE
from tiledmm.report.tables import Table


def points_table(graded: Sequence[Graded], rubric: Rubric) -> Table:
    """Return a table with the points of each student for each exercise."""
    rows = []
    for student, own in by_student(graded).items():
        problems = "; ".join(f"{each.task.exercise.name}: {each.problem}" for each in own if each.problem)
        total = sum(each.total for each in own)
        rows.append((student, *(f"{each.total:g}" for each in own), f"{total:g}", problems or NONE))
    heads = [f"{each.exercise.name} ({each.most:g})" for each in rubric.tasks]
    return Table(rubric.title, ("<student", *heads, f"total ({rubric.most:g})", "<to look at"), tuple(rows))


def details(graded: Sequence[Graded]) -> list[dict[str, object]]:
    """Return all that is known of each student's exercises, for programs."""
    return [
        {
            "student": each.student, "exercise": each.task.exercise.name, "points": dict(each.points),
            "total": each.total, "most": each.task.most, "done": each.done, "problem": each.problem,
            "feedback": each.feedback,
        }
        for each in graded
    ]  # fmt: skip


def write_feedback(graded: Sequence[Graded], rubric: Rubric, folder: Path) -> list[Path]:
    """Write a file of Markdown for each student, and return their paths.

    Args:
        graded: The exercises of all students.
        rubric: The rubric.
        folder: Where the files go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for student, own in by_student(graded).items():
        path = folder / (re.sub(r"[^\w.-]", "_", student) + ".md")
        path.write_text(feedback_of(student, own, rubric), encoding="utf-8")
        written.append(path)
    return written


def feedback_of(student: str, own: Sequence[Graded], rubric: Rubric) -> str:
    """Return what one student reads, as Markdown: points for each item, and what the check says."""
    total = sum(each.total for each in own)
    lines = [f"# {rubric.title}: {student}", "", f"{total:g} of {rubric.most:g} points.", ""]
    for each in own:
        exercise = each.task.exercise
        lines += [f"## {exercise.name}: {exercise.title}", "", f"{each.total:g} of {each.task.most:g} points.", ""]
        lines += ["| for | points |", "|---|---:|"]
        for item, worth in each.task.points.items():
            lines.append(f"| {ITEMS[item]} | {each.points.get(item, 0.0):.3g} of {worth:g} |")
        if each.problem:
            lines += ["", f"Your teacher looks at this one: {each.problem}."]
        if each.feedback:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", each.feedback)), default=0))
            lines += ["", f"{fence}text", each.feedback, fence]
        lines.append("")
    return "\n".join(lines)
