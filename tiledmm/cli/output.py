"""The output of a command: tables and sentences for people, or one document for programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from tiledmm.report.tables import Table

_PANEL = "Output"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, figures in full.", rich_help_panel=_PANEL)]
Csv = Annotated[
    bool, typer.Option("--csv", help="Print the rows of all tables as CSV, figures in full.", rich_help_panel=_PANEL)
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print tables as Markdown.", rich_help_panel=_PANEL)]

# Wide enough for every table where no terminal says how wide it is.
_PIPED_WIDTH = 160

# A bar that is gone at once only flickers.
_SECONDS_BEFORE_A_BAR = 1.0


class Output:
    """The tables and sentences of a command.

    For people both go to stdout as they come. As JSON or CSV, stdout gets one document at the end, and sentences go to
    stderr.
    """

    def __init__(self, *, json: bool = False, csv: bool = False, markdown: bool = False) -> None:
        if json + csv + markdown > 1:
            raise typer.BadParameter("--json, --csv and --markdown exclude each other: name one of them")
        self.json, self.csv, self.markdown = json, csv, markdown
        self._tables: list[Table] = []
        self._console = console(stderr=self.for_programs)

    @property
    def for_programs(self) -> bool:
        """Whether stdout is for one document."""
        return self.json or self.csv

    def say(self, text: str) -> None:
        """A sentence or more."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=self.markdown or self.for_programs)

    def table(self, table: Table) -> None:
        """A table: now, or with others in the document."""
        if self.for_programs:
            self._tables.append(table)
        elif self.markdown:
            self._console.print(table.markdown() + "\n", markup=False, highlight=False, soft_wrap=True)
        else:
            for part in replace(table, notes=()).fitted(self._console.width):
                self._console.print(part.rich(self._console.width))
            if table.notes:
                self._console.print("\n".join(table.notes) + "\n", style="dim", markup=False, highlight=False)

    def end(self, *, ok: bool, **known: Any) -> NoReturn:
        """Prints the document, if one was asked for, and leaves with an exit status.

        Args:
            ok: Whether all is well.
            **known: Members of a JSON document besides its tables.
        """
        if self.json:
            from tiledmm._version import __version__
            from tiledmm.report.documents import json_text

            tables = [table.json() for table in self._tables]
            typer.echo(json_text({"tiledmm": __version__, "ok": ok, "tables": tables, **known}), nl=False)
        elif self.csv:
            from tiledmm.report.documents import csv_text

            for note in dict.fromkeys(note for table in self._tables for note in table.notes):
                self.say(note)
            typer.echo(csv_text(self._tables), nl=False)
        raise typer.Exit(0 if ok else 1)


def console(*, stderr: bool = False) -> Console:
    """A console, without colours where it is no terminal."""
    from rich.console import Console

    found = Console(stderr=stderr)
    return found if found.is_terminal else Console(stderr=stderr, width=_PIPED_WIDTH)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on a terminal, of what takes more than a second.

    What it yields is called, from any thread, with what is being done, how much of it is done, and how much there is: 0
    where nobody knows.
    """
    from rich.progress import Progress

    screen = console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bars:
        bar = bars.add_task("", total=None, visible=False)
        timer = threading.Timer(_SECONDS_BEFORE_A_BAR, lambda: bars.update(bar, visible=True))
        timer.daemon = True
        timer.start()
        try:
            yield lambda doing, done, of: bars.update(bar, description=doing, completed=done, total=of or None)
        finally:
            timer.cancel()
