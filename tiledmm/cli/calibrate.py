"""Command ``tiledmm calibrate``: measures the rates of this GPU's kernels for 'auto'."""

from __future__ import annotations

from typing import Annotated

import typer

from tiledmm.cli import device
from tiledmm.cli.output import Csv, Json, Markdown, Output


def calibrate(
    again: Annotated[
        bool, typer.Option("--again", help="Also measure kernels again that an earlier calibration measured.")
    ] = False,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Measure this GPU so that 'auto' can choose by its own rates. This takes three to six minutes.

    It times every kernel that 'auto' may choose, and writes the rates that the cost model needs to a file for this GPU.
    An interrupted calibration can be resumed. On a GPU that was not calibrated, 'auto' scales measurements of another
    GPU by the data sheets of both; tiledmm explain says which GPU that is.

        tiledmm calibrate
    """
    from tiledmm.errors import DeviceError
    from tiledmm.report.cells import significant
    from tiledmm.report.tables import Table
    from tiledmm.selection.rates import own_path
    from tiledmm.tuning import calibrate as calibration

    out = Output(json=json, csv=csv, markdown=markdown)
    if reason := device.missing_gpu():
        raise DeviceError(f"kernels are timed on a GPU, and this machine has none: {reason}")
    rates = calibration.calibrate(again=again)
    out.table(
        Table(
            f"Rates of {rates.gpu.name}",
            ("<kernel", "tile", "<type", "TFLOP/s", "overhead (steps of k)", "MN-major (TB/s)", "K-major (TB/s)"),
            tuple(
                (
                    row.variant,
                    str(row.tile),
                    row.type,
                    *map(significant, (row.tflops, row.overhead_k, row.mn_major, row.k_major)),
                )
                for row in rates.rows
            ),
            ("Rates while all SMs are busy. Those of int32 also apply to packed elements.",),
        )
    )
    if not out.for_programs:
        out.say(f"The rates are in {own_path(rates.gpu.name)}.")
    out.end(ok=True)
