"""Tests of NumPy's and CuPy's dispatch to this package by the name ``cupy.matmul``."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
import tiledmm.launch.devices  # keeps CuPy's own matmul, before a test replaces it
from tests.gpu.device import to_device
from tests.strategies import small_integers


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record the keywords of each call by the name ``cupy.matmul``."""
    seen: list[dict[str, Any]] = []

    def matmul(x1: Any, x2: Any, /, **keywords: Any) -> Any:
        seen.append(keywords)
        return tiledmm.matmul(x1, x2, **keywords)

    monkeypatch.setattr(cupy, "matmul", matmul)
    return seen


def pair(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(100)
    return [small_integers(rng, shape, "f4") for shape in shapes]


def test_numpy_matmul_of_cupy_arrays(calls: list[dict[str, Any]]) -> None:
    left, right = pair((3, 4, 5), (5, 6))
    x1, x2 = to_device(left), to_device(right)
    result = np.matmul(x1, x2)
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_array_equal(result.get(), left @ right)
    out = cupy.empty((3, 4, 6), np.float32)
    assert np.matmul(x1, x2, out=out) is out
    np.testing.assert_array_equal(out.get(), left @ right)
    wide = np.matmul(x1, x2, dtype=np.float64, casting="safe", axes=[(-2, -1), (-2, -1), (-2, -1)])
    assert wide.dtype == np.float64
    assert len(calls) == 3


def test_einsum(calls: list[dict[str, Any]]) -> None:
    left, right = pair((7, 4, 5), (7, 5, 6))
    result = cupy.einsum("bij,bjk->bik", to_device(left), to_device(right))
    np.testing.assert_array_equal(result.get(), left @ right)
    assert calls


def test_matrix_power(calls: list[dict[str, Any]]) -> None:
    (x,) = pair((9, 9))
    result = cupy.linalg.matrix_power(to_device(np.clip(x, -1, 1)), 5)
    np.testing.assert_array_equal(result.get(), np.linalg.matrix_power(np.clip(x, -1, 1), 5))
    assert calls


def test_the_baseline_is_not_replaced_along(calls: list[dict[str, Any]]) -> None:
    left, right = pair((4, 5), (5, 6))
    result = tiledmm.matmul(to_device(left), to_device(right), variant="cublas")
    np.testing.assert_array_equal(result.get(), left @ right)
    assert not calls


def test_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def matmul(x1: Any, x2: Any) -> Any:
        seen.append(1)
        return tiledmm.matmul(x1, x2)

    monkeypatch.setattr(cupy.ndarray, "__matmul__", matmul)
    left, right = pair((4, 5), (5, 6))
    np.testing.assert_array_equal((to_device(left) @ to_device(right)).get(), left @ right)
    assert seen
