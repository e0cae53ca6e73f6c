"""Reports of comparisons as JSON, written and read back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tiledmm.bench.results import CallCost, Comparison, ComparisonReport, Machine, Row
from tiledmm.errors import ConfigError
from tiledmm.report.documents import json_text

#: The format of a report as JSON.
REPORT_FORMAT = 1


def to_json(report: ComparisonReport) -> str:
    """A report as JSON text."""
    return json_text({"format": REPORT_FORMAT, **asdict(report)})


def from_json(text: str) -> ComparisonReport:
    """The report that ``to_json`` wrote.

    Raises:
        ConfigError: If it is of another format.
    """
    data: dict[str, Any] = json.loads(text)
    if data.get("format") != REPORT_FORMAT:
        raise ConfigError(f"these results have format {data.get('format')!r}, not {REPORT_FORMAT}: measure again")
    comparisons = []
    for item in data["comparisons"]:
        rows = tuple(Row(**{**row, "rounds": tuple(row["rounds"])}) for row in item["rows"])
        comparisons.append(Comparison(**{**item, "rows": rows}))
    calls = tuple(CallCost(**call) for call in data["calls"])
    return ComparisonReport(Machine(**data["machine"]), tuple(comparisons), calls)
