"""Tests of more tiles, larger batches and larger arrays than 16 or 31 bits can count."""

from __future__ import annotations

import math
from collections.abc import Iterator

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import SMALLEST, to_device
from tests.strategies import any_bits, small_integers
from tiledmm.kernels import launches
from tiledmm.launch import plans

BILLIONS = 2**31


@pytest.fixture(autouse=True)
def room() -> Iterator[None]:
    """Free the memory pool between these tests, which several processes may run at once."""
    yield
    cupy.get_default_memory_pool().free_all_blocks()


def need(gigabytes: float) -> None:
    free, _ = cupy.cuda.runtime.memGetInfo()
    if free < 1.2 * gigabytes * 1e9:
        pytest.skip(f"needs {gigabytes} GB of device memory; {free / 1e9:.1f} GB are free")


# ---- tiles and batches ----


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_more_than_65535_tiles_of_rows(variant: str, tile: int | None) -> None:
    rng = np.random.default_rng(28)
    m = (tile or 32) * 65_537 + 3
    left, right = any_bits(rng, (m, 2), "int8"), any_bits(rng, (2, 3), "int8")
    result = tiledmm.matmul(to_device(left), to_device(right), variant=variant, tile=tile)
    np.testing.assert_array_equal(result.get(), left @ right)


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_more_than_65535_tiles_of_columns(variant: str, tile: int | None) -> None:
    rng = np.random.default_rng(29)
    n = (tile or 32) * 65_537 + 3
    left, right = any_bits(rng, (3, 2), "int8"), any_bits(rng, (2, n), "int8")
    result = tiledmm.matmul(to_device(left), to_device(right), variant=variant, tile=tile)
    np.testing.assert_array_equal(result.get(), left @ right)


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_more_than_65535_batches(variant: str, tile: int | None) -> None:
    rng = np.random.default_rng(30)
    left, right = small_integers(rng, (70_000, 3, 5), "f4"), small_integers(rng, (70_000, 5, 2), "f4")
    x1, x2 = to_device(left), to_device(right)
    result = tiledmm.matmul(x1, x2, variant=variant, tile=tile)
    np.testing.assert_array_equal(result.get(), left @ right)
    shared = tiledmm.matmul(x1, x2[7], variant=variant, tile=tile)
    np.testing.assert_array_equal(shared.get(), left @ right[7])


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_more_than_65535_batches_of_two_dimensions(variant: str, tile: int | None) -> None:
    rng = np.random.default_rng(31)
    left, right = any_bits(rng, (300, 1, 2, 3), "int8"), any_bits(rng, (1, 301, 3, 2), "int8")
    result = tiledmm.matmul(to_device(left), to_device(right), variant=variant, tile=tile)
    np.testing.assert_array_equal(result.get(), left @ right)


@pytest.mark.parametrize(("variant", "tile"), [("tiled", 8), ("tiny", 4)])
def test_more_batches_than_31_bits_count(variant: str, tile: int) -> None:
    need(6.6)
    batch = BILLIONS + 17
    x1, x2 = cupy.zeros((batch, 1, 1), np.int8), cupy.full((batch, 1, 1), 2, np.int8)
    places = [0, 1, BILLIONS - 1, BILLIONS, batch - 1]
    for number, place in enumerate(places, 3):
        x1[place] = number
    result = tiledmm.matmul(x1, x2, variant=variant, tile=tile)
    assert int(cupy.count_nonzero(result)) == len(places)
    assert [int(result[place, 0, 0]) for place in places] == [2 * number for number, _ in enumerate(places, 3)]


@pytest.mark.parametrize("width", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_more_tiles_than_a_launch_numbers(
    variant: str, tile: int | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tiles beyond 2^31 - 1 are another launch's; here already those beyond a few.
    monkeypatch.setattr(launches, "MOST_TILES", width)
    monkeypatch.setattr(plans, "_plans", {})
    rng = np.random.default_rng(32)
    for batch, m, n in (((), 1, 1), ((), 70, 40), ((3,), 33, 65), ((2, 5, 3), 9, 9)):
        left, right = small_integers(rng, (*batch, m, 6), "f4"), small_integers(rng, (*batch, 6, n), "f4")
        result = tiledmm.matmul(to_device(left), to_device(right), variant=variant, tile=tile)
        np.testing.assert_array_equal(result.get(), left @ right)


# ---- arrays past 2^31 elements ----

LARGE = [("double_buffered", 64), ("tiled", 32), ("tiled_padded", 64), ("coalesced", None), ("naive", None)]


@pytest.mark.parametrize(("variant", "tile"), LARGE)
def test_long_columns(variant: str, tile: int | None) -> None:
    need(4.4)
    m = BILLIONS + 17
    x1, out = cupy.zeros((m, 1), np.int8), cupy.full((m, 1), 77, np.int8)
    places = [0, 1, BILLIONS - 1, BILLIONS, m - 1]
    for number, place in enumerate(places, 3):
        x1[place, 0] = number
    tiledmm.matmul(x1, cupy.full((1, 1), 2, np.int8), out=out, variant=variant, tile=tile)
    assert int(cupy.count_nonzero(out)) == len(places)
    assert [int(out[place, 0]) for place in places] == [2 * number for number, _ in enumerate(places, 3)]


@pytest.mark.parametrize(("variant", "tile"), LARGE)
def test_a_result_of_many_rows_and_columns(variant: str, tile: int | None) -> None:
    m, n = 70_000, 40_000
    need(m * n / 1e9)
    rng = np.random.default_rng(33)
    left, right = small_integers(rng, (m, 2), "int8"), small_integers(rng, (2, n), "int8")
    result = tiledmm.matmul(to_device(left), to_device(right), variant=variant, tile=tile)
    assert result.size > BILLIONS
    for row in (0, 1, BILLIONS // n - 1, BILLIONS // n, BILLIONS // n + 1, m - 1):
        np.testing.assert_array_equal(result[row].get(), left[row] @ right)
    # Sums of rows and columns, exact in int64, find what is missing or out of place anywhere.
    wide = left.astype(np.int64), right.astype(np.int64)
    np.testing.assert_array_equal(result.sum(axis=1, dtype=np.int64).get(), wide[0] @ wide[1].sum(axis=1))
    np.testing.assert_array_equal(result.sum(axis=0, dtype=np.int64).get(), wide[0].sum(axis=0) @ wide[1])


@pytest.mark.parametrize(("variant", "tile"), LARGE)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_right_operand_of_many_elements(variant: str, tile: int | None, transposed: bool) -> None:
    n = BILLIONS // 2 + 9
    need(3.3)
    x2 = cupy.zeros((n, 2), np.int8).T if transposed else cupy.zeros((2, n), np.int8)
    x2[0, 0], x2[1, 0], x2[0, n - 1], x2[1, n - 1], x2[1, n // 2] = 1, 2, 3, 4, 5
    result = tiledmm.matmul(cupy.asarray([[10, 1]], dtype=np.int8), x2, variant=variant, tile=tile)
    assert int(cupy.count_nonzero(result)) == 3
    assert [int(result[0, i]) for i in (0, n // 2, n - 1)] == [12, 5, 34]


@pytest.mark.parametrize(("variant", "tile"), LARGE)
def test_batches_far_apart(variant: str, tile: int | None) -> None:
    need(2.2)
    memory = cupy.zeros(BILLIONS + 64, np.uint8)
    ends = np.arange(1, 9, dtype=np.uint8).reshape(2, 4)
    memory[:4], memory[BILLIONS : BILLIONS + 4] = cupy.asarray(ends[0]), cupy.asarray(ends[1])
    far = cupy.lib.stride_tricks.as_strided(memory, (2, 2, 2), (BILLIONS, 2, 1))
    expected = ends.reshape(2, 2, 2) @ ends.reshape(2, 2, 2)
    keywords = {"variant": variant, "tile": tile}
    np.testing.assert_array_equal(tiledmm.matmul(far, far, **keywords).get(), expected)
    # the same distance between the rows of one matrix
    rows = cupy.lib.stride_tricks.as_strided(memory, (2, 4), (BILLIONS, 1))
    np.testing.assert_array_equal(tiledmm.matmul(rows, rows.T, **keywords).get(), ends @ ends.T)
    # and of the result
    out = cupy.lib.stride_tricks.as_strided(memory[8:], (2, 2), (BILLIONS, 1))
    small = to_device(np.array([[1, 2], [3, 4]], np.uint8))
    tiledmm.matmul(small, small, out=out, **keywords)
    np.testing.assert_array_equal(out.get(), [[7, 10], [15, 22]])


def test_a_batch_of_large_results() -> None:
    batch, m, n = 3, 30_011, 30_013
    need(batch * m * n / 1e9)
    assert batch * m * n > BILLIONS
    rng = np.random.default_rng(34)
    left, right = small_integers(rng, (batch, m, 2), "int8"), small_integers(rng, (batch, 2, n), "int8")
    result = tiledmm.matmul(to_device(left), to_device(right))
    wide = left.astype(np.int64), right.astype(np.int64)
    sums = np.einsum("bmk,bk->bm", wide[0], wide[1].sum(axis=2))
    np.testing.assert_array_equal(result.sum(axis=2, dtype=np.int64).get(), sums)
    np.testing.assert_array_equal(result[-1, -1].get(), left[-1, -1] @ right[-1])


def test_an_empty_product_of_enormous_sizes() -> None:
    x1, x2 = cupy.empty((BILLIONS, 0), np.int8), cupy.empty((0, 0), np.int8)
    assert tiledmm.matmul(x1, x2).shape == (BILLIONS, 0)
    assert math.prod(tiledmm.matmul(x1.T, x1).shape) == 0
