"""Option ``--watch``: a command that runs again whenever a file is saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import typer

from tiledmm.cli.output import console

# Interval between looks at the files, in seconds.
_LOOK = 0.3


def watch(file: Path, work: Callable[[], object]) -> NoReturn:
    """Call a function, and again whenever a file or another CUDA C file in its folder is saved, until Ctrl-C.

    Errors of this package are printed and do not end the loop.

    Args:
        file: The file.
        work: Function that prints its result.
    """
    from tiledmm.errors import TiledmmError

    screen, seen = console(), None
    while True:
        now = sorted((path.name, path.stat().st_mtime_ns) for path in file.parent.glob("*.[ch]*") if path.is_file())
        if now != seen:
            seen = now
            screen.clear()
            try:
                work()
            except TiledmmError as error:
                typer.secho(str(error), fg=typer.colors.RED)
            typer.echo(f"\n{time.strftime('%H:%M:%S')}: waiting for {file.name} to be saved; press Ctrl-C to stop.")
        time.sleep(_LOOK)
