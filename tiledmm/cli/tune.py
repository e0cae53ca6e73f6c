"""Command ``tiledmm tune``: searches for the fastest kernels of given products."""

from __future__ import annotations

from typing import Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.arguments import Dtypes, Layouts, SizeOption, Sizes, layouts_of, some_sizes_of, types_of
from tiledmm.cli.output import Csv, Json, Markdown, Output


def tune(
    sizes: Sizes = None,
    size: SizeOption = "",
    dtypes: Dtypes = "float32",
    layouts: Layouts = "NN",
    trials: Annotated[int, typer.Option(min=1, help="Maximum number of kernels to time per product.")] = 32,
    seconds: Annotated[float, typer.Option(min=0.0, help="Time to measure each kernel, in seconds.")] = 0.03,
    again: Annotated[bool, typer.Option("--again", help="Also measure products again that were tuned before.")] = False,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Search for the fastest kernels of given products on this GPU; 'auto' uses them from then on.

    Each result is written to a file for this GPU as soon as it is found: an interrupted search can be resumed, and
    several searches may run at once.

        tiledmm tune 1000 2000x500x64 --layout NN,NT
    """
    from tiledmm.errors import DeviceError
    from tiledmm.report.cells import Figure, significant
    from tiledmm.report.tables import Table
    from tiledmm.tuning import tune as tuning

    out = Output(json=json, csv=csv, markdown=markdown)
    products, kinds, orders = some_sizes_of(sizes, size), types_of(dtypes), layouts_of(layouts)
    if reason := device.missing_gpu():
        raise DeviceError(f"kernels are timed on a GPU, and this machine has none: {reason}")
    entries = tuning.tune(products, dtypes=kinds, layouts=orders, trials=trials, seconds=seconds, again=again)
    out.table(
        Table(
            "Fastest kernels found",
            ("<product", "<variant", "<config", "time (us)", "x the model's choice"),
            tuple(
                (
                    entry.product,
                    entry.variant,
                    Figure(
                        " ".join(f"{name}={value}" for name, value in entry.overrides.items()) or "-", entry.overrides
                    ),
                    significant(entry.microseconds, 4),
                    significant(entry.model_microseconds / entry.microseconds),
                )
                for entry in entries
            ),
            (
                "Config: fields in which the kernel differs from the variant's default tile. x the model's choice: how "
                "many times as fast the kernel is as the one that 'auto' would choose without tuning.",
            ),
        )
    )
    out.end(ok=True)
