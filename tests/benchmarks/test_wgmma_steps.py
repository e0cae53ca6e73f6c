"""Tests of the steps to ``wgmma``: each changes one thing, and its counts are the kernel's."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.studies import wgmma_steps
from benchmarks.studies.wgmma_steps import STEPS, counted, steps_table
from docs.tools import programs
from tiledmm.elements import compute_element
from tiledmm.kernels.config import LaunchConfig
from tiledmm.kernels.variants import find_variant


def recorded() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(wgmma_steps.RESULTS.read_text(encoding="utf-8"))["rows"]
    return rows


def test_a_step_changes_one_thing() -> None:
    configs = [step.kernel.config for step in STEPS[1:]]
    shapes = [(each.bm // each.cluster, each.bn, each.cluster) for each in configs]
    for before, after in pairwise(zip(shapes, configs, strict=True)):
        changed = sum(x != y for x, y in zip(before[0], after[0], strict=True))
        assert changed == 1 or (changed == 0 and before[1].stages != after[1].stages)
    usual = find_variant("wgmma").config(None, compute_element("float16"))
    assert (
        STEPS[-2].kernel.config.bn == usual.bn
        and configs[-2] == replace(usual, launch=LaunchConfig())
        and configs[-1].cluster == 2
    )


def test_rows_are_those_of_the_steps() -> None:
    rows = recorded()
    assert [row["name"] for row in rows] == [step.name for step in STEPS]
    for row, step in zip(rows, STEPS, strict=True):
        m, n, k = row["tile"]
        loaded = (m + n // row["cluster"]) * k * 2
        assert row["bytes_a_cycle"] == pytest.approx(loaded / (m * n * k / 2048))
        assert (row["symbol"], row["stages"]) == (step.kernel.symbol, step.kernel.config.stages)


def test_what_was_not_measured_is_not_shown() -> None:
    row = {name: value for name, value in recorded()[0].items() if name not in ("us", "to_cupy")}
    assert steps_table([row]).rows[0][-2:] == ("-", "-")
    assert steps_table([row | {"us": 500.0, "to_cupy": 0.5}]).rows[0][-2:] == ("275", "0.500")


@pytest.mark.skipif(not programs._can_inspect(), reason="needs the compiler of the extra inspect that made the file")
@pytest.mark.slow
def test_counts_are_those_of_the_machine_code() -> None:
    for row, step in zip(recorded(), STEPS, strict=True):
        now = counted(step)
        assert {name: row[name] for name in now} == now, "python -m benchmarks.studies.wgmma_steps counts again"
