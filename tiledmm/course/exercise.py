"""Exercises, read from their two files."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiledmm.errors import ConfigError
from tiledmm.kernels.plain import SIZES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# M, N and K at which a GPU times a kernel, by how many of the three it has: the arrays do not fit into an L2 cache.
_TIMED = {1: 2**24, 2: 4096, 3: 2048}

FOLDER = Path(__file__).parent / "exercises"

#: Names of the kinds of exercises, as students read them.
KINDS = {
    "fill": "fill in",
    "bug": "find the bug",
    "predict": "predict",
    "count": "reach a count",
    "fast": "make it fast",
}

# Lines of a .cu file around a hole: first the code that the student gets, then the solution.
_PART = re.compile(r"^[ \t]*//\[(start|solution|end)\][ \t]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Figure:
    """A count that a check makes.

    Attributes:
        name: Name of the figure, one of ``figures.FIGURES``.
        at: Regular expression for the accesses that are counted, such as ``"load Bs"``; empty for all.
    """

    name: str
    at: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.at}" if self.at else self.name


@dataclass(frozen=True, slots=True)
class Target:
    """A count that a solution has to reach.

    Attributes:
        figure: What is counted.
        most, least: Limits; None for no limit.
        says: Sentence for a kernel that does not reach the count, in the lesson's words.
    """

    figure: Figure
    most: float | None
    least: float | None
    says: str

    def is_reached(self, value: float) -> bool:
        """Return whether a count is within the limits, up to rounding."""
        return (self.most is None or value <= self.most * 1.0001) and (
            self.least is None or value >= self.least * 0.9999
        )


@dataclass(frozen=True, slots=True)
class Question:
    """A number that a student predicts.

    Attributes:
        name: Name of the answer in the file.
        ask: The question.
        figure: What the check counts.
        mistakes: Sentences for common wrong answers, by the answer.
    """

    name: str
    ask: str
    figure: Figure
    mistakes: Mapping[float, str]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A common mistake, recognized by what the kernel computed.

    Attributes:
        when: NumPy expression that is true if the student made this mistake. It can use ``np``, the arguments by name
            with their values before the launch, ``got`` and ``want`` (the array that the kernel wrote, and the right
            one), and ``found``, the first finding of each kind.
        says: Sentence that says what is wrong.
    """

    when: str
    says: str


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer that a check must recognize, for tests.

    Attributes:
        old, new: Text in the solution, and its replacement; for a prediction, the name of an answer and a number.
        says: Regular expression for what the check says.
    """

    old: str
    new: str
    says: str


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise.

    Attributes:
        name: Its name, which is also the kernel's.
        title: Its title.
        lesson: Number of its lesson.
        place: Its place among the exercises of the lesson.
        kind: One of ``KINDS``.
        task: Text that asks the student what to do.
        look: Pages of the documentation to read.
        hints: Hints, each of which tells more than the one before.
        args: Arguments, as ``tiledmm check --args`` takes them.
        expect: NumPy expression with the arguments' names for the right result; empty for the product of matrices A
            and B.
        shown: M, N and K of the sizes that the student sees.
        hidden: Smallest and largest M, N and K that a check draws.
        multiple_of: Divisors of the M, N and K that a check draws.
        targets: Counts that a solution has to reach.
        questions: Numbers that the student predicts.
        mistakes: Common mistakes; a verdict names the first that the student made.
        wrong: Wrong answers with what a check says of them.
        source: Text of the ``.cu`` file, with both parts of each hole.
    """

    name: str
    title: str
    lesson: int
    place: int
    kind: str
    task: str
    look: tuple[str, ...]
    hints: tuple[str, ...]
    args: str
    expect: str
    shown: tuple[tuple[int, int, int], ...]
    hidden: tuple[tuple[int, int], ...]
    multiple_of: tuple[int, int, int]
    targets: tuple[Target, ...]
    questions: tuple[Question, ...]
    mistakes: tuple[Mistake, ...]
    wrong: tuple[WrongAnswer, ...]
    source: str

    @property
    def size_names(self) -> list[str]:
        """Those of the names M, N and K that are sizes of the exercise."""
        return [size for size in SIZES if re.search(rf"\b{size}\b", self.args)]

    @property
    def timed(self) -> dict[str, int]:
        """M, N and K at which a GPU times the kernel; 1 for sizes that the exercise does not have."""
        names = self.size_names
        return {size: _TIMED[len(names)] if size in names else 1 for size in SIZES}

    @property
    def start(self) -> str:
        """CUDA C that the student gets."""
        return _part(self.source, "start")

    @property
    def solution(self) -> str:
        """CUDA C with every hole filled in, which a check must accept."""
        return _part(self.source, "solution")

    def without_solution(self) -> Exercise:
        """Return a copy of this exercise without hints, with the student's code in place of the solution.

        Checks of kernels need no more, because both have the same parameters and launch.
        """
        return replace(self, source=self.start, hints=(), wrong=())


def _part(source: str, wanted: str) -> str:
    """Return the text with only one part of each hole."""
    first, *rest = _PART.split(source)
    parts = zip(rest[::2], rest[1::2], strict=True)
    return first + "".join(text for part, text in parts if part in (wanted, "end"))


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Return all exercises by name, in the order of the course."""
    found = [_read(path) for path in sorted(FOLDER.glob("*.toml"))]
    return {each.name: each for each in sorted(found, key=lambda each: (each.lesson, each.place))}


def find_exercise(name: str) -> Exercise:
    """Return the exercise of a name.

    Raises:
        ConfigError: If no exercise has this name.
    """
    try:
        return exercises()[name]
    except KeyError:
        raise ConfigError(f"no exercise is named {name!r}; 'tiledmm exercise' lists all names") from None


def _read(path: Path) -> Exercise:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    sizes = data.get("sizes", {})
    limits = sizes.get("hidden", {})
    return Exercise(
        name=path.stem,
        title=data["title"],
        lesson=data["lesson"],
        place=data["place"],
        kind=data["kind"],
        task=data["task"].strip(),
        look=tuple(data.get("look", ())),
        hints=tuple(each.strip() for each in data["hints"]),
        args=data["args"],
        expect=data.get("expect", ""),
        shown=tuple((m, n, k) for m, n, k in sizes["shown"]),
        hidden=tuple((least, most) for least, most in (limits.get(size, (1, 1)) for size in SIZES)) if limits else (),
        multiple_of=tuple(sizes.get("multiple_of", (1, 1, 1))),
        targets=tuple(
            Target(_figure(each), each.get("most"), each.get("least"), each["says"]) for each in data.get("target", ())
        ),
        questions=tuple(
            Question(each["name"], each["ask"], _figure(each), _mistakes(each)) for each in data.get("question", ())
        ),
        mistakes=tuple(Mistake(each["when"], each["says"].strip()) for each in data.get("mistake", ())),
        wrong=tuple(WrongAnswer(each["old"], str(each["new"]), each["says"]) for each in data.get("wrong", ())),
        source=path.with_suffix(".cu").read_text(encoding="utf-8"),
    )


def _figure(data: Mapping[str, Any]) -> Figure:
    return Figure(data["figure"], data.get("at", ""))


def _mistakes(question: Mapping[str, Any]) -> dict[float, str]:
    return {float(each["answer"]): each["says"] for each in question.get("mistake", ())}
