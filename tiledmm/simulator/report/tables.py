"""Tables of text: shown on a terminal by rich, or as Markdown. ``tiledmm.report.tables`` adds what documents need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

#: A cell without a value.
NONE = "-"

# Characters of a line of a table as text: all that it needs.
_WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: Its subject.
        columns: Headings; one that begins with ``"<"`` is aligned to the left, all others to the right.
        rows: Cells.
        notes: Sentences that belong below it.
        bad: Indices of the rows that stand out because something in them is wrong.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    bad: frozenset[int] = frozenset()

    def rich(self, width: int | None = None) -> RichTable:
        """Return the table as a table of the library ``rich``, to be printed on a terminal.

        Args:
            width: Maximum number of characters per line; None for as many as the table needs.
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

    def _widths(self, width: int | None) -> list[int]:
        """Return the number of characters of each column: here that of its longest cell, whatever ``width`` is."""
        return [
            max(map(len, (heading.lstrip("<"), *(row[i] for row in self.rows))))
            for i, heading in enumerate(self.columns)
        ]

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        text = StringIO()
        Console(file=text, width=_WIDTH, color_system=None, force_terminal=False).print(self.rich())
        return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines())

    def markdown(self, *, title: bool = True) -> str:
        """Return the table as GitHub-flavoured Markdown, without a line end.

        Args:
            title: Whether the title is shown above the table.
        """
        left = [heading.startswith("<") for heading in self.columns]
        lines = [f"**{self.title}**", ""] if title else []
        lines.append(_markdown_row(heading.lstrip("<") for heading in self.columns))
        lines.append("|" + "|".join("---" if is_left else "---:" for is_left in left) + "|")
        lines += map(_markdown_row, self.rows)
        if self.notes:
            lines += ["", " ".join(self.notes)]
        return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
