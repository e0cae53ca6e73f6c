"""Tables of results: rich shows them on a terminal, and they convert to Markdown and to records for documents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tiledmm.report.cells import value_of
from tiledmm.simulator.report import tables

# Blanks after each column on a terminal.
_BETWEEN = 2

# Longer words, such as paths, may be broken over lines.
_LONG_WORD = 24


@dataclass(frozen=True, slots=True)
class Table(tables.Table):
    """A table of text, whose figures keep their values for programs, and which fits a terminal.

    Attributes:
        title, columns, notes, bad: As of ``tiledmm.simulator.report.tables.Table``.
        rows: Cells; those of figures keep their values (see ``Figure``).
        about: Values that all rows share, by name, for programs: ``{"m": 256, "dtype": "float32"}``.
    """

    about: dict[str, Any] = field(default_factory=dict)

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary per row: ``about``, then the values of the cells by heading, in full precision.

        A cell without a value is None.
        """
        headings = [heading.lstrip("<") for heading in self.columns]
        return [{**self.about, **dict(zip(headings, map(value_of, row), strict=True))} for row in self.rows]

    def json(self) -> dict[str, Any]:
        """Return the table as a dictionary of JSON types."""
        return {"title": self.title, "rows": self.records(), "notes": list(self.notes)}

    def fitted(self, width: int) -> list[Table]:
        """Return the table; if it is wider than ``width`` characters, several tables that share its columns out.

        All of them begin with the table's first column. The title stands above the first one, the notes below the last.
        """
        first = 2 if self.columns[1:2] == ("tile",) else 1
        needed = [least + _BETWEEN for least, _ in map(self._needs, range(len(self.columns)))]
        parts: list[list[int]] = [[]]
        for i in range(first, len(self.columns)):
            if parts[-1] and sum(needed[:first]) + sum(needed[j] for j in (*parts[-1], i)) > width:
                parts.append([])
            parts[-1].append(i)
        chosen = [[*range(first), *part] for part in parts]
        return [
            replace(
                self,
                title="" if number else self.title,
                columns=tuple(self.columns[i] for i in columns),
                rows=tuple(tuple(row[i] for i in columns) for row in self.rows),
                notes=() if number < len(chosen) - 1 else self.notes,
            )
            for number, columns in enumerate(chosen)
        ]

    def _needs(self, i: int) -> tuple[int, int]:
        """Return the least characters that a column needs, and the characters that show all of it."""
        heading, cells = self.columns[i].lstrip("<"), [row[i] for row in self.rows]
        wraps = self.columns[i].startswith("<") and i > 0
        pieces = [word[:_LONG_WORD] for cell in cells for word in cell.split()] if wraps else cells
        return max(map(len, (*heading.split(), *pieces)), default=0), max(map(len, (heading, *cells)))

    def _widths(self, room: int | None) -> list[int]:
        """Return the characters of each column. Columns on the left are widened first if there is not room for all."""
        needs = [self._needs(i) for i in range(len(self.columns))]
        taken = sum(least + _BETWEEN for least, _ in needs)
        left = sum(most for _, most in needs) if room is None else max(0, room - taken)
        widths = []
        for least, most in needs:
            more = min(left, most - least)
            widths.append(least + more)
            left -= more
        return widths
