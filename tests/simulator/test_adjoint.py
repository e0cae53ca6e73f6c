"""Tests of ``gemm`` with adjoint operands, which the kernels conjugate, on the simulator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tests.gemm_calls import adjoint
from tests.strategies import lay_out, small_integers, tight
from tiledmm import simulator
from tiledmm.elements import compute_element
from tiledmm.errors import ShapeError
from tiledmm.kernels.variants import find_variant, kernel_variants

#: Which operands are adjoint.
BOTH = ((False, True), (True, False), (True, True))

#: Every kernel of complex numbers, with the operands that are adjoint, and whether it is simulated every day.
KERNELS = [
    pytest.param(row.name, dtype, adjoints, marks=slow_unless(i == number % 2 and j == number % 3))
    for number, row in enumerate(kernel_variants())
    for i, dtype in enumerate(("complex64", "complex128"))
    for j, adjoints in enumerate(BOTH)
    if row.multiplies(compute_element(dtype))
]


def sizes(variant: str) -> tuple[int, int, int]:
    """Return odd sizes for which a variant computes a product itself: m, n and k."""
    row = find_variant(variant)
    k = 3 if row.reads.short_k else row.operands.shortest + 13
    return 19, 3 if row.reads.narrow else 37, k


def given(a: np.ndarray, b: np.ndarray, adjoints: tuple[bool, bool]) -> tuple[np.ndarray, np.ndarray, dict[str, bool]]:
    """Return the arguments of ``gemm`` whose product is ``a @ b`` if these operands are adjoint."""
    first, second = (adjoint(x).copy() if it_is else x for x, it_is in zip((a, b), adjoints, strict=True))
    return first, second, {"adjoint_a": adjoints[0], "adjoint_b": adjoints[1]}


@pytest.mark.parametrize(("variant", "dtype", "adjoints"), KERNELS)
def test_every_kernel_conjugates(variant: str, dtype: str, adjoints: tuple[bool, bool]) -> None:
    rng, (m, n, k) = np.random.default_rng(1), sizes(variant)
    for shape in ((), (2,)):
        a, b = small_integers(rng, (*shape, m, k), dtype, 3), small_integers(rng, (*shape, k, n), dtype, 3)
        c, bias = small_integers(rng, (m, n), dtype, 3), small_integers(rng, (n,), dtype, 3)
        first, second, keywords = given(a, b, adjoints)
        np.testing.assert_array_equal(simulator.gemm(first, second, variant=variant, **keywords), a @ b)
        keywords |= {"alpha": 2 - 1j, "beta": 3j, "bias": bias}
        found = simulator.gemm(first, second, c, variant=variant, **keywords)
        np.testing.assert_array_equal(found, (2 - 1j) * (a @ b) + 3j * c + bias)


#: Kernels that read each layout in another way, that pack, and that divide K.
WAYS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("double_buffered", "complex64", {}),
    ("warp_tiled", "complex64", {"split_k": 3}),
    ("warp_tiled", "complex128", {"pack_a": 1, "pack_b": 1}),
    ("tensor_core", "complex128", {"pack_b": 1}),
    ("split_tensor_core", "complex64", {"split_k": 2}),
    ("split_float32", "complex64", {"scheme": "tf32x3"}),
    ("split_float64_tensor_core", "complex128", {}),
)


@pytest.mark.parametrize(
    ("way", "layout", "adjoints", "order"),
    [
        pytest.param(way, "".join(layout), adjoints, order, marks=slow_unless(number % 54 == 7 * i % 54 and i < 6))
        for i, way in enumerate(WAYS)
        for number, (layout, adjoints, order) in enumerate(
            itertools.product(itertools.product("NTG", repeat=2), BOTH, "CF")
        )
    ],
)
def test_operands_of_every_layout(
    way: tuple[str, str, dict[str, Any]], layout: str, adjoints: tuple[bool, bool], order: Any
) -> None:
    rng, (variant, dtype, config) = np.random.default_rng(2), way
    for m, n in ((33, 65), (1, 7)):
        a, b = small_integers(rng, (m, 140), dtype, 3), small_integers(rng, (140, n), dtype, 3)
        first, second, keywords = given(a, b, adjoints)
        x, y = (lay_out(np, each, tight(letter))[0] for each, letter in zip((first, second), layout, strict=True))
        out = np.full((m, n), np.nan, dtype, order=order)
        simulator.gemm(x, y, out=out, variant=variant, config=config, **keywords)
        np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("variant", ["auto", "thin", "dot_products"])
def test_a_product_that_is_computed_transposed(variant: str) -> None:
    """Check that kernels for few rows conjugate the right operand, whichever side of C is shorter."""
    rng = np.random.default_rng(9)
    for m, n in ((40, 5), (5, 40)):
        a, b = small_integers(rng, (m, 70), "c8", 3), small_integers(rng, (70, n), "c8", 3)
        for adjoints in BOTH:
            first, second, keywords = given(a, b, adjoints)
            np.testing.assert_array_equal(simulator.gemm(first, second, variant=variant, **keywords), a @ b)


@pytest.mark.parametrize("variant", ["auto", "naive", pytest.param("warp_tiled", marks=pytest.mark.slow)])
def test_only_complex_operands_are_conjugated(variant: str) -> None:
    rng = np.random.default_rng(3)
    for left, right in (("f4", "c8"), ("c8", "f4"), ("c8", "c16"), ("f8", "f8"), ("i1", "c8")):
        a, b = small_integers(rng, (13, 11), left, 3), small_integers(rng, (11, 9), right, 3)
        for adjoints in BOTH:
            first, second, keywords = given(a, b, adjoints)
            found = simulator.gemm(first, second, variant=variant, **keywords)
            assert found.dtype == (a @ b).dtype
            np.testing.assert_array_equal(found, a @ b)


def test_what_is_converted_first() -> None:
    rng = np.random.default_rng(4)
    a, b = small_integers(rng, (13, 11), "c16", 3), small_integers(rng, (11, 9), "c16", 3)
    for adjoints in BOTH:
        first, second, keywords = given(a, b, adjoints)
        found = simulator.gemm(first, second, dtype="complex64", **keywords)
        np.testing.assert_array_equal(found, (a @ b).astype("c8"))
        with pytest.warns(np.exceptions.ComplexWarning):
            found = simulator.gemm(first, second, dtype="float32", casting="unsafe", **keywords)
        np.testing.assert_array_equal(found, a.real @ b.real)


def test_vectors_are_conjugated_and_batches_broadcast() -> None:
    rng = np.random.default_rng(5)
    x, y = small_integers(rng, (11,), "c8", 3), small_integers(rng, (11,), "c8", 3)
    assert simulator.gemm(x, y, adjoint_a=True) == np.vdot(x, y)
    many, one = small_integers(rng, (2, 1, 3, 7, 11), "c8", 3), small_integers(rng, (4, 1, 5, 11), "c8", 3)
    np.testing.assert_array_equal(simulator.gemm(many, x, adjoint_b=True), many @ x.conj())
    np.testing.assert_array_equal(simulator.gemm(many, one, adjoint_b=True), many @ adjoint(one))
    with pytest.raises(ShapeError, match=r"\(7, 11\) @ \(7, 11\)"):
        simulator.gemm(many[0, 0, 0], many[0, 0, 0].T, adjoint_b=True)


@pytest.mark.parametrize("variant", ["split_tensor_core", pytest.param("split_float32", marks=pytest.mark.slow)])
def test_values_that_have_no_limbs(variant: str) -> None:
    rng = np.random.default_rng(6)
    a, b = small_integers(rng, (21, 300), "c8", 3), small_integers(rng, (300, 17), "c8", 3)
    b[5, 3] = 2.0**100
    for adjoints in BOTH:
        first, second, keywords = given(a, b, adjoints)
        found = simulator.gemm(first, second, variant=variant, **keywords)
        np.testing.assert_allclose(found, a @ b, rtol=1e-6)


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [("split_tensor_core", "complex64"), pytest.param("split_float64", "complex128", marks=pytest.mark.slow)],
)
def test_a_prepared_operand_has_another_form(variant: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    x = small_integers(rng, (130, 130), dtype, 3)
    p = simulator.prepare(x)
    keywords: dict[str, Any] = {"variant": variant, "tile": 64}
    half = {**keywords, "config": {"triangle": 1}}
    for _ in range(2):
        np.testing.assert_array_equal(simulator.gemm(x, p, adjoint_b=True, **keywords), x @ x.conj().T)
        np.testing.assert_array_equal(simulator.gemm(x, p, **keywords), x @ x)
        np.testing.assert_array_equal(simulator.gemm(p, p, adjoint_a=True, **keywords), x.conj().T @ x)
        np.testing.assert_array_equal(simulator.gemm(p, p, adjoint_b=True, **half), x @ x.conj().T)


def test_run_has_the_keywords() -> None:
    x = small_integers(np.random.default_rng(8), (9, 9), "c8", 3)
    found, report = simulator.run(x, x, variant="naive", epilogue={"adjoint_b": True})
    np.testing.assert_array_equal(found, x @ x.conj().T)
    assert report.ok
