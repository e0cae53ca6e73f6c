"""A class's submissions: a folder per student, or a file per student."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiledmm.course.exercise import Exercise, exercises
from tiledmm.course.student_file import exercise_name_in, text_of
from tiledmm.errors import ConfigError

#: Problem of an exercise for which a student handed in nothing.
NO_FILE = "no file for this exercise"

# A solution is a few kilobytes. Larger files are not read.
_MAX_BYTES = 2**20

# Maximum depth of folders in a student's folder, and maximum number of files; others are ignored.
_MAX_DEPTH, _MAX_FILES = 16, 1000

# Files that may hold CUDA C. One that does not end in .cu counts if its first lines name an exercise.
_SUFFIXES = {".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".txt"}

# Characters that move the cursor, or the text around them.
_MOVES = re.compile("[\u202a-\u202e\u2066-\u2069\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Submission:
    """A student's submission for one exercise.

    Attributes:
        student: Name of the folder, or of the file, as it can be printed.
        exercise: Name of the exercise.
        file: The file to check; None if there is none.
        problem: Why there is no file, or what is odd about it; empty if nothing is.
        others: Names of the student's files that belong to no exercise of the lab.
    """

    student: str
    exercise: str
    file: Path | None
    problem: str = ""
    others: tuple[str, ...] = ()


def submissions_in(folder: Path, asked: Sequence[Exercise]) -> list[Submission]:
    """Return every student's submission for each exercise, ordered by student.

    A student is a folder, with files somewhere in it, or a single file. A file belongs to the exercise that its first
    lines name, or else its own name, or else the kernel that it defines.

    Args:
        folder: The folder with all students.
        asked: The exercises of the lab.

    Raises:
        ConfigError: If there is no such folder, if it has no submissions, or if it is the folder of one student.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder. Name a folder that has a folder or a .cu file per student")
    students = [each for each in folder.iterdir() if not each.name.startswith((".", "__MACOSX"))]
    students = [each for each in students if not each.is_symlink() and (each.is_dir() or each.suffix == ".cu")]
    if not students:
        raise ConfigError(
            f"{folder} has no folders and no .cu files. Name a folder that has a folder or a .cu file per student"
        )
    if all(each.is_file() and each.stem in exercises() for each in students):
        raise ConfigError(
            f"{folder} looks like the folder of one student, because its files are named after exercises. Name the "
            "folder that contains it"
        )
    found = []
    names = _names_of(students)
    for student in sorted(students, key=lambda each: (names[each].casefold(), each.name)):
        files = sorted(_files_in(student)) if student.is_dir() else [student]
        placed = {file: _exercise_name(file, asked, len(files)) for file in files}
        others = tuple(
            printable(str(file.relative_to(student)) if student.is_dir() else file.name)
            for file, name in placed.items()
            if not name and file.suffix == ".cu"
        )
        for each in asked:
            own = [file for file, name in placed.items() if name == each.name]
            found.append(_submission(names[student], each, own, student, others))
    return found


def printable(text: str) -> str:
    """Return a text with control characters and undecodable bytes replaced, so that it is safe to print and write."""
    if any("\udc80" <= each <= "\udcff" for each in text):  # no UTF-8, such as a name in another system's archive
        with contextlib.suppress(UnicodeEncodeError):
            text = os.fsencode(text).decode("latin-1")
    clean = (each if each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cs") else "\ufffd" for each in text)
    return _MOVES.sub("\ufffd", "".join(clean))


def _names_of(students: Sequence[Path]) -> dict[Path, str]:
    """Return a name for each student: a file's name without its suffix, unless another student has this name."""
    short = {each: " ".join(printable(each.name if each.is_dir() else each.stem).split()) for each in students}
    many = Counter(short.values())
    found: dict[Path, str] = {}
    for each, name in sorted(short.items()):
        name = name if many[name] == 1 else " ".join(printable(each.name).split())
        number = sum(other == name for other in found.values()) + 1
        found[each] = name if number == 1 else f"{name} ({number})"
    return found


def _files_in(student: Path) -> Iterator[Path]:
    """Yield the files of a student that may hold CUDA C, without following links."""
    count = 0
    for parent, folders, files in os.walk(student):
        here = Path(parent)
        if len(here.parts) - len(student.parts) >= _MAX_DEPTH:
            folders.clear()
        folders[:] = sorted(each for each in folders if not each.startswith((".", "__MACOSX")))
        for name in sorted(files):
            if Path(name).suffix.lower() in _SUFFIXES and not name.startswith("."):
                count += 1
                if count > _MAX_FILES:
                    return
                yield here / name


def _exercise_name(file: Path, asked: Sequence[Exercise], files: int) -> str:
    """Return the name of the exercise that a file belongs to; empty if it belongs to none that is asked for.

    Args:
        file: The file.
        asked: The exercises of the lab.
        files: Number of the student's files.
    """
    names = {each.name for each in asked}
    try:
        text = text_of(file) if _is_readable(file) else ""
    except ConfigError:
        text = ""
    named = exercise_name_in(text)
    if named or file.suffix != ".cu":
        return named if named in names else ""
    if file.stem.lower() in names:
        return file.stem.lower()
    kernels = [each for each in sorted(names) if re.search(rf"__global__[^;{{(]{{0,200}}?\b{each}\s*\(", text)]
    if len(kernels) == 1:
        return kernels[0]
    return asked[0].name if len(asked) == files == 1 else ""


def _submission(
    student: str, exercise: Exercise, files: list[Path], folder: Path, others: tuple[str, ...]
) -> Submission:
    if not files:
        return Submission(student, exercise.name, None, NO_FILE, others)
    chosen: Path | None = files[0]
    problem = ""
    if len(files) > 1:
        names = ", ".join(printable(str(file.relative_to(folder))) for file in files)
        usual = [file for file in files if file.name == f"{exercise.name}.cu"]
        chosen = usual[0] if len(usual) == 1 else None
        which = f"only {chosen.name} counts" if chosen is not None else "none is checked"
        problem = f"{len(files)} files belong to this exercise ({names}): {which}"
    if chosen is not None and not _is_text(chosen):
        problem = f"{printable(chosen.name)} is not a text file, is larger than 1 MB, or is empty"
        chosen = None
    return Submission(student, exercise.name, chosen, problem, others)


def _is_text(file: Path) -> bool:
    try:
        return _is_readable(file) and bool(text_of(file).strip())
    except ConfigError:
        return False


def _is_readable(file: Path) -> bool:
    """Return whether a file is a regular file, not a link, and not too large."""
    return file.is_file() and not file.is_symlink() and file.stat().st_size <= _MAX_BYTES
