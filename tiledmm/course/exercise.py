"""Exercises, as their two files have them."""

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

# Each of M, N and K at which a GPU times a kernel, by how many of them it has: arrays do not fit into an L2 cache.
_TIMED = {1: 2**24, 2: 4096, 3: 2048}

FOLDER = Path(__file__).parent / "exercises"

#: Kinds of exercises, and what a student does in each.
KINDS = {
    "fill": "fill in",
    "bug": "find the bug",
    "predict": "predict",
    "count": "reach a count",
    "fast": "make it fast",
}

# Lines of a .cu file around a hole: what the student gets, then the solution.
_PART = re.compile(r"^[ \t]*//\[(start|solution|end)\][ \t]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that a check counts.

    Attributes:
        name: Name of the figure, one of ``figures.FIGURES``.
        at: Regular expression for the accesses that it is about, such as ``"load Bs"``; empty for all.
    """

    name: str
    at: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.at}" if self.at else self.name


@dataclass(frozen=True, slots=True)
class Target:
    """A count that a solution reaches.

    Attributes:
        figure: What is counted.
        most, least: Limits; None for none.
        says: Sentence for a kernel that does not reach it, in the lesson's words.
    """

    figure: Figure
    most: float | None
    least: float | None
    says: str

    def is_reached(self, value: float) -> bool:
        """Return whether a count is within the limits, but for rounding."""
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
        mistakes: Sentences for usual wrong answers, by the answer.
    """

    name: str
    ask: str
    figure: Figure
    mistakes: Mapping[float, str]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A usual mistake, by what a wrong kernel computed.

    Attributes:
        when: Expression of NumPy that is true if it was made. Its names are ``np``, those of the arguments with their
            values before the launch, ``got`` and ``want``, the array that the kernel wrote and the right one, and
            ``found``, the first finding of each kind.
        says: Sentence that says what is wrong.
    """

    when: str
    says: str


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer that a check must tell, for tests.

    Attributes:
        old, new: What is replaced in the solution, and by what; for a prediction, an answer's name and a number.
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
        title: What it is about, in a few words.
        lesson: Number of its lesson.
        place: Its place among the exercises of the lesson.
        kind: One of ``KINDS``.
        task: What the student does.
        look: Pages of the documentation to read.
        hints: Hints, each of which tells more.
        args: Arguments, as ``tiledmm check --args`` takes them.
        expect: What the kernel computes: an expression of NumPy with the arguments' names; empty for the product of
            matrices A and B.
        shown: M, N and K of the sizes that the student sees.
        hidden: Least and most M, N and K of the sizes that a check draws.
        multiple_of: Numbers that drawn M, N and K are multiples of.
        targets: Counts that a solution reaches.
        questions: What the student predicts.
        mistakes: Usual mistakes, of which the first that was made is told.
        wrong: Wrong answers with what a check says.
        source: The ``.cu`` file, with both parts.
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
        """The names of the sizes that the exercise has, of M, N and K."""
        return [size for size in SIZES if re.search(rf"\b{size}\b", self.args)]

    @property
    def timed(self) -> dict[str, int]:
        """M, N and K at which a GPU times the kernel; 1 for those that the exercise does not have."""
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
        """Return this exercise as one whose solution is what the student gets, and whose hints are gone.

        A check of a kernel needs no more: parameters and launch are the same.
        """
        return replace(self, source=self.start, hints=(), wrong=())


def _part(source: str, wanted: str) -> str:
    """Return a text with one part of each hole."""
    first, *rest = _PART.split(source)
    parts = zip(rest[::2], rest[1::2], strict=True)
    return first + "".join(text for part, text in parts if part in (wanted, "end"))


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Return all exercises by name, in the order of the course."""
    found = [_read(path) for path in sorted(FOLDER.glob("*.toml"))]
    return {each.name: each for each in sorted(found, key=lambda each: (each.lesson, each.place))}


def find_exercise(name: str) -> Exercise:
    """Return an exercise.

    Raises:
        ConfigError: If there is none of this name.
    """
    try:
        return exercises()[name]
    except KeyError:
        raise ConfigError(f"no exercise is named {name!r}; tiledmm exercise lists them") from None


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
