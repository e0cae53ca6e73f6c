"""``tiledmm compare``."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import (
    Dtypes,
    Layouts,
    NoGpu,
    Target,
    Tiles,
    layouts_of,
    names_of,
    sizes_of,
    tiles_of,
    types_of,
)
from tiledmm.cli.compiling import compiled
from tiledmm.cli.output import Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.bench.sizes import Size
    from tiledmm.bench.variant_tiles import VariantTile

DEFAULT_SIZES = ("256", "1024", "4096")


def compare(
    sizes: Annotated[
        list[str] | None,
        typer.Argument(help="Products, each N or MxNxK.", metavar="SIZE", show_default=" ".join(DEFAULT_SIZES)),
    ] = None,
    variants: Annotated[
        str, typer.Option(help="Variants, with commas; 'auto' may be one.", show_default="all; on a GPU also auto")
    ] = "",
    tiles: Tiles = "",
    dtypes: Dtypes = "float32",
    layouts: Layouts = "NN",
    seconds: Annotated[float, typer.Option(min=0.0, help="About how long to time each rival.")] = 0.4,
    peers: Annotated[
        bool, typer.Option(help="Rows for PyTorch, JAX and Triton, where they are installed, and for NumPy on the CPU.")
    ] = True,
    no_gpu: NoGpu = False,
    target: Target = "sm_90",
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Compare the kernels with each other and with cupy.matmul.

    Every result is checked against float64 before anything is timed; a mismatch makes the exit status 1.

    Without a GPU, each kernel runs on the simulator, which checks and counts it (products of more than 256^3 are too
    large, and smaller ones stand in for them), is compiled for every target, and is bounded on a reference GPU. The
    exit status is 1 if a kernel is wrong, does not compile or spills.

        tiledmm compare
        tiledmm compare 4096 --variants tiled,auto --layouts NN,NT
        tiledmm compare 512 --json > results.json
    """
    from tiledmm.bench.variant_tiles import VariantTile, expand, multiplying
    from tiledmm.hardware.architectures import find_target

    out = Output(json=json, csv=csv, markdown=markdown)
    products = sizes_of(list(sizes or DEFAULT_SIZES))
    variant_tiles = expand(names_of(variants) or None, tiles_of(tiles))
    kinds, orders = types_of(dtypes), layouts_of(layouts)
    for kind in kinds:
        multiplying(variant_tiles, kind)
    find_target(target)
    if not kinds or not orders:
        raise typer.BadParameter("there is nothing to compare: name at least one type and one layout")

    reason = "--no-gpu" if no_gpu else device.missing_gpu()
    if reason:
        if not variant_tiles:
            raise typer.BadParameter("cuBLAS runs on a GPU only: without one, name a variant with a kernel")
        out.say(f"No GPU ({reason}): the kernels run on a simulator, which counts what they do. No times below.\n")
        out.end(ok=_without_gpu(out, variant_tiles, products, kinds, orders, target, asked=bool(sizes)))
    _on_gpu(
        out,
        variant_tiles if variants else [*variant_tiles, VariantTile("auto")],
        products,
        kinds,
        orders,
        seconds,
        peers,
    )


def _on_gpu(
    out: Output,
    variant_tiles: list[VariantTile],
    products: list[Size],
    kinds: list[str],
    orders: list[str],
    seconds: float,
    peers: bool,
) -> None:
    from tiledmm.bench.comparison import compare as compare_rivals
    from tiledmm.bench.comparison_tables import comparison_table
    from tiledmm.bench.environment import this_machine
    from tiledmm.bench.peers import PEERS
    from tiledmm.bench.report_files import REPORT_FORMAT
    from tiledmm.bench.results import ComparisonReport

    machine = this_machine()
    out.say(f"{machine}\n")
    comparisons = []
    stopped = ""
    for kind, layout, size in itertools.product(kinds, orders, products):
        steps = itertools.count()
        try:
            with progress() as tell:
                found = compare_rivals(
                    size,
                    dtype=kind,
                    layout=layout,
                    variant_tiles=variant_tiles,
                    seconds=seconds,
                    peers=PEERS if peers else (),
                    # Operands are prepared, each rival is checked, then all are timed.
                    progress=lambda doing, tell=tell, of=f"{size} {kind} {layout}", steps=steps: tell(  # type: ignore[misc]
                        f"{of}: {doing}", next(steps), len(variant_tiles) + 3
                    ),
                )
        except (ImportError, MemoryError) as error:  # a CUDA library that CuPy lacks, or a product that is too large
            stopped = f"{type(error).__name__}: {error}"
            break
        comparisons.append(found)
        out.table(comparison_table(found))
    report = ComparisonReport(machine, tuple(comparisons))
    if stopped:
        out.say(f"\nStopped: {stopped}")
    else:
        out.say(_METHOD)
    if not report.ok:
        out.say("\nMISMATCH: at least one kernel gave a wrong result or did not run.")
    out.end(ok=report.ok and not stopped, format=REPORT_FORMAT, **asdict(report))


_METHOD = (
    "Device time, median of rounds in which the rivals take turns; ratios are medians within rounds. "
    "TFLOP/s counts 2MNK (complex: 8MNK), GB/s each operand read and C written once. 'of roofline' is the fraction of "
    "the lower ceiling by the data sheet, the units that multiply or the memory. NumPy's times are the host's. "
    "Error: largest |C - R| / (|A||B|) against float64."
)


def _without_gpu(
    out: Output,
    variant_tiles: list[VariantTile],
    products: list[Size],
    kinds: list[str],
    orders: list[str],
    target: str,
    *,
    asked: bool,
) -> bool:
    from tiledmm.bench import kernel_resources, resource_tables
    from tiledmm.errors import MissingDependencyError
    from tiledmm.hardware.architectures import TARGETS

    ok = _simulate(out, variant_tiles, products if asked else [], kinds, orders, target)
    no_compiler = ""
    for kind, layout in itertools.product(kinds, orders):
        specs = kernel_resources.specializations(variant_tiles, kind, layout)
        if not specs:
            out.say("auto chooses a kernel for each product on a GPU, and has none of its own to show.")
            return True
        if not no_compiler:
            try:
                kernels = compiled(specs, TARGETS)
            except MissingDependencyError as error:
                no_compiler = str(error)
                out.say(f"Registers, spills and occupancy are not known here: {no_compiler}\n")
            else:
                ok = ok and all(kernel.ok for kernel in kernels)
                if out.for_programs:  # one table a target, all of the same columns
                    for each in dict.fromkeys(kernel.target for kernel in kernels):
                        out.table(resource_tables.resource_table(kernels, each))
                else:
                    out.table(resource_tables.resource_table(kernels, target))
                    out.table(resource_tables.matrix_table(kernels))
        for size in products:
            out.table(resource_tables.bounds_table(specs, size, target))
    out.say(resource_tables.BOUNDS_NOTE)
    if not ok:
        out.say("\nFAILED: at least one kernel is wrong, does not compile or spills registers.")
    return ok


def _simulate(
    out: Output,
    variant_tiles: list[VariantTile],
    products: list[Size],
    kinds: list[str],
    orders: list[str],
    target: str,
) -> bool:
    """Runs every kernel on the simulator. True if all are right, or if there is nothing to run them with."""
    from tiledmm.bench import simulated
    from tiledmm.errors import MissingDependencyError

    ok = True
    try:
        for kind, layout, size in itertools.product(kinds, orders, simulated.sizes_to_simulate(products)):
            with progress() as tell:
                rows = simulated.simulate_all(
                    variant_tiles, size, dtype=kind, layout=layout, target=target, progress=tell
                )
            ok = ok and all(row.ok for row in rows)
            out.table(simulated.simulated_table(rows, size, dtype=kind, layout=layout, target=target))
    except MissingDependencyError as error:
        out.say(f"Not simulated: {error}\n")
    return ok
