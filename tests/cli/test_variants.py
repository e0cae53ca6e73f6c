"""Tests of ``tiledmm variants``, the table of variants."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from tiledmm import cli
from tiledmm.cli import output
from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.variants import VARIANTS

CAPABILITIES = sorted(each.capability for each in TARGETS.values())


def invoke(*arguments: str) -> Any:
    result = CliRunner().invoke(cli.app, ["variants", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_says_what_the_registry_says() -> None:
    (table,) = json.loads(invoke("--json"))["tables"]
    assert [row["variant"] for row in table["rows"]] == list(VARIANTS)
    for row in table["rows"]:
        variant = VARIANTS[row["variant"]]
        assert row["what it is"] == variant.summary
        every = {name for name in (*ELEMENTS, "tf32") if variant.multiplies(compute_element(name))}
        assert set(row["types"]) == every and len(row["types"]) == len(every)
        assert row["tiles"] == list(variant.tiles)
        for name, text in (row["compute capability"] or {}).items():
            least = tuple(map(int, text.split(".")))
            runs = [each for each in CAPABILITIES if variant.runs_on(each, compute_element(name))]
            assert runs[0] == least


def test_a_csv_cell_has_names_with_spaces_between_them() -> None:
    rows = {row["variant"]: row for row in csv.DictReader(io.StringIO(invoke("--csv")))}
    assert rows["tiled"]["tiles"] == " ".join(map(str, VARIANTS["tiled"].tiles)) and rows["naive"]["tiles"] == ""
    assert rows["tiled"]["types"].split() == list(ELEMENTS)
    assert rows["wgmma"]["compute capability"].startswith("float16=9.0 ")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_is_legible_on_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that no line is longer than the terminal, and that a row of the first table has at most three lines."""
    from rich.console import Console

    monkeypatch.setattr(output, "console", lambda *, stderr=False: Console(width=width, force_terminal=False))
    summaries, _, limits = invoke().partition("Their tiles")
    lines = summaries.rstrip().splitlines()[4:]
    assert max(map(len, map(str.rstrip, (*lines, *limits.splitlines())))) <= width
    assert len(lines) <= 3 * len(VARIANTS)
    assert [line.split()[0] for line in lines if not line.startswith("  ")] == list(VARIANTS)
    assert re.search(r" tiled +8 16 32\* 64 +7.5 +every type", limits)


def test_people_see_defaults_and_limits() -> None:
    rows = {line.split("|")[1].strip(): line for line in invoke("--markdown").splitlines() if line.startswith("| ")}
    assert " 16 32* 64 | 7.5 | " in rows["tiled"] and rows["tiled"].endswith("| every type |")
    assert "| float16, bfloat16 (8.0), tf32 (8.0), int8, " in rows["tensor_core"]
    assert "| 9.0 only |" in rows["wgmma"]
    assert "| - | - | " in rows["cublas"]
