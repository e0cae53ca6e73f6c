"""Command ``tiledmm precompile``: compiles kernels in advance."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import Dtypes, Layouts, Precision, SizeOption, Symmetry, layouts_of, sizes_of, types_of
from tiledmm.cli.output import Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.compile.compilation import Ready
    from tiledmm.kernels.spec import KernelSpec
    from tiledmm.report.cells import Figure

# Number of products that a row of the table names.
_NAMED = 3


def precompile(
    sizes: Annotated[
        list[str] | None,
        typer.Argument(help="Products, each N or MxNxK.", metavar="SIZE", show_default="all sizes"),
    ] = None,
    size: SizeOption = "",
    dtypes: Dtypes = "float32",
    layouts: Layouts = "NN",
    precision: Precision = "full",
    symmetry: Symmetry = "none",
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Compile the kernels that 'auto' launches for given products on this GPU, ahead of time.

    Compiled kernels are kept in CuPy's cache, for later processes with the same CuPy, CUDA and GPU architecture.
    Without sizes, it compiles all kernels that 'auto' may launch for these types and layouts: dozens per type.

        tiledmm precompile 4096 1x4096x4096 --dtype float16,float32
        tiledmm precompile --dtype float32 --layout NN,NT
    """
    from tiledmm.elements import compute_element
    from tiledmm.errors import DeviceError
    from tiledmm.launch.ahead_of_time import kernels_of_any_product, kernels_of_products
    from tiledmm.problem.keywords import AUTO, is_ieee
    from tiledmm.report.cells import Figure, significant
    from tiledmm.report.tables import Table

    out = Output(json=json, csv=csv, markdown=markdown)
    products, kinds, orders = sizes_of(sizes, size), types_of(dtypes), layouts_of(layouts)
    if not kinds or not orders:
        raise typer.BadParameter("there is nothing to compile: name at least one type and at least one layout")
    if symmetry != "none" and not products:
        raise typer.BadParameter(f"--symmetry {symmetry} needs the sizes of products")
    is_ieee(precision)
    for kind in kinds:
        compute_element(kind)
    if reason := device.missing_gpu():
        raise DeviceError(f"kernels are compiled for a GPU, and this machine has none: {reason}")
    arguments = [AUTO], None, kinds, orders, precision
    if products:
        of_products = kernels_of_products(products, *arguments, symmetry)
        ready = _compiled(list(of_products))
    else:
        of_products, ready = {}, _compiled(kernels_of_any_product(*arguments))
    out.table(
        Table(
            "Compiled kernels",
            ("<kernel", *(["<products"] if products else []), "seconds"),
            tuple(
                (
                    each.symbol,
                    *([_some(of_products[each.spec])] if products else []),
                    Figure("cached", None) if each.seconds is None else significant(each.seconds),
                )
                for each in ready
            ),
            ("Seconds: time to compile and load the kernel. Several kernels are compiled at the same time.",),
        )
    )
    out.end(ok=True)


def _some(products: list[str]) -> Figure:
    """Return a table cell for the products that a kernel computes.

    It shows the first ``_NAMED`` products and the number of the others. Its value in JSON lists all products.
    """
    from tiledmm.report.cells import Figure

    rest = len(products) - _NAMED
    shown = products[:_NAMED] + ([f"{rest} more"] if rest > 0 else [])
    return Figure(", ".join(shown), products)


def _compiled(kernels: list[KernelSpec]) -> list[Ready]:
    """Compile kernels for the current device, with a progress bar, and return them in the order of completion."""
    from tiledmm.compile.compilation import raw_kernels

    finished = itertools.count(1)
    ready: list[Ready] = []
    with progress() as tell:

        def done(each: Ready) -> None:
            ready.append(each)
            tell(f"compiling {len(kernels)} kernels", next(finished), len(kernels))

        raw_kernels(kernels, done)
    return ready
