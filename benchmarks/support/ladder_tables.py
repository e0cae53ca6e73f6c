"""Tables of single variants from ``results/ladder.json``: measured rates, and the bounds that their loads set."""

from __future__ import annotations

from tiledmm.bench.comparison_tables import ladder_table
from tiledmm.bench.results import BASELINE, ComparisonReport
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import VARIANTS, kernel_spec
from tiledmm.report.cells import count, percent, significant
from tiledmm.report.roofline import roofline
from tiledmm.report.tables import Table


def variant_table(report: ComparisonReport, variant: str) -> Table:
    """Select the rows of one variant and of the baseline."""
    full = ladder_table(report, report.comparisons[0].size)
    rows = tuple(cells for cells in full.rows if cells[0] in (variant, BASELINE))
    return Table(full.title, full.columns, rows)


def bounds_table(report: ComparisonReport) -> Table:
    """Format the bound that each CUDA-core kernel's loads set on an H100, with the measured rate."""
    comparison = report.comparisons[0]
    rows = []
    for row in comparison.rows:
        known = VARIANTS.get(row.variant)
        if known is None or known.template is None or known.tensor_cores or row.tflops is None:
            continue
        spec = kernel_spec(row.variant, tile=row.tile, dtype=comparison.dtype, layout=comparison.layout)
        found = roofline(spec, REFERENCE_GPUS["sm_90"], *comparison.size)
        rows.append(
            (
                row.variant,
                count(row.tile),
                significant(found.intensity),
                significant(found.wavefronts),
                significant(found.load_bound / 1e12),
                significant(found.bound / 1e12),
                significant(row.tflops),
                percent(row.tflops * 1e12 / found.bound),
            )
        )
    columns = (
        "<variant",
        "tile",
        "FLOP/byte",
        "wavefronts",
        "bound from loads (TFLOP/s)",
        "lowest bound (TFLOP/s)",
        "reached (TFLOP/s)",
        "of the bound",
    )
    return Table("Bounds and what was reached", columns, tuple(rows))
