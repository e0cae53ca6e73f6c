"""A class's submissions: a folder per student, or a file per student."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tiledmm.course.exercise import Exercise
from tiledmm.course.student_file import exercise_of
from tiledmm.errors import ConfigError

# A kernel is a few kilobytes: what is larger is no solution, and is not read.
_MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Submission:
    """What one student hands in for one exercise.

    Attributes:
        student: Name of the folder, or of the file.
        exercise: Name of the exercise.
        file: The file; None if there is none, or none that can be graded.
        problem: Why there is none.
    """

    student: str
    exercise: str
    file: Path | None
    problem: str = ""


def submissions_in(folder: Path, exercises: Sequence[Exercise]) -> list[Submission]:
    """Return what each student hands in for each exercise, by student.

    A student is a folder, with files somewhere in it, or a single file. A file is of the exercise that its first lines
    name, or else its own name.

    Raises:
        ConfigError: If there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: it has a folder or a file per student")
    students = [each for each in sorted(folder.iterdir()) if each.is_dir() or each.suffix == ".cu"]
    students = [each for each in students if not each.name.startswith(".")]
    if not students:
        raise ConfigError(f"{folder} has no folders and no .cu files: it has a folder or a file per student")
    found = []
    for student in students:
        files = sorted(student.rglob("*.cu")) if student.is_dir() else [student]
        names = {file: _exercise_name(file, exercises) for file in files}
        for each in exercises:
            own = [file for file, name in names.items() if name == each.name]
            found.append(_submission(student.stem if student.is_file() else student.name, each, own, student))
    return found


def _exercise_name(file: Path, exercises: Sequence[Exercise]) -> str:
    """Return the name of the exercise that a file is of; empty if it is of none."""
    if not _is_readable(file):
        return file.stem
    try:
        return exercise_of(file).name
    except ConfigError:
        return file.stem if file.stem in {each.name for each in exercises} or len(exercises) > 1 else exercises[0].name


def _submission(student: str, exercise: Exercise, files: list[Path], folder: Path) -> Submission:
    if len(files) > 1:
        names = ", ".join(str(file.relative_to(folder)) for file in files)
        return Submission(student, exercise.name, None, f"{len(files)} files are of this exercise: {names}")
    if not files:
        return Submission(student, exercise.name, None, "no file is of this exercise")
    if not _is_readable(files[0]):
        return Submission(student, exercise.name, None, f"{files[0].name} is no file of text below 1 MB")
    return Submission(student, exercise.name, files[0])


def _is_readable(file: Path) -> bool:
    """Return whether a file is a plain one, which no link takes out of the folder, of a size that a kernel has."""
    return file.is_file() and not file.is_symlink() and file.stat().st_size <= _MAX_BYTES
