"""Tests of tuning on a device: the result is right, stored, and used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import to_device
from tests.strategies import small_integers
from tiledmm.launch import plans
from tiledmm.launch.devices import device_model, forget_models
from tiledmm.selection import tuned

# Kernels that are calibrated.
FEW = (("double_buffered", 16), ("warp_tiled", 64), ("warp_tiled", 256), ("thin", 16), ("axpy", 1))


@pytest.mark.parametrize(("dtype", "layout"), [("float32", "NT"), ("int8", "NN")])
def test_tune_and_go_on(dtype: str, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    tuned.table_of.cache_clear()
    shape = (70, 90, 2000)
    (entry,) = tiledmm.tune([shape], dtypes=[dtype], layouts=[layout], trials=6, seconds=0.002, progress=False)
    assert entry.microseconds > 0
    assert tuned.table_of(device_model().gpu.name) == {entry.product: entry}
    again = tiledmm.tune([shape, (8, 8, 8)], dtypes=[dtype], layouts=[layout], trials=3, seconds=0.002, progress=False)
    assert again[0] == entry, "what is in the table is not measured again"
    assert len(tuned.table_of(device_model().gpu.name)) == 2
    rng = np.random.default_rng(80)
    left, right = small_integers(rng, (70, 2000), dtype), small_integers(rng, (2000, 90), dtype)
    x1 = to_device(left)
    x2 = to_device(right) if layout[1] == "N" else to_device(np.ascontiguousarray(right.T)).T
    monkeypatch.setattr(plans, "_plans", {})
    np.testing.assert_array_equal(tiledmm.matmul(x1, x2).get(), np.matmul(left, right))
    (plan,) = plans._plans.values()
    choice = tiledmm.explain(x1, x2).tuned
    assert choice is not None and choice.microseconds == entry.microseconds
    assert len(plan.launches) == sum(len(each.launches) for each in choice.schedules), "it launches what was tuned"
    tuned.table_of.cache_clear()


def test_calibrate_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrate a few kernels, and check that ``auto`` then chooses among these by the measured rates."""
    from tiledmm.selection import rates as tables
    from tiledmm.tuning import calibrate as calibration

    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    gpu = device_model().gpu
    shipped = tables.nearest_rates(gpu)
    few = tuple(row for row in shipped.rows if row.type == "float32" and row.name in FEW)
    monkeypatch.setattr(calibration, "nearest_rates", lambda gpu: replace(shipped, rows=few))
    monkeypatch.setattr(calibration, "kernels_of", lambda rates: list(rates.rows))  # no tiles that came after them
    forget_models()
    try:
        rates = tiledmm.calibrate(progress=False)
        assert {row.name for row in rates.rows} == {row.name for row in few}
        for row, before in zip(rates.rows, few, strict=True):
            assert 0.5 < row.tflops / before.tflops < 2, row
            assert all(0 < part <= 1 for part in row.residents)
        assert device_model().rates.rows == rates.rows
        assert "measured on" in str(tiledmm.explain(cupy.empty((300, 300), "f4"), cupy.empty((300, 300), "f4")))
        rng = np.random.default_rng(81)
        left, right = small_integers(rng, (300, 500), "float32"), small_integers(rng, (500, 20), "float32")
        np.testing.assert_array_equal(tiledmm.matmul(to_device(left), to_device(right)).get(), left @ right)
    finally:
        forget_models()
        plans.forget_plans()
