"""Output of a command: tables and sentences for people, or one document for programs; and progress on stderr."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from tiledmm.report.tables import Table
    from tiledmm.simulator import Finding

_PANEL = "Output"
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, in full precision.", rich_help_panel=_PANEL)
]
Csv = Annotated[
    bool, typer.Option("--csv", help="Print the rows of all tables as CSV, in full precision.", rich_help_panel=_PANEL)
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print tables as Markdown.", rich_help_panel=_PANEL)]

# Width of tables in characters without a terminal: enough for every table.
_PIPED_WIDTH = 160

# Maximum width of sentences in characters, also on a wider terminal.
_SENTENCE_WIDTH = 90

# Delay before a progress bar appears: one that disappears at once would only flicker.
_SECONDS_BEFORE_A_BAR = 1.0

# Interval between lines of progress in a log: short enough to see that the job is alive.
_SECONDS_BETWEEN_LINES = 10.0

#: First line of a command that simulates kernels.
NO_GPU = "No GPU ({reason}): the kernels run on the simulator, which counts what they do. Nothing below is a time."

#: Last line of a command that checks kernels, by whether any ran.
ALL_RIGHT = "Every kernel that ran is right."
NONE_RAN = "No kernel ran."


class Output:
    """Output of a command: its tables and sentences.

    For people, both are printed to stdout immediately. With ``--json`` or ``--csv``, ``end`` prints all tables as one
    document to stdout, and sentences are printed to stderr.

    Args:
        json, csv, markdown: The format; none of them for tables and sentences on a terminal.

    Raises:
        typer.BadParameter: If more than one format is given.
    """

    def __init__(self, *, json: bool = False, csv: bool = False, markdown: bool = False) -> None:
        if json + csv + markdown > 1:
            raise typer.BadParameter("--json, --csv and --markdown exclude each other: name one of them")
        self.json, self.csv, self.markdown = json, csv, markdown
        self._tables: list[Table] = []
        self._shown: set[tuple[object, ...]] = set()
        self._console = console(stderr=self.for_programs)
        #: Progress bar that is on the terminal now; None if there is none.
        self.bars: RichProgress | None = None

    @contextmanager
    def _above_the_bar(self) -> Iterator[None]:
        """Return a context manager that hides the progress bar, so that text can be printed."""
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
        """Whether stdout gets only one document, as JSON or CSV."""
        return self.json or self.csv

    def say(self, text: str) -> None:
        """Print one or more sentences, to stdout, or to stderr with ``--json`` or ``--csv``."""
        with self._above_the_bar():
            self._sentences(text)

    def _sentences(self, text: str, style: str | None = None) -> None:
        if self.markdown or self.for_programs:
            self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
        else:
            width = min(self._console.width, _SENTENCE_WIDTH)
            self._console.print(text, style=style, markup=False, highlight=False, width=width)

    def table(self, table: Table) -> None:
        """Print a table. With ``--json`` or ``--csv`` keep it instead, for the document that ``end`` prints."""
        if self.for_programs:
            self._tables.append(table)
            return
        with self._above_the_bar():
            if self.markdown:
                self._sentences(f"{table.markdown()}\n")
            else:
                for part in replace(table, notes=()).fitted(self._console.width):
                    self._console.print(part.rich(self._console.width))
                if table.notes:
                    self._sentences("\n".join(table.notes) + "\n", "dim")
            if table.findings and not self._findings(table.findings):
                self._sentences("The findings are those above.\n")

    def _findings(self, findings: Iterable[Finding]) -> bool:
        """Print findings as a list, each with the source lines that it names, and return whether there were any.

        A finding of the same kind and lines as one that was printed before is left out.
        """
        unique = {(each.kind, each.location, each.other_location, each.also): each for each in reversed([*findings])}
        new = [each for key, each in reversed(unique.items()) if key not in self._shown]
        self._shown.update(unique)
        for each in new:
            message, *quotes = str(each).splitlines()
            if self.markdown:
                text = "\n".join([f"- {message}", *(f"  - `{quote.strip()}`" for quote in quotes)])
            else:
                width = min(self._console.width, _SENTENCE_WIDTH)
                lines = textwrap.wrap(message, width, initial_indent="- ", subsequent_indent="  ")
                text = "\n".join([*lines, *(f"  {quote}" for quote in quotes)])
            self._console.print(f"{text}\n", markup=False, highlight=False, soft_wrap=True)
        return bool(new)

    def end(self, *, ok: bool, **known: Any) -> NoReturn:
        """End the command with exit status 0 or 1. With ``--json`` or ``--csv``, print the document with all tables.

        Args:
            ok: Whether the exit status is 0.
            **known: Further members of the JSON document, by name.

        Raises:
            typer.Exit: Always.
        """
        if self.json:
            from tiledmm import __version__
            from tiledmm.report.documents import json_text

            tables = [table.json() for table in self._tables]
            typer.echo(json_text({"tiledmm": __version__, "ok": ok, "tables": tables, **known}), nl=False)
        elif self.csv:
            from tiledmm.report.documents import csv_text

            for note in dict.fromkeys(note for table in self._tables for note in table.notes):
                self.say(note)
            for table in self._tables:
                self._findings(table.findings)
            typer.echo(csv_text(self._tables), nl=False)
        raise typer.Exit(0 if ok else 1)


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that prints to stdout or stderr. If that is not a terminal, it is 160 characters wide."""
    from rich.console import Console

    found = Console(stderr=stderr)
    return found if found.is_terminal else Console(stderr=stderr, width=_PIPED_WIDTH)


class Progress:
    """Progress of a command, which consists of jobs.

    Args:
        jobs: Number of jobs of equal length.
        show: Function that shows the current activity and the finished fraction of the work, None if unknown.
    """

    def __init__(self, jobs: int, show: Callable[[str, float | None], None]) -> None:
        self._jobs, self._finished, self._show = jobs, 0, show

    def __call__(self, doing: str, done: int, of: int) -> None:
        """Report the progress within the current job. Any thread may call this.

        Args:
            doing: Current activity.
            done: Finished steps of this job.
            of: Number of steps of this job; 0 if unknown.
        """
        known = of > 0 or self._jobs > 1
        here = min(done / of, 1.0) if of > 0 else 0.0
        self._show(doing, (self._finished + here) / self._jobs if known else None)

    def portion(self, i: int, of: int) -> Callable[[str, int, int], None]:
        """Return a function that reports the progress within one of several equal portions of the current job.

        The function's arguments are the current activity, the finished steps of the portion, and the number of its
        steps.

        Args:
            i: Number of the portion, from 0.
            of: Number of portions.
        """

        def tell(doing: str, done: int, whole: int) -> None:
            self(doing, i * max(whole, 1) + done, of * max(whole, 1))

        return tell

    def next_job(self) -> None:
        """Count the current job as finished, so that further progress is that of the next job."""
        self._finished = min(self._finished + 1, self._jobs - 1)


@contextmanager
def progress(jobs: int = 1, out: Output | None = None) -> Iterator[Progress]:
    """Return a context manager that shows progress on stderr: a bar on a terminal, else a line every ten seconds.

    Its ``with`` statement gives the ``Progress`` to report to.

    Args:
        jobs: Number of jobs of equal length, which share one bar.
        out: Output of the command; it hides the bar while it prints.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield Progress(jobs, _Lines(screen))
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
                jobs,
                lambda doing, fraction: bars.update(
                    bar, description=doing, completed=fraction or 0, total=None if fraction is None else 1
                ),
            )
        finally:
            timer.cancel()
            if out is not None:
                out.bars = None


class _Lines:
    """Function that shows progress as lines of a log, at most one line every ten seconds."""

    def __init__(self, screen: Console) -> None:
        self._screen, self._lock, self._last = screen, threading.Lock(), time.monotonic()

    def __call__(self, doing: str, fraction: float | None) -> None:
        with self._lock:
            if time.monotonic() - self._last < _SECONDS_BETWEEN_LINES:
                return
            self._last = time.monotonic()
            far = "" if fraction is None else f"{fraction:.0%}: "
            self._screen.print(f"{far}{doing}", markup=False, highlight=False, soft_wrap=True)
