"""The file that a student works on: its exercise, its task, its code, and its answers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tiledmm.course.exercise import KINDS, Exercise, find_exercise
from tiledmm.errors import ConfigError

_WIDTH = 90

_FIRST = re.compile(r"^// Exercise (\w+):", re.MULTILINE)
_ANSWER = re.compile(r"^// answer (\w+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)

# Line between the task and the code.
_RULE = f"// {'-' * (_WIDTH - 3)}"


def start_text(exercise: Exercise) -> str:
    """Return the file that a student starts with: the task as a comment, and the code with a hole."""
    return f"{_head(exercise)}\n{exercise.start}"


def solution_text(exercise: Exercise) -> str:
    """Return the same file with the solution."""
    return f"{_head(exercise)}\n{exercise.solution}"


def write_start(exercise: Exercise, folder: Path) -> Path:
    """Write the file that a student starts with, and return its path.

    Raises:
        ConfigError: If the file exists already.
    """
    path = folder / f"{exercise.name}.cu"
    if path.exists():
        raise ConfigError(f"{path} exists, and is left as it is: name another folder, or delete the file to start over")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(start_text(exercise), encoding="utf-8")
    return path


def exercise_of(path: Path) -> Exercise:
    """Return the exercise that a file belongs to.

    Raises:
        ConfigError: If there is no such file, or its first lines name no exercise.
    """
    name = exercise_name_in(text_of(path))
    if not name:
        raise ConfigError(
            f"{path} does not begin with a line '// Exercise NAME: ...'; 'tiledmm exercise start' writes files that do"
        )
    return find_exercise(name)


def exercise_name_in(text: str) -> str:
    """Return the name of the exercise that a file's first lines name; empty if they name none."""
    found = _FIRST.search(text)
    return found[1] if found else ""


def text_of(path: Path) -> str:
    """Return the text of a file in UTF-8, in UTF-16 with a byte order mark, or else in Latin-1.

    Raises:
        ConfigError: If the file cannot be read, or is not text.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    if "\0" in text:
        raise ConfigError(f"{path} is not a text file")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def code_of(text: str) -> str:
    """Return a file's code and launch without task, comments and layout, to compare it with another file's."""
    code = re.sub(r"//(?![ \t]*tiledmm:)[^\n]*|/\*.*?\*/", "", text.rpartition(_RULE)[2], flags=re.DOTALL)
    return re.sub(r"\s+", " ", code).strip()


def answers_of(text: str) -> dict[str, str]:
    """Return the answers of a file to questions, by name."""
    return dict(_ANSWER.findall(text))


def answered(text: str, answers: Mapping[str, float | str]) -> str:
    """Return a file with answers to questions, by name."""
    return _ANSWER.sub(lambda found: f"// answer {found[1]}: {answers.get(found[1], found[2])}", text)


def _head(exercise: Exercise) -> str:
    lines = [f"// Exercise {exercise.name}: {exercise.title} (lesson {exercise.lesson}, {KINDS[exercise.kind]})"]
    for paragraph in exercise.task.split("\n\n"):
        lines += ["//", *_comment(paragraph)]
    if exercise.questions:
        lines.append("//")
        for each in exercise.questions:
            lines += [*_comment(each.ask), f"// answer {each.name}: ?"]
    if exercise.look:
        lines += ["//", *_comment(f"Read: {', '.join(exercise.look)}")]
    name = f"{exercise.name}.cu"
    lines += [
        "//",
        f"// tiledmm exercise check {name}    says whether it is right",
        f"// tiledmm exercise hint {name}     prints one more hint",
    ]
    return "\n".join([*lines, _RULE])


def _comment(text: str) -> list[str]:
    if text.startswith("    "):  # code and pictures keep their lines
        return [f"// {line}".rstrip() for line in text.splitlines()]
    words = " ".join(text.split())
    return textwrap.wrap(words, _WIDTH, initial_indent="// ", subsequent_indent="// ", break_on_hyphens=False)
