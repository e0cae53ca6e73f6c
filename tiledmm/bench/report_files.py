"""Conversion of comparison reports to and from JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tiledmm.bench.results import CallCost, Comparison, ComparisonReport, Machine, Row
from tiledmm.errors import ConfigError
from tiledmm.report.documents import json_text

#: Version of the JSON format of reports.
REPORT_FORMAT = 1


def to_json(report: ComparisonReport) -> str:
    """Convert a report to JSON text."""
    return json_text({"format": REPORT_FORMAT, **asdict(report)})


def from_json(text: str) -> ComparisonReport:
    """Read a report that ``to_json`` wrote.

    Raises:
        ConfigError: If the text has another version of the format.
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
