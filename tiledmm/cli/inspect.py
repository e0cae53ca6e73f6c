"""Command ``tiledmm inspect``: shows the resources of a kernel on each target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli.arguments import (
    ConfigFields,
    Dtype,
    Import,
    Kernel,
    Layout,
    VariantOrKernel,
    complete_targets,
    kernel_of,
    one_variant,
    size_of,
    tile_of,
)
from tiledmm.cli.output import Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.bench.kernel_resources import Compiled

_DEFAULT_TARGET = "sm_90"
_DEFAULT_TILES = "all of its tiles"


def inspect(
    variant: VariantOrKernel = None,
    tile: Annotated[str | None, typer.Option(help="One tile size.", show_default=_DEFAULT_TILES)] = None,
    dtype: Dtype = None,
    layout: Layout = "NN",
    config: ConfigFields = None,
    target: Annotated[
        str,
        typer.Option(
            help="One target architecture, such as sm_80.",
            show_default=f"all, with {_DEFAULT_TARGET} in detail",
            autocompletion=complete_targets,
        ),
    ] = "",
    size: Annotated[str, typer.Option(help="Product to compute bounds for, N or MxNxK.")] = "4096",
    imported: Import = None,
    kernel: Kernel = None,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Show a kernel's resources: registers, shared memory, spills, occupancy and what limits it. Needs no GPU.

    It also bounds the kernel's speed on each target's reference GPU by the lowest of three ceilings: multiply-adds,
    memory and on-chip loads. FLOP/byte is the arithmetic intensity: operations per byte that the kernel requests from
    global memory. No kernel runs, and nothing is measured. The exit status is 1 if a kernel does not compile or spills
    registers.

        tiledmm inspect tiled
        tiledmm inspect warp_tiled --tile 128 --target sm_80
        tiledmm inspect register_tiled --config tm=4 --csv
        tiledmm inspect --kernel mine.cu
    """
    from tiledmm.bench import resource_tables
    from tiledmm.bench.kernel_resources import compile_all
    from tiledmm.errors import ConfigError
    from tiledmm.hardware.architectures import TARGETS, find_target
    from tiledmm.kernels.variants import find_variant

    out = Output(json=json, csv=csv, markdown=markdown)
    variant = one_variant(variant, kernel)
    specs = [kernel_of(variant, tile_of(tile, _DEFAULT_TILES), dtype, layout, config)]
    if tile is None and not config:
        every = (kernel_of(variant, each, dtype, layout) for each in find_variant(variant).tiles or (None,))
        specs = list(dict.fromkeys(every))  # two tiles may be one kernel, as with complex128
    product = size_of(size)
    targets = [find_target(target).name] if target else list(TARGETS)
    with progress() as tell:
        kernels = compile_all(specs, targets, progress=tell)
    if not kernels:
        raise ConfigError(specs[0].why_not_on(find_target(target)))
    if out.for_programs:
        out.table(resource_tables.details_table(kernels, product))
    else:
        shown = _in_detail(kernels, target)
        out.table(resource_tables.details_table(shown, product))
        if len(targets) > 1:
            out.table(resource_tables.targets_table(kernels))
        out.say(resource_tables.BOUNDS_NOTE)
    out.end(ok=all(kernel.ok for kernel in kernels))


def _in_detail(kernels: list[Compiled], target: str) -> list[Compiled]:
    """Return the kernels that were compiled for the target to show in detail.

    Args:
        kernels: Kernels of one variant, compiled for several targets.
        target: Name of the target; empty for ``_DEFAULT_TARGET``, or the first target if there are no kernels for that.
    """
    has = dict.fromkeys(kernel.target for kernel in kernels)
    wanted = target or (_DEFAULT_TARGET if _DEFAULT_TARGET in has else next(iter(has)))
    return [kernel for kernel in kernels if kernel.target == wanted]
