"""Time ``--help`` of every command, compared with that of an empty typer application. Needs no GPU.

    python -m benchmarks.help

The empty application is one command without arguments. Each round runs every command once; a ratio is the median of
the ratios of all rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from rich.console import Console

from tiledmm.cli import app
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

EMPTY = "import typer\nmain = typer.Typer()\nmain.command()(lambda: None)"
_OURS = "from tiledmm.cli import main"


def commands() -> list[str]:
    """Return the names of tiledmm's commands."""
    return [str(each.name or getattr(each.callback, "__name__", "")) for each in app.registered_commands]


def _seconds(program: str, *words: str) -> float:
    begun = time.perf_counter()
    code = f"import sys\nsys.argv = ['x', *{words!r}, '--help']\n{program}\nmain()"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def measure(rounds: int) -> Table:
    """Time ``--help`` of every command, and format one row per command."""
    empty = "an empty application"
    jobs = {empty: (EMPTY,), "tiledmm": (_OURS,), **{name: (_OURS, name) for name in commands()}}
    for job in jobs.values():  # compiled to bytecode
        _seconds(*job)
    times = [{name: _seconds(*job) for name, job in jobs.items()} for _ in range(rounds)]
    rows = []
    for name in jobs:
        took = statistics.median(each[name] for each in times)
        ratio = statistics.median(each[name] / each[empty] for each in times)
        rows.append((name, significant(took * 1e3), significant(ratio)))
    return Table("Time of --help", ("<command", "time (ms)", "x the empty one's"), tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="processes of each command")
    Console().print(measure(parser.parse_args().rounds).rich())


if __name__ == "__main__":
    main()
