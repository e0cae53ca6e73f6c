"""``dot_products`` with several warps for an element of C."""

from __future__ import annotations

import numpy as np
import pytest

import tiledmm
from tiledmm import simulator
from tiledmm.errors import ConfigError
from tiledmm.registry.config import VECTOR_BYTES


def config(lanes: int, sum_bytes: int) -> dict[str, int]:
    return {"lanes": lanes, "bk": lanes * VECTOR_BYTES // sum_bytes}


@pytest.mark.parametrize("lanes", [64, 128, 256])
@pytest.mark.parametrize(("dtype", "sum_bytes"), [("float32", 4), ("float16", 4), ("complex128", 16), ("int8", 4)])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 7, 1537), (3, 9, 700), (2, 5, 4096), (1, 1, 20)])
def test_results_are_exact(lanes: int, dtype: str, sum_bytes: int, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(lanes + k)
    a, b = (rng.integers(-2, 3, size).astype(dtype) for size in ((m, k), (n, k)))
    wide = "int64" if dtype == "int8" else "complex128"
    expected = (a.astype(wide) @ b.T.astype(wide)).astype("complex128").real
    for tile in (1, 4):
        c = simulator.matmul(a, b.T, variant="dot_products", tile=tile, config=config(lanes, sum_bytes))
        np.testing.assert_array_equal(c, expected.astype(dtype))


def test_a_group_of_warps_reads_contiguous_elements() -> None:
    a, b = np.ones((1, 2048), "f4"), np.ones((4, 2048), "f4")
    _, report = simulator.run(a, b.T, variant="dot_products", tile=1, config=config(128, 4))
    assert report.barriers == report.grid[0], "one, for each block"
    assert report.source.global_load.sectors_per_request == 16
    assert tiledmm.source("dot_products", tile=1, config=config(64, 4)).count("__syncthreads()") == 1
    assert "__syncthreads" not in tiledmm.source("dot_products", tile=1)


@pytest.mark.parametrize("fields", [{"lanes": 96, "bk": 384}, {"lanes": 16, "bk": 64}, {"lanes": 128}])
def test_other_numbers_of_lanes_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"lanes is 32, or a larger power of 2|bk is 512, 16 bytes of sums"):
        tiledmm.source("dot_products", tile=1, config=fields)
