"""Tests of products in tf32 that are computed from one float16 limb per number, on the simulator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from benchmarks.support.data import KINDS, TOO_WIDE, operands
from tests.conftest import full_unless, slow_unless
from tests.one_limb_in_numpy import LOST, counts, is_decomposed, limbs, scales
from tests.simulator import unchecked
from tests.simulator.test_kernels import matrix
from tests.simulator.test_split import Device, laid_out
from tests.simulator.test_split_tensor_core import errors
from tests.strategies import Layout, lay_out, random_matrix, small_integers
from tiledmm import simulator
from tiledmm.codegen.rendering import render
from tiledmm.elements import TF32
from tiledmm.kernels.operands.limbs import Limbs
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve
from tiledmm.schedule.schedule import schedule
from tiledmm.selection.choose import select

VARIANTS = ("split_float32", "split_tensor_core")
#: The variant that computes what limbs cannot represent.
OTHERWISE = "tensor_core"
SHORTEST = Limbs.shortest
#: Kinds of data of which few terms of a sum are large, so that no sum is rounded.
FEW_TERMS = ("one 1 a row", "counts of words")


def product(a: Any, b: Any, variant: str = VARIANTS[0], **keywords: Any) -> np.ndarray[Any, Any]:
    return simulator.matmul(a, b, variant=variant, precision="tf32", **keywords)


def normal(seed: int, m: int = 40, n: int = 50, k: int = 300) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return random_matrix(rng, (m, k), "float32"), random_matrix(rng, (k, n), "float32")


@pytest.mark.parametrize(
    ("variant", "tile", "layout"),
    [
        pytest.param(
            variant,
            tile,
            layout,
            marks=full_unless((h + i) % 3 == 0) + slow_unless((variant, tile, layout) in {
                ("split_float32", 64, "NT"), ("split_float32", 128, "TN"), ("split_float32", 256, "NN"),
                ("split_tensor_core", 64, "GT"),
            }),
        )
        for variant in VARIANTS
        for h, tile in enumerate(find_variant(variant).tiles)
        for i, layout in enumerate("".join(pair) for pair in itertools.product("NTG", repeat=2))
    ],
)  # fmt: skip
def test_every_tile_layout_and_edge(variant: str, tile: int, layout: str) -> None:
    rng = np.random.default_rng(tile)
    # The epilogue writes four, two or one number at a time: columns are multiples of 4, of 2, or odd.
    for m, n, k in ((129, tile + 1, SHORTEST + 1), (3, 2 * tile + 20, SHORTEST + 65), (261, 10, SHORTEST)):
        a, b = matrix(rng, (), m, k, "float32", layout[0]), matrix(rng, (), k, n, "float32", layout[1])
        out = np.full((m, n), np.nan, "f4")
        assert product(a, b, variant, tile=tile, out=out) is out
        np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_and_columns_of_any_magnitude(variant: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (small_integers(rng, shape, np.dtype("f4"), bound=40) for shape in ((70, 300), (300, 50)))
    expected = a @ b
    a, b = np.ldexp(a, rng.integers(-60, 50, (70, 1))), np.ldexp(b, rng.integers(-60, 50, (1, 50)))
    found = product(a, b, variant)
    np.testing.assert_array_equal(found, (a.astype("f8") @ b.astype("f8")).astype("f4"))
    assert expected.any()


@pytest.mark.parametrize(
    ("variant", "kind"),
    [
        pytest.param(variant, kind, marks=slow_unless(kind in ("normal", "graded")))
        for variant in VARIANTS
        for kind in KINDS
    ],
)
def test_errors_are_those_of_tf32_and_the_data_decides(variant: str, kind: str) -> None:
    a, b = operands(kind, "float32", np, np.random.RandomState(4), 40, 50, 600)
    found, native = product(a, b, variant), product(a, b, OTHERWISE, tile=128 if variant != "split_float32" else None)
    own, its = errors(found, a, b), errors(native, a, b)
    for each, other in zip(own, its, strict=True):
        assert each <= 1.02 * other + 2.0**-30
    if any(its) and kind not in FEW_TERMS:  # else both kernels' sums are equal
        assert np.array_equal(found, native) == (kind in TOO_WIDE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_of_extreme_spread_are_left_to_tf32(variant: str) -> None:
    a, b = normal(5)
    a[:, ::2] *= np.float32(2.0**-36)
    b[1::2] *= np.float32(2.0**-30)
    out = np.full((40, 50), np.nan, "f4")
    product(a, b, variant, out=out)
    np.testing.assert_array_equal(out, product(a, b, OTHERWISE))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_numbers_without_limbs_are_left_to_tf32(variant: str, value: float) -> None:
    a, b = normal(6)
    a[12, 34] = value
    for left, right in ((a, b), (b.T, a.T)):
        np.testing.assert_array_equal(product(left, right, variant), product(left, right, OTHERWISE, checks=False))


@pytest.mark.parametrize("variant", VARIANTS)
def test_sums_beyond_float32_are_infinite(variant: str) -> None:
    a, b = (abs(x) + np.float32(1) for x in normal(7))
    for scale, finite in ((np.float32(2.0**62), False), (np.float32(2.0**55), True)):
        found, native = product(a * scale, b * scale, variant), product(a * scale, b * scale, OTHERWISE, checks=False)
        assert np.isfinite(found).all() == finite
        assert np.array_equal(found, native) != finite


@pytest.mark.parametrize("variant", VARIANTS)
def test_zeros_and_short_sums(variant: str) -> None:
    a, b = normal(8)
    zeros = product(np.zeros_like(a), -abs(b), variant)
    assert not zeros.any() and not np.signbit(zeros).any()
    short = a[:, : SHORTEST - 1], b[: SHORTEST - 1]
    np.testing.assert_array_equal(product(*short, variant), product(*short, OTHERWISE))


@pytest.mark.parametrize(
    ("variant", "config"),
    [
        ("split_float32", {"split_k": 3}),
        pytest.param("split_float32", {"bm": 128, "cluster": 1}, marks=pytest.mark.slow),
        pytest.param("split_float32", {"stages": 2}, marks=pytest.mark.slow),
        pytest.param("split_tensor_core", {"split_k": 3}, marks=pytest.mark.slow),
        pytest.param("split_tensor_core", {"stages": 2}, marks=pytest.mark.slow),
    ],
)
def test_batches_and_other_numbers(variant: str, config: dict[str, int]) -> None:
    rng = np.random.default_rng(9)
    a, b = random_matrix(rng, (2, 3, 70, 700), "float32"), random_matrix(rng, (3, 700, 33), "float32")
    for x in (a, b):  # each matrix has a power of two of its own
        x *= np.ldexp(np.float32(1), rng.integers(-20, 20, (*x.shape[:-2], 1, 1)))
    exact = a.astype("f8") @ b.astype("f8")
    found = product(a, b, variant, config=config)
    assert (np.linalg.norm(found - exact, axis=(-2, -1)) < 4e-4 * np.linalg.norm(exact, axis=(-2, -1))).all()
    whole = np.rint(a * np.float32(0.01))
    assert product(whole, np.rint(b * np.float32(0.01)), variant, config=config).shape == (2, 3, 70, 33)


@pytest.mark.parametrize("variant", VARIANTS)
def test_results_of_other_types_and_strides(variant: str) -> None:
    rng = np.random.default_rng(10)
    a, b = (small_integers(rng, shape, np.dtype("f4"), bound=2) for shape in ((40, 300), (300, 51)))
    for dtype in ("float16", "float64", "complex64"):
        out = np.full((40, 51), np.nan, dtype)
        product(a, b, variant, out=out, casting="unsafe")
        np.testing.assert_array_equal(out, (a @ b).astype(dtype))
    out, _ = lay_out(np, np.full((40, 51), np.nan, "f4"), Layout((0, 1), (2, -2), (1, 1)))
    product(a, b, variant, out=out)
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("split_k", [1, 3])
def test_epilogues_are_computed_once(variant: str, split_k: int) -> None:
    a, b = normal(11)
    rng = np.random.default_rng(12)
    bias, c = random_matrix(rng, (50,), "float32"), random_matrix(rng, (40, 50), "float32")
    for spread in (False, True):
        if spread:
            a[:, ::2] *= np.float32(2.0**-36)
            b[1::2] = 0
        found = c.copy()  # read and written, so only one of both kernels may write it
        simulator.gemm(
            a, b, found, bias=bias, beta=2, activation="relu", out=found,
            variant=variant, precision="tf32", config={"split_k": split_k},
        )  # fmt: skip
        expected = np.maximum(a.astype("f8") @ b.astype("f8") + 2 * c + bias, 0)
        np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.parametrize("variant", VARIANTS)
def test_symmetric_products(variant: str) -> None:
    a, _ = normal(13, m=200, k=500)
    found = product(a, a.T, variant, config={"triangle": 1})
    np.testing.assert_array_equal(found, found.T)
    assert errors(found, a, a.T)[0] < 4e-4


@pytest.mark.parametrize("layout", ["NN", pytest.param("TT", marks=pytest.mark.slow), "GG"])
def test_limbs_and_scans_are_those_of_the_numpy_version(layout: str) -> None:
    rng = np.random.default_rng(14)
    kinds = {name: random_matrix(rng, (12, 270), "float32") for name in ("normal", "zeros", "spread", "far", "few")}
    kinds["zeros"][5] = 0
    kinds["spread"] *= np.exp2(rng.uniform(-40, 40, (12, 270))).astype("f4")
    kinds["far"][:] = 1
    kinds["far"][3, ::7] = 2.0**-28
    kinds["far"][4, ::7] = 2.0**-29
    kinds["few"][:, 3] *= np.float32(2.0**-60)
    kinds["subnormal"] = kinds["normal"] * np.float32(2.0**-120) * np.float32(2.0**-20)
    for name, left in kinds.items():
        right = np.ascontiguousarray(kinds["normal"].T)
        x1, x2 = laid_out(left, layout[0]), laid_out(right, layout[1])
        wanted = resolve(describe(x1), describe(x2)).computed_in(TF32)
        choice = select("split_float32", None, wanted)
        planned = schedule(choice.spec, choice.product.problem)
        multiplying = planned.multiplying
        device = Device(choice.product, planned, x1, x2)
        for operand, rows in enumerate((left, kinds["normal"])):
            near, one_limb, scale, exponents = device.found(multiplying.scan[operand], len(rows))
            counted, lost = counts(rows)
            assert near == (counted - LOST * lost).min(), name
            assert one_limb == (0 if lost.any() else 2), name
            assert scale == scales(rows)[rows.any(axis=1)].min(), name
            np.testing.assert_array_equal(exponents, -scales(rows), err_msg=name)
            held = device.limbs(f"limbs of {'AB'[operand]}", multiplying.maps[operand], multiplying.spec.a)
            across = multiplying.spec.layout[operand] != "NT"[operand]
            written = held[0, 0].T if across else held[0, 0]
            np.testing.assert_array_equal(np.ldexp(written, exponents[:, None]), limbs(rows), err_msg=name)
        found = product(left, right)
        assert np.array_equal(found, product(left, right, OTHERWISE, checks=False)) != is_decomposed(left, right), name


def test_rows_too_long_to_count_pass_only_if_no_element_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, lower = "MOST_COUNTED = 1 << 26", "MOST_COUNTED = 269"
    monkeypatch.setattr(unchecked, "render", lambda spec: render(spec).replace(limit, lower))
    for k, near in ((269, 269), (270, -270)):
        x1, x2 = np.ones((12, k), "f4"), np.ones((k, 8), "f4")
        choice = select("split_float32", None, resolve(describe(x1), describe(x2)).computed_in(TF32))
        planned = schedule(choice.spec, choice.product.problem)
        device = Device(choice.product, planned, x1, x2)
        for operand, rows in enumerate((12, 8)):
            assert device.found(planned.multiplying.scan[operand], rows)[:2] == (near, 2)
