"""Several runs of one comparison: the run in the middle, and how far the others are from it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tiledmm.bench.results import BASELINE, ComparisonReport
from tiledmm.report.cells import significant

#: What ratios of a comparison's first product are called by.
Ratios = dict[str, float]


def ratios(report: ComparisonReport) -> Ratios:
    """Times as fast as the baseline, by variant and tile."""
    return {
        f"{row.variant} {row.tile}" if row.tile else row.variant: row.to_cupy
        for row in report.comparisons[0].rows
        if row.to_cupy and row.variant != BASELINE
    }


def middle(reports: Sequence[ComparisonReport]) -> tuple[ComparisonReport, dict[str, Any]]:
    """The run whose ratios are nearest to the medians of all, and how many runs there were, with the extremes of each.

    It stays one run: its ratios belong together, which medians of different runs would not.
    """
    found = [ratios(report) for report in reports]
    medians = {name: statistics.median(each[name] for each in found if name in each) for name in found[0]}

    def distance(number: int) -> float:
        return sum(abs(math.log(value / medians[name])) for name, value in found[number].items() if name in medians)

    nearest = min(range(len(reports)), key=distance)
    spread = {name: [min(values), max(values)] for name in medians if (values := [each[name] for each in found])}
    return reports[nearest], {"count": len(reports), "spread": spread}


def told(results: Mapping[str, Any], names: Sequence[str]) -> str:
    """The spread of some ratios, in a sentence; empty where a file is of one run."""
    runs = results.get("runs")
    if not runs:
        return ""
    parts = [
        f"{name} {significant(low)} to {significant(high)}"
        for name in names
        if name in runs["spread"]
        for low, high in [runs["spread"][name]]
    ]
    return f"x {BASELINE} over {runs['count']} runs, of which this is the middle one: {', '.join(parts)}."
