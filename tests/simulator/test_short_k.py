"""Tests of the kernels for short K, which write C in words."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.kernels.variants import VARIANTS

NAMES = [name for name, variant in VARIANTS.items() if variant.reads.short_k]
SHAPES = ((70, 131, 3), (3, 9, 20), (65, 517, 1), (9, 2, 2), (613, 30, 4), (900, 1, 4), (517, 3, 4))


@pytest.mark.parametrize("variant", NAMES)
@pytest.mark.parametrize(
    ("dtype", "shape", "tile", "first"),
    [
        pytest.param(dtype, shape, tile, first, marks=slow_unless((i + j + h) % 4 == 0 and (i + j) % 3 == g))
        for i, dtype in enumerate(("float32", "float16", "complex128", "int8", "bool"))
        for j, shape in enumerate(SHAPES)
        for h, tile in enumerate((2, 4))
        for g, first in enumerate((0, 1, 3))
    ],
)
def test_every_element_is_written_once(
    dtype: str, shape: tuple[int, int, int], tile: int, first: int, variant: str
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(tile + k)
    a, b = (rng.integers(-2, 3, size).astype(dtype) for size in ((m, k), (k, n)))
    memory = np.full(first + m * n + 8, 77).astype(dtype)
    c = memory[first : first + m * n].reshape(m, n)
    simulator.matmul(a, b, out=c, variant=variant, tile=tile)
    wide = {"int8": "int64", "bool": "bool"}.get(dtype, "complex128")
    expected = a.astype(wide) @ b.astype(wide)
    np.testing.assert_array_equal(c, expected.astype("complex128").real.astype(dtype))
    assert (memory[:first] == np.full(1, 77).astype(dtype)).all() and (memory[first + m * n :] == memory[-1]).all()


@pytest.mark.parametrize("variant", NAMES)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_any_layout_and_batches(layout: str, variant: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (3, 40, 4)) if layout[0] == "N" else rng.integers(-2, 3, (3, 4, 40)).swapaxes(1, 2)
    b = rng.integers(-2, 3, (3, 4, 77)) if layout[1] == "N" else rng.integers(-2, 3, (3, 77, 4)).swapaxes(1, 2)
    c = simulator.matmul(a.astype("f2"), b.astype("f2"), variant=variant, tile=4)
    np.testing.assert_array_equal(c, (a @ b).astype("f2"))
    c = simulator.matmul(
        a.astype("f2"), b.astype("f2"), variant=variant, tile=4, out=np.empty((3, 77, 40), "f2").swapaxes(1, 2)
    )
    np.testing.assert_array_equal(c, (a @ b).astype("f2"))
