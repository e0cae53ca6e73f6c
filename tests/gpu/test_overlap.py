"""Tests of ``out`` that shares memory with an operand: results are as if the operands had been read first."""

from __future__ import annotations

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import SMALLEST, exact_product, to_device, to_host
from tests.strategies import np_dtype, small_integers
from tiledmm.elements import ELEMENTS


def memory_of(dtype: str = "float32", size: int = 4000, seed: int = 90) -> cupy.ndarray:
    return to_device(small_integers(np.random.default_rng(seed), (size,), np_dtype(dtype), 1))


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_out_is_an_operand(dtype: str) -> None:
    rng = np.random.default_rng(91)
    left, right = (small_integers(rng, (40, 40), np_dtype(dtype), 1) for _ in range(2))
    for which in (0, 1):
        x = [to_device(left), to_device(right)]
        assert tiledmm.matmul(*x, out=x[which]) is x[which]
        np.testing.assert_array_equal(to_host(x[which]), exact_product(left, right))
    x1 = to_device(left)
    tiledmm.matmul(x1, x1, out=x1)
    np.testing.assert_array_equal(to_host(x1), exact_product(left, left))


SHARED = {
    "transposed": lambda m: (m[:1600].reshape(40, 40), m[:1600].reshape(40, 40).T),
    "reversed": lambda m: (m[:1600].reshape(40, 40), m[:1600].reshape(40, 40)[::-1, ::-1]),
    "shifted by one": lambda m: (m[:1600].reshape(40, 40), m[1:1601].reshape(40, 40)),
    "shifted back by one": lambda m: (m[1:1601].reshape(40, 40), m[:1600].reshape(40, 40)),
    "shifted by a row": lambda m: (m[:1600].reshape(40, 40), m[40:1640].reshape(40, 40)),
    "the last element only": lambda m: (m[:1600].reshape(40, 40), m[1599:3199].reshape(40, 40)),
    "interleaved columns": lambda m: (m[:3200].reshape(40, 80)[:, ::2], m[:3200].reshape(40, 80)[:, 1::2]),
    "neighbours, not shared": lambda m: (m[:1600].reshape(40, 40), m[1600:3200].reshape(40, 40)),
}


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_out_overlaps_an_operand(variant: str, tile: int | None, shared: str) -> None:
    other = small_integers(np.random.default_rng(92), (40, 40), "f4", 1)
    for side in (0, 1):
        memory = memory_of()
        x, out = SHARED[shared](memory)
        values = x.get()
        expected = values @ other if side == 0 else other @ values
        pair = (x, to_device(other)) if side == 0 else (to_device(other), x)
        before = memory.get()
        assert tiledmm.matmul(*pair, out=out, variant=variant, tile=tile) is out
        np.testing.assert_array_equal(out.get(), expected)
        # all other elements are what they were
        on_host = before.copy()
        strides, offset = out.strides, (out.data.ptr - memory.data.ptr) // 4
        place = np.lib.stride_tricks.as_strided(on_host[offset:], out.shape, strides)
        place[...] = expected
        np.testing.assert_array_equal(memory.get(), on_host)


def test_a_batch_that_overlaps() -> None:
    memory = memory_of(size=3 * 20 * 20)
    x = memory.reshape(3, 20, 20)
    values = x.get()
    tiledmm.matmul(x, x[::-1], out=x.transpose(0, 2, 1))
    np.testing.assert_array_equal(x.get(), (values @ values[::-1]).transpose(0, 2, 1))


def test_an_empty_out_inside_an_operand_is_returned_itself() -> None:
    x = cupy.ones((4, 4), np.float32)
    out = x[1:1]
    assert tiledmm.matmul(x[:0], x, out=out) is out


def test_out_of_another_type_in_the_same_memory() -> None:
    memory = cupy.zeros(3200, np.float32)
    values = small_integers(np.random.default_rng(93), (40, 40), "f4", 1)
    x = memory[:1600].reshape(40, 40)
    x[...] = cupy.asarray(values)
    out = memory.view(np.float64).reshape(40, 40)
    tiledmm.matmul(x, x, out=out)
    np.testing.assert_array_equal(out.get(), values.astype("d") @ values)
