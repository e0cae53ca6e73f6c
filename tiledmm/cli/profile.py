"""Command ``tiledmm profile``: profiles kernels with Nsight Compute."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import (
    Import,
    Kernel,
    Layout,
    Tiles,
    complete_types,
    complete_variants,
    layout_of,
    names_of,
    names_of_kernels,
    own_type,
    size_of,
    tiles_of,
    to_write,
)
from tiledmm.cli.output import Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.bench.variant_tiles import VariantTile


def profile(
    variants: Annotated[
        list[str] | None,
        typer.Argument(
            help="Variants; also 'auto' and 'cublas'.",
            show_default="the kernel of --kernel",
            autocompletion=complete_variants,
        ),
    ] = None,
    size: Annotated[str, typer.Option(help="The product, N or MxNxK.")] = "4096",
    tiles: Tiles = "",
    dtype: Annotated[
        str,
        typer.Option(
            help="Element type; also tf32 and int8_int32.",
            show_default="float32; with --kernel the kernel's own",
            autocompletion=complete_types,
        ),
    ] = "",
    layout: Layout = "NN",
    report: Annotated[
        Path | None,
        typer.Option(
            help="Also save ncu's report, to open it in Nsight Compute.", metavar="FILE.ncu-rep", callback=to_write
        ),
    ] = None,
    print_command: Annotated[
        bool, typer.Option("--print-command", help="Print the command line of ncu, and run nothing.")
    ] = False,
    imported: Import = None,
    kernel: Kernel = None,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Profile kernels with Nsight Compute and say what limits them.

    It runs one product with each variant under ncu, which needs a GPU and permission to read its counters. It shows
    metrics, a diagnosis in sentences, and the source lines with the most stalls. Clocks are not locked, and caches are
    cold.

        tiledmm profile tiled tiled_padded auto cublas --size 2048 --layout NT
        tiledmm profile warp_tiled --print-command    (needs no GPU)
        tiledmm profile tiled cublas --kernel mine.cu
    """
    import shlex

    from tiledmm.bench.variant_tiles import multiplying
    from tiledmm.errors import DeviceError
    from tiledmm.profile.collection import collect, command_of
    from tiledmm.profile.diagnosis import diagnose
    from tiledmm.profile.ncu import find_ncu
    from tiledmm.profile.profile_tables import lines_table, profiles_table

    out = Output(json=json, csv=csv, markdown=markdown)
    product = size_of(size)
    pair = layout_of(layout)
    names = [*(variants or []), *names_of_kernels(kernel)]
    dtype = dtype or own_type(names_of_kernels(kernel))
    variant_tiles = multiplying(_variant_tiles(names, tiles), dtype)
    if print_command:
        ncu = find_ncu() or "ncu"
        typer.echo(
            shlex.join(command_of(variant_tiles, product, dtype, pair).line(ncu, str(report or "profile.ncu-rep")))
        )
        return
    if reason := device.missing_gpu():
        raise DeviceError(
            f"Nsight Compute needs a GPU, and this machine has none: {reason}; --print-command works without one"
        )
    with progress() as tell:
        tell(f"profiling {', '.join(each.label for each in variant_tiles)}", 0, 0)
        found = collect(variant_tiles, product, dtype, pair, report=report)
    out.table(profiles_table(found.profiles, f"{product}  {dtype}  {pair}"))
    for each in found.profiles:
        out.say("\n".join([f"{each.label}:", *(f"  {sentence}" for sentence in diagnose(each)), ""]))
        if each.lines:
            out.table(lines_table(each))
    typer.echo(shlex.join(found.command), err=out.for_programs)  # not wrapped, so that it can be copied
    profiles = [{**asdict(each), "words": diagnose(each)} for each in found.profiles]
    out.end(ok=True, command=list(found.command), profiles=profiles)


def _variant_tiles(variants: list[str], tiles: str) -> list[VariantTile]:
    """Return the variants and tiles to profile, in ladder order, with cuBLAS last.

    Args:
        variants: Arguments of the command, each with one name or several separated by commas.
        tiles: Value of ``--tile``.

    Raises:
        typer.BadParameter: If no variant is named.
    """
    from tiledmm.bench.variant_tiles import VariantTile, expand
    from tiledmm.kernels.variants import VARIANTS

    names = [name for text in variants for name in names_of(text)]
    if not names:
        raise typer.BadParameter("name a variant such as tiled, 'auto' or 'cublas'; tiledmm variants lists them")
    variant_tiles = expand(names, tiles_of(tiles))
    return variant_tiles + [VariantTile(row.name) for row in VARIANTS.values() if row.is_baseline and row.name in names]
