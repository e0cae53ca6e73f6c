"""Command ``tiledmm explain``: shows which kernel 'auto' chooses for a product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli.arguments import (
    Dtypes,
    Layouts,
    Precision,
    SizeOption,
    Sizes,
    Symmetry,
    complete_targets,
    layouts_of,
    some_sizes_of,
    types_of,
)
from tiledmm.cli.output import Csv, Json, Markdown, Output

if TYPE_CHECKING:
    from tiledmm.bench.sizes import Size
    from tiledmm.report.tables import Table
    from tiledmm.selection.explanation import Explanation


def explain(
    sizes: Sizes = None,
    size: SizeOption = "",
    dtypes: Dtypes = "float32",
    layouts: Layouts = "NN",
    precision: Precision = "full",
    symmetry: Symmetry = "none",
    target: Annotated[
        str,
        typer.Option(
            help="Targets such as sm_86, or GPUs such as A10, separated by commas.",
            show_default="this GPU, or sm_90",
            autocompletion=complete_targets,
        ),
    ] = "",
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Show which kernel 'auto' chooses for products, its expected time and the roofline. Needs no GPU.

    The expected time is that of the kernel alone, from a cost model with measured rates: those of this GPU if tiledmm
    calibrate has run, otherwise those of another GPU, scaled by data sheets. The last lines say which.

        tiledmm explain 4096 64x64x65536
        tiledmm explain 4096 --dtype float16,float32 --target sm_80,A10,sm_120
        tiledmm explain 4096 --symmetry symmetric
    """
    import itertools

    from tiledmm.cli.device import missing_gpu
    from tiledmm.selection.choose import layouts_with

    out = Output(json=json, csv=csv, markdown=markdown)
    names = [name.strip() for name in target.split(",") if name.strip()] or ["" if missing_gpu() is None else "sm_90"]
    orders = layouts_with(symmetry, layouts_of(layouts))
    jobs = list(itertools.product(some_sizes_of(sizes, size), types_of(dtypes), orders, names))
    if not jobs:
        raise typer.BadParameter("there is nothing to explain: name at least one type and at least one layout")
    found = [
        (each, layout, explained(each, dtype, layout, name, precision, symmetry)) for each, dtype, layout, name in jobs
    ]
    out.table(_table(found))
    if not out.for_programs:
        for line in dict.fromkeys(f"{each.gpu}: rates {each.rates}." for _, _, each in found):
            out.say(line)
    out.end(ok=True)


def explained(
    size: tuple[int, int, int], dtype: str, layout: str, target: str, precision: str, symmetry: str
) -> Explanation:
    """Return the explanation of which kernel ``auto`` chooses for a product on a GPU.

    Args:
        size: Sizes m, n and k of the product.
        dtype: Element type, or a computation type such as ``"tf32"``.
        layout: Layout of A and B.
        target: Name of a target architecture or a GPU; empty for the current device.
        precision: Precision, as for ``tiledmm.matmul``.
        symmetry: What C is: ``"none"``, ``"symmetric"`` or ``"hermitian"``.
    """
    from tiledmm.errors import device_module
    from tiledmm.hardware.data_sheets import find_gpu
    from tiledmm.problem.keywords import is_ieee
    from tiledmm.selection.choose import call_of
    from tiledmm.selection.explanation import explanation
    from tiledmm.selection.model import Model
    from tiledmm.selection.tuned import table_of

    call, asked = call_of(size, dtype, layout, precision, symmetry)
    product = call.multiplied
    if target:
        return explanation(product, Model(find_gpu(target), ieee=is_ieee(asked)), {})
    model = device_module("launch.devices").device_model(is_ieee(asked))
    return explanation(product, model, table_of(model.gpu.name))


def _table(found: list[tuple[Size, str, Explanation]]) -> Table:
    """Return a table with one row per product and GPU: the kernel that ``auto`` chooses, and its expected time."""
    from tiledmm.report.cells import significant
    from tiledmm.report.tables import Table

    rows = []
    for size, layout, each in found:
        head = (str(size), each.product.compute.dtype_name, layout, each.gpu)
        flops = 2.0 * size.m * size.n * size.k
        transposed = ", transposed" if each.product.is_transposed else ""
        rows.append(
            (
                *head,
                str(each.best).replace("tiledmm_", "") + transposed,
                significant(each.expected_us),
                significant(each.bound_us),
                significant(flops / each.expected_us / 1e6),
            )
        )
    columns = "<shape", "<type", "<layout", "<GPU", "<kernel", "expected (us)", "roofline (us)", "TFLOP/s"
    return Table("What 'auto' would launch", columns, tuple(rows))
