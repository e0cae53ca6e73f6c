"""Command ``tiledmm tiles``: compares the tile sizes of a variant."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import Dtype, Import, Layout, NoGpu, Target, Variant, kernel_of, size_of, to_write
from tiledmm.cli.output import NO_GPU, Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.bench.sizes import Size
    from tiledmm.bench.variant_tiles import VariantTile
    from tiledmm.kernels.spec import KernelSpec
    from tiledmm.report.tables import Table


def tiles(
    variant: Variant,
    size: Annotated[str, typer.Option(help="The product, N or MxNxK.", show_default="4096; without a GPU 256")] = "",
    dtype: Dtype = None,
    layout: Layout = "NN",
    seconds: Annotated[float, typer.Option(min=0.0, help="On a GPU: approximate seconds per tile.")] = 0.4,
    chart: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw a chart of rates, or without a GPU of reuse. The name's ending selects the format: .svg, "
            ".png.",
            callback=to_write,
        ),
    ] = None,
    no_gpu: NoGpu = False,
    target: Target = "sm_90",
    imported: Import = None,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Compare all tile sizes of a variant: times or counts, occupancy, and reuse of elements.

    A larger tile reuses each element that it loads from global memory more often. It also needs more registers and
    shared memory, so fewer blocks fit on an SM. On a GPU, results are checked and kernels are timed in turn. Without a
    GPU, the simulator checks them and counts their memory accesses. The exit status is 1 if a result is wrong, or if a
    kernel does not compile or spills registers.

        tiledmm tiles tiled --chart tiled.svg
        tiledmm tiles warp_tiled --size 1000 --layout NT
        tiledmm tiles tiled_padded --no-gpu --size 128 --csv
    """
    from tiledmm.bench import tile_sizes
    from tiledmm.bench.simulable import simulable
    from tiledmm.bench.variant_tiles import left_out, runnable
    from tiledmm.hardware.architectures import find_target
    from tiledmm.kernels.variants import find_variant

    out = Output(json=json, csv=csv, markdown=markdown)
    kernel_of(variant, None, dtype, layout)  # raises if there is no such variant, type or layout
    row = find_variant(variant)
    variant_tiles = tile_sizes.variant_tiles_of(variant, row.tiles)
    find_target(target)
    reason = "--no-gpu" if no_gpu else device.missing_gpu()
    product = size_of(size or ("256" if reason else "4096"))
    kind = dtype or row.default_type
    if chart:
        tile_sizes.check_chart(variant, row.tiles, chart)
    absent = left_out({kind: variant_tiles}, target if reason else "")
    if reason:
        variant_tiles = runnable({kind: variant_tiles}, target)[kind]
    specs = [kernel_of(variant, each.tile, dtype, layout) for each in variant_tiles]
    if reason:
        chosen = simulable([product], variant_tiles, kind, target)
        if not chosen.asked:
            raise typer.BadParameter(f"{chosen.reason} Name a smaller --size.")
        out.say(NO_GPU.format(reason=reason))
        out.say("\n".join([*absent, ""]))
        table, ok = _counted(out, variant_tiles, specs, product, kind, layout.upper(), target)
    else:
        table, ok = _measured(out, variant_tiles, specs, product, kind, layout.upper(), seconds)
    out.table(table)
    if chart:
        tile_sizes.draw(table, chart)
        out.say(f"\nThe chart is in {chart}.")
    out.end(ok=ok)


def _measured(
    out: Output,
    variant_tiles: list[VariantTile],
    specs: list[KernelSpec],
    size: Size,
    kind: str,
    layout: str,
    seconds: float,
) -> tuple[Table, bool]:
    from tiledmm.bench.comparison import compare
    from tiledmm.bench.environment import this_machine
    from tiledmm.bench.tile_sizes import measured_table

    out.say(f"{this_machine()}\n")
    steps = itertools.count()
    with progress() as tell:
        found = compare(
            size, dtype=kind, layout=layout, variant_tiles=variant_tiles, seconds=seconds,
            progress=lambda doing: tell(doing, next(steps), len(variant_tiles) + 3),
        )  # fmt: skip
    return measured_table(variant_tiles[0].variant, found, specs), found.ok


def _counted(
    out: Output,
    variant_tiles: list[VariantTile],
    specs: list[KernelSpec],
    size: Size,
    kind: str,
    layout: str,
    target: str,
) -> tuple[Table, bool]:
    from tiledmm.bench import simulated
    from tiledmm.bench.kernel_resources import Compiled, compile_all
    from tiledmm.bench.tile_sizes import counted_table
    from tiledmm.errors import MissingDependencyError

    with progress() as tell:
        rows = simulated.simulate_all(variant_tiles, size, dtype=kind, layout=layout, target=target, progress=tell)
    try:
        with progress() as tell:
            kernels = compile_all(specs, [target], progress=tell)
    except MissingDependencyError as error:
        out.say(f"Registers and occupancy are unknown: {error}\n")
        kernels = []
    by_symbol = {kernel.spec.symbol: kernel for kernel in kernels}
    shown = [by_symbol.get(spec.symbol, Compiled(spec, target, None, unknown=True)) for spec in specs]
    ok = all(row.ok for row in rows) and all(kernel.ok for kernel in shown)
    variant, totals = variant_tiles[0].variant, out.for_programs
    return counted_table(variant, size, rows, shown, kind, layout, totals=totals), ok
