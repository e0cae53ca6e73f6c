"""Tests of kernels that compute a triangle of a symmetric C, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.strategies import np_dtype, small_integers
from tiledmm import simulator
from tiledmm.kernels.operands import residues

#: Kernels as (variant, tile, type, K), and whether they are simulated every day.
_KERNELS = [
    ("wgmma", 64, "float16", 40, True),
    ("wgmma", 144, "float16", 40, False),
    ("wgmma", 512, "float16", 40, False),
    ("wgmma", 80, "int8", 40, False),
    ("tensor_core", 64, "float16", 40, False),
    ("tensor_core", 64, "float64", 20, True),
    ("tensor_core", 32, "complex128", 20, False),
    ("split_float32", 64, "float32", 256, True),
    ("split_float32", 144, "float32", 256, False),
    ("split_float32", 256, "complex64", 128, False),
    ("split_tensor_core", 64, "float32", 256, False),
    ("split_integer", 64, "int64", 40, False),
    ("split_integer", 144, "int32", 40, False),
    ("split_float64", 64, "float64", 40, True),
    ("split_float64", 256, "complex128", 40, False),
    ("split_float64_tensor_core", 64, "float64", 40, False),
]
KERNELS = [pytest.param(*each, marks=() if usual else pytest.mark.slow) for *each, usual in _KERNELS]


@pytest.mark.parametrize(("variant", "tile", "dtype", "k"), KERNELS)
def test_a_triangle_is_all_of_c(variant: str, tile: int, dtype: str, k: int) -> None:
    """Check exact products, in an odd size, and the symmetry of rounded ones."""
    rng, kind = np.random.default_rng(1), np_dtype(dtype)
    kernel: dict[str, Any] = {"variant": variant, "tile": tile, "config": {"triangle": 1}}
    x = small_integers(rng, (2, 205, k), kind, 3)
    y = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    wanted = simulator.matmul(x, x.swapaxes(1, 2).copy(), variant="coalesced")
    for each in (x, y) if tile == 144 or (variant == "wgmma" and tile == 64) else (x,):
        np.testing.assert_array_equal(simulator.matmul(each, each.swapaxes(1, 2), **kernel), wanted)
    if kind.kind in "fc":
        values = rng.standard_normal((176, k)) * (1 + 1j if kind.kind == "c" else 1)
        values = values.astype(kind)
        found = simulator.matmul(values, values.T, **kernel)
        np.testing.assert_array_equal(found.view(f"V{kind.itemsize}"), found.T.copy().view(f"V{kind.itemsize}"))


@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "k"),
    [
        pytest.param("warp_tiled", 64, "float32", 20),
        *(pytest.param(*each[:4], marks=pytest.mark.slow) for each in _KERNELS),
    ],
)
def test_an_epilogue_is_not_mirrored(variant: str, tile: int, dtype: str, k: int) -> None:
    """Check that what the epilogue reads may differ on the two sides of the diagonal."""
    rng, kind = np.random.default_rng(2), np_dtype(dtype)
    x, c, bias = (small_integers(rng, shape, kind, 2) for shape in ((150, k), (150, 150), (150,)))
    arguments: dict[str, Any] = {"alpha": 2, "beta": 3, "bias": bias}
    wanted = simulator.gemm(x, x.T.copy(), c, variant="coalesced", **arguments)
    kernel: dict[str, Any] = {"variant": variant, "tile": tile, "config": {"triangle": 1}}
    np.testing.assert_array_equal(simulator.gemm(x, x.T, c, **arguments, **kernel), wanted)


@pytest.mark.slow
def test_rows_of_residues_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues, "MOST_RESIDUES_OF_C", 1)
    x = small_integers(np.random.default_rng(3), (2200, 16), np.dtype("f8"), 3)
    for tile in (64, 256):
        found = simulator.matmul(x, x.T, variant="split_float64", tile=tile, config={"triangle": 1})
        np.testing.assert_array_equal(found, x @ x.T)
