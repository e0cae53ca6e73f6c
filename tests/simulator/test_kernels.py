"""Tests of every kernel with all checks on, in a covering set of types, layouts, edges and batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.compile.test_kernels import KERNELS, LAYOUTS, SOME_TYPES, TYPES, covering, half_of_layouts, pairwise, turn
from tests.conftest import full_unless, slow_unless
from tests.strategies import Layout as Memory
from tests.strategies import asked, lay_out, np_dtype, plain, small_integers
from tiledmm import simulator
from tiledmm.kernels.variants import find_variant, kernel_spec

#: Sizes beside a block tile and a step along K: (m, n, k) from (bm, bn, bk).
EDGES = (
    lambda bm, bn, bk: (bm - 1, bn + 1, bk + 1),
    lambda bm, bn, bk: (bm + 1, bn - 1, 2 * bk - 1),
    lambda bm, bn, bk: (2, 2 * bn + 3, bk),
    lambda bm, bn, bk: (bm, bn, 1),
    lambda bm, bn, bk: (2 * bm + 1, 3, 2 * bk + 3),
)

#: Shapes of the batches of A and B.
BATCHES = (((), ()), ((2,), (2,)), ((3,), ()), ((2, 1), (3,)), ((), (2, 1, 2)))


def matrix(rng: np.random.Generator, batch: tuple[int, ...], rows: int, cols: int, dtype: str, letter: str):
    """Return integers with exact sums in a layout, surrounded by NaNs where the layout has gaps."""
    values = small_integers(rng, (*batch, rows, cols), np_dtype(dtype), bound=1)
    ndim = values.ndim
    if letter == "N":
        layout = plain(ndim)
    elif letter == "T":
        layout = Memory((*range(ndim - 2), ndim - 1, ndim - 2), (1,) * ndim, (0,) * ndim)
    else:
        layout = Memory(tuple(range(ndim)), (*(1,) * (ndim - 2), 2, -2), (*(0,) * (ndim - 2), 1, 1))
    return lay_out(np, values, layout, poison=True)[0]


def check(
    variant: str, tile: int | None, dtype: str, layout: str, edge: int, batch: int, target: str = "sm_90"
) -> None:
    config = kernel_spec(variant, tile=tile, dtype=dtype).config
    m, n, k = EDGES[edge % len(EDGES)](config.bm, config.bn, config.bk)
    rng = np.random.default_rng(edge * 100 + batch)
    batch_a, batch_b = BATCHES[batch % len(BATCHES)]
    a = matrix(rng, batch_a, m, k, dtype, layout[0])
    b = matrix(rng, batch_b, k, n, dtype, layout[1])
    result = simulator.matmul(a, b, variant=variant, tile=tile, target=target, **asked(dtype))
    wide = "complex128" if dtype.startswith("complex") else "float64"
    expected = a @ b if a.dtype.kind in "iub" else (a.astype(wide) @ b.astype(wide)).astype(a.dtype)
    np.testing.assert_array_equal(result, expected)


CASES = [(*case, i % len(EDGES), (i + i // len(EDGES)) % len(BATCHES)) for i, case in enumerate(pairwise())]
SIZES = {case[:4]: case[4:] for case in CASES}


def pairs(variant: str, tile: int | None, dtype: str, layout: str) -> set[tuple[object, ...]]:
    """Return the pairs of a case that the everyday tests cover: an operand's layout instead of both.

    Each variant has one of the edges that end within a tile (the first three), whole tiles, and few columns.
    """
    edge, batch = SIZES[variant, tile, dtype, layout]
    of_operands = {(variant, i, letter) for i, letter in enumerate(layout)}
    return {(dtype,), (variant, tile), (variant, max(edge, 2), "edge"), (edge, batch, "batch"), *of_operands}


EVERYDAY = covering(pairs)


def test_edges_and_batches_meet():
    assert {(edge, batch) for *_, edge, batch in CASES} == set(itertools.product(range(5), range(5)))
    assert {(variant, edge) for variant, *_, edge, _ in CASES} == set(
        itertools.product({name for name, _ in KERNELS}, range(5))
    )
    few = [case for case in CASES if case[:4] in EVERYDAY]
    assert {(edge, batch) for *_, edge, batch in few} == set(itertools.product(range(5), range(5)))
    assert {(variant, max(edge, 2)) for variant, *_, edge, _ in few} == set(
        itertools.product({name for name, _ in KERNELS}, range(2, 5))
    )


@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "layout", "edge", "batch"),
    [pytest.param(*case, marks=slow_unless(case[:4] in EVERYDAY)) for case in CASES],
)
def test_kernel(variant, tile, dtype, layout, edge, batch):
    check(variant, tile, dtype, layout, edge, batch)


@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "layout"),
    [
        pytest.param(*case, marks=slow_unless(i % 12 == 0))
        for i, case in enumerate(pairwise())
        if case[0] == "double_buffered" and i % 4 == 0
    ],
)
def test_kernel_without_cp_async(variant, tile, dtype, layout):
    check(variant, tile, dtype, layout, edge=0, batch=1, target="sm_75")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "layout", "edge"),
    [
        pytest.param(*kernel, layout, (turn(*kernel) // 2 + 2 * i + j) % len(EDGES), marks=full_unless(not j or i == 1))
        for kernel in SOME_TYPES
        if find_variant(kernel[0]).simulated
        for i, layout in enumerate(half_of_layouts(*kernel))
        for j in range(2)  # every kernel runs with all edges, without --full too
    ],
)
def test_kernel_of_some_types(variant, tile, dtype, layout, edge):
    check(variant, tile, dtype, layout, edge, batch=edge)


def test_tensor_cores_before_cp_async():
    for layout in ("NN", "TT"):
        check("tensor_core", 64, "float16", layout, edge=0, batch=1, target="sm_75")


@pytest.mark.parametrize(
    ("a_dtype", "b_dtype", "dtype", "out_dtype"),
    [
        pytest.param(*types, marks=slow_unless(i < 8 and i % 2 == 0))
        for i, types in enumerate([
            ("float16", "float16", None, "float32"), ("int8", "float16", None, "float16"),
            ("bfloat16", "bool", None, "float64"), ("int8", "int8", None, "int64"),
            ("float32", "float32", "bfloat16", "float32"), ("int64", "float64", None, "float32"),
            ("complex64", "float64", None, "complex128"), ("float64", "bool", "float32", "complex64"),
            ("bool", "uint8", None, "uint8"), ("float32", "float16", "float16", "float16"),
            ("float64", "float32", None, "float64"), ("complex128", "complex128", None, "complex64"),
            ("float32", "float32", None, "float64"), ("float16", "float32", None, "float32"),
        ])
    ],
)  # fmt: skip
def test_mixed_types_on_tensor_cores(a_dtype, b_dtype, dtype, out_dtype):
    rng = np.random.default_rng(0)
    a = small_integers(rng, (69, 21), np_dtype(a_dtype), bound=2)
    b = small_integers(rng, (21, 85), np_dtype(b_dtype), bound=2)
    out = np.zeros((69, 85), out_dtype)
    simulator.matmul(
        a, b, out=out, variant="tensor_core", tile=64, dtype=dtype and np_dtype(dtype), casting="unsafe",
        precision="tf32",
    )  # fmt: skip
    wide = "complex128" if out_dtype.startswith("complex") else "float64"
    np.testing.assert_array_equal(out, (a.astype(wide) @ b.astype(wide)).astype(out_dtype))


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        *(pytest.param(dtype, {"split_k": 3}, marks=slow_unless(dtype in ("f2", "f8")))
          for dtype in ("f2", "f4", "f8", "c16")),
        *(pytest.param(dtype, {"pack_a": 1, "pack_b": 1}, marks=slow_unless(dtype in ("f4", "i1")))
          for dtype in ("f2", "f4", "f8", "c16", "i1", "u1")),
        *(pytest.param(dtype, {"bk": bk, "stages": 2}, marks=slow_unless(dtype == "f2"))
          for dtype, bk in (("f4", 32), ("f2", 64), ("f8", 16))),
        ("f4", {"wm": 64, "tm": 8}),
        pytest.param("f8", {"wm": 16, "tm": 2, "stages": 2}, marks=pytest.mark.slow),
        ("f8", {"lanes": 2, "bk": 32, "unroll": 32}),
    ],
)  # fmt: skip
def test_numbers_of_tensor_cores(dtype, numbers):
    rng = np.random.default_rng(1)
    a, b = (small_integers(rng, shape, np.dtype(dtype), bound=1) for shape in ((66, 100), (100, 30)))
    result = simulator.matmul(a, b, variant="tensor_core", tile=64, config=numbers, precision="tf32")
    wide = "c16" if dtype == "c16" else "f8"
    np.testing.assert_array_equal(result, (a.astype(wide) @ b.astype(wide)).astype(dtype))


@pytest.mark.parametrize(
    ("variant", "a_dtype", "b_dtype", "out_dtype"),
    [
        pytest.param(variant, *types, marks=slow_unless(i % 3 == j))
        for i, types in enumerate([
            ("int8", "float32", "float32"), ("float16", "float32", "complex64"), ("bool", "int64", "float64"),
            ("bfloat16", "bfloat16", "float32"), ("uint8", "int16", "int64"), ("float16", "float16", "float16"),
        ])
        for j, variant in enumerate(["coalesced", "tiled_padded", "double_buffered"])
    ],
)  # fmt: skip
def test_mixed_types(variant, a_dtype, b_dtype, out_dtype):
    rng = np.random.default_rng(0)
    a = small_integers(rng, (19, 21), np_dtype(a_dtype), bound=2)
    b = small_integers(rng, (21, 35), np_dtype(b_dtype), bound=2)
    out = np.zeros((19, 35), out_dtype)
    simulator.matmul(a, b, out=out, variant=variant)
    np.testing.assert_array_equal(out, (a.astype("f8") @ b.astype("f8")).astype(out_dtype))


@pytest.mark.full
@pytest.mark.parametrize("edge", range(len(EDGES)))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("variant", "tile", "dtype"),
    [
        *((*kernel, dtype) for kernel in KERNELS for dtype in TYPES),
        *(kernel for kernel in SOME_TYPES if find_variant(kernel[0]).simulated),
    ],
)
def test_the_full_product(variant, tile, dtype, layout, edge):
    check(variant, tile, dtype, layout, edge, batch=edge)
