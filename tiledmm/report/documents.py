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
    """Return the rows of all tables as one CSV text, with a column for each heading of any table.

    If there is more than one table, the first column is the table's title.
    """
    every = list(tables)
    rows = [{**({"table": each.title} if len(every) > 1 else {}), **row} for each in every for row in each.records()]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    """Return a value as CSV shows it.

    A list becomes text with spaces between its items. A dictionary becomes such a text, with items ``name=value``.
    """
    if isinstance(value, dict):
        value = [f"{name}={each}" for name, each in value.items()]
    return " ".join(map(str, value)) if isinstance(value, list) else value


def json_text(data: dict[str, Any]) -> str:
    """Return data as indented JSON, with lists of numbers on one line."""
    text = json.dumps(data, indent=1, allow_nan=False)
    # Lists of numbers, such as the rounds of a row, go on one line.
    return re.sub(r"\[[\d.,\snule-]*\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"
