"""Tests of infinities, NaNs, signed zeros, subnormals and overflow, by IEEE arithmetic, in every variant."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import KERNELS, SMALLEST, assert_bits, matrix_layout, to_device, to_host
from tests.strategies import INEXACT, np_dtype

INF, NAN = np.inf, np.nan
FLOATS = ("float16", "bfloat16", "float32", "float64")


def product(left: Any, right: Any, dtype: str, **keywords: Any) -> cupy.ndarray:
    kind = np_dtype(dtype)
    return tiledmm.matmul(to_device(np.array(left, kind)), to_device(np.array(right, kind)), **keywords)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_infinities_and_nans(variant: str, tile: int | None, dtype: str) -> None:
    left = [[INF, 1, 0], [1, -INF, 2], [NAN, 0, 0], [1, 2, 3]]
    right = [[0, 1, 1, 2], [1, 1, -1, 0], [1, 1, 1, 1]]
    expected = [[NAN, INF, INF, INF], [-INF, -INF, INF, NAN], [NAN, NAN, NAN, NAN], [5, 6, 2, 5]]
    assert_bits(product(left, right, dtype, variant=variant, tile=tile), expected)
    assert_bits(product([[INF, 1]], [[1], [-INF]], dtype, variant=variant, tile=tile), [[NAN]])


@pytest.mark.parametrize(("variant", "tile"), KERNELS)
def test_edges_of_tiles_bring_no_nans(variant: str, tile: int | None) -> None:
    # Beyond the edges tiles are filled with zeros, which must never meet an infinity.
    size = (tile or 32) + 1
    for layout in ("NN", "NT", "TN", "TT"):
        x1 = to_device(np.full((size, size), INF, np.float32), matrix_layout(layout[0]))
        x2 = to_device(np.full((size, size), 2, np.float32), matrix_layout(layout[1]))
        for left, right in ((x1, x2), (x2, x1)):
            result = tiledmm.matmul(left, right, variant=variant, tile=tile)
            assert_bits(result, np.full((size, size), INF), f"{variant} {tile} {layout}")


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_sums_begin_at_plus_zero(variant: str, tile: int | None, dtype: str) -> None:
    for k in (0, 1, 3, 40):
        left, right = np.full((3, k), -0.0), np.ones((k, 2))
        result = product(left, right, dtype, variant=variant, tile=tile)
        assert_bits(result, np.zeros((3, 2)), f"{variant} {dtype} k={k}")


@pytest.mark.parametrize(("variant", "tile"), KERNELS)
def test_float32_keeps_subnormals(variant: str, tile: int | None) -> None:
    # CuPy compiles with -ftz=true.
    for layout in ("NN", "NT", "TN", "TT"):
        for k in (1, 2, 64):
            left, right = np.full((3, k), 1e-39, np.float32), np.full((k, 5), 0.5, np.float32)
            x1, x2 = to_device(left, matrix_layout(layout[0])), to_device(right, matrix_layout(layout[1]))
            result = tiledmm.matmul(x1, x2, variant=variant, tile=tile).get()
            # Sums of subnormals are exact; the one product may be rounded.
            one = np.float32(left[0, 0] * np.float32(0.5))
            np.testing.assert_allclose(result, np.full((3, 5), float(one) * k), rtol=0, atol=k * 2.0**-149)
            assert (result > 0).all()


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_float32_underflows_gradually_to_the_last_bit(variant: str, tile: int | None) -> None:
    tiny = np.float32(2.0**-149)
    assert_bits(product([[tiny]], [[1]], "float32", variant=variant, tile=tile), [[tiny]])
    assert_bits(product([[2.0**-75]], [[2.0**-74]], "float32", variant=variant, tile=tile), [[tiny]])
    assert_bits(product([[2.0**-75, tiny]], [[2.0**-75], [3]], "float32", variant=variant, tile=tile), [[3 * tiny]])


@pytest.mark.parametrize(("variant", "tile"), KERNELS)
def test_complex64_keeps_subnormals(variant: str, tile: int | None) -> None:
    s = np.float32(2.0**-140)
    left = np.array([[s * 1j, 0], [s, 0], [1j, s], [s + s * 1j, 1]], np.complex64)
    right = np.array([[0.5j, 0.5, s * 1j], [0, 1, 1]], np.complex64)
    expected = (left.astype("D") @ right.astype("D")).astype("F")
    result = tiledmm.matmul(to_device(left), to_device(right), variant=variant, tile=tile)
    np.testing.assert_array_equal(result.get(), expected)
    assert result.get()[0, 0].real == -s / 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex128"])
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_other_types_keep_subnormals(variant: str, tile: int | None, dtype: str) -> None:
    smallest = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float64": 5e-324, "complex128": 5e-324}[dtype]
    left = np.array([[smallest, 0], [3 * smallest, smallest]])
    result = product(left, [[1, 0], [0, 1]], dtype, variant=variant, tile=tile)
    np.testing.assert_array_equal(to_host(result).astype("D"), left)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "float64"), ("float64", "float32"), ("float32", "float16"), ("float16", "float32"),
        ("float32", "bfloat16"), ("bfloat16", "float32"), ("float64", "float16"), ("complex64", "complex128"),
        ("complex128", "complex64"), ("float32", "complex64"), ("float64", "complex64"),
    ],
)  # fmt: skip
def test_conversions_keep_subnormals(source: str, target: str) -> None:
    smallest = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float64": 5e-324, "complex128": 5e-324}
    value = max(smallest.get(source, 2.0**-149), smallest.get(target, 2.0**-149))
    one = to_device(np.ones((1, 1), np_dtype(source)))
    x = to_device(np.array([[value]], np_dtype(source)))
    converted = tiledmm.matmul(x, one, dtype=np_dtype(target))
    assert complex(to_host(converted)[0, 0]) == value
    out = to_device(np.zeros((1, 1), np_dtype(target)))
    tiledmm.matmul(x, one, out=out, dtype=np_dtype(source))
    assert complex(to_host(out)[0, 0]) == value


@pytest.mark.parametrize(
    ("dtype", "big"), [("float16", 60000.0), ("bfloat16", 3e38), ("float32", 3e38), ("float64", 1.7e308)]
)
def test_overflow_is_infinite(dtype: str, big: float) -> None:
    assert_bits(product([[big, -big]], [[2, 0], [0, 2]], dtype), [[INF, -INF]])


def test_conversions_overflow_to_infinity() -> None:
    x = to_device(np.array([[1e300, -1e300, 7e4]]))
    eye = to_device(np.eye(3))
    for target, expected in ((np.float32, [[INF, -INF, 7e4]]), (np.float16, [[INF, -INF, INF]])):
        out = cupy.zeros((1, 3), target)
        # 0 * 1e300 is still 0: nothing here is NaN.
        tiledmm.matmul(x, eye, out=out)
        assert_bits(out, np.array(expected))


def test_nans_with_low_bits_only_stay_nans_in_16_bits() -> None:
    nan = np.array([[0x7F800001]], np.uint32).view(np.float32)
    one = to_device(np.ones((1, 1), np.float32))
    for target in ("float16", "bfloat16"):
        out = to_device(np.zeros((1, 1), np_dtype(target)))
        tiledmm.matmul(to_device(nan), one, out=out)
        assert np.isnan(to_host(out).astype("f4")).all(), target


def test_booleans_of_any_nonzero_byte_are_true() -> None:
    raw = cupy.asarray(np.array([[0, 2, 0], [255, 0, 0], [0, 0, 0]], np.uint8)).view(np.bool_)
    eye = to_device(np.eye(3, dtype=bool))
    for variant, tile in SMALLEST:
        result = tiledmm.matmul(raw, eye, variant=variant, tile=tile)
        np.testing.assert_array_equal(result.view(np.uint8).get(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
        both = tiledmm.matmul(raw, raw, variant=variant, tile=tile)
        np.testing.assert_array_equal(both.view(np.uint8).get(), [[1, 0, 0], [0, 1, 0], [0, 0, 0]])
