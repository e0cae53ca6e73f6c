"""The one form of all tables: shown on a terminal by rich, or as Markdown; its records are for documents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tiledmm.report.cells import value_of

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# Blanks that a terminal has for each column of a table.
_BETWEEN = 2

# Characters of a line of a table as text: all that it needs.
_WIDTH = 1000

# Longer words, such as paths, may be broken over lines.
_LONG_WORD = 24


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: Its subject.
        columns: Headings; one that begins with ``"<"`` is aligned to the left, all others to the right.
        rows: Cells; those of figures keep their values (see ``Figure``).
        notes: Sentences that belong below it.
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
        """A dictionary a row, by heading, figures in full and None where a cell has no value; ``about`` comes first."""
        headings = [heading.lstrip("<") for heading in self.columns]
        return [{**self.about, **dict(zip(headings, map(value_of, row), strict=True))} for row in self.rows]

    def json(self) -> dict[str, Any]:
        """The table in JSON."""
        return {"title": self.title, "rows": self.records(), "notes": list(self.notes)}

    def rich(self, width: int | None = None) -> RichTable:
        """For a rich console.

        Args:
            width: Characters of a line. A wider table has its headings wrapped, and the cells of all columns that are
                aligned to the left, except the first; figures stay whole.
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
        """The table, or where it is wider than that, several with some of its columns each; all begin with its first.

        The title stands above the first, the notes below the last.
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
        """Characters that a column needs at least, and those that show all of it."""
        heading, cells = self.columns[i].lstrip("<"), [row[i] for row in self.rows]
        wraps = self.columns[i].startswith("<") and i > 0
        pieces = [word[:_LONG_WORD] for cell in cells for word in cell.split()] if wraps else cells
        return max(map(len, (*heading.split(), *pieces)), default=0), max(map(len, (heading, *cells)))

    def _widths(self, room: int | None) -> list[int]:
        """Characters that columns get, those on the left first where there is not enough for all."""
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
        """As GitHub-flavoured Markdown, without a line end."""
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
