"""Tests of every variant, tile, type and layout against exact arithmetic, around every edge of a tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledmm
from tests.gpu.device import KERNELS, check_into, exact_product, layout_of, matrix_layout, to_device
from tests.strategies import any_bits, np_dtype, plain, small_integers
from tiledmm.elements import ELEMENTS
from tiledmm.kernels.config import Config
from tiledmm.kernels.variants import VARIANTS

LAYOUTS = ("NN", "NT", "TN", "TT", "GG")


def shapes(config: Config) -> list[tuple[int, int, int]]:
    """Return (m, n, k) of 0 and 1, just below, at and just above a tile and a step, primes, tall and flat."""
    bm, bn, bk = config.bm, config.bn, max(config.bk, 8)
    return [
        (bm - 1, bn + 1, bk),
        (bm, bn, 2 * bk),
        (bm + 1, bn - 1, bk + 1),
        (2 * bm + 1, 2 * bn - 1, 3 * bk - 1),
        (37, 41, 43),
        (211, 2, 3),
        (2, 223, 5),
        (3, 5, 0),
        (1, 1, 1),
        (1, bn + 3, bk - 1),
        (bm + 3, 1, bk + 1),
        (5, 7, 1),
        (1, 1, 5 * bk + 1),
        (0, 5, 3),
        (5, 0, 3),
    ]


def operand(rng: np.random.Generator, shape: tuple[int, int], dtype: np.dtype[Any]) -> np.ndarray:
    """Return integers over their whole range, or floats so small that sums of up to 200 products are exact."""
    if dtype.kind in "iub":
        return any_bits(rng, shape, dtype)
    return small_integers(rng, shape, dtype, 1 if dtype.itemsize == 2 else 3)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize(("variant", "tile"), KERNELS)
def test_exact(variant: str, tile: int | None, dtype: str) -> None:
    config = VARIANTS[variant].config(tile, ELEMENTS[dtype])
    rng = np.random.default_rng(9)
    for layout in LAYOUTS:
        for m, n, k in shapes(config):
            if layout == "GG" and min(m, n, k) < 2:
                continue  # an axis of one element has no stride, so these are other kernels'
            left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((m, k), (k, n)))
            x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
            if min(m, n, k) > 1:
                assert layout_of(x1, x2) == layout
            what = f"{variant} {tile} {dtype} {layout} {m}x{n}x{k}"
            check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, variant=variant, tile=tile)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize(("variant", "tile"), KERNELS)
def test_resources(variant: str, tile: int | None, dtype: str) -> None:
    for layout in LAYOUTS:
        kernel = tiledmm.kernel(variant, tile=tile, dtype=dtype, layout=layout)
        assert kernel.shared_bytes == kernel.spec.shared_bytes
        assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"
        assert 0 < kernel.registers <= 255
        assert kernel.blocks_per_sm >= 1
        assert 0 < kernel.occupancy <= 1
        assert kernel.block == kernel.spec.block
        assert kernel.symbol in kernel.source


@pytest.mark.parametrize("letter", ["N", "T", "G"])
@pytest.mark.parametrize(("variant", "tile"), KERNELS)
def test_results_of_every_layout(variant: str, tile: int | None, letter: str) -> None:
    rng = np.random.default_rng(10)
    for m, n, k in ((70, 35, 33), (1, 40, 9), (40, 1, 9), (1, 1, 3), (64, 64, 64)):
        left, right = small_integers(rng, (m, k), "f4"), small_integers(rng, (k, n), "f4")
        what = f"{variant} {tile} into {letter} {m}x{n}x{k}"
        x1, x2 = to_device(left), to_device(right)
        check_into(exact_product(left, right), matrix_layout(letter), x1, x2, what, variant=variant, tile=tile)


@pytest.mark.parametrize("layout", ["NG", "GN", "TG", "GT"])
@pytest.mark.parametrize(("variant", "tile"), KERNELS)
def test_one_general_operand(variant: str, tile: int | None, layout: str) -> None:
    rng = np.random.default_rng(11)
    left, right = small_integers(rng, (67, 35), "f4"), small_integers(rng, (35, 70), "f4")
    x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
    assert layout_of(x1, x2) == layout
    check_into(exact_product(left, right), plain(2), x1, x2, f"{variant} {tile} {layout}", variant=variant, tile=tile)


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_auto_chooses_a_kernel_that_works_at_every_size(dtype: str) -> None:
    rng = np.random.default_rng(12)
    for m, n, k in ((1, 1, 1), (9, 9, 9), (130, 70, 30), (300, 310, 20), (900, 33, 40), (1200, 1100, 8)):
        left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((m, k), (k, n)))
        check_into(exact_product(left, right), plain(2), to_device(left), to_device(right), f"{dtype} {m}x{n}x{k}")


def test_cublas_is_cupys() -> None:
    rng = np.random.default_rng(13)
    left, right = small_integers(rng, (33, 20), "f4"), small_integers(rng, (20, 31), "f4")
    x1, x2 = to_device(left), to_device(right)
    check_into(exact_product(left, right), plain(2), x1, x2, "cublas", variant="cublas")
    wide = tiledmm.matmul(x1, x2, variant="cublas", dtype=np.dtype("float64"))
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide.get(), left @ right)


def test_precompile_compiles_what_calls_then_use() -> None:
    seen: list[str] = []
    count = tiledmm.precompile(
        ["tiled", "naive"], tiles=[8], dtypes=["float32", "int8"], layouts=["NN"], progress=seen.append
    )
    assert count == len(seen) == 4
    assert tiledmm.precompile() > 0
