"""Commands ``tiledmm exercise ...``: the course's exercises."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli.device import missing_gpu
from tiledmm.cli.output import Csv, Json, Markdown, Output
from tiledmm.cli.watch import watch as watch_folder

if TYPE_CHECKING:
    from tiledmm.course.progress import State


def _complete_names(incomplete: str) -> list[str]:
    from tiledmm.course.exercise import exercises

    return [name for name in exercises() if name.startswith(incomplete)]


File = Annotated[Path, typer.Argument(metavar="FILE.cu", help="File that 'start' wrote.", show_default=False)]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Exercise.", show_default=False, autocompletion=_complete_names)
]


def exercise(context: typer.Context, json: Json = False, csv: Csv = False, markdown: Markdown = False) -> None:
    """Learn by writing kernels: exercises that a simulator checks, without a GPU.

    Without a subcommand, list the exercises, and show which of them are done in the current folder. Nothing is
    uploaded: your progress is kept in a file in this folder.

        tiledmm exercise
        tiledmm exercise start coalesced
        tiledmm exercise check coalesced.cu --watch
    """
    if context.invoked_subcommand is not None:
        return
    from tiledmm.course.exercise import KINDS, exercises
    from tiledmm.course.progress import Progress
    from tiledmm.report.tables import Table

    out, progress = Output(json=json, csv=csv, markdown=markdown), Progress(Path())
    every = exercises().values()
    rows = [(str(each.lesson), each.name, KINDS[each.kind], each.title, _state(progress[each.name])) for each in every]
    done = sum(progress[each.name].done for each in every)
    out.table(
        Table(
            f"{done} of {len(rows)} exercises are done here",
            ("lesson", "<name", "<kind", "<title", "<state"),
            tuple(rows),
        )
    )
    waiting = next((each.name for each in every if not progress[each.name].done), None)
    if waiting:
        out.say(f"Next: tiledmm exercise start {waiting}")
    out.end(ok=True)


def start(
    name: Name,
    folder: Annotated[Path, typer.Argument(help="Folder of the file.", show_default="the current folder")] = Path(),
) -> None:
    """Write the file of an exercise: a kernel to complete or to fix, with the task as a comment.

        tiledmm exercise start coalesced

    An existing file is not overwritten.
    """
    from tiledmm.course.exercise import find_exercise
    from tiledmm.course.student_file import write_start

    path = write_start(find_exercise(name), folder)
    typer.echo(f"Edit {path}, then run: tiledmm exercise check {path}")


def check(
    file: File,
    watch: Annotated[bool, typer.Option("--watch", help="Check again whenever the file is saved.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the random hidden sizes.", show_default="a new one")] = None,
    json: Json = False,
) -> None:
    """Check a file: is its kernel right at the shown and at hidden sizes, and does it stay within the allowed cost?

    The kernel runs on the simulator, as native code of this machine, with all checks. If it is right, and the machine
    has a GPU, it also runs there, and its time is compared with those of the solution and of cuBLAS. The exit status is
    1 if the exercise is not done.

        tiledmm exercise check coalesced.cu
        tiledmm exercise check coalesced.cu --watch
    """

    def checked(as_json: bool) -> bool:
        import secrets

        from tiledmm.course.progress import Progress
        from tiledmm.course.student_file import exercise_of
        from tiledmm.course.verdict import check as check_file
        from tiledmm.hardware.device import has_driver

        found = exercise_of(file)
        seed_now = secrets.randbelow(10**6) if seed is None else seed
        verdict = check_file(found, file, seed_now, has_gpu=has_driver() and missing_gpu() is None)
        progress = Progress(file.parent)
        before = progress[found.name]
        progress.change(found.name, checks=before.checks + 1, done=before.done or verdict.done)
        typer.echo(verdict.json() if as_json else str(verdict))
        return verdict.done

    if watch:
        watch_folder(file, lambda: checked(False))
    raise typer.Exit(0 if checked(json) else 1)


def hint(file: File) -> None:
    """Print the hints that were shown before, and one more.

        tiledmm exercise hint coalesced.cu

    Each hint says more than the one before it.
    """
    from tiledmm.course.progress import Progress
    from tiledmm.course.student_file import exercise_of

    found, progress = exercise_of(file), Progress(file.parent)
    shown = min(progress[found.name].hints + 1, len(found.hints))
    progress.change(found.name, hints=shown)
    for number, text in enumerate(found.hints[:shown], start=1):
        typer.echo(textwrap.fill(f"{number}. {' '.join(text.split())}", 90, subsequent_indent="   "))
    left = len(found.hints) - shown
    typer.echo(f"({left} more)" if left else f"(no more; tiledmm exercise solution {found.name})")


def solution(name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False) -> None:
    """Print the solution of an exercise.

        tiledmm exercise solution coalesced

    The command asks first, unless the exercise is done in the current folder.
    """
    from tiledmm.course.exercise import find_exercise
    from tiledmm.course.progress import Progress
    from tiledmm.course.student_file import solution_text

    found, progress = find_exercise(name), Progress(Path())
    if not progress[name].done and not yes:
        typer.confirm(f"{name} is not done in this folder. Show its solution?", abort=True, err=True)
    if not progress[name].done:
        progress.change(name, solution=True)
    typer.echo(solution_text(found), nl=False)


def export(
    folder: Annotated[Path, typer.Argument(help="Folder of the files.", show_default=False)],
    lesson: Annotated[int | None, typer.Option(help="Only the exercises of one lesson.", show_default="all")] = None,
    lab: Annotated[
        str | None, typer.Option(help="Only the exercises of a lab, together with its rubric.", show_default="all")
    ] = None,
) -> None:
    """Write all exercises for students, with their licence, but without solutions and hints.

        tiledmm exercise export handout --lesson 4
        tiledmm exercise export handout --lab memory

    The folder must be new or empty.
    """
    from tiledmm.course.export import export as write

    written = write(folder, lesson, lab)
    typer.echo(f"Wrote {len(written)} exercises to {folder}, without solutions.")


def _state(state: State) -> str:
    if state.done:
        return "done" if not state.solution else "done, with the solution"
    tries = f"{state.checks} check{'s' * (state.checks != 1)}" if state.checks else ""
    return ", ".join(filter(None, [tries, f"{state.hints} hint{'s' * (state.hints != 1)}" if state.hints else ""]))
