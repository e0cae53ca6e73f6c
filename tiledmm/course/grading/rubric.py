"""Rubrics: the exercises of a lab, what each is worth, and the limits of a check."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiledmm.course.exercise import Exercise, find_exercise
from tiledmm.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LABS = Path(__file__).with_name("labs")

# A check compiles for seconds, and reserves much address space, most of it unused, for the stacks of a block's threads.
_LEAST_SECONDS, _LEAST_GB = 10, 3

#: Items that points are given for, and their descriptions for students.
ITEMS = {
    "runs": "it compiles, and every launch ends",
    "shown": "the result is right at the sizes of the exercise",
    "hidden": "the result is right at hidden sizes",
    "findings": "no race, no access out of bounds, no other fault",
    "counts": "the counts of the exercise are reached",
    "access": "requests take no more sectors and wavefronts than they need",
    "answers": "the predictions are right",
}


@dataclass(frozen=True, slots=True)
class Task:
    """One exercise of a lab.

    Attributes:
        exercise: The exercise.
        points: Points by item of ``ITEMS``.
    """

    exercise: Exercise
    points: Mapping[str, float]

    @property
    def most(self) -> float:
        """The points of a submission without faults."""
        return round(sum(self.points.values()), 2)


@dataclass(frozen=True, slots=True)
class Rubric:
    """The rubric of a lab.

    Attributes:
        title: Its title.
        seed: Seed of the hidden sizes, which are the same for the whole class.
        seconds: Maximum number of seconds per file.
        memory: Maximum number of bytes of memory per file.
        tasks: Its exercises.
    """

    title: str
    seed: int
    seconds: float
    memory: int
    tasks: tuple[Task, ...]

    @property
    def most(self) -> float:
        """The points of a submission without faults."""
        return round(sum(each.most for each in self.tasks), 2)


def read_rubric(name: str) -> Rubric:
    """Read a rubric from a TOML file, or the rubric of one of the package's labs.

    Raises:
        ConfigError: If it cannot be read, or is not a valid rubric.
    """
    path = rubric_path(name)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the rubric {path} cannot be read: {error}") from error
    _only(data, {"title", "seed", "limits", "exercise"}, str(path))
    limits = data.get("limits", {})
    _only(limits, {"seconds", "memory_gb"}, f"{path}: [limits]")
    tasks = tuple(_task(each, path) for each in data.get("exercise", ()))
    if not tasks:
        raise ConfigError(f"{path} has no [[exercise]]")
    names = [each.exercise.name for each in tasks]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise ConfigError(f"{path} has two entries for the exercise {twice}")
    return Rubric(
        title=str(data.get("title", path.stem)),
        seed=_number(data, "seed", 0, str(path), whole=True),
        seconds=_number(limits, "seconds", 120, f"{path}: [limits]", least=_LEAST_SECONDS),
        memory=round(_number(limits, "memory_gb", 4, f"{path}: [limits]", least=_LEAST_GB) * 2**30),
        tasks=tasks,
    )


def rubric_path(name: str) -> Path:
    """Return the path of a rubric: a file, or one of the package's labs, by name.

    Raises:
        ConfigError: If the package has no such lab.
    """
    path = Path(name)
    if path.suffix:
        return path
    path = LABS / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in LABS.glob("*.toml")))
        raise ConfigError(f"no lab is named {name!r}; the labs are {known}. To use your own rubric, name a .toml file")
    return path


def _task(data: Mapping[str, Any], path: Path) -> Task:
    where = f"{path}: [[exercise]] {data.get('name', '')}".strip()
    _only(data, {"name", "points"}, where)
    exercise, points = find_exercise(str(data.get("name", ""))), data.get("points", {})
    _only(points, set(ITEMS), f"{where}: points")
    if not points:
        raise ConfigError(f"{where} has no points; give points for some of {', '.join(ITEMS)}")
    unfit = set(ITEMS) - {"answers"} if exercise.questions else {"answers"}
    unfit |= set() if exercise.targets else {"counts"}
    if wrong := sorted(unfit & set(points)):
        kind = "a prediction" if exercise.questions else "not a prediction"
        has = "" if "counts" not in wrong or exercise.questions else ", and has no counts"
        raise ConfigError(f"{where}: it is {kind}{has}, so there can be no points for {', '.join(wrong)}")
    return Task(exercise, {item: _number(points, item, 0, where) for item in points})


def _only(data: Mapping[str, Any], known: set[str], where: str) -> None:
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must be a table, such as {{ shown = 4, hidden = 4 }}; got {data!r}")
    if unknown := sorted(set(data) - known):
        raise ConfigError(f"{where} has unknown keys: {', '.join(unknown)}. Known keys: {', '.join(sorted(known))}")


def _number(
    data: Mapping[str, Any], name: str, default: float, where: str, *, whole: bool = False, least: float = 0
) -> Any:
    value, kind = data.get(name, default), "whole number" if whole else "number"
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < least:
        raise ConfigError(f"{where}: {name} must be a {kind} of at least {least:g}; got {value!r}")
    return value
