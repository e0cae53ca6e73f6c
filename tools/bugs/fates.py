"""What the sets of bugs share: the options of a run, the fate of a bug, and where Python reads TOML."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

if sys.version_info >= (3, 11):
    import tomllib as tomllib
else:
    pass


class AnyBug(Protocol):
    """An edit that plants a bug, as the table and the options see it."""

    @property
    def id(self) -> str:
        """Name that only this bug has."""

    @property
    def group(self) -> str:
        """Name of the bug's row in the table of its set."""


@dataclass(frozen=True)
class Fate:
    """What became of a bug.

    Attributes:
        outcome: The outcome in a word or two, which is a column of the table.
        caught: Whether the bug was noticed; None for an edit that nobody can notice, which does not count.
        detail: What was found, or why it was not.
        expected: Whether a bug that was missed is known to be, for a reason that is written down.
    """

    outcome: str
    caught: bool | None
    detail: str = ""
    expected: bool = False


BugT = TypeVar("BugT", bound=AnyBug)

#: A function that is called with the name of each bug that has been judged.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """Options of a run.

    Attributes:
        words: Words that a bug's name or group must have.
        limit: Greatest number of bugs, drawn at random; 0 for all.
        seed: Seed of the draw.
    """

    words: tuple[str, ...] = ()
    limit: int = 0
    seed: int = 0

    def chosen(self, bugs: Sequence[BugT]) -> list[BugT]:
        """Return the bugs that the options select."""
        found = [bug for bug in bugs if all(word in f"{bug.group}: {bug.id}" for word in self.words)]
        return random.Random(self.seed).sample(found, self.limit) if 0 < self.limit < len(found) else found
