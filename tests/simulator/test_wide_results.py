"""Tests of products of 8-bit integers with wider results on the simulator, bit for bit as NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import full_unless, slow_unless
from tests.strategies import any_bits, np_dtype
from tiledmm import simulator
from tiledmm.elements import WIDE_RESULTS
from tiledmm.kernels.variants import general_variants

#: Kernels: variant, tile, config. All that have CUDA cores, tensor cores, packed elements; split-K and packing.
KERNELS: list[tuple[str, int | None, dict[str, int] | None]] = [
    *((row.name, min(row.tiles, default=None), None) for row in general_variants()),
    ("tensor_core", 64, None),
    ("tensor_core", 16, {"split_k": 2}),
    ("tensor_core", 128, {"pack_a": 1, "pack_b": 1, "split_k": 3}),
    ("warp_tiled", 64, {"pack_elements": 1}),
    ("thin", 8, {"pack_elements": 1, "split_k": 2}),
]
LAYOUTS = ("NN", "NT", "TN", "TT", "GR", "RG")


def matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, letter: str) -> np.ndarray:
    """Return a matrix in layout N, T, every other element of a larger one (G), or reversed (R)."""
    x = any_bits(rng, shape, np_dtype(dtype))
    if letter == "T":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if letter == "G":
        return np.repeat(np.repeat(x, 2, -2), 2, -1)[..., ::2, ::2]
    return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1] if letter == "R" else x


def check(x1: np.ndarray, x2: np.ndarray, dtype: Any, **keywords: Any) -> None:
    result = simulator.matmul(x1, x2, dtype=dtype, **keywords)
    expected = np.matmul(x1, x2, dtype=dtype)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        pytest.param(kernel, name, marks=full_unless((i + j) % 4 == 0) + slow_unless((i + j) % 32 == 0))
        for i, kernel in enumerate(KERNELS)
        for j, name in enumerate(WIDE_RESULTS)
    ],
)
def test_every_kernel(kernel: tuple[str, int | None, dict[str, int] | None], name: str) -> None:
    variant, tile, config = kernel
    operand, result = name.split("_")
    rng = np.random.default_rng(0)
    for number, (m, n, k) in enumerate(((37, 70, 133), (64, 64, 64), (65, 63, 129), (1, 33, 7), (5, 3, 1), (3, 4, 0))):
        for layout in (LAYOUTS[(number + each) % len(LAYOUTS)] for each in (0, 3)):
            x1, x2 = matrix(rng, (m, k), operand, layout[0]), matrix(rng, (k, n), operand, layout[1])
            check(x1, x2, result, variant=variant, tile=tile, config=config)


def largest(operand: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return operands with a sum of only (-128)^2 or 255^2, and mixed products in the other sums."""
    value = -128 if operand == "int8" else 255
    x1, x2 = np.full((3, k), value, operand), np.full((k, 2), value, operand)
    x1[1, ::2], x2[1::3, 1] = 127, 1
    return x1, x2


@pytest.mark.parametrize(
    ("variant", "k"),
    [
        pytest.param(variant, k, marks=slow_unless((variant, k) in {("naive", 66_052), ("dot_products", 33_026)}))
        for variant in ("naive", "dot_products")
        for k in (513, 33_025, 33_026, 66_051, 66_052, 131_071, 131_072)
    ],
)
def test_the_largest_sums(variant: str, k: int) -> None:
    # 32 bits hold 131,071 of (-128)^2, 66,051 of 255^2, and 33,025 of it in a signed result. Longer sums wrap.
    for name in WIDE_RESULTS:
        operand, result = name.split("_")
        check(*largest(operand, k), result, variant=variant, checks=False)


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "config"), [("tensor_core", {"split_k": 2}), ("warp_tiled", {"pack_elements": 1})])
def test_sums_wrap_in_32_bits(variant: str, config: dict[str, int]) -> None:
    check(*largest("uint8", 33_026), "int32", variant=variant, config=config)


@pytest.mark.parametrize(
    "variant", ["auto", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tensor_core", "warp_tiled"))]
)
@pytest.mark.parametrize(
    "out", ["int32", "complex64", *(pytest.param(each, marks=pytest.mark.slow) for each in ("int64", "uint8"))]
)
def test_the_type_of_out(variant: str, out: str) -> None:
    rng = np.random.default_rng(1)
    for operand, layout in (("int8", "NT"), ("uint8", "TN")):
        x1, x2 = matrix(rng, (33, 70), operand, layout[0]), matrix(rng, (70, 20), operand, layout[1])
        into = np.full((20, 33), 7, out).T
        result = simulator.matmul(x1, x2, out=into, dtype="int32", casting="unsafe", variant=variant)
        assert result is into
        np.testing.assert_array_equal(into, np.matmul(x1, x2, dtype="int32").astype(out))


def test_batches_and_broadcasts() -> None:
    rng = np.random.default_rng(2)
    x1, x2 = any_bits(rng, (3, 1, 20, 50), np.dtype("i1")), any_bits(rng, (4, 50, 30), np.dtype("i1"))
    for variant in ("auto", "tiny"):
        check(x1, x2, "int32", variant=variant)
        check(x1[:, 0], x2[0], "int32", variant=variant)
        check(x1[0, 0, 0], x2, "int32", variant=variant)
    check(x1, x1.swapaxes(-1, -2), "int32")


def test_without_dtype_they_wrap_in_8_bits() -> None:
    x = np.full((2, 2), 100, "i1")
    out = simulator.matmul(x, x, out=np.zeros((2, 2), "i4"))
    np.testing.assert_array_equal(out, np.matmul(x, x).astype("i4"))
    assert simulator.matmul(x, x, signature="ii->i")[0, 0] == 20_000


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "config"), [("tensor_core", {"split_k": 2}), ("warp_tiled", {"pack_elements": 1})])
def test_no_findings_with_every_check_on(variant: str, config: dict[str, int]) -> None:
    rng = np.random.default_rng(3)
    x1, x2 = any_bits(rng, (40, 150), np.dtype("i1")), any_bits(rng, (150, 70), np.dtype("i1"))
    result, report = simulator.run(x1, x2, dtype="int32", variant=variant, tile=64, config=config, checks="full")
    report.check()
    np.testing.assert_array_equal(result, np.matmul(x1, x2, dtype="int32"))
