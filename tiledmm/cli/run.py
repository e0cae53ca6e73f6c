"""Command ``tiledmm run``: runs a program with its matrix products on this package's kernels."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import (
    Import,
    Kernel,
    Precision,
    Tile,
    complete_variants,
    normalized,
    one_variant,
    tile_of,
    to_write,
)
from tiledmm.cli.exit_status import restore_stdout

if TYPE_CHECKING:
    from tiledmm.replacement import Products

#: Settings for typer: all arguments after the program belong to the program, options too.
CONTEXT = {
    "allow_interspersed_args": False,
    "token_normalize_func": lambda name: "report" if name == "json" else normalized(name),
}


def _program(script: Path) -> Path:
    """Return the path of the program to run.

    Raises:
        typer.BadParameter: If the path is a folder. An empty path is the current folder.
    """
    if script.is_dir():
        raise typer.BadParameter(f"name a program, such as train.py; {str(script)!r} is a directory")
    return script


def run(
    script: Annotated[
        Path, typer.Argument(help="Program to run.", metavar="SCRIPT.py", exists=True, callback=_program)
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.", metavar="ARGUMENTS")] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Variant that computes the products.",
            show_default="auto; with --kernel that kernel",
            autocompletion=complete_variants,
        ),
    ] = None,
    tile: Tile = None,
    precision: Precision = "full",
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the summary of the products to FILE, as JSON.", callback=to_write
        ),
    ] = None,
    imported: Import = None,
    kernel: Kernel = None,
) -> None:
    """Run an unmodified CuPy program with its matrix products on kernels of this package.

    At the end, a summary on stderr shows how many products each kernel computed, which products were left to CuPy, and
    why. The exit status is the program's.

        tiledmm run train.py --epochs 3
        tiledmm run --variant tiled --tile 16 train.py
        tiledmm run --kernel mine.cu train.py
    """
    from tiledmm.replacement import replacement_by
    from tiledmm.replacement import script as scripts

    if report and report.exists() and report.samefile(script):
        raise typer.BadParameter(f"--report would overwrite the program {report}")
    variant = one_variant(variant, kernel) if kernel else variant or "auto"
    replacement = replacement_by(variant=variant, tile=tile_of(tile), config=None, precision=precision)
    # The program's threads and exit functions may multiply, too. Exit functions run in reverse order, so this is last.
    ending: list[SystemExit] = []
    atexit.register(_end_with_summary, replacement.products, report, ending)
    restore_stdout()
    try:
        scripts.run(script, arguments or [], replacement)
    except SystemExit as end:
        ending.append(end)
        raise


def _end_with_summary(products: Products, file: Path | None, ending: list[SystemExit]) -> None:
    """Print how many products each kernel and CuPy computed, and write this summary to a file.

    If that fails, end the process with exit status 74, unless the program itself has failed.

    Args:
        products: Products of the program.
        file: Path of the file, which is written as JSON; None for no file.
        ending: Exit of the program; empty if it ended without one.
    """
    try:
        typer.echo(f"\ntiledmm: {products}{'' if products.total else _why_none()}", err=True)
        if file:
            from tiledmm.report.documents import json_text

            file.write_text(json_text(products.to_json()), encoding="utf-8")
    except OSError as error:
        with contextlib.suppress(OSError):
            typer.echo(f"tiledmm: the summary of the products cannot be written: {error}", err=True)
        if not any(end.code for end in ending):
            _leave_with(os.EX_IOERR)


def _leave_with(status: int) -> None:
    """End the process at once with an exit status, after flushing stdout and stderr.

    A function that runs at the interpreter's exit cannot change the exit status in any other way.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _why_none() -> str:
    if "cupy" not in sys.modules:
        return "; CuPy was not imported"
    reason = device.missing_gpu()
    return f"; there is no GPU ({reason}), and CuPy computes no products without one" if reason else ""
