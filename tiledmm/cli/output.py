"""The output of a command: tables and sentences for people, or one document for programs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

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

# Often enough to see that a job in a log is alive.
_SECONDS_BETWEEN_LINES = 10.0

#: The last line of a command by which every kernel is checked.
ALL_RIGHT = "Every kernel that ran is right."
NONE_RAN = "No kernel ran."


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
        #: The progress bar that is on the terminal; None if there is none.
        self.bars: RichProgress | None = None

    @contextmanager
    def _above_the_bar(self) -> Iterator[None]:
        """Hides the progress bar while something is printed."""
        if self.bars is None:
            yield
            return
        self.bars.stop()
        try:
            yield
        finally:
            self.bars.start()

    @property
    def for_programs(self) -> bool:
        """Whether stdout is for one document."""
        return self.json or self.csv

    def say(self, text: str) -> None:
        """A sentence or more."""
        with self._above_the_bar():
            self._console.print(text, markup=False, highlight=False, soft_wrap=self.markdown or self.for_programs)

    def table(self, table: Table) -> None:
        """A table: now, or with others in the document."""
        if self.for_programs:
            self._tables.append(table)
            return
        with self._above_the_bar():
            if self.markdown:
                self._console.print(table.markdown() + "\n", markup=False, highlight=False, soft_wrap=True)
                return
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


class Progress:
    """How far a command is: a bar on a terminal, and elsewhere a line now and then."""

    def __init__(self, parts: int, show: Callable[[str, float | None], None]) -> None:
        self._parts, self._finished, self._show = parts, 0, show

    def __call__(self, doing: str, done: int, of: int) -> None:
        """Tells, from any thread, what is being done, how much of a part is done, and of how much: 0 if unknown."""
        known = of > 0 or self._parts > 1
        here = min(done / of, 1.0) if of > 0 else 0.0
        self._show(doing, (self._finished + here) / self._parts if known else None)

    def portion(self, i: int, of: int) -> Callable[[str, int, int], None]:
        """The progress of portion ``i`` out of so many of the same part."""

        def tell(doing: str, done: int, whole: int) -> None:
            self(doing, i * max(whole, 1) + done, of * max(whole, 1))

        return tell

    def next_part(self) -> None:
        """One of the parts is finished."""
        self._finished = min(self._finished + 1, self._parts - 1)


@contextmanager
def progress(parts: int = 1, out: Output | None = None) -> Iterator[Progress]:
    """The progress of what takes longer than a moment, on stderr.

    Args:
        parts: Parts of the work, for one bar over all of them.
        out: What is printed meanwhile; it hides the bar while it prints.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield Progress(parts, _Lines(screen))
        return
    from rich.progress import Progress as Bars

    with Bars(console=screen, transient=True, redirect_stdout=False, redirect_stderr=False) as bars:
        bar = bars.add_task("", total=None, visible=False)
        timer = threading.Timer(_SECONDS_BEFORE_A_BAR, lambda: bars.update(bar, visible=True))
        timer.daemon = True
        timer.start()
        if out is not None:
            out.bars = bars
        try:
            yield Progress(
                parts,
                lambda doing, part: bars.update(
                    bar, description=doing, completed=part or 0, total=None if part is None else 1
                ),
            )
        finally:
            timer.cancel()
            if out is not None:
                out.bars = None


class _Lines:
    """Progress as lines, for logs: one in ``_SECONDS_BETWEEN_LINES``."""

    def __init__(self, screen: Console) -> None:
        self._screen, self._lock, self._last = screen, threading.Lock(), time.monotonic()

    def __call__(self, doing: str, part: float | None) -> None:
        with self._lock:
            if time.monotonic() - self._last < _SECONDS_BETWEEN_LINES:
                return
            self._last = time.monotonic()
            far = "" if part is None else f"{part:.0%}: "
            self._screen.print(f"{far}{doing}", markup=False, highlight=False, soft_wrap=True)
