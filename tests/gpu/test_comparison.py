"""Comparison with the installed ``cupy.matmul``: results, types, shapes and memory order."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tiledmm
from tests.strategies import PROPERTY, lay_out, layouts, move_core, moved_axes, operand_shapes, small_integers
from tiledmm.elements import ELEMENTS

GPU_PROPERTY = settings(PROPERTY, max_examples=300)
FAST = {"variant": "double_buffered", "tile": 8}

# CuPy has no batched bfloat16, and few of its elementwise kernels know that type.
CUPY_TYPES = tuple(name for name in ELEMENTS if name != "bfloat16")


def compare(ours: cupy.ndarray, theirs: cupy.ndarray) -> None:
    assert type(ours) is type(theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert ours.flags.c_contiguous == theirs.flags.c_contiguous
    assert ours.flags.f_contiguous == theirs.flags.f_contiguous
    assert ours.device == theirs.device
    np.testing.assert_array_equal(ours.get(), theirs.get())


@GPU_PROPERTY
@given(st.data())
def test_results_types_and_shapes(data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes(3))
    rng = np.random.default_rng(110)
    x1, x2 = (
        lay_out(cupy, small_integers(rng, shape, data.draw(st.sampled_from(CUPY_TYPES)), 2),
                data.draw(layouts(len(shape), broadcast=True)))[0]
        for shape in shapes
    )  # fmt: skip
    compare(tiledmm.matmul(x1, x2, **FAST), cupy.matmul(x1, x2))


@GPU_PROPERTY
@given(st.data())
def test_order_and_casting(data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes(2))
    # Without elements, memory order means nothing, and CuPy's flags depend on how an array came to be.
    assume(all(0 not in shape for shape in shapes))
    rng = np.random.default_rng(111)
    x1, x2 = (lay_out(cupy, small_integers(rng, s, "f4"), data.draw(layouts(len(s))))[0] for s in shapes)
    keywords = {
        "order": data.draw(st.sampled_from("CFAK")),
        "casting": data.draw(st.sampled_from(("no", "equiv", "safe", "same_kind", "unsafe"))),
    }
    compare(tiledmm.matmul(x1, x2, **keywords, **FAST), cupy.matmul(x1, x2, **keywords))


@GPU_PROPERTY
@given(st.data())
def test_axes_and_wider_types(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.sampled_from((1, 2, 3, 9))) for _ in range(3))
    batch = tuple(data.draw(st.lists(st.sampled_from((1, 2, 3)), max_size=2)))
    shapes = ((*batch, m, k), (*batch, k, n))
    rng = np.random.default_rng(112)
    entries, arrays = [], []
    for shape in shapes:
        entry, positions = data.draw(moved_axes(len(shape), 2))
        entries.append(entry)
        values = small_integers(rng, move_core(shape, positions), "f4")
        arrays.append(lay_out(cupy, values, data.draw(layouts(values.ndim)))[0])
    entries.append(data.draw(moved_axes(len(batch) + 2, 2))[0])
    keywords: dict[str, Any] = {"axes": entries}
    if data.draw(st.booleans()):
        keywords["dtype"] = data.draw(st.sampled_from(("float64", "complex128")))
    compare(tiledmm.matmul(*arrays, **keywords, **FAST), cupy.matmul(*arrays, **keywords))


@GPU_PROPERTY
@given(st.data())
def test_out(data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes(3))
    rng = np.random.default_rng(113)
    names = [data.draw(st.sampled_from(("int8", "float32", "float64", "complex64"))) for _ in range(2)]
    x1, x2 = (
        lay_out(cupy, small_integers(rng, shape, name, 2), data.draw(layouts(len(shape))))[0]
        for shape, name in zip(shapes, names, strict=True)
    )
    compute = np.promote_types(*names)
    fits = [name for name in ("int8", "int64", "float32", "float64", "complex128") if np.can_cast(compute, name)]
    zeros = np.zeros(np.matmul(np.zeros(shapes[0]), np.zeros(shapes[1])).shape, data.draw(st.sampled_from(fits)))
    layout = data.draw(layouts(zeros.ndim))
    ours, theirs = (lay_out(cupy, zeros, layout, poison=True)[0] for _ in range(2))
    assert tiledmm.matmul(x1, x2, out=ours, **FAST) is ours
    cupy.matmul(x1, x2, out=theirs)
    compare(ours, theirs)


def test_where_cupy_is_not_numpy() -> None:
    """Check the differences from CuPy that docs/ lists, so that the list is updated when CuPy changes."""
    x = cupy.full((2, 2), 100, np.int8)
    assert int(cupy.matmul(x, x, dtype=np.int16)[0, 0]) == np.array(20_000).astype(np.int8)
    assert int(tiledmm.matmul(x, x, dtype=np.int16)[0, 0]) == 20_000
