"""Tests of ``auto`` in a limited memory pool: results are right and the limit is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import to_device
from tests.strategies import small_integers
from tiledmm.launch import plans
from tiledmm.problem.keywords import UfuncKeywords

#: Bytes available besides the result, fewer than the workspace of any of these products.
ROOM = 4 << 20

#: Types, precisions and sizes.
PRODUCTS = (
    ("float32", "float32", (4096, 4096, 4096)),
    ("float32", "ieee", (4096, 4095, 4096)),
    ("float32", "tf32", (4096, 4095, 4096)),
    ("float16", "float32", (4095, 4095, 4095)),
    ("complex64", "float32", (2048, 2048, 2048)),
    ("int32", "float32", (2048, 2048, 2048)),
    ("float64", "float32", (1024, 1024, 65_536)),
)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Replace CuPy's pool by a new one for a test."""
    monkeypatch.setattr(plans, "_plans", {})
    made = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(made.malloc):
        yield made
    made.free_all_blocks()


def operands(dtype: str = "float32", sizes: tuple[int, int, int] = (4096, 4096, 4096)) -> list[np.ndarray]:
    rng = np.random.default_rng(70)
    m, n, k = sizes
    return [small_integers(rng, (m, k), dtype), small_integers(rng, (k, n), dtype)]


def planned(x1: Any, x2: Any, precision: str) -> Any:
    """Return the plan of ``auto``; skip the test if it needs little or no workspace."""
    plan: Any = plans.plan_of(x1, x2, None, tuple(UfuncKeywords()), ("auto", None, None, precision))
    if plan.scratch_bytes <= ROOM:
        pytest.skip(f"{plan.choice} needs {plan.scratch_bytes} bytes of workspace on this device")
    return plan


@pytest.mark.parametrize(("dtype", "precision", "sizes"), PRODUCTS)
def test_a_product_without_room_for_workspace(
    pool: Any, dtype: str, precision: str, sizes: tuple[int, int, int]
) -> None:
    left, right = operands(dtype, sizes)
    x1, x2 = to_device(left), to_device(right)
    plan = planned(x1, x2, precision)
    expected = right_of(left, right)
    limit = pool.used_bytes() + expected.nbytes + ROOM
    pool.free_all_blocks()
    pool.set_limit(size=limit)
    for _ in range(2):
        result = tiledmm.matmul(x1, x2, precision=precision)
        np.testing.assert_array_equal(result.get(), expected)
        del result
        assert pool.total_bytes() <= limit, "the user's limit holds"
    assert plan._smaller.scratch_bytes <= ROOM
    pool.set_limit(size=0)
    np.testing.assert_array_equal(tiledmm.matmul(x1, x2, precision=precision).get(), expected)
    assert pool.total_bytes() > limit, "and where it is lifted, the fastest kernel is back"


def right_of(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Compute the product in floats that hold it exactly and that BLAS multiplies."""
    wide = np.complex64 if left.dtype.kind == "c" else np.float64
    return (left.astype(wide) @ right.astype(wide)).astype(left.dtype)


def test_a_named_variant_without_room_for_workspace(pool: Any) -> None:
    left, right = operands()
    x1, x2 = to_device(left), to_device(right)
    variant = planned(x1, x2, "float32").choice.spec.variant.name
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + left.nbytes + ROOM)
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError, match="workspace"):
        tiledmm.matmul(x1, x2, variant=variant)


def test_a_result_without_room(pool: Any) -> None:
    left, right = operands()
    x1, x2 = to_device(left), to_device(right)
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + ROOM)
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError) as raised:
        tiledmm.matmul(x1, x2)
    assert "workspace" not in str(raised.value)
