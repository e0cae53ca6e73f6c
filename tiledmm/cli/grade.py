"""Command ``tiledmm grade``: points and feedback for a class's submissions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiledmm.cli.output import Csv, Json, Markdown, Output, progress


def grade(
    submissions: Annotated[Path, typer.Argument(help="Folder that contains a folder or a file per student.")],
    rubric: Annotated[str, typer.Option(help="TOML file, or the name of one of the package's labs.")],
    feedback: Annotated[
        Path | None, typer.Option(help="Folder to write each student's feedback to.", show_default="not written")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Number of files to check at a time.", show_default="one per core")
    ] = 0,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Run the students' code with your own rights, without a sandbox.")
    ] = False,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Grade a class: check every student's exercises, and give points according to a rubric.

    Each file is compiled and run in its own process, without a network, with a read-only file system, and with limits
    on time, memory and processes. The exit status is 0 if every file was checked, and 1 if a submission needs to be
    looked at.

        tiledmm grade submissions --rubric memory --feedback feedback
        tiledmm grade submissions --rubric lab.toml --csv > points.csv
    """
    from tiledmm.course.grading.feedback import details, points_table, write_feedback
    from tiledmm.course.grading.grade import grade as grade_all
    from tiledmm.course.grading.rubric import read_rubric

    out, lab = Output(json=json, csv=csv, markdown=markdown), read_rubric(rubric)
    if feedback is not None:
        _check_folder(feedback, submissions)
    with progress(out=out) as tell:
        graded = grade_all(
            submissions, lab, unsafe=unsafe, jobs=jobs, progress=lambda done, of: tell("checking files", done, of)
        )
    out.table(points_table(graded, lab, for_spreadsheets=csv))
    if feedback is not None:
        out.say(f"Wrote {len(write_feedback(graded, lab, feedback))} files of feedback to {feedback}.")
    out.end(ok=not any(each.problem for each in graded), grades=details(graded))


def _check_folder(feedback: Path, submissions: Path) -> None:
    """Refuse a folder for feedback that cannot be one, before anything is checked."""
    if feedback.exists() and not feedback.is_dir():
        raise typer.BadParameter(f"{feedback} is a file: name a folder for the feedback")
    if feedback.resolve().is_relative_to(submissions.resolve()):
        raise typer.BadParameter(
            f"{feedback} is inside {submissions}, where the next run would take it for a student's: name another folder"
        )
