"""Command ``tiledmm validate``: checks the results of kernels."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import (
    SIMULATED_SIZES,
    TYPES_HELP,
    Import,
    Kernel,
    Layouts,
    NoGpu,
    Tiles,
    complete_targets,
    complete_types,
    complete_variants,
    layouts_of,
    names_of_kernels,
    sizes_of,
    tiles_of,
    types_of,
)
from tiledmm.cli.output import ALL_RIGHT, NONE_RAN, Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.bench.variant_tiles import VariantTile

# One product of whole tiles, and one that is not.
_SIZES = "512,509x257x383"


def validate(
    variants: Annotated[
        list[str] | None,
        typer.Argument(
            help="Variants; 'auto' may be one.",
            show_default="all and auto; with --kernel that kernel",
            autocompletion=complete_variants,
        ),
    ] = None,
    sizes: Annotated[
        str,
        typer.Option(
            "--size",
            help="Products, each N or MxNxK, separated by commas.",
            show_default=f"{_SIZES}; without a GPU {','.join(SIMULATED_SIZES)}",
        ),
    ] = "",
    tiles: Tiles = "",
    dtypes: Annotated[
        str,
        typer.Option(
            "--dtype",
            help=TYPES_HELP,
            show_default="float32, or a variant's first type",
            autocompletion=complete_types,
        ),
    ] = "",
    layouts: Layouts = "NN",
    no_gpu: NoGpu = False,
    target: Annotated[
        str, typer.Option(help="Without a GPU: the target architecture.", autocompletion=complete_targets)
    ] = "sm_90",
    imported: Import = None,
    kernel: Kernel = None,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Check the results of kernels against float64, and compare them with NumPy's results on the CPU.

    Kernels run on the GPU if the machine has one. Otherwise they run at small sizes on the simulator, which also finds
    races and accesses out of bounds. Outputs are filled with NaN first. Errors are in units of |A| |B| and must not be
    larger than rounding explains; integers must be exact. The exit status is 1 if a kernel is wrong.

        tiledmm validate
        tiledmm validate tiled tiled_padded --tile all --layout NN,NT,TN,TT
        tiledmm validate auto --dtype all --size 1000
        tiledmm validate --kernel mine.cu --layout NN,NT
    """
    from tiledmm.bench import validation
    from tiledmm.bench.simulable import simulable
    from tiledmm.bench.variant_tiles import expand, left_out, refusals, runnable
    from tiledmm.hardware.architectures import find_target
    from tiledmm.kernels.variants import kernel_variants

    out = Output(json=json, csv=csv, markdown=markdown)
    own = names_of_kernels(kernel)
    names = [*(variants or []), *own] or [*(row.name for row in kernel_variants()), "auto"]
    variant_tiles = expand(names, tiles_of(tiles))
    products, orders = sizes_of(None, sizes or _SIZES), layouts_of(layouts)
    kinds = _by_type(variant_tiles, types_of(dtypes))
    find_target(target)
    if not variant_tiles or not orders:
        raise typer.BadParameter(
            "there is nothing to check: name at least one variant other than cublas, and at least one layout"
        )

    reason = "--no-gpu" if no_gpu else device.missing_gpu()
    if reason:
        out.say(f"No GPU ({reason}): the kernels run on the simulator.")
    out.say("\n".join([*left_out(kinds, target if reason else ""), ""]))
    if reason:
        kinds = runnable(kinds, target)
    ok, ran = True, False
    with progress(len(kinds), out) as tell:
        for kind, chosen in kinds.items():
            if reason:
                here = simulable(products if sizes else [], chosen, kind, target)
                if str(here):
                    out.say(f"{here}\n")
            jobs = list(itertools.product(orders, here.sizes if reason else products))
            for i, (layout, size) in enumerate(jobs):
                step = tell.portion(i, len(jobs))
                refused = refusals(chosen, size)
                for each in refused:
                    out.say(each)
                if len(refused) == len(chosen):
                    continue
                if reason:
                    found = validation.on_simulator(
                        chosen, size, dtype=kind, layout=layout, target=target, progress=step
                    )
                else:
                    found = validation.on_gpu(chosen, size, dtype=kind, layout=layout, progress=step)
                ok = ok and found.ok
                ran = ran or not all(row.left_out for row in found.rows)
                out.table(validation.validation_table(found))
            tell.next_job()
    if not ok:
        out.say("MISMATCH: at least one kernel is wrong or did not run.")
    else:
        out.say(ALL_RIGHT if ran else NONE_RAN)
    out.end(ok=ok)


def _by_type(variant_tiles: list[VariantTile], kinds: list[str]) -> dict[str, list[VariantTile]]:
    """Return the variants and tiles to check, by computation type.

    Args:
        variant_tiles: All variants and tiles to check.
        kinds: Names of types, with each of which all of them are checked. If it is empty, each variant is checked with
            float32, or with its default type if it does not multiply float32.
    """
    from tiledmm.elements import compute_element
    from tiledmm.kernels.variants import find_variant

    if kinds:
        return dict.fromkeys(kinds, variant_tiles)
    found: dict[str, list[VariantTile]] = {}
    for variant_tile in variant_tiles:
        kind = "float32"
        if variant_tile.variant != "auto":
            row = find_variant(variant_tile.variant)
            kind = kind if row.multiplies(compute_element(kind)) else row.default_type
        found.setdefault(kind, []).append(variant_tile)
    return found
