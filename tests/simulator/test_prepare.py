"""Tests of prepared operands on the simulator: the same bits by fewer launches, with all checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledmm
from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.errors import OperandTypeError, PreparedOperandError
from tiledmm.kernels.variants import kernel_variants
from tiledmm.selection import choice, model, parts
from tiledmm.simulated import product

#: Types, kernels, configs and layouts, each with another kind of preparation.
PREPARING: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("float32", "split_float32", {"split_k": 2}, "NT"),
    ("float32", "split_float32", {"scheme": "tf32x3"}, "TN"),
    ("complex64", "split_tensor_core", {}, "NN"),
    ("float64", "split_float64", {}, "NN"),
    ("complex128", "split_float64_tensor_core", {}, "TT"),
    ("int32", "split_integer", {}, "NN"),
    ("float16", "wgmma", {"pack_a": 1, "pack_b": 1}, "NN"),
    ("int8", "warp_tiled", {"pack_elements": 1}, "NN"),
)


def operands(dtype: str, layout: str = "NN", sizes: tuple[int, int, int] = (40, 35, 290)) -> list[np.ndarray]:
    m, n, k = sizes
    rng = np.random.default_rng(k)
    found = []
    for shape, letter in zip(((m, k), (k, n)), layout, strict=True):
        x = 3 * rng.standard_normal(shape) + (3j * rng.standard_normal(shape) if dtype.startswith("complex") else 0)
        x = x.astype(dtype)
        found.append(x if letter == "N" else np.asfortranarray(x))
    return found


@pytest.mark.parametrize(
    ("dtype", "variant", "config", "layout"),
    [pytest.param(*each, marks=slow_unless(i in (0, 3, 6))) for i, each in enumerate(PREPARING)],
)
def test_the_same_bits_as_without_preparation(dtype: str, variant: str, config: dict[str, Any], layout: str) -> None:
    a, b = operands(dtype, layout)
    keywords: dict[str, Any] = {"variant": variant, "config": config or None}
    plain = simulator.matmul(a, b, **keywords)
    p, q = simulator.prepare(b), simulator.prepare(a)
    for left, right in ((a, p), (a, p), (q, b), (q, p)):
        found, report = simulator.run(left, right, **keywords)
        report.check()
        np.testing.assert_array_equal(found, plain)
    assert p.held_bytes and q.held_bytes


def test_later_products_launch_less(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []
    run = product.ScheduledLaunch.run

    def counted(self: Any, *arguments: Any) -> Any:
        launched.append(self.spec.variant.name)
        return run(self, *arguments)

    monkeypatch.setattr(product.ScheduledLaunch, "run", counted)
    a, b = operands("float32")
    p = simulator.prepare(b)
    for expected in (2, 1):
        launched.clear()
        simulator.matmul(a, p, variant="split_float32")
        assert launched.count("decompose") == expected and launched[-2:] == ["split_float32", "warp_tiled"]


@pytest.mark.parametrize("odd", [0, 1])
def test_values_without_limbs_are_remembered(odd: int) -> None:
    x = operands("float32")
    x[odd][3, 5] = np.inf
    plain = simulator.matmul(*x, variant="split_float32")
    p, q = simulator.prepare(x[1]), simulator.prepare(x[0])
    for left, right in ((x[0], p), (x[0], p), (q, p), (q, p)):
        np.testing.assert_array_equal(simulator.matmul(left, right, variant="split_float32"), plain)


@pytest.mark.slow
def test_full_checks_and_epilogues() -> None:
    a, b = operands("float32", sizes=(20, 20, 260))
    c = np.ones((20, 20), "f4")
    p = simulator.prepare(b)
    for checks in (True, "full", "full"):
        found = simulator.gemm(a, p, c, beta=1, activation="relu", variant="split_float32", checks=checks)
        plain = simulator.gemm(a, b, c, beta=1, activation="relu", variant="split_float32")
        np.testing.assert_array_equal(found, plain)


@pytest.mark.slow
def test_batches_and_outer_dimensions() -> None:
    rng = np.random.default_rng(1)
    for of_a, of_b in (((3,), ()), ((2, 3), (3,)), ((), (2,)), ((2, 1, 2, 1, 2), (1, 2, 1, 2, 1))):
        a = rng.standard_normal((*of_a, 5, 260), dtype=np.float32)
        b = rng.standard_normal((*of_b, 260, 4), dtype=np.float32)
        plain = simulator.matmul(a, b, variant="split_float32")
        p = simulator.prepare(b)
        for _ in range(2):
            np.testing.assert_array_equal(simulator.matmul(a, p, variant="split_float32"), plain)


def test_parts_of_c_share_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MOST_APART", 0)
    monkeypatch.setattr(model, "MOST_APART", 0)
    monkeypatch.setattr(parts, "_GRID_TILE", 32)
    a, b = operands("float32", sizes=(64, 70, 600))
    for row in kernel_variants():
        monkeypatch.setattr(type(row.operands), "most_bytes", 4 * (a.size + b.size) // 2)
    rates = product.H100.rates.only(lambda name: name == "split_float32")
    limited = model.Model(product.H100.gpu, rates)
    monkeypatch.setattr(product, "_model", lambda target, ieee: limited)
    plain = simulator.matmul(a, b)
    p, q = simulator.prepare(b), simulator.prepare(a)
    for left, right in ((a, p), (a, p), (q, b), (q, p)):
        np.testing.assert_array_equal(simulator.matmul(left, right), plain)
    assert p.held_bytes and q.held_bytes


def test_the_operator_and_conversions() -> None:
    a, b = operands("float32")
    p = simulator.prepare(b)
    np.testing.assert_array_equal(a @ p, simulator.matmul(a, p))
    np.testing.assert_array_equal(p @ np.ones((35, 3), "f4"), simulator.matmul(p, np.ones((35, 3), "f4")))
    for dtype in ("float64", "int32"):
        found = simulator.matmul(a, p, dtype=dtype, casting="unsafe")
        np.testing.assert_allclose(found, simulator.matmul(a, b, dtype=dtype, casting="unsafe"), rtol=1e-12)


def test_a_changed_array_is_found() -> None:
    a, b = operands("float32", sizes=(8, 8, 20))
    p, unchecked = simulator.prepare(b, check=True), simulator.prepare(b)
    simulator.matmul(a, p)
    b[19, 7] += 1
    with pytest.raises(PreparedOperandError, match=r"\(20, 8\)"):
        simulator.matmul(a, p)
    simulator.matmul(a, unchecked)
    simulator.matmul(a, simulator.prepare(p, check=True))


def test_what_is_no_operand() -> None:
    for x in (3, None, [[1.0]]):
        with pytest.raises(OperandTypeError):
            simulator.prepare(x)
    p = simulator.prepare(np.ones((3, 3), "f4"))
    with pytest.raises(OperandTypeError):
        tiledmm.matmul(np.ones((3, 3), "f4"), p)
    with pytest.raises(OperandTypeError):
        simulator.matmul(p, p, out=p)
