"""Tests of integers on tensor cores, by pairs of bytes: every result is exact modulo the type's range."""

from __future__ import annotations

import itertools

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import Layout, any_bits, plain
from tiledmm.compile.compilation import compiled
from tiledmm.elements import ELEMENTS
from tiledmm.kernels.operands.bytes import decompose_bytes_spec
from tiledmm.kernels.variants import find_variant, kernel_spec

VARIANT = find_variant("split_integer")
CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
TYPES = [name for name, _ in VARIANT.types]

pytestmark = pytest.mark.skipif(not VARIANT.runs_on(CAPABILITY, ELEMENTS["int32"]), reason="needs Hopper")


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
@pytest.mark.parametrize("tile", VARIANT.tiles)
@pytest.mark.parametrize("dtype", ["int16", "int32", "uint64"])
def test_every_layout_and_edge(dtype: str, tile: int, layout: str) -> None:
    rng = np.random.default_rng(130)
    for m, n, k in ((tile, tile, 128), (tile + 1, tile - 1, 129), (2, 2 * tile + 5, 333), (261, 9, 127), (5, 6, 1)):
        left, right = any_bits(rng, (m, k), dtype), any_bits(rng, (k, n), dtype)
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        for letter in "NTG" if n == 9 else "N":
            what = f"{dtype} {tile} {layout}, C {letter} {m}x{n}x{k}"
            out = matrix_layout(letter)
            check_into(exact_product(left, right), out, x1, x2, what, variant="split_integer", tile=tile)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_largest_sums(dtype: str) -> None:
    # Bytes of 255 everywhere, over more steps than 32 bits have room for.
    bits = np.dtype(dtype).itemsize
    for k in (8192, 8193, 20000):
        x = np.full((130, k), 255, np.uint8).repeat(bits).reshape(130, k, bits).view(dtype)[..., 0]
        for other in (x, any_bits(np.random.default_rng(131), (130, k), dtype)):
            check_into(
                exact_product(x, other.T),
                plain(2),
                to_device(x),
                to_device(other).T,
                f"{dtype} {k}",
                variant="split_integer",
            )


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("numbers", [{"split_k": 3}, {"group": 1}, {"cluster": 1, "bm": 128}, {"stages": 2}])
def test_other_numbers(dtype: str, numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(132)
    left, right = any_bits(rng, (300, 1000), dtype), any_bits(rng, (1000, 260), dtype)
    x1, x2 = to_device(left), to_device(right)
    keywords = {"variant": "split_integer", "tile": 128, "config": numbers}
    check_into(exact_product(left, right), plain(2), x1, x2, str(numbers), **keywords)


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_batches(dtype: str) -> None:
    rng = np.random.default_rng(133)
    left = any_bits(rng, (3, 1, 70, 200), dtype)
    right = any_bits(rng, (4, 200, 90), dtype)
    expected = exact_product(left, right)
    x1, x2 = to_device(left, Layout((3, 0, 1, 2), (1, 1, 1, 1), (0, 0, 0, 0))), to_device(right)
    check_into(expected, plain(4), x1, x2, "batch", variant="split_integer", tile=64)
    same = cupy.broadcast_to(to_device(right[0]), (4, 200, 90))
    found = tiledmm.matmul(x1, same, variant="split_integer", tile=64)
    np.testing.assert_array_equal(to_host(found), exact_product(left, np.broadcast_to(right[0], (4, 200, 90))))


def test_other_types_in_and_out() -> None:
    rng = np.random.default_rng(134)
    left, right = any_bits(rng, (100, 300), "int8"), any_bits(rng, (300, 50), "uint16")
    expected = exact_product(left, right, "int32").astype("float64")
    keywords = {"dtype": "int32", "variant": "split_integer", "casting": "unsafe"}
    check_into(expected, plain(2), to_device(left), to_device(right), "mixed", **keywords)
    small = any_bits(rng, (100, 300), "int16")
    wrapped = exact_product(small, small.T).astype("int64")
    keywords["dtype"] = "int16"
    check_into(wrapped, plain(2), to_device(small), to_device(small).T, "wrapped", **keywords)


@pytest.mark.parametrize("dtype", TYPES)
def test_auto_takes_it_for_large_products(dtype: str) -> None:
    a = cupy.zeros((2048, 2048), dtype)
    assert tiledmm.explain(a, a).choices[0].spec.variant is VARIANT
    rng = np.random.default_rng(135)
    left, right = any_bits(rng, (2048, 40), dtype), any_bits(rng, (40, 2048), dtype)
    found = tiledmm.matmul(to_device(left), to_device(right))
    np.testing.assert_array_equal(to_host(found), exact_product(left, right))


@pytest.mark.parametrize("dtype", TYPES)
def test_resources(dtype: str) -> None:
    for tile, layout in itertools.product(VARIANT.tiles, ("NN", "TT", "GG")):
        spec = kernel_spec("split_integer", tile=tile, dtype=dtype, layout=layout)
        for each in (spec.kernel, decompose_bytes_spec(spec, 0), decompose_bytes_spec(spec, 1)):
            kernel = compiled(each)
            assert kernel.shared_bytes == each.shared_bytes
            assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"
