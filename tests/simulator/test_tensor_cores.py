"""Tests of tensor cores on the simulator: each instruction, and the rounding of sums."""

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
from tiledmm.errors import ConfigError
from tiledmm.kernels.variants import kernel_spec

pytest.importorskip("cuda.core", reason="needs the extra 'inspect' (cuda-core and NVRTC)")

from tiledmm.compile.inspection import compile_for
from tiledmm.kernels.variants import find_variant

TEMPLATE = Path(__file__).parents[1] / "tensor_cores.cu.j2"
TYPES = ("float16", "bfloat16", "float32", "float64", "complex128", "int8", "uint8")


def slow(*values: str | int) -> list[Any]:
    """Return parameters marked as slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    tiledmm.register(TEMPLATE, name="fragments", like="coalesced")
    yield
    tiledmm.unregister("fragments")


@pytest.mark.parametrize(
    ("dtype", "target"),
    [
        pytest.param(dtype, target, marks=slow_unless(dtype not in ("uint8", "complex128") and target != "sm_80"))
        for dtype in ("float16", "int8", "uint8", "float64", "complex128")
        for target in ("sm_80", "sm_75" if dtype in ("float16", "int8", "uint8") else "sm_90")
    ]
    + [("bfloat16", "sm_80"), ("float32", "sm_80")],
)
def test_every_instruction_is_one_of_every_target(dtype: str, target: str) -> None:
    spec = kernel_spec("fragments", dtype=dtype)
    assert compile_for(render(spec), spec.symbol, target).registers > 0


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        pytest.param(
            dtype, layout, marks=slow_unless((i + j) % 2 == 0 and dtype in ("float16", "float32", "float64", "int8"))
        )
        for i, dtype in enumerate(TYPES)
        for j, layout in enumerate(("NN", "TT"))
    ],
)
def test_integers_are_exact(dtype: str, layout: str) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in ((19, 37, 70), (3, 5, 1), (16, 32, 0)):
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


@pytest.mark.parametrize("layout", ["TT", "GG", *slow("NN", "NT", "TN")])
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
    a, b = (random_matrix(rng, shape, "float32") for shape in ((40, 300), (300, 50)))
    error = componentwise_error(simulator.matmul(a, b, variant="tensor_core", precision="tf32"), a, b)
    assert 2.0**-16 < error < 2 * 2.0**-11, "each off by 2^-11 at most, one way as often as the other"


@pytest.mark.parametrize("dtype", ["tf32", *slow("float16", "bfloat16", "float64", "complex128")])
def test_errors_are_those_of_the_sums_type(dtype: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (random_matrix(rng, shape, dtype) for shape in ((20, 300), (300, 40)))
    out = np.zeros((20, 40), sums_type(dtype))
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
        pytest.param(dtype, layout, shape, marks=slow_unless((h, i, j) in {(0, 0, 2), (3, 2, 1)}))
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
        pytest.param("float16", {"bm": 256, "bn": 128}, marks=pytest.mark.slow),
        pytest.param("float16", {"bk": 64, "unroll": 64, "stages": 2}, marks=pytest.mark.slow),
        pytest.param("float16", {"bm": 128, "bn": 128, "stages": 5}, marks=pytest.mark.slow),
        pytest.param("tf32", {"bk": 32, "unroll": 32, "stages": 3}, marks=pytest.mark.slow),
        pytest.param("int8", {"bm": 256, "bn": 128, "bk": 128, "unroll": 128, "stages": 2}, marks=pytest.mark.slow),
        pytest.param("float16", {"wm": 32, "tm": 4}, marks=pytest.mark.slow),
        pytest.param("float16", {"wn": 32, "tn": 8}, marks=pytest.mark.slow),
    ],
)
def test_configs_of_large_tiles_are_exact(dtype: str, config: dict[str, int], layout: str) -> None:
    check_exact(dtype, layout, (config.get("bm", 128) + 8, 136, 200), tile=256, config=config)


@pytest.mark.parametrize(
    ("dtype", "tile", "layout", "shape"),
    [
        pytest.param(dtype, tile, layout, shape, marks=slow_unless((g + h + i + j) % 4 == 0 and g == h and i < 2))
        for g, dtype in enumerate(("float16", "int8", "uint8"))
        for h, tile in enumerate((64, 128))
        for i, layout in enumerate(("NN", "NT", "TN", "TT"))
        for j, shape in enumerate(((128, 128, 256), (136, 72, 104)))
    ],
)
def test_without_cp_async(dtype: str, tile: int, layout: str, shape: tuple[int, int, int]) -> None:
    check_exact(dtype, layout, shape, tile=tile, target="sm_75")


@pytest.mark.parametrize("out_dtype", ["float32", *slow("float64", "complex64", "complex128")])
def test_results_of_every_width_are_exact(out_dtype: str) -> None:
    for out in (
        np.zeros((136, 72), out_dtype),
        np.zeros((264, 8), out_dtype).T,
        np.zeros((8, 267), out_dtype)[:, 1:265],
    ):
        check_exact("float16", "NN", (*out.shape, 40), tile=256, out=out)


@pytest.mark.parametrize(
    ("tile", "dtype", "config", "named"),
    [
        (64, "float16", {"bm": 192, "wm": 48, "tm": 6}, "wm and wn"),
        (64, "float16", {"bk": 16}, "bk must be at least 32 .64 bytes"),
        (64, "float16", {"bn": 256, "wm": 64, "tm": 8, "wn": 64, "tn": 16}, r"8 \* bk, 8 \* bm and 8 \* bn"),
        (16, "float16", {"bm": 48}, "bm must be 16, 32 or a multiple of 64"),
        (16, "float16", {"bm": 80}, "bm must be 16, 32 or a multiple of 64"),
        (32, "float16", {"bn": 96}, "bn a multiple of 64"),
        (16, "float16", {"wm": 32, "tm": 4}, "bm and bn.* wm and wn"),
        (16, "float16", {"bk": 32, "unroll": 32}, r"bm \* bk and bn \* bk .* 8 times"),
        (32, "float64", {"bn": 192}, "bm is less than 64"),
        (64, "tf32", {"wm": 16, "tm": 2}, "wm and wn.* 32"),
    ],
)
def test_tiles_that_do_not_work_are_refused(tile: int, dtype: str, config: dict[str, int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        kernel_spec("tensor_core", tile=tile, dtype=dtype, config=config)


def test_decomposed_operands_have_no_tile_of_few_rows() -> None:
    with pytest.raises(ConfigError, match="bm must be a multiple of 64, and bn"):
        kernel_spec("split_tensor_core", tile=64, dtype="float32", config={"bm": 32})


# Fewer rows, or columns, than a tile; several tiles, the last of which ends outside; rows of every alignment: of 16
# bytes, of words and of elements.
SKINNY_SHAPES = ((28, 70, 135), (33, 129, 67), (1, 64, 8), (16, 136, 256), (40, 72, 200), (100, 5, 130), (7, 30, 0))


@pytest.mark.parametrize(
    ("dtype", "tile", "layout", "shape"),
    [
        pytest.param(dtype, tile, layout, shape, marks=slow_unless((g + h + i + j) % 16 == (g + h) % 2 == 0))
        for g, dtype in enumerate(("float16", "bfloat16", "tf32", "int8", "uint8", "float64", "complex128"))
        for h, tile in enumerate((16, 32))
        for i, layout in enumerate(("NN", "NT", "TN", "TT", "GN", "NG"))
        for j, shape in enumerate(SKINNY_SHAPES)
    ],
)
def test_skinny_tiles_are_exact(dtype: str, tile: int, layout: str, shape: tuple[int, int, int]) -> None:
    check_exact(dtype, layout, shape, tile=tile)


@pytest.mark.parametrize(
    ("layout", "shape"), [("TT", (20, 9, 75)), pytest.param("TN", (20, 9, 0), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("tile", [16, *slow(32)])
@pytest.mark.parametrize("dtype", ["float16", *slow("float64", "tf32", "int8", "complex128")])
def test_skinny_tiles_read_nothing_unset(dtype: str, tile: int, layout: str, shape: tuple[int, int, int]) -> None:
    check_exact(dtype, layout, shape, tile=tile, checks="full")


@pytest.mark.parametrize("layout", ["NN", *slow("NT", "TN", "TT")])
@pytest.mark.parametrize("dtype", ["float16", *slow("float64", "int8", "complex128")])
@pytest.mark.parametrize(("tile", "split"), [(16, 3), pytest.param(32, 5, marks=pytest.mark.slow)])
def test_skinny_tiles_of_partitions_and_batches(dtype: str, layout: str, tile: int, split: int) -> None:
    check_exact(dtype, layout, (28, 70, 400), tile=tile, config={"split_k": split})
    check_exact(dtype, layout, (19, 67, 67), batch=2, tile=tile)
    check_exact(dtype, layout, (70, 18, 259), batch=2, tile=tile, config={"split_k": split})


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        pytest.param(dtype, layout, marks=slow_unless((i, j) == (0, 2)))
        for i, dtype in enumerate(("float16", "float64", "bfloat16", "tf32", "int8", "complex128"))
        for j, layout in enumerate(("NN", "NT", "TN", "TT"))
    ],
)
def test_skinny_tiles_of_unaligned_operands(dtype: str, layout: str) -> None:
    for offset in (1, 2, 4):
        for tile in (16, 32):
            check_exact(dtype, layout, (24, 72, 144), offset=offset, tile=tile)


@pytest.mark.parametrize("tile", [16, *slow(32)])
@pytest.mark.parametrize("dtype", ["float16", *slow("int8", "uint8")])
def test_skinny_tiles_without_cp_async(dtype: str, tile: int) -> None:
    for layout in ("NT", "TN"):
        for shape in ((16, 64, 256), (40, 72, 104), (29, 65, 33)):
            check_exact(dtype, layout, shape, tile=tile, target="sm_75")
    check_exact(dtype, "NT", (24, 72, 144), offset=1, tile=tile, target="sm_75")


@pytest.mark.parametrize("layout", ["NN", *slow("NT", "TN", "TT")])
@pytest.mark.parametrize(
    ("dtype", "config"),
    [
        pytest.param("float16", {"stages": 2}, marks=pytest.mark.slow),
        pytest.param("float16", {"stages": 8}, marks=pytest.mark.slow),
        pytest.param("float16", {"bn": 128, "wn": 32, "tn": 8}, marks=pytest.mark.slow),
        pytest.param("float16", {"bm": 32, "wn": 32, "tn": 8, "bk": 32, "unroll": 32}, marks=pytest.mark.slow),
        ("float16", {"bm": 32, "wm": 32, "tm": 4}),
        pytest.param("tf32", {"bn": 128, "wn": 32, "tn": 8}, marks=pytest.mark.slow),
        ("float64", {"bn": 128, "wn": 32, "tn": 8, "stages": 3}),
        pytest.param("float64", {"bm": 32, "wm": 32, "tm": 4}, marks=pytest.mark.slow),
    ],
)
def test_configs_of_skinny_tiles_are_exact(dtype: str, config: dict[str, int], layout: str) -> None:
    check_exact(dtype, layout, (27, 150, 203), tile=16, config=config)
    check_exact(dtype, layout, (32, 128, 192), tile=16, config=config)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        pytest.param(*types, marks=slow_unless(i in (0, 2)))
        for i, types in enumerate(
            [("float16", "int8"), ("float64", "float32"), ("complex128", "float64"), ("float64", "int32")]
        )
    ],
)
def test_skinny_tiles_convert_as_they_store(wide: str, narrow: str) -> None:
    rng = np.random.default_rng(8)
    a, b = (small_integers(rng, s, np_dtype(d)) for s, d in (((21, 75), wide), ((75, 70), narrow)))
    for left, right in ((a, b), (b.T, a.T)):
        found = simulator.matmul(left, right, variant="tensor_core", tile=16)
        np.testing.assert_array_equal(found, (left.astype(wide) @ right.astype(wide)).astype(wide))


def check_exact(
    dtype: str, layout: str, shape: tuple[int, int, int], batch: int = 0, offset: int = 0, **arguments: Any
) -> None:
    """Check a product of small integers with exact sums; operands begin ``offset`` elements past 16-byte alignment."""
    rng, (m, n, k) = np.random.default_rng(7), shape
    of_batch = (batch,) if batch else ()
    pair = [small_integers(rng, (*of_batch, *each), np_dtype(dtype), bound=1) for each in ((m, k), (k, n))]
    a, b = (
        shifted(lay_out(np, each, tight(letter, batch=len(of_batch)))[0], offset)
        for each, letter in zip(pair, layout, strict=True)
    )
    result = simulator.matmul(a, b, variant="tensor_core", **asked(dtype), **arguments)
    wide = {"f": "f8", "V": "f8", "c": "c16"}.get(a.dtype.kind)
    expected = (a.astype(wide) @ b.astype(wide)).astype(result.dtype) if wide else a @ b
    np.testing.assert_array_equal(result, expected)


def shifted(array: np.ndarray, offset: int) -> np.ndarray:
    """Move an array by ``offset`` elements relative to 16-byte alignment."""
    if not offset:
        return array
    memory = np.zeros(array.size + offset + 16, array.dtype)
    at = (-memory.ctypes.data % 16) // array.itemsize + offset
    flat = memory[at : at + array.size]
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    view = flat.reshape([array.shape[axis] for axis in order]).transpose(np.argsort(order))
    view[...] = array
    assert view.strides == array.strides
    return view


@pytest.mark.parametrize(
    ("dtype", "tile"),
    [
        pytest.param(dtype, tile, marks=slow_unless((i + j) % 4 == i % 2 == 0 and tile < 256))
        for i, dtype in enumerate(["float16", "tf32", "float64", "complex128"])
        for j, tile in enumerate(find_variant("tensor_core").tiles)
    ],
)
def test_no_bank_conflicts(dtype: str, tile: int) -> None:
    rng, config = np.random.default_rng(2), kernel_spec("tensor_core", tile=tile, dtype=dtype).config
    for layout in ("NT", "TN"):  # each operand's loads depend on its own layout alone
        a, b = (random_matrix(rng, shape, dtype) for shape in ((config.bm, 2 * config.bk), (2 * config.bk, config.bn)))
        x, y = (np.asfortranarray(each) if letter == "T" else each for each, letter in zip((a, b), layout, strict=True))
        _, report = simulator.run(x, y, variant="tensor_core", tile=tile, **asked(dtype))
        report.check()
        loads = report.source.shared_load
        assert loads.requests > 0
        # Real and imaginary parts are loaded one by one, each from every other 8 bytes (``load_element``).
        assert loads.wavefronts == loads.ideal_wavefronts * (2 if dtype == "complex128" else 1)
        assert report.source.copy_store.requests > 0
        assert report.source.copy_store.bank_conflicts == 0
        if dtype in ("float16", "tf32") and tile >= 64:  # whose epilogue goes through shared memory
            assert report.source.shared_store.requests > 0
            assert report.source.shared_store.bank_conflicts == 0


@pytest.mark.parametrize(
    ("dtype", "tile"),
    [
        pytest.param(dtype, tile, marks=slow_unless((i, j) in {(0, 0), (2, 0)}))
        for i, dtype in enumerate(("float16", "tf32", "float64"))
        for j, tile in enumerate((16, 32))
    ],
)
def test_skinny_tiles_have_no_bank_conflicts_where_rows_are_not_aligned(dtype: str, tile: int) -> None:
    rng, asynchronous, stored = np.random.default_rng(2), 0, 0
    for layout in ("NT", "TN"):
        for size in (65, 66):  # float16: elements, which go through registers, and words
            a, b = (random_matrix(rng, shape, dtype) for shape in ((size - 48, size), (size, size)))
            x, y = (np.asfortranarray(e) if letter == "T" else e for e, letter in zip((a, b), layout, strict=True))
            _, report = simulator.run(x, y, variant="tensor_core", tile=tile, **asked(dtype))
            report.check()
            counts = report.source
            assert counts.shared_load.bank_conflicts == counts.shared_store.bank_conflicts == 0
            # A lane copies both elements of a chunk of float64, one after the other.
            copies = counts.copy_store
            assert copies.wavefronts == copies.ideal_wavefronts * (2 if dtype == "float64" and size == 65 else 1)
            asynchronous += counts.copy_store.requests
            stored += counts.shared_store.requests
    assert asynchronous > 0 and (stored > 0) == (dtype == "float16")
