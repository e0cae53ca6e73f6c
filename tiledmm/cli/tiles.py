"""``tiledmm tiles``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import Dtype, Layout, Target, Variant, kernel_of, sizes_of
from tiledmm.cli.compiling import compiled
from tiledmm.cli.output import Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.bench.records import Rung, Size
    from tiledmm.codegen import Specialization


def tiles(
    variant: Variant,
    size: Annotated[str, typer.Option(help="The product: N or MxNxK.", show_default="4096; simulated 256")] = "",
    dtype: Dtype = None,
    layout: Layout = "NN",
    seconds: Annotated[float, typer.Option(min=0.0, help="On a GPU: about how long to time each.")] = 0.4,
    no_gpu: Annotated[bool, typer.Option("--no-gpu", help="Use the simulator, even if there is a GPU.")] = False,
    target: Target = "sm_90",
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Compare all tile sizes of a variant: the first choice that whoever tiles a product has to make.

    A larger tile uses each element oftener that it fetched from global memory, and takes more registers and shared
    memory, so fewer blocks fit an SM. On a GPU with times, checked and then taken in turn; without one with what the
    simulator counts. The exit status is 1 if a result is wrong, or a kernel does not compile or spills.

        tiledmm tiles tiled
        tiledmm tiles warp_tiled --size 1000 --layout NT
        tiledmm tiles tiled_padded --no-gpu --size 128 --csv
    """
    from tiledmm.architectures import find_target
    from tiledmm.bench.tile_sizes import rungs_of
    from tiledmm.ladder import find_variant

    out = Output(json=json, csv=csv, markdown=markdown)
    kernel_of(variant, None, dtype, layout)  # whose errors are of the variant, type and layout
    row = find_variant(variant)
    rungs = rungs_of(variant, row.tiles)
    specs = [kernel_of(variant, rung.tile, dtype, layout) for rung in rungs]
    find_target(target)
    reason = "--no-gpu" if no_gpu else device.missing_gpu()
    (product,) = sizes_of([size or ("256" if reason else "4096")])
    kind = dtype or row.default_type
    if reason:
        out.say(f"No GPU ({reason}): the kernels run on the simulator, which counts what they do. No times below.\n")
        out.end(ok=_counted(out, rungs, specs, product, kind, layout.upper(), target))
    out.end(ok=_measured(out, rungs, specs, product, kind, layout.upper(), seconds))


def _measured(
    out: Output,
    rungs: list[Rung],
    specs: list[Specialization],
    size: Size,
    kind: str,
    layout: str,
    seconds: float,
) -> bool:
    from tiledmm.bench.comparison import compare
    from tiledmm.bench.machine import this_machine
    from tiledmm.bench.tile_sizes import measured_table

    out.say(f"{this_machine()}\n")
    steps = itertools.count()
    with progress() as tell:
        found = compare(
            size, dtype=kind, layout=layout, rungs=rungs, seconds=seconds,
            progress=lambda doing: tell(doing, next(steps), len(rungs) + 3),
        )  # fmt: skip
    out.table(measured_table(rungs[0].variant, found, specs))
    return found.ok


def _counted(
    out: Output,
    rungs: list[Rung],
    specs: list[Specialization],
    size: Size,
    kind: str,
    layout: str,
    target: str,
) -> bool:
    from tiledmm.bench import simulated
    from tiledmm.bench.tile_sizes import counted_table
    from tiledmm.bench.without_gpu import Compiled
    from tiledmm.errors import MissingDependencyError

    if size.m * size.n * size.k > simulated.MAX_MULTIPLY_ADDS:
        raise typer.BadParameter(f"{size} is too large for the simulator: at most 256 x 256 x 256, or as much work")
    with progress() as tell:
        rows = simulated.simulate_all(rungs, size, dtype=kind, layout=layout, target=target, progress=tell)
    try:
        kernels = compiled(specs, [target])
    except MissingDependencyError as error:
        out.say(f"Registers and occupancy are not known here: {error}\n")
        kernels = []
    by_symbol = {kernel.spec.symbol: kernel for kernel in kernels}
    shown = [by_symbol.get(spec.symbol, Compiled(spec, target, None, unknown=True)) for spec in specs]
    out.table(counted_table(rungs[0].variant, size, rows, shown, kind, layout))
    return all(row.ok for row in rows) and all(kernel.ok for kernel in shown)
