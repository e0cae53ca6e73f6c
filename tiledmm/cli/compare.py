"""Command ``tiledmm compare``: compares kernels with each other and with cuBLAS."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import (
    LAYOUTS_HELP,
    SIMULATED_SIZES,
    TYPES_HELP,
    Import,
    Kernel,
    NoGpu,
    SizeOption,
    Target,
    Tiles,
    complete_layouts,
    complete_types,
    complete_variants,
    layouts_of,
    names_of,
    names_of_kernels,
    own_type,
    sizes_of,
    tiles_of,
    types_of,
)
from tiledmm.cli.output import ALL_RIGHT, NO_GPU, NONE_RAN, Csv, Json, Markdown, Output, Progress, progress

if TYPE_CHECKING:
    from tiledmm.bench.sizes import Size
    from tiledmm.bench.variant_tiles import VariantTile

DEFAULT_SIZES = ("256", "1024", "4096")


def compare(
    sizes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Products, each N or MxNxK.",
            metavar="SIZE",
            show_default=f"{' '.join(DEFAULT_SIZES)}; without a GPU {' '.join(SIMULATED_SIZES)}",
        ),
    ] = None,
    size: SizeOption = "",
    variants: Annotated[
        str,
        typer.Option(
            "--variant",
            help="Variants, separated by commas; 'auto' may be one.",
            show_default="all, and on a GPU auto; with --kernel those that each remove one bottleneck",
            autocompletion=complete_variants,
        ),
    ] = "",
    tiles: Tiles = "",
    dtypes: Annotated[
        str,
        typer.Option(
            "--dtype",
            help=TYPES_HELP,
            show_default="float32; with --kernel the kernel's own",
            autocompletion=complete_types,
        ),
    ] = "",
    layouts: Annotated[
        str,
        typer.Option(
            "--layout",
            help=LAYOUTS_HELP,
            show_default="NN; without a GPU also NT, for the first product",
            autocompletion=complete_layouts,
        ),
    ] = "",
    seconds: Annotated[
        float, typer.Option(min=0.0, help="On a GPU: approximate time to measure each kernel, in seconds.")
    ] = 0.4,
    peers: Annotated[
        bool,
        typer.Option(help="On a GPU: add rows for PyTorch, JAX and Triton if they are installed, and for NumPy (CPU)."),
    ] = True,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Print all tables and columns: without a GPU also registers on every target, and bounds by size. "
            "--json and --csv always contain them.",
        ),
    ] = False,
    no_gpu: NoGpu = False,
    target: Target = "sm_90",
    imported: Import = None,
    kernel: Kernel = None,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Compare the kernels with each other and with cupy.matmul.

    On a GPU, every result is checked against float64 before any kernel is timed.

    Without a GPU, the simulator runs each kernel, checks its result and counts its memory accesses, and a model bounds
    its speed on a reference GPU. Products that would take longer than a minute are replaced by smaller ones. With
    --full, each kernel is also compiled for every target. Results are cached, so that the next run takes seconds.

    The exit status is 1 if a kernel is wrong, does not compile or spills registers.

        tiledmm compare
        tiledmm compare 4096 --variant tiled,auto --layout NN,NT
        tiledmm compare --full
        tiledmm compare 512 --json > results.json
        tiledmm compare 1024 --kernel mine.cu
    """
    from tiledmm.bench.variant_tiles import VariantTile, expand, left_out, runnable
    from tiledmm.hardware.architectures import find_target
    from tiledmm.kernels.variants import kernel_variants

    out = Output(json=json, csv=csv, markdown=markdown)
    named = sizes_of(sizes, size)
    products = named or sizes_of(list(DEFAULT_SIZES))
    own = names_of_kernels(kernel)
    rungs = [row.name for row in kernel_variants() if row.mends] if own else []
    variant_tiles = expand([*(names_of(variants) or rungs), *own] or None, tiles_of(tiles))
    kinds, orders = types_of(dtypes or own_type(own)), layouts_of(layouts)
    find_target(target)
    if not kinds or (layouts and not orders):
        raise typer.BadParameter("there is nothing to compare: name at least one type and at least one layout")

    reason = "--no-gpu" if no_gpu else device.missing_gpu()
    if reason and not variant_tiles:
        raise typer.BadParameter("cuBLAS runs on a GPU only: without a GPU, name another variant")
    if reason:
        out.say(NO_GPU.format(reason=reason))
    by_type = dict.fromkeys(kinds, variant_tiles)
    out.say("\n".join([*left_out(by_type, target if reason else ""), ""]))
    if reason:
        _without_gpu(out, _Asked(runnable(by_type, target), products, orders, target, bool(named), full))
    if not variants:
        variant_tiles.append(VariantTile("auto"))
    _on_gpu(out, variant_tiles, products, kinds, orders or ["NN"], seconds, peers, full)


def _on_gpu(
    out: Output,
    variant_tiles: list[VariantTile],
    products: list[Size],
    kinds: list[str],
    orders: list[str],
    seconds: float,
    peers: bool,
    full: bool,
) -> NoReturn:
    from tiledmm.bench.brief_tables import brief_comparison
    from tiledmm.bench.comparison import compare as compare_rivals
    from tiledmm.bench.comparison_tables import comparison_table
    from tiledmm.bench.environment import this_machine
    from tiledmm.bench.peers import PEERS
    from tiledmm.bench.results import REPORT_FORMAT, ComparisonReport
    from tiledmm.bench.variant_tiles import refusals

    machine = this_machine()
    out.say(f"{machine}\n")
    comparisons = []
    stopped = ""
    jobs = list(itertools.product(kinds, orders, products))
    with progress(len(jobs), out) as tell:
        for kind, layout, size in jobs:
            steps = itertools.count()
            for each in refusals(variant_tiles, size):
                out.say(each)
            try:
                found = compare_rivals(
                    size,
                    dtype=kind,
                    layout=layout,
                    variant_tiles=variant_tiles,
                    seconds=seconds,
                    peers=PEERS if peers else (),
                    # Steps: the operands are prepared, each rival is checked, then all are timed together.
                    progress=lambda doing, of=f"{size} {kind} {layout}", steps=steps: tell(  # type: ignore[misc]
                        f"{of}: {doing}", next(steps), len(variant_tiles) + 3
                    ),
                )
            except (ImportError, MemoryError) as error:  # a CUDA library that CuPy lacks, or too large a product
                stopped = f"{type(error).__name__}: {error}"
                break
            comparisons.append(found)
            table = comparison_table(found)
            out.table(table if full or out.for_programs else brief_comparison(table))
            tell.next_job()
    report = ComparisonReport(machine, tuple(comparisons))
    out.say(f"\nThe comparison stopped: {stopped}" if stopped else f"{_METHOD}\n")
    if not report.ok:
        out.say("MISMATCH: at least one kernel gave a wrong result or did not run.")
    elif not stopped:
        out.say(ALL_RIGHT)
    out.end(ok=report.ok and not stopped, format=REPORT_FORMAT, **asdict(report))


_METHOD = (
    "Times are device times (for NumPy, host times): medians of rounds in which all kernels are timed in turn. Ratios "
    "are medians of the rounds' ratios. TFLOP/s counts 2MNK operations (complex: 8MNK); GB/s counts each operand read "
    "once and C written once. 'of roofline' is the fraction of the lower of two ceilings by the data sheet: the peak "
    "of the units that multiply, and memory bandwidth. The error is the largest |C - R| / (|A| |B|), where R is the "
    "product in float64."
)


@dataclass(frozen=True)
class _Asked:
    """What to compare without a GPU.

    Attributes:
        kinds: Variants and tiles to compare, by element type.
        products: Sizes of the products.
        orders: Layouts; empty for the default.
        target: Target architecture of the simulator and the tables.
        named: True if the products were given on the command line.
        full: Whether all tables are printed.
    """

    kinds: dict[str, list[VariantTile]]
    products: list[Size]
    orders: list[str]
    target: str
    named: bool
    full: bool


def _without_gpu(out: Output, asked: _Asked) -> NoReturn:
    from tiledmm.bench import resource_tables

    orders = asked.orders or ["NN"]
    is_full = asked.full or out.for_programs
    # Parts of the progress bar: the simulated products of each type, then the compiled kernels of each type and layout.
    with progress(len(asked.kinds) * (1 + len(orders) * is_full), out) as tell:
        right = _simulate(out, asked, tell, is_full=is_full)
        compiles = _compile_and_bound(out, asked, orders, tell) if is_full else None
    if compiles is not None:
        out.say(f"{resource_tables.MAX_NOTE} {resource_tables.BOUNDS_NOTE}\n")
    ok = right is not False and compiles is not False
    if not ok:
        out.say("FAILED: at least one kernel is wrong, does not compile or spills registers.")
    else:
        out.say(ALL_RIGHT if right else NONE_RAN)
    out.end(ok=ok)


def _compile_and_bound(out: Output, asked: _Asked, orders: list[str], tell: Progress) -> bool | None:
    """Compile the kernels for every target and print tables of their resources and of bounds on their speed.

    Returns:
        False if a kernel spills registers or does not compile; True if none does, or if there is no compiler; None if
        there is no kernel.
    """
    from tiledmm.bench import kernel_resources, resource_tables
    from tiledmm.errors import MissingDependencyError
    from tiledmm.hardware.architectures import TARGETS

    ok, no_compiler = True, ""
    for (kind, variant_tiles), layout in itertools.product(asked.kinds.items(), orders):
        specs = kernel_resources.specs(variant_tiles, kind, layout)
        if not specs:
            out.say("'auto' chooses a kernel for each product on a GPU and has none of its own to show.")
            return None
        if not no_compiler:
            try:
                kernels = kernel_resources.compile_all(specs, TARGETS, progress=tell)
            except MissingDependencyError as error:
                no_compiler = str(error)
                out.say(f"Registers, spills and occupancy are unknown: {no_compiler}\n")
            else:
                ok = ok and all(kernel.ok for kernel in kernels)
                if out.for_programs:  # one table per target, all with the same columns
                    for each in dict.fromkeys(kernel.target for kernel in kernels):
                        out.table(resource_tables.resource_table(kernels, each))
                else:
                    out.table(resource_tables.resource_table(kernels, asked.target))
                    out.table(resource_tables.matrix_table(kernels))
        tell.next_job()
        for size in asked.products:
            out.table(resource_tables.bounds_table(specs, size, asked.target))
    return ok


def _simulate(out: Output, asked: _Asked, tell: Progress, *, is_full: bool) -> bool | None:
    """Run every kernel on the simulator, and print tables of the counts.

    Returns:
        Whether all results are right; None if no kernel ran.
    """
    from tiledmm.bench import brief_tables, simulated
    from tiledmm.bench.simulable import simulable
    from tiledmm.bench.variant_tiles import refusals
    from tiledmm.errors import MissingDependencyError

    right: list[bool] = []
    try:
        for kind, variant_tiles in asked.kinds.items():
            tell(f"{kind}: estimating how long it takes", 0, 0)
            chosen = simulable(asked.products if asked.named else [], variant_tiles, kind, asked.target)
            if str(chosen):
                out.say(f"{chosen}\n")
            # Without --layout, NT runs beside NN for one product only: the differences are the same for all sizes.
            jobs = [(size, asked.orders or (["NN"] if i else ["NN", "NT"])) for i, size in enumerate(chosen.sizes)]
            steps, of = itertools.count(), sum(len(orders) for _, orders in jobs)
            for size, orders in jobs:
                found = {}
                for each in refusals(variant_tiles, size):
                    out.say(each)
                for layout in orders:
                    step = tell.portion(next(steps), of)
                    rows = simulated.simulate_all(
                        variant_tiles, size, dtype=kind, layout=layout, target=asked.target,
                        progress=lambda name, done, of, step=step, what=f"{size} {kind} {layout}": step(  # type: ignore[misc]
                            f"{what}: {name}", done, of
                        ),
                    )  # fmt: skip
                    found[layout] = rows
                    right += [row.ok for row in rows if not row.left_out]
                    if is_full and (asked.orders or layout == "NN"):
                        out.table(
                            simulated.simulated_table(
                                rows, size, dtype=kind, layout=layout, target=asked.target, totals=out.for_programs
                            )
                        )
                wrong = any(not row.ok for rows in found.values() for row in rows)
                if not is_full and (asked.named or wrong or size == chosen.sizes[0]):
                    out.table(brief_tables.brief_simulation(found, size, dtype=kind, target=asked.target))
                    out.say("\n".join([*brief_tables.highlights(found), ""]))
                if is_full and len(found) > 1:
                    out.table(
                        simulated.layouts_table(found, size, dtype=kind, target=asked.target, totals=out.for_programs)
                    )
            tell.next_job()
    except MissingDependencyError as error:
        out.say(f"Not simulated: {error}\n")
    return all(right) if right else None
