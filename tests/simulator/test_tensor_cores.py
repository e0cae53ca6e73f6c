"""Tensor cores on the simulator: each instruction, and how sums are rounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledmm
from tests.conftest import slow_unless
from tests.strategies import (
    asked,
    awkward_floats,
    beside_zeros,
    bound_of_sums,
    componentwise_error,
    lay_out,
    multiplied,
    np_dtype,
    random_matrix,
    small_integers,
    sums_type,
    tight,
)
from tiledmm import simulator
from tiledmm.codegen.rendering import render
from tiledmm.codegen.specialization import specialize
from tiledmm.errors import ConfigError

pytest.importorskip("cuda.core", reason="needs the extra 'inspect' (cuda-core and NVRTC)")

from tiledmm.compile.inspection import compile_for

TEMPLATE = Path(__file__).parents[1] / "tensor_cores.cu.j2"
TYPES = ("float16", "bfloat16", "float32", "float64", "complex128", "int8", "uint8")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    tiledmm.register(TEMPLATE, name="fragments", like="coalesced")
    yield
    tiledmm.unregister("fragments")


@pytest.mark.parametrize("dtype", TYPES)
def test_every_instruction_is_one_of_every_target(dtype: str) -> None:
    for target in ("sm_80", "sm_90", "sm_120") + ("sm_75",) * (dtype in ("float16", "int8", "uint8")):
        spec = specialize("fragments", dtype=dtype)
        assert compile_for(render(spec), spec.symbol, target).registers > 0


@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize("dtype", TYPES)
def test_integers_are_exact(dtype: str, layout: str) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in ((37, 50, 70), (3, 5, 1), (16, 32, 0)):
        a, b = (small_integers(rng, shape, np_dtype(dtype), bound=4) for shape in ((m, k), (k, n)))
        x, y = (np.asfortranarray(each) if layout == "TT" else each for each in (a, b))
        exact = a.dtype.kind in "iuc"
        expected = (a @ b) if exact else (a.astype("f8") @ b.astype("f8")).astype(a.dtype)
        np.testing.assert_array_equal(simulator.matmul(x, y, variant="fragments"), expected)


def test_sums_are_cut_off_25_bits_below_the_largest() -> None:
    # One product of 1 and 15 of 2^-24, 2^-25 or 2^-26: of the last, nothing is left.
    for exponent, left in ((-24, 15 * 2.0**-24), (-25, 15 * 2.0**-25), (-26, 0.0)):
        a = np.zeros((1, 16), "f2")
        a[0, 0], a[0, 1:] = 1, 2.0 ** (exponent // 2)
        b = np.ones((16, 1), "f2")
        b[1:] = 2.0 ** (exponent - exponent // 2)
        out = np.zeros((1, 1), "f4")
        simulator.matmul(a, b, out=out, variant="tensor_core")
        # Rounded toward zero, to multiples of 2^-23.
        assert out[0, 0] == 1 + np.floor(left * 2**23) / 2**23


def test_products_are_lined_up_by_the_exponents_of_their_factors() -> None:
    # As if 1.5 * 1.5 were below 2: what is cut off lies 25 bits below 1.
    a, b = np.full((1, 16), 2.0**-12, "f2"), np.full((16, 1), 2.0**-13, "f2")
    a[0, 0] = b[0, 0] = 1.5
    out = np.zeros((1, 1), "f4")
    simulator.matmul(a, b, out=out, variant="tensor_core")
    assert out[0, 0] == 2.25 + 2.0**-22  # of 15 times 2^-25, rounded toward zero


def test_tf32_ignores_13_bits() -> None:
    a, b = np.full((1, 1), 1 + 2.0**-10 + 2.0**-11, "f4"), np.ones((1, 1), "f4")
    assert simulator.matmul(a, b, variant="fragments")[0, 0] == 1 + 2.0**-10


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG"])
def test_operands_are_rounded_to_tf32(layout: str) -> None:
    # To the nearest, ties away from zero, past the largest to infinity; subnormals too. NaNs stay NaNs.
    x = awkward_floats(np.random.default_rng(3), 150)
    one = np.ones((1, 3), "f4")
    for a, b in ((x, one), (one.T, x.T)):
        pair = zip(beside_zeros(a, b), layout, strict=True)
        x1, x2 = (lay_out(np, each, tight(letter))[0] for each, letter in pair)
        with np.errstate(invalid="ignore"):
            expected = multiplied(a, "tf32") * multiplied(b, "tf32")
        found = simulator.matmul(x1, x2, variant="tensor_core", tile=64, precision="tf32")
        np.testing.assert_array_equal(found, expected)


def test_tf32_is_as_exact_as_its_operands() -> None:
    rng = np.random.default_rng(4)
    a, b = (random_matrix(rng, shape, "float32") for shape in ((70, 300), (300, 90)))
    error = componentwise_error(simulator.matmul(a, b, variant="tensor_core", precision="tf32"), a, b)
    assert 2.0**-16 < error < 2 * 2.0**-11, "each off by 2^-11 at most, one way as often as the other"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32", "float64", "complex128"])
def test_errors_are_those_of_the_sums_type(dtype: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (random_matrix(rng, shape, dtype) for shape in ((70, 300), (300, 90)))
    out = np.zeros((70, 90), sums_type(dtype))
    simulator.matmul(a, b, out=out, variant="tensor_core", **asked(dtype))
    assert 0 < componentwise_error(out, multiplied(a, dtype), multiplied(b, dtype)) < bound_of_sums(dtype, 300)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_infinities_and_nans(dtype: str) -> None:
    a = np.ones((3, 16), dtype)
    a[0, 3], a[1, 3], a[1, 4] = np.inf, np.inf, -np.inf
    b = np.ones((16, 2), dtype)
    b[5, 1] = np.nan
    expected = [[np.inf, np.nan], [np.nan, np.nan], [16, np.nan]]
    found = simulator.matmul(a, b, variant="tensor_core", tile=64, precision="tf32")
    np.testing.assert_array_equal(found, np.array(expected, dtype))


# Whole tiles; rows that are aligned but end within a tile; neither.
SHAPES = ((128, 256, 128), (140, 264, 136), (131, 259, 37))


@pytest.mark.parametrize(
    ("dtype", "layout", "shape"),
    [
        pytest.param(dtype, layout, shape, marks=slow_unless((h + i + j) % 3 == 0))
        for h, dtype in enumerate(("float16", "bfloat16", "tf32", "int8", "uint8"))
        for i, layout in enumerate(("NN", "NT", "TN", "TT"))
        for j, shape in enumerate(SHAPES)
    ],
)
def test_large_tiles_are_exact(dtype: str, layout: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    check_exact(dtype, layout, (m, n, k), tile=256)


@pytest.mark.parametrize("layout", ["NN", pytest.param("TT", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("dtype", "config"),
    [
        ("float16", {"bm": 256, "bn": 128}),
        ("float16", {"bk": 64, "unroll": 64, "stages": 2}),
        ("float16", {"bm": 128, "bn": 128, "stages": 5}),
        ("tf32", {"bk": 32, "unroll": 32, "stages": 3}),
        ("int8", {"bm": 256, "bn": 128, "bk": 128, "unroll": 128, "stages": 2}),
        ("float16", {"wm": 32, "tm": 4}),
        ("float16", {"wn": 32, "tn": 8}),
    ],
)
def test_configs_of_large_tiles_are_exact(dtype: str, config: dict[str, int], layout: str) -> None:
    check_exact(dtype, layout, (264, 264, 200), tile=256, config=config)


@pytest.mark.parametrize(
    ("dtype", "tile", "layout", "shape"),
    [
        pytest.param(dtype, tile, layout, shape, marks=slow_unless((g + h + i + j) % 2 == 0))
        for g, dtype in enumerate(("float16", "int8", "uint8"))
        for h, tile in enumerate((64, 128))
        for i, layout in enumerate(("NN", "NT", "TN", "TT"))
        for j, shape in enumerate(((128, 128, 256), (136, 72, 104)))
    ],
)
def test_without_cp_async(dtype: str, tile: int, layout: str, shape: tuple[int, int, int]) -> None:
    check_exact(dtype, layout, shape, tile=tile, target="sm_75")


@pytest.mark.parametrize("out_dtype", ["float32", "float64", "complex64", "complex128"])
def test_results_of_every_width_are_exact(out_dtype: str) -> None:
    for out in (
        np.zeros((136, 264), out_dtype),
        np.zeros((264, 136), out_dtype).T,
        np.zeros((136, 267), out_dtype)[:, 1:265],
    ):
        check_exact("float16", "NN", (136, 264, 72), tile=256, out=out)


def test_a_warps_tile_has_a_power_of_two() -> None:
    with pytest.raises(ConfigError, match="wm and wn are powers of 2"):
        specialize("tensor_core", tile=64, dtype="float16", config={"bm": 192, "wm": 48, "tm": 6})
    with pytest.raises(ConfigError, match="bk is 64 or 128 bytes"):
        specialize("tensor_core", tile=64, dtype="float16", config={"bk": 16})
    with pytest.raises(ConfigError, match="threads copy 8 rows"):
        specialize("tensor_core", tile=64, dtype="float16", config={"bn": 256, "wm": 64, "tm": 8, "wn": 64, "tn": 16})


def check_exact(dtype: str, layout: str, shape: tuple[int, int, int], **arguments: Any) -> None:
    """Multiplies small integers, whose sums are exact."""
    rng, (m, n, k) = np.random.default_rng(7), shape
    pair = (small_integers(rng, each, np_dtype(dtype), bound=1) for each in ((m, k), (k, n)))
    a, b = (np.asfortranarray(each) if letter == "T" else each for each, letter in zip(pair, layout, strict=True))
    result = simulator.matmul(a, b, variant="tensor_core", **asked(dtype), **arguments)
    expected = a @ b if a.dtype.kind in "iu" else (a.astype("f8") @ b.astype("f8")).astype(result.dtype)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("tile", [64, 128, 256])
@pytest.mark.parametrize("dtype", ["float16", "tf32", "float64", "complex128"])
def test_no_bank_conflicts(dtype: str, tile: int) -> None:
    rng = np.random.default_rng(2)
    for layout in ("NN", "NT", "TN", "TT"):
        a, b = (random_matrix(rng, (128, 128), dtype) for _ in range(2))
        x, y = (np.asfortranarray(each) if letter == "T" else each for each, letter in zip((a, b), layout, strict=True))
        _, report = simulator.run(x, y, variant="tensor_core", tile=tile, **asked(dtype))
        report.check()
        assert report.source.shared_load.requests > 0
        assert report.source.shared_load.bank_conflicts == 0
        assert report.source.copy_store.requests > 0
        assert report.source.copy_store.bank_conflicts == 0
        if dtype in ("float16", "tf32"):  # whose epilogue goes through shared memory
            assert report.source.shared_store.requests > 0
            assert report.source.shared_store.bank_conflicts == 0
