"""Property tests of test_operands.py on a GPU: any shapes, batches and views, through the kernels themselves."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledmm
from tests.gpu.device import SMALLEST, check_into, exact_product, to_device
from tests.strategies import (
    PROPERTY,
    Layout,
    batches,
    lay_out,
    layouts,
    move_core,
    moved_axes,
    operand_shapes,
    plain,
    small_integers,
)

GPU_PROPERTY = settings(PROPERTY, max_examples=150)


def check(x1: cupy.ndarray, x2: cupy.ndarray, variant: str, tile: int | None, **keywords: Any) -> None:
    expected = np.matmul(x1.get(), x2.get(), **keywords)
    result = tiledmm.matmul(x1, x2, variant=variant, tile=tile, **keywords)
    assert isinstance(result, cupy.ndarray)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(result.get(), expected)


@GPU_PROPERTY
@given(st.data())
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_any_shapes_and_strides(variant: str, tile: int | None, data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes())
    rng = np.random.default_rng(22)
    x1, x2 = (
        lay_out(cupy, small_integers(rng, shape, "f4"), data.draw(layouts(len(shape), broadcast=True)))[0]
        for shape in shapes
    )
    check(x1, x2, variant, tile)


@GPU_PROPERTY
@given(st.data())
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_out_of_any_strides(variant: str, tile: int | None, data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes(4))
    rng = np.random.default_rng(23)
    left, right = (small_integers(rng, shape, "f4") for shape in shapes)
    more = data.draw(st.sampled_from(((), (), (1,), (2,), (0,), (3, 2))))
    product = np.matmul(left, right)
    expected = np.broadcast_to(product + 0, (*more, *product.shape))
    x1, x2 = (lay_out(cupy, x, data.draw(layouts(x.ndim)))[0] for x in (left, right))
    layout = data.draw(layouts(expected.ndim))
    check_into(expected, layout, x1, x2, f"{shapes} {layout}", variant=variant, tile=tile)


@GPU_PROPERTY
@given(st.data())
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_axes(variant: str, tile: int | None, data: st.DataObject) -> None:
    left_batch, right_batch = data.draw(batches(3))
    m, n, k = (data.draw(st.sampled_from((1, 2, 3, 9))) for _ in range(3))
    shapes = (*left_batch, m, k), (*right_batch, k, n)
    result = np.matmul(np.zeros(shapes[0]), np.zeros(shapes[1])).shape
    rng = np.random.default_rng(24)
    entries, arrays = [], []
    for shape in shapes:
        entry, positions = data.draw(moved_axes(len(shape), 2))
        entries.append(entry)
        values = small_integers(rng, move_core(shape, positions), "f4")
        arrays.append(lay_out(cupy, values, data.draw(layouts(values.ndim)))[0])
    entries.append(data.draw(moved_axes(len(result), 2))[0])
    check(*arrays, variant, tile, axes=entries)


VIEWS = {
    "reversed rows": lambda x: x[::-1],
    "reversed columns": lambda x: x[:, ::-1],
    "both reversed, transposed": lambda x: x[::-1, ::-1].T,
    "every third row": lambda x: x[::3],
    "every other column": lambda x: x[:, ::2],
    "a corner": lambda x: x[5:, 7:],
    "one row": lambda x: x[3:4],
    "one column": lambda x: x[:, 3:4],
    "a diagonal's neighbours": lambda x: cupy.lib.stride_tricks.as_strided(x, (20, 20), (4, 4)),
    "one row for all": lambda x: cupy.broadcast_to(x[2], (33, x.shape[1])),
    "one column for all": lambda x: cupy.broadcast_to(x[:, 2:3], (x.shape[0], 35)),
    "one element for all": lambda x: cupy.broadcast_to(x[2, 2], (34, 36)),
    "part of a batch": lambda x: x.reshape(5, 8, 40).transpose(1, 2, 0)[:, :, 2],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_views(variant: str, tile: int | None, view: str) -> None:
    rng = np.random.default_rng(25)
    x = VIEWS[view](to_device(small_integers(rng, (40, 40), "f4")))
    other = to_device(small_integers(rng, (x.shape[1], 19), "f4"))
    check(x, other, variant, tile)
    check(other.T, x.T, variant, tile)
    check(x, x.T, variant, tile)


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_more_batch_dimensions_than_a_kernel_walks(variant: str, tile: int | None) -> None:
    values = small_integers(np.random.default_rng(26), (2, 3, 2, 3, 2, 3, 9, 10), "f4")
    x = to_device(values)
    check(x[::-1, :, ::-1, :, ::-1, :], x[:, :1, :, :1, :, :1].swapaxes(-1, -2), variant, tile)
    # and into a result whose columns are contiguous, so that the kernel computes its transpose
    out = cupy.empty((2, 3, 2, 3, 2, 3, 9, 9), np.float32).swapaxes(-1, -2)
    left, right = x[::-1, :, ::-1], x[:, :1, :, :1, :, :1].swapaxes(-1, -2)
    tiledmm.matmul(left, right, out=out, variant=variant, tile=tile)
    np.testing.assert_array_equal(out.get(), left.get() @ right.get())


@pytest.mark.parametrize("core", [((4,), (3, 4, 2)), ((3, 2, 4), (4,)), ((4,), (4,)), ((4,), (4, 5)), ((5, 4), (4,))])
@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_vectors(variant: str, tile: int | None, core: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(27)
    left, right = (small_integers(rng, shape, "f4") for shape in core)
    check(to_device(left), to_device(right), variant, tile)
    backwards = Layout(plain(left.ndim).memory, (-2,) * left.ndim, (1,) * left.ndim)
    check(to_device(left, backwards), to_device(right), variant, tile)
    expected = exact_product(left, right)
    check_into(expected, Layout(plain(expected.ndim).memory, (2,) * expected.ndim, (1,) * expected.ndim),
               to_device(left), to_device(right), f"{variant} {core}", variant=variant, tile=tile)  # fmt: skip
