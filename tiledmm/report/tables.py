"""Tables of results: rich shows them on a terminal, and they convert to Markdown and to records for documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tiledmm.report.cells import value_of
from tiledmm.simulator.report import tables

if TYPE_CHECKING:
    from tiledmm.simulator import Finding

# Blanks after each column on a terminal.
_BETWEEN = 2

# Longer words, such as paths, may be broken over lines.
_LONG_WORD = 24


def sentence(text: str) -> str:
    """Return a text with a full stop at its end, unless it ends with a punctuation mark."""
    return text if text.endswith((".", ";", "!", "?")) else f"{text}."


@dataclass(frozen=True, slots=True)
class Table(tables.Table):
    """A table of text that can be fitted to the width of a terminal, and converted to JSON and CSV.

    Attributes:
        title, columns, notes, bad: The same as in ``tiledmm.simulator.report.tables.Table``.
        rows: Cells of each row. A cell of type ``Figure`` also has a value, for JSON and CSV.
        about: Values that all rows share, by name, for JSON and CSV: ``{"m": 256, "dtype": "float32"}``.
        findings: Findings of the simulator on the kernels of the rows.
    """

    about: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary per row, for JSON and CSV: the values of ``about``, then those of the cells by heading.

        Numbers have full precision. The value of an empty cell is None.
        """
        headings = [heading.lstrip("<") for heading in self.columns]
        return [{**self.about, **dict(zip(headings, map(value_of, row), strict=True))} for row in self.rows]

    def json(self) -> dict[str, Any]:
        """Return the table as a dictionary of JSON types: its title, its records, its notes and its findings."""
        findings = {"findings": [asdict(each) for each in self.findings]} if self.findings else {}
        return {"title": self.title, "rows": self.records(), "notes": list(self.notes), **findings}

    def with_columns(self, at: Sequence[int]) -> Table:
        """Return this table with some of its columns, by their numbers."""
        rows = tuple(tuple(cells[i] for i in at) for cells in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in at), rows=rows)

    def fitted(self, width: int) -> list[Table]:
        """Split the table between columns into tables of at most ``width`` characters; return one table if it fits.

        All of them begin with the table's first column, and with the column of tiles if that is the second. The first
        table has the title, and the last one has the notes.
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
                self.with_columns(columns),
                title="" if number else self.title,
                notes=() if number < len(chosen) - 1 else self.notes,
            )
            for number, columns in enumerate(chosen)
        ]

    def _needs(self, i: int) -> tuple[int, int]:
        """Return the minimum width of a column, at which its cells are wrapped, and its width without wrapping.

        Widths are in characters.
        """
        heading, cells = self.columns[i].lstrip("<"), [row[i] for row in self.rows]
        wraps = self.columns[i].startswith("<") and i > 0
        pieces = [word[:_LONG_WORD] for cell in cells for word in cell.split()] if wraps else cells
        return max(map(len, (*heading.split(), *pieces)), default=0), max(map(len, (heading, *cells)))

    def _widths(self, room: int | None) -> list[int]:
        """Return the width of each column in characters.

        Args:
            room: Width of the terminal; None for no limit. If it is too narrow to show all cells without wrapping,
                columns are widened so that their longest cells have about as many lines.
        """
        needs = [self._needs(i) for i in range(len(self.columns))]
        widths, full = map(list, zip(*needs, strict=True))
        if room is None:
            return full
        for _ in range(room - sum(widths) - _BETWEEN * len(widths)):
            narrowest = max(range(len(widths)), key=lambda i: full[i] / max(widths[i], 1))
            widths[narrowest] += widths[narrowest] < full[narrowest]
        return widths
