"""Tests of the solvers and tables of ``benchmarks.prepared``."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiledmm
from benchmarks import prepared
from tiledmm import simulator


def row(plain: float, reused: float, held: int, making: float) -> dict[str, Any]:
    shape = {"m": 64, "n": 5, "k": 7, "layout": "NT", "batch": 0}
    times = {"plain": plain, "prepared": reused}
    return {
        "type": "float32", "prepared": "right", **shape, "us": times, "loop_us": {"plain": 8.0, "prepared": 4.0},
        "held_bytes": held, "prepare_us": making,
    }  # fmt: skip


def test_preparation_pays_off_after_a_whole_number_of_products() -> None:
    rows = [row(30.0, 20.0, 1000, 25.0), row(30.0, 20.0, 1000, 30.0), row(20.0, 20.0, 0, 1.0), row(19.0, 20.0, 9, 1.0)]
    cells = prepared.prepared_table(rows).rows
    assert [each[-1] for each in cells] == ["3", "3", "-", "-"]
    assert cells[0][:7] == ("(64, 7) @ (7, 5) NT", "float32", "right", "30.0", "20.0", "1.50", "2.00")
    solver = {"solver": "power iteration", "type": "float64", "n": 4096, "columns": 64, "us": rows[0]["us"]}
    assert prepared.solvers_table([solver]).rows == (
        ("power iteration", "float64", "4096 x 4096", "64", "30.0", "20.0", "1.50"),
    )


def test_the_solvers_solve() -> None:
    rng = np.random.default_rng(0)
    half = rng.standard_normal((40, 40)) / 40**0.5
    a, b = half @ half.T + np.eye(40), rng.standard_normal((40, 3))
    x = prepared.conjugate_gradients(lambda y: a @ y, b, steps=30)
    np.testing.assert_allclose(a @ x, b, atol=1e-8)
    operand = simulator.prepare(a)
    np.testing.assert_allclose(prepared.conjugate_gradients(lambda y: operand @ y, b, steps=30), x, atol=1e-8)
    values, vectors = np.linalg.eigh(a + np.outer(np.ones(40), np.ones(40)))
    found = prepared.power_iteration(lambda y: a @ y + np.ones((40, 40)) @ y, b, steps=200)
    largest = vectors[:, [-1]] / abs(vectors[:, -1]).max()
    np.testing.assert_allclose(abs(found), np.broadcast_to(abs(largest), found.shape), atol=1e-8)
    assert values[-1] > 2 * values[-2]


def test_one_operand_of_each_product_is_the_larger_one() -> None:
    for products, is_left in ((prepared.RIGHT, False), (prepared.LEFT, True)):
        for dtype, shape in products:
            assert (shape.m >= shape.n) if is_left else (shape.n >= shape.m)
            a, b = (max(shape.batch, 1), shape.m, shape.k), (max(shape.batch, 1), shape.k, shape.n)
            assert tiledmm.explain(a, b, dtype=dtype).best
