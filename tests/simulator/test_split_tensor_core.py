"""Tests of decomposed products from their operands on: on tensor cores, or on CUDA cores instead."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from benchmarks.support.data import DECOMPOSED, EITHER, KINDS, LONG, ONE_LIMB
from tests.conftest import full_unless, slow_unless
from tests.simulator.test_kernels import BATCHES, matrix
from tests.strategies import Layout, lay_out, random_matrix, small_integers
from tiledmm import simulator
from tiledmm.elements import ELEMENTS, SCHEMES
from tiledmm.kernels.operands.limbs import Limbs
from tiledmm.kernels.variants import find_variant

VARIANT = "split_tensor_core"
SHORTEST = Limbs.shortest
TYPES = ("float32", "complex64")
OF_FLOAT32 = find_variant(VARIANT).operands.schemes_of(ELEMENTS["float32"])
#: Layouts of each type that are everyday tests.
EVERYDAY = {("float32", "GN"), ("float32", "TT")}
#: Tile, m, n and k.
CASES = ((64, 65, 67, SHORTEST + 1), (64, 2, 133, SHORTEST + 13), (128, 127, 129, SHORTEST))


def product(a: Any, b: Any, variant: str = VARIANT, tile: int | None = 64, **keywords: Any) -> np.ndarray[Any, Any]:
    return simulator.matmul(a, b, variant=variant, tile=tile, **keywords)


def wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.astype(np.result_type(x, "f8"))


def errors(found: np.ndarray[Any, Any], a: Any, b: Any) -> tuple[float, float]:
    """Return the error in the Frobenius norm, and the largest error relative to the product of absolute values."""
    exact, sizes = wide(a) @ wide(b), wide(abs(a)) @ wide(abs(b))
    apart = found - exact
    norm = float(np.linalg.norm(apart) / (np.linalg.norm(exact) or 1.0))
    return norm, float((abs(apart) / np.where(sizes == 0, 1, sizes)).max())


@pytest.mark.parametrize(
    ("dtype", "layout", "case"),
    [
        pytest.param(
            dtype, a + b, case, marks=full_unless((g + h + i + j) % 3 == 0) + slow_unless((dtype, a + b) in EVERYDAY)
        )
        for g, dtype in enumerate(TYPES)
        for h, a in enumerate("NTG")
        for i, b in enumerate("NTG")
        for j, case in enumerate(CASES)
    ],
)
def test_every_layout_and_edge(dtype: str, layout: str, case: tuple[int, int, int, int]) -> None:
    tile, m, n, k = case
    rng = np.random.default_rng(m)
    a, b = matrix(rng, (), m, k, dtype, layout[0]), matrix(rng, (), k, n, dtype, layout[1])
    np.testing.assert_array_equal(product(a, b, tile=tile), a @ b)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        pytest.param(dtype, layout, marks=full_unless(dtype == "float32" or layout in ("NT", "TN")))
        for dtype in TYPES
        for layout in ("NN", "NT", "TN", "TT", "GG")
    ],
)
def test_pieces_of_tf32_in_every_layout(dtype: str, layout: str) -> None:
    tile, m, n, k = CASES[0]
    rng = np.random.default_rng(14)
    a, b = matrix(rng, (2,), m, k, dtype, layout[0]), matrix(rng, (), k, n, dtype, layout[1])
    np.testing.assert_array_equal(product(a, b, tile=tile, config={"scheme": "tf32x3"}), a @ b)
    a, b = (x * random_matrix(rng, x.shape, dtype) for x in (a, b))
    norm, _ = errors(product(a, b, tile=None, config={"scheme": "tf32x3"}), a, b)
    assert norm < 2.5e-7


@pytest.mark.slow
@pytest.mark.parametrize(("batch_a", "batch_b"), BATCHES)
@pytest.mark.parametrize(
    ("dtype", "numbers"), [("float32", {}), ("float32", {"split_k": 3}), ("complex64", {"split_k": 3})]
)
def test_batches(dtype: str, numbers: dict[str, int], batch_a: tuple[int, ...], batch_b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    # Each matrix with a power of two of its own: what it gets back must be its own.
    a, b = random_matrix(rng, (*batch_a, 70, 300), dtype), random_matrix(rng, (*batch_b, 300, 33), dtype)
    for x in (a, b):
        x *= np.ldexp(np.float32(1), rng.integers(-20, 20, (*x.shape[:-2], 1, 1)))
    found = product(a, b, config=numbers)
    exact = wide(a) @ wide(b)
    assert (np.linalg.norm(found - exact, axis=(-2, -1)) < 2.5e-7 * np.linalg.norm(exact, axis=(-2, -1))).all()


@pytest.mark.slow
def test_batches_that_cannot_be_merged() -> None:
    rng = np.random.default_rng(2)
    a = small_integers(rng, (2, 3, 2, 2, 5, 264), np.dtype("f4"), bound=2).transpose(3, 0, 2, 1, 4, 5)[::-1]
    b = small_integers(rng, (264, 9), np.dtype("f4"), bound=2)
    np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["reverse", "random"])
@pytest.mark.parametrize(("target", "dtype"), [("sm_80", "float32"), ("sm_120", "float32"), ("sm_80", "complex64")])
def test_other_targets_and_orders_of_threads(target: str, dtype: str, order: str) -> None:
    rng = np.random.default_rng(3)
    a, b = random_matrix(rng, (70, 300), dtype), random_matrix(rng, (300, 70), dtype)
    expected = product(a, b)
    found, report = simulator.run(a, b, variant=VARIANT, tile=64, threads=order, target=target)
    report.check()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("k", [SHORTEST, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_promise_is_kept(kind: str, k: int) -> None:
    a, b = KINDS[kind](np, np.random.RandomState(4), 40, 50, k)
    norm, worst = errors(product(a, b, "coalesced", None, checks=False), a, b)
    of_cuda_cores = product(a, b, "warp_tiled", checks=False)
    for scheme in map(SCHEMES.__getitem__, OF_FLOAT32):
        found = product(a, b, config={"scheme": scheme.name}, checks=scheme.name == "fp16x3")
        own = errors(found, a, b)
        assert own[0] <= 1.05 * norm, scheme.name
        assert own[1] <= 1.25 * worst, scheme.name
        if scheme.limbs == 2:
            exact = not np.any(errors(of_cuda_cores, a, b))
            either = kind in EITHER or (kind in ONE_LIMB and k < LONG)
            assert either or np.array_equal(found, of_cuda_cores) == (kind not in DECOMPOSED or exact)


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        pytest.param(value, {"split_k": 3} if j else {}, marks=slow_unless((i, j) in {(0, 0), (2, 1)}))
        for i, value in enumerate((np.inf, -np.inf, np.nan))
        for j in range(2)
    ],
)
def test_numbers_that_have_no_pieces(value: float, numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(5)
    a, b = random_matrix(rng, (30, 300), "float32"), random_matrix(rng, (300, 40), "float32")
    a[12, 34] = value
    for left, right in ((a, b), (b.T, a.T)):
        expected = product(left, right, "warp_tiled", checks=False)
        np.testing.assert_array_equal(product(left, right, config=numbers), expected)


@pytest.mark.parametrize(("of_a", "of_b"), [(-126, 20), (-140, 120), (60, 50)])
def test_far_exponents(of_a: int, of_b: int) -> None:
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((40, 256)), rng.standard_normal((256, 50))
    x, y = np.ldexp(a, of_a).astype("f4"), np.ldexp(b, of_b).astype("f4")
    exact, size = x.astype("f8") @ y.astype("f8"), abs(x).astype("f8") @ abs(y).astype("f8")
    found = product(x, y)
    assert (abs(found - exact) <= 2.0**-20 * size + 256 * 2.0**-150).all()
    assert found.any() or not exact.astype("f4").any()


def test_sums_that_may_overflow_are_left_to_cuda_cores() -> None:
    rng = np.random.default_rng(7)
    a, b = random_matrix(rng, (40, 300), "float32"), random_matrix(rng, (300, 50), "float32")
    for scale in (np.float32(2.0**62), np.float32(2.0**55)):
        found, expected = (product(a * scale, b * scale, name, checks=False) for name in (VARIANT, "warp_tiled"))
        assert np.array_equal(found, expected, equal_nan=True) == (scale > 2.0**55)


def test_zeros_are_positive() -> None:
    a, b = np.zeros((40, 300), "f4"), np.full((300, 50), -1, "f4")
    found = product(a, b)
    assert not found.any()
    assert not np.signbit(found).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "numbers"),
    [
        ("NN", {"stages": 2}),
        ("TT", {"bk": 32, "unroll": 32, "stages": 2}),
        ("TN", {"bk": 32, "unroll": 32, "stages": 2, "wn": 16, "tn": 4}),
        ("NT", {"bk": 32, "unroll": 32, "stages": 2, "bn": 128, "group": 1}),
        ("TT", {"wm": 16, "tm": 2, "wn": 64, "tn": 16}),
    ],
)
def test_other_numbers(layout: str, numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(8)
    a, b = matrix(rng, (), 70, 270, "float32", layout[0]), matrix(rng, (), 270, 140, "float32", layout[1])
    np.testing.assert_array_equal(product(a, b, config=numbers), a @ b)


@pytest.mark.parametrize(
    "dtype", ["float16", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float64", "complex64"))]
)
@pytest.mark.parametrize("of_a", ["int16", pytest.param("float32", marks=pytest.mark.slow)])
def test_results_and_operands_of_other_types(dtype: str, of_a: str) -> None:
    rng = np.random.default_rng(9)
    a, b = (small_integers(rng, shape, np.dtype("f4"), bound=2) for shape in ((40, 300), (300, 50)))
    out = np.full((40, 50), np.nan, dtype)
    product(a.astype(of_a), b, out=out, casting="unsafe")
    np.testing.assert_array_equal(out, (a @ b).astype(dtype))


@pytest.mark.parametrize(
    "layout",
    [Layout((0, 1), (2, -2), (1, 1)), pytest.param(Layout((1, 0), (1, 1), (0, 0)), marks=pytest.mark.slow)],
    ids=["strided", "transposed"],
)
def test_results_of_any_strides(layout: Layout) -> None:
    rng = np.random.default_rng(10)
    a, b = (small_integers(rng, shape, np.dtype("f4"), bound=2) for shape in ((40, 300), (300, 51)))
    out, _ = lay_out(np, np.full((40, 51), np.nan, "f4"), layout)
    product(a, b, out=out)
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "tiles"), [("fp16x3", (64, 128)), ("tf32x3", (64,))])
def test_no_bank_conflicts(scheme: str, tiles: tuple[int, ...]) -> None:
    rng = np.random.default_rng(11)
    for layout, tile in itertools.product(("NN", "NT", "TN", "TT"), tiles):
        a, b = (random_matrix(rng, shape, "float32") for shape in ((128, 256), (256, 128)))
        x, y = (np.asfortranarray(each) if letter == "T" else each for each, letter in zip((a, b), layout, strict=True))
        _, report = simulator.run(x, y, variant=VARIANT, tile=tile, config={"scheme": scheme})
        report.check()
        assert report.source.shared_load.requests > 0
        assert report.source.shared_load.bank_conflicts == 0
        assert report.source.copy_store.requests > 0
        assert report.source.copy_store.bank_conflicts == 0


def test_short_sums_are_not_split() -> None:
    rng = np.random.default_rng(12)
    a, b = random_matrix(rng, (40, SHORTEST - 1), "float32"), random_matrix(rng, (SHORTEST - 1, 50), "float32")
    np.testing.assert_array_equal(product(a, b), product(a, b, "warp_tiled"))


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        pytest.param(each, dtype, marks=slow_unless(each == "fp16x3" and dtype == "float32"))
        for each in OF_FLOAT32
        for dtype in (TYPES if each == "fp16x3" else TYPES[:1])
    ],
)
def test_a_scheme_takes_what_can_be_simulated(precision: str, dtype: str) -> None:
    rng = np.random.default_rng(13)
    a, b = random_matrix(rng, (40, 300), dtype), random_matrix(rng, (300, 50), dtype)
    expected = product(a, b, tile=None, config={"scheme": precision}, checks=False)
    np.testing.assert_array_equal(simulator.matmul(a, b, precision=precision, target="sm_80"), expected)
