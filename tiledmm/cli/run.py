"""``tiledmm run``."""

from __future__ import annotations

import atexit
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import to_write

if TYPE_CHECKING:
    from tiledmm.replacement import Products

#: Settings for typer: all that follows the program is the program's, options too.
CONTEXT = {"allow_interspersed_args": False}


def run(
    script: Annotated[Path, typer.Argument(help="The program.", metavar="SCRIPT.py", exists=True, dir_okay=False)],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.", metavar="ARGUMENTS")] = None,
    variant: Annotated[str, typer.Option(help="Variant that computes the products.")] = "auto",
    tile: Annotated[int | None, typer.Option(help="Its tile size.", show_default="the variant's own")] = None,
    precision: Annotated[str, typer.Option(help="Precision of float32 products, as for tiledmm.matmul.")] = "float32",
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Also write the account of the products to FILE, as JSON.", callback=to_write
        ),
    ] = None,
) -> None:
    """Run a CuPy program unchanged, with its matrix products computed by kernels of this package.

    At the end, stderr shows how many products each kernel computed, which products CuPy computed, and why. The exit
    status is the program's.

        tiledmm run train.py --epochs 3
        tiledmm run --variant tiled --tile 16 train.py
    """
    from tiledmm.replacement import replacement_by
    from tiledmm.replacement import script as scripts

    replacement = replacement_by(variant=variant, tile=tile, config=None, precision=precision)
    # The program's threads and its own functions for the exit may multiply, too: this comes after all of them.
    atexit.register(_report, replacement.products, json_file)
    scripts.run(script, arguments or [], replacement)


def _report(products: Products, json_file: Path | None) -> None:
    """Prints the account of the products."""
    typer.echo(f"\ntiledmm: {products}{'' if products.total else _why_none()}", err=True)
    if json_file:
        from tiledmm.report.documents import json_text

        json_file.write_text(json_text(products.to_json()), encoding="utf-8")


def _why_none() -> str:
    if "cupy" not in sys.modules:
        return "; CuPy was not imported"
    reason = device.missing_gpu()
    return f"; there is no GPU ({reason}), and the program ran as far as CuPy goes without one" if reason else ""
