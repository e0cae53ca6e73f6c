"""Tests of ``block_dot_products``, whose threads share K."""

from __future__ import annotations

import numpy as np
import pytest

import tiledmm
from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.errors import ConfigError


@pytest.mark.parametrize(
    ("tile", "dtype", "shape"),
    [
        pytest.param(tile, dtype, shape, marks=slow_unless((h + i + j) % 4 == 0))
        for h, tile in enumerate((1, 2, 4))
        for i, dtype in enumerate(("float32", "float16", "complex128", "int8"))
        for j, shape in enumerate(((1, 7, 1537), (3, 9, 700), (2, 5, 4096), (1, 1, 20)))
    ],
)
def test_results_are_exact(tile: int, dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(tile + k)
    a, b = (rng.integers(-2, 3, size).astype(dtype) for size in ((m, k), (n, k)))
    wide = "int64" if dtype == "int8" else "complex128"
    expected = (a.astype(wide) @ b.T.astype(wide)).astype("complex128").real
    c = simulator.matmul(a, b.T, variant="block_dot_products", tile=tile)
    np.testing.assert_array_equal(c, expected.astype(dtype))


def test_a_block_reads_contiguous_elements() -> None:
    a, b = np.ones((1, 2048), "f4"), np.ones((4, 2048), "f4")
    _, report = simulator.run(a, b.T, variant="block_dot_products", tile=1)
    assert report.barriers == report.grid[0], "one, for each block"
    assert report.source.global_load.sectors_per_request == 16


@pytest.mark.parametrize("lanes", [64, 128, 512])
def test_other_numbers_of_threads_are_taken(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    a, b = (rng.integers(-2, 3, size).astype("f4") for size in ((1, 3000), (3, 3000)))
    config = {"lanes": lanes, "bk": 4 * lanes}
    np.testing.assert_array_equal(simulator.matmul(a, b.T, variant="block_dot_products", config=config), a @ b.T)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lanes": 96, "bk": 384}, "lanes .*power of 2.* 32"),
        ({"lanes": 32, "bk": 128}, "lanes .*power of 2.* 32"),
        ({"lanes": 128}, "bk must be 512"),
        ({"bn": 8}, "tn must be bn"),
        ({"lanes": 64, "bk": 256, "bm": 13, "tm": 13, "bn": 5, "tn": 5}, "lanes .* bm"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tiledmm.source("block_dot_products", tile=1, config=fields)
