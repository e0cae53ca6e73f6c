"""Tensor cores on a device: exact where sums are, within the bound where not, and bit for bit as the simulator."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tiledmm
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import (
    INEXACT,
    bound_of_sums,
    componentwise_error,
    np_dtype,
    plain,
    random_matrix,
    small_integers,
    sums_type,
)
from tiledmm import simulator
from tiledmm.ladder import find_variant, kernel_variants

KERNELS = [(row.name, tile, dtype) for row in kernel_variants(None) for tile in row.tiles for dtype, _ in row.types]
OF_FLOATS = [kernel for kernel in KERNELS if kernel[2] in INEXACT]  # integers wrap, and are exact
SIMULATED = [kernel for kernel in OF_FLOATS if find_variant(kernel[0]).simulated]


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_every_layout_and_edge(variant: str, tile: int, dtype: str, layout: str) -> None:
    rng = np.random.default_rng(90)
    for m, n, k in ((tile, tile, 64), (tile + 1, tile - 1, 65), (2, 3 * tile + 5, 7), (tile + 8, 9, 33)):
        left, right = (small_integers(rng, shape, np_dtype(dtype), bound=2) for shape in ((m, k), (k, n)))
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        what = f"{variant} {tile} {dtype} {layout} {m}x{n}x{k}"
        check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, variant=variant, tile=tile)


@pytest.mark.parametrize("numbers", [{}, {"split_k": 3}, {"pack_a": 1, "pack_b": 1}, {"group": 1}])
@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_batches_and_passes(variant: str, tile: int, dtype: str, numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(91)
    left, right = (small_integers(rng, shape, np_dtype(dtype), bound=1) for shape in ((3, 150, 333), (333, 140)))
    x1, x2 = to_device(left), to_device(right)
    check_into(exact_product(left, right), plain(3), x1, x2, variant, variant=variant, tile=tile, config=numbers)


@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_resources(variant: str, tile: int, dtype: str) -> None:
    for layout in ("NN", "NT", "TN", "TT", "GG"):
        kernel = tiledmm.kernel(variant, tile=tile, dtype=dtype, layout=layout)
        assert kernel.shared_bytes == kernel.specialization.shared_bytes
        assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"


@pytest.mark.parametrize(("variant", "tile", "dtype"), OF_FLOATS)
def test_random_sums(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(92)
    left, right = (random_matrix(rng, shape, dtype) for shape in ((200, 1000), (1000, 170)))
    out = to_device(np.full((200, 170), np.nan, sums_type(dtype)))
    tiledmm.matmul(to_device(left), to_device(right), out=out, variant=variant, tile=tile)
    assert componentwise_error(to_host(out), left, right) < bound_of_sums(dtype, 1000)


@pytest.mark.parametrize(("variant", "tile", "dtype"), SIMULATED)
def test_the_simulator_has_the_same_bits(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(93)
    left, right = (random_matrix(rng, shape, dtype) for shape in ((40, 100), (100, 30)))
    out = to_device(np.full((40, 30), np.nan, sums_type(dtype)))
    tiledmm.matmul(to_device(left), to_device(right), out=out, variant=variant, tile=tile)
    expected = np.zeros((40, 30), sums_type(dtype))
    simulator.matmul(left, right, out=expected, variant=variant, tile=tile)
    np.testing.assert_array_equal(to_host(out), expected)
