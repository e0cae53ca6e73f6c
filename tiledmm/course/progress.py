"""A student's progress, in a file in the folder with the exercises. Nothing leaves the folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tiledmm.errors import ConfigError

#: Name of the file.
FILE = ".tiledmm-exercises.json"


@dataclass(frozen=True, slots=True)
class State:
    """A student's progress on one exercise.

    Attributes:
        checks: Number of checks.
        hints: Number of hints shown.
        done: Whether a check has passed.
        solution: Whether the solution was shown before a check passed.
    """

    checks: int = 0
    hints: int = 0
    done: bool = False
    solution: bool = False


class Progress:
    """The states of all exercises in a folder.

    Args:
        folder: The folder.

    Raises:
        ConfigError: If the file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._states: dict[str, State] = {}
        if self._path.exists():
            try:
                data = json.loads(self._path.read_text(encoding="utf-8"))
                self._states = {name: State(**each) for name, each in data.items()}
            except (OSError, ValueError, TypeError, AttributeError) as error:
                raise ConfigError(f"{self._path} is damaged ({error}): repair or delete it") from error

    def __getitem__(self, name: str) -> State:
        return self._states.get(name, State())

    def change(self, name: str, **fields: int | bool) -> None:
        """Set fields of an exercise's state, and write the file."""
        self._states[name] = replace(self[name], **fields)  # type: ignore[arg-type]
        data = {each: asdict(state) for each, state in sorted(self._states.items())}
        new = self._path.with_name(f"{FILE}.{os.getpid()}")
        new.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        os.replace(new, self._path)
