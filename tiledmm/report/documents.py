"""Documents for programs: tables as CSV, and any data as JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from typing import Any

from tiledmm.report.tables import Table


def csv_text(tables: Iterable[Table]) -> str:
    """The rows of tables as one CSV: a column for each heading of any, and where there are several, their titles."""
    every = list(tables)
    rows = [{**({"table": each.title} if len(every) > 1 else {}), **row} for each in every for row in each.records()]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    """A value as CSV has it: several values with spaces between them, ``name=value`` where they have names."""
    if isinstance(value, dict):
        value = [f"{name}={each}" for name, each in value.items()]
    return " ".join(map(str, value)) if isinstance(value, list) else value


def json_text(data: dict[str, Any]) -> str:
    """Data as JSON text, indented."""
    text = json.dumps(data, indent=1, allow_nan=False)
    # The rounds of a row on one line: what one scrolls past.
    return re.sub(r"\[[\d.,\snule-]*\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"
