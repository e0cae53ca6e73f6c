"""Tables of results: rich shows them on a terminal, and they convert to Markdown and to records for documents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tiledmm.report.cells import value_of

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# Blanks after each column on a terminal.
_BETWEEN = 2

# Characters per line of a table as text: more than any table needs.
_WIDTH = 1000

# Words longer than this, such as paths, may be broken over lines.
_LONG_WORD = 24


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: Subject of the table.
        columns: Headings. A column whose heading begins with ``"<"`` is aligned to the left, all others to the right.
        rows: Cells of each row. Those that are a ``Figure`` keep their values.
        notes: Sentences below the table.
        bad: Indices of the rows that stand out because something in them is wrong.
        about: Values that all rows share, by name, for programs: ``{"m": 256, "dtype": "float32"}``.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    bad: frozenset[int] = frozenset()
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

    def rich(self, width: int | None = None) -> RichTable:
        """Convert the table for a rich console.

        Args:
            width: Characters per line; None for any number. A wider table has its headings wrapped, and the cells of
                columns that are aligned to the left, except the first. Figures stay whole.
        """
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(
            title=escape(self.title) or None,
            caption=escape("\n".join(self.notes)) or None,
            title_justify="left",
            caption_justify="left",
            title_style="bold",
            caption_style="dim",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for heading, wide in zip(self.columns, self._widths(width), strict=True):
            left = heading.startswith("<")
            table.add_column(
                escape(heading.lstrip("<")), justify="left" if left else "right", width=wide, overflow="fold"
            )
        for i, row in enumerate(self.rows):
            table.add_row(*map(escape, row), style="bold red" if i in self.bad else None)
        return table

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        text = StringIO()
        Console(file=text, width=_WIDTH, color_system=None, force_terminal=False).print(self.rich())
        return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines())

    def fitted(self, width: int) -> list[Table]:
        """Return the table, or several tables with some of its columns each if it is wider than ``width`` characters.

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

    def markdown(self, *, title: bool = True) -> str:
        """Return the table as GitHub-flavoured Markdown, without a newline at the end."""
        left = [heading.startswith("<") for heading in self.columns]
        lines = [f"**{self.title}**", ""] if title else []
        lines.append(_markdown_row(heading.lstrip("<") for heading in self.columns))
        lines.append("|" + "|".join("---" if is_left else "---:" for is_left in left) + "|")
        lines += map(_markdown_row, self.rows)
        if self.notes:
            lines += ["", " ".join(self.notes)]
        return "\n".join(lines)


def _markdown_row(cells: Any) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
