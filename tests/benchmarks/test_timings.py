"""Tests of ``benchmarks.timings``, the timings to which shipped tables were fitted."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import timings
from tiledmm.selection import rates as tables
from tiledmm.tuning import calibrate as calibration

STEM = "nvidia-h100-80gb-hbm3"


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(timings.kept(STEM).read_text(encoding="utf-8"))
    return found


def test_kept_timings_are_of_the_shipped_tables_kernels(kept: dict[str, Any]) -> None:
    shipped = tables.read(tables.shipped_path(STEM))
    assert kept["software"] == shipped.software
    assert {calibration.name_of(row) for row in shipped.rows} <= set(kept["known"])


def test_a_table_is_made_anew_from_them(kept: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"double_buffered 16 float32"}
    shipped = tables.read(tables.shipped_path(STEM))
    few = replace(shipped, rows=tuple(row for row in shipped.rows if calibration.name_of(row) in names))
    known = {name: found for name, found in kept["known"].items() if name in {*names, "device"}}
    monkeypatch.setattr(timings, "FOLDER", tmp_path)
    monkeypatch.setattr(tables, "_SHIPPED", tmp_path)
    monkeypatch.setattr(calibration, "kernels_of", lambda rates: list(rates.rows))
    tables.write(tables.shipped_path(STEM), few)
    timings.kept(STEM).write_text(timings._compact(kept | {"known": known}), encoding="utf-8")
    assert timings.main(["--refit", STEM]) == 0
    found = tables.read(tables.shipped_path(STEM))
    assert (found.date, found.software, found.kernels) == (few.date, few.software, few.kernels)
    for row, before in zip(found.rows, few.rows, strict=True):
        assert 0.5 < row.tflops / before.tflops < 2


@pytest.mark.parametrize(("types", "least"), [(("float32",), 50), pytest.param((), 1000, marks=pytest.mark.slow)])
def test_a_shipped_table_chooses_nearly_the_fastest_of_the_kernels_that_were_timed(
    kept: dict[str, Any], types: tuple[str, ...], least: int
) -> None:
    table = tables.read(tables.shipped_path(STEM))
    rows = tuple(row for row in table.rows if row.type in types or not types)
    found = timings.regrets(replace(table, rows=rows), kept)
    assert len(found) > least
    assert sum(math.log(each.ratio) for each in found) / len(found) < math.log(1.02)
    assert found[0].ratio == max(each.ratio for each in found) < 2


def test_regrets_are_shown() -> None:
    chosen, fastest = ("tiled", 16, 1), ("warp_tiled", 64, 4)
    rows = timings.regret_table([timings.Regret(("float32", 3, 4, 5, 2, "NT"), chosen, fastest, 9.0, 12.0, 8.0)]).rows
    assert rows == (
        ("3 x 4 x 5", "2", "float32", "NT", "tiled 16", "warp_tiled 64, split-K 4", "9.00", "12.0", "8.00", "1.50"),
    )


def test_timings_are_written_as_they_were_read(kept: dict[str, Any]) -> None:
    assert json.loads(timings._compact(kept)) == kept


@pytest.mark.parametrize("action", ["--begin", "--keep"])
def test_others_need_a_gpu(action: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(timings, "missing_gpu", lambda: "there is none")
    assert timings.main([action]) == 1
    assert "there is none" in capsys.readouterr().err
