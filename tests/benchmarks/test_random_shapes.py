"""Tests of the products and tables of ``benchmarks.random_shapes``."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

import tiledmm
from benchmarks import random_shapes
from benchmarks.random_shapes import BATCHES, ELEMENTS, MULTIPLICATIONS, SIDES, TYPES, drawn
from benchmarks.support.beside_cupy import beside_cupy
from tiledmm.bench import timing


def test_products_are_drawn_within_bounds_by_type_and_seed() -> None:
    shapes = {dtype: drawn(dtype, 60, 11) for dtype in TYPES}
    assert shapes == {dtype: drawn(dtype, 60, 11) for dtype in TYPES}
    assert shapes["float32"] != drawn("float32", 60, 12) and shapes["float32"] != shapes["float64"]
    every = [shape for found in shapes.values() for shape in found]
    for shape in every:
        products = max(shape.batch, 1)
        assert min(shape.m, shape.n, shape.k) >= 1 and max(shape.m, shape.n, shape.k) <= 2**SIDES
        assert shape.batch <= 2**BATCHES
        assert MULTIPLICATIONS[0] <= products * shape.m * shape.n * shape.k <= MULTIPLICATIONS[1]
        assert products * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n) <= ELEMENTS
    assert {shape.layout for shape in every} == {"NN", "NT", "TN", "TT"}
    assert 0.1 < statistics.fmean(shape.batch > 0 for shape in every) < 0.4
    assert not any(shape.batch for shape in shapes["bfloat16"])


def test_tables_show_the_mean_of_each_type_and_the_worst_of_all() -> None:
    def row(dtype: str, m: int, call: float, device: float) -> dict[str, Any]:
        times = {"auto": 10.0, "cupy": 10.0 * device, "ratio": device}
        shape = {"type": dtype, "m": m, "n": 5, "k": 7, "layout": "NT", "batch": 0}
        return {**shape, "kernel": "tiledmm_naive", "expected": 8.0, "loop": {**times, "ratio": call}, "device": times}

    rows = [row("float32", 1, 2.0, 0.5), row("float32", 2, 8.0, 2.0), row("int8", 3, 0.9, 0.8)]
    first, second = random_shapes.summary_table(rows).rows
    assert first == ("float32", "2", "4.00", "2.00", "0", "1.00", "0.500", "1", "1.25", "1.25")
    assert second[:5] == ("int8", "1", "0.900", "0.900", "1")
    shown = random_shapes.worst_table(rows, 2).rows
    assert [line[0] for line in shown] == ["(1, 7) @ (7, 5)", "(3, 7) @ (7, 5)"]
    assert shown[0][-1] == "naive"


@pytest.mark.cupy
def test_both_multiply_the_same_sets_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")
    calls: list[tuple[Any, ...]] = []

    def measure(rivals: dict[str, timing.TimedCall], clock: str, *, seconds: float) -> dict[str, timing.Sample]:
        for call in rivals.values():
            for i in range(3):
                call(i)
        took = {"loop": (2e-6, 8e-6), "device": (1e-6, 3e-6)}[clock]
        return {name: timing.Sample({0: took[i]}, 1) for i, name in enumerate(rivals)}

    monkeypatch.setattr(timing, "HostClock", lambda: "loop")
    monkeypatch.setattr(timing, "DeviceClock", lambda: "device")
    monkeypatch.setattr(timing, "measure", measure)
    monkeypatch.setattr(tiledmm, "matmul", lambda a, b, out, **keywords: calls.append(("auto", a, b, out, keywords)))
    monkeypatch.setattr(cupy, "matmul", lambda a, b, out: calls.append(("cupy", a, b, out)))
    found = beside_cupy([("a0", "b0", "c0"), ("a1", "b1", "c1")], 0.1, precision="ieee")
    assert found["loop"] == pytest.approx({"auto": 2.0, "cupy": 8.0, "ratio": 4.0})
    assert found["device"] == pytest.approx({"auto": 1.0, "cupy": 3.0, "ratio": 3.0})
    assert [call[1] for call in calls] == ["a0", "a1", "a0"] * 4
    assert {call[0] for call in calls} == {"auto", "cupy"} and calls[0][-1] == {"precision": "ieee"}
