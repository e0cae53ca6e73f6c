"""Tests of every pair of operand types and every conversion of operands and results, to the last bit."""

from __future__ import annotations

import itertools
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import SMALLEST, assert_bits, check_into, exact_product, to_device, to_host
from tests.strategies import np_dtype, plain, small_integers
from tiledmm.elements import ELEMENTS
from tiledmm.errors import UnsupportedTypeError
from tiledmm.problem.casting import can_cast

FAST = {"variant": "double_buffered", "tile": 8}


def common_type(left: str, right: str) -> Any:
    """Return NumPy's common type, or float32 for pairs without one."""
    try:
        return np.promote_types(np_dtype(left), np_dtype(right))
    except TypeError:
        return np.dtype("float32")


@pytest.mark.parametrize("left", ELEMENTS)
def test_every_pair_of_types(left: str) -> None:
    rng = np.random.default_rng(14)
    x1 = small_integers(rng, (11, 9), np_dtype(left))
    for right in ELEMENTS:
        x2 = small_integers(rng, (9, 10), np_dtype(right))
        compute = common_type(left, right)
        expected = exact_product(x1, x2, compute)
        try:
            np.promote_types(x1.dtype, x2.dtype)
            keywords: dict[str, Any] = {}
        except TypeError:
            keywords = {"dtype": compute}
        result = tiledmm.matmul(to_device(x1), to_device(x2), **keywords, **FAST)
        assert result.dtype == compute, right
        assert_bits(result, expected, f"{left} @ {right}")


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_every_type_of_out(dtype: str) -> None:
    rng = np.random.default_rng(15)
    x1, x2 = small_integers(rng, (11, 9), np_dtype(dtype)), small_integers(rng, (9, 10), np_dtype(dtype))
    product = exact_product(x1, x2)
    left, right = to_device(x1), to_device(x2)
    for target in ELEMENTS:
        out_type = np_dtype(target)
        if not can_cast(np_dtype(dtype), out_type, "same_kind"):
            out = to_device(np.zeros((11, 10), out_type))
            with pytest.raises(UnsupportedTypeError):
                tiledmm.matmul(left, right, out=out, **FAST)
            assert not to_host(out).view(np.uint8).any(), "a rejected call wrote to out"
            continue
        check_into(product.astype(out_type), plain(2), left, right, f"{dtype} into {target}", **FAST)


UNSAFE_CALLS = [
    ({"dtype": "int32"}, "float32", None),
    ({"dtype": "int8"}, "float64", None),
    ({"dtype": "float32"}, "complex64", None),
    ({"dtype": "bool"}, "int16", None),
    ({"dtype": "uint8"}, "int8", None),
    ({}, "float32", "int32"),
    ({}, "float64", "uint8"),
    ({}, "complex128", "float32"),
    ({}, "int32", "bool"),
    ({"dtype": "int16"}, "float32", "bool"),
]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(("keywords", "dtype", "out_type"), UNSAFE_CALLS)
def test_unsafe_conversions(keywords: dict[str, str], dtype: str, out_type: str | None) -> None:
    rng = np.random.default_rng(16)
    x1, x2 = (np.abs(small_integers(rng, shape, dtype)).astype(dtype) for shape in ((5, 3), (3, 4)))
    expected = np.matmul(x1, x2, casting="unsafe", **keywords)
    left, right = to_device(x1), to_device(x2)
    with pytest.raises(TypeError):
        tiledmm.matmul(left, right, out=None if out_type is None else cupy.zeros((5, 4), out_type), **keywords)
    result = tiledmm.matmul(left, right, casting="unsafe", **keywords, **FAST)
    assert_bits(result, expected)
    if out_type is not None:
        out = cupy.full((2, 5, 4), 1, out_type)
        assert tiledmm.matmul(left, right, out=out, casting="unsafe", **keywords, **FAST) is out
        assert_bits(out, np.broadcast_to(expected, (2, 5, 4)).astype(out_type))


def test_out_with_more_batches_and_axes_under_unsafe_casting() -> None:
    rng = np.random.default_rng(17)
    x1, x2 = small_integers(rng, (3, 2), "f4"), small_integers(rng, (2, 4), "f4")
    out = cupy.full((3, 4, 5), 77, np.int32)
    tiledmm.matmul(to_device(x1), to_device(x2), out=out, axes=[(0, 1), (0, 1), (0, 1)], casting="unsafe")
    np.testing.assert_array_equal(out.get(), np.broadcast_to((x1 @ x2)[:, :, None], (3, 4, 5)))


def test_dtype_widens_before_the_product() -> None:
    # CuPy issue 6566: cupy.matmul wraps in int8 and converts then.
    x = to_device(np.full((2, 2), 100, np.int8))
    assert_bits(tiledmm.matmul(x, x, dtype=np.int16), np.full((2, 2), 20_000, np.int16))


def test_integers_wrap_before_they_widen() -> None:
    x = to_device(np.full((2, 2), 100, np.int8))
    out = cupy.zeros((2, 2), np.int64)
    tiledmm.matmul(x, x, out=out)
    assert_bits(out, np.full((2, 2), np.array(20_000).astype(np.int8), np.int64))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bit_products_are_rounded_once(dtype: str) -> None:
    # 1 + 4096 * 2^-13: each step alone would vanish in 16 bits.
    x1 = np.full((1, 4097), 2.0**-13).astype(np_dtype(dtype))
    x1[0, 0] = 1
    left, right = to_device(x1), to_device(np.ones((4097, 1), np_dtype(dtype)))
    assert_bits(tiledmm.matmul(left, right), [[1.5]])
    # A wider out gets the whole float32 sum.
    x2 = np.ones((3, 1), np_dtype(dtype))
    parts = to_device(np.array([[2048, 1, 0.125]]).astype(np_dtype(dtype)))
    out = cupy.zeros((1, 1), np.float32)
    tiledmm.matmul(parts, to_device(x2), out=out)
    assert_bits(out, [[2049.125]])


def test_float16_sums_may_leave_float16_on_the_way() -> None:
    x1 = np.array([[60000, 60000, -60000]], np.float16)
    result = tiledmm.matmul(to_device(x1), to_device(np.ones((3, 1), np.float16)))
    assert_bits(result, [[60000]])


def patterns(dtype: str, count: int) -> np.ndarray:
    """Return random bits of a type: every exponent, subnormals, infinities, NaNs; integers of every size."""
    rng = np.random.default_rng(18)
    kind = np_dtype(dtype)
    bits = rng.integers(0, 256, (count, kind.itemsize), np.uint8)
    values = bits.reshape(-1).view(kind).copy()
    if kind.kind in "iu":
        shift = rng.integers(0, 8 * kind.itemsize - 1, count).astype(kind)
        values = values >> shift
    if kind == np.float64:  # most of its exponents are beyond the others' reach
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.concatenate([values, patterns("float32", count).astype(kind) * (1 + 2.0**-30)])
    if dtype == "float32":
        ties = rng.integers(0, 2**16, count).astype(np.uint32) << 16
        values = np.concatenate([values, (ties | 0x8000).view("f4"), (ties & np.uint32(0xFFFF2000)).view("f4")])
        values = np.concatenate([values, rng.integers(1, 0x800000, count).astype(np.uint32).view("f4")])
    return values


CONVERSIONS = [
    (source, target)
    for source, target in itertools.product(ELEMENTS, repeat=2)
    if np_dtype(target).kind != "c" and target != "bool" and np_dtype(source).kind not in "cb" and source != target
    and can_cast(np_dtype(source), np_dtype(target), "same_kind")
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), CONVERSIONS)
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_conversions_round_as_numpy_does(source: str, target: str) -> None:
    values = patterns(source, 4096)
    expected = values.astype(np_dtype(target))
    one = to_device(np.ones((1, 1), np_dtype(source)))
    x = to_device(values.reshape(-1, 1))
    # On the way in (converted, then multiplied by one) ...
    result = tiledmm.matmul(x, one, dtype=np_dtype(target), **FAST)
    compare_conversions(values, expected, to_host(result).ravel())
    # ... and on the way out.
    out = to_device(np.zeros((values.size, 1), np_dtype(target)))
    tiledmm.matmul(x, one, dtype=np_dtype(source), out=out, **FAST)
    compare_conversions(values, expected, to_host(out).ravel())


def compare_conversions(values: np.ndarray, expected: np.ndarray, found: np.ndarray) -> None:
    wide = np.float64 if expected.dtype.kind not in "iu" else expected.dtype
    wrong = ~((found.astype(wide) == expected.astype(wide)) | ((found != found) & (expected != expected)))
    assert not wrong.any(), list(zip(values[wrong][:8], found[wrong][:8], expected[wrong][:8], strict=True))


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_mixed_types_in_every_variant(variant: str, tile: int | None) -> None:
    rng = np.random.default_rng(19)
    for left, right, out in (
        ("int8", "float32", "float32"),
        ("float32", "float64", "float32"),
        ("bfloat16", "float32", "bfloat16"),
        ("float16", "complex64", "complex128"),
        ("bool", "int64", "int64"),
        ("uint8", "int8", "int32"),
    ):
        x1, x2 = small_integers(rng, (35, 19), np_dtype(left)), small_integers(rng, (19, 37), np_dtype(right))
        expected = exact_product(x1, x2).astype(np_dtype(out))
        if out == "bfloat16":
            x1 = np.clip(x1.astype("f4"), -1, 1).astype(x1.dtype)
            expected = exact_product(x1, x2).astype(np_dtype(out))
        what = f"{variant} {left} @ {right} -> {out}"
        check_into(expected, plain(2), to_device(x1), to_device(x2), what, variant=variant, tile=tile)
