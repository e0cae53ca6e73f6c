"""What the commands of all benchmarks share: they need a GPU, and they show tables."""

from __future__ import annotations

import argparse
import sys

from tiledmm.cli import missing_gpu
from tiledmm.report.tables import Table


def options_on_gpu(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line, and exit with status 1 if there is no GPU."""
    options = parser.parse_args()
    if reason := missing_gpu():
        parser.exit(1, f"this needs a GPU: {reason}\n")
    return options


def show(*tables: Table, width: int = 200) -> None:
    """Print tables, ``width`` columns wide if the output is not a terminal."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else width)
    for table in tables:
        console.print(table.rich())
