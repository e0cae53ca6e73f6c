"""Tests of the conversion of strides to a kernel's arguments: layouts, merged batches, grids."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import PROPERTY
from tiledmm.errors import ShapeError
from tiledmm.kernels.launches import rasterization_group, split_k_partitions, tiles
from tiledmm.kernels.variants import general_variants, kernel_spec, kernel_variants
from tiledmm.problem.arrays import Array, begin_together, describe, is_array, is_same, of_shape
from tiledmm.problem.product import resolve
from tiledmm.problem.strides import KERNEL_BATCH_DIMENSIONS, BatchDimension, Problem, Span, arrange
from tiledmm.schedule.schedule import schedule
from tiledmm.selection.choice import kernel_spec_of


def problem_of(x1: np.ndarray, x2: np.ndarray, out: np.ndarray | None = None) -> Problem:
    return resolve(describe(x1), describe(x2), None if out is None else describe(out)).problem


# ---- descriptions of arrays ----

FLOAT = np.dtype("f4")


@pytest.mark.parametrize(
    ("shape", "strides", "orders"),
    [
        ((3, 5), (20, 4), "C"), ((3, 5), (4, 12), "F"), ((3, 5), (24, 4), ""), ((3, 5), (-20, 4), ""),
        ((2, 2), (8, 4), "C"), ((2, 2), (4, 8), "F"), ((2, 2), (4, 4), ""), ((2, 2), (12, 4), ""),
        ((3,), (4,), "CF"), ((2,), (8,), ""), ((1,), (8,), "CF"), ((), (), "CF"),
        ((1, 5), (400, 4), "CF"), ((3, 1, 5), (20, 0, 4), "C"), ((2, 3, 5), (60, 20, 4), "C"), ((2, 3), (4, 8), "F"),
    ],
)  # fmt: skip
def test_an_array_is_contiguous_as_in_numpy(shape: tuple[int, ...], strides: tuple[int, ...], orders: str) -> None:
    array = Array(shape, strides, FLOAT)
    assert "".join(order for order in "CF" if array.is_contiguous(order)) == orders


@pytest.mark.parametrize(
    ("shape", "strides", "target", "found"),
    [
        ((3, 1), (4, 4), (2, 3, 5), (0, 4, 0)), ((5,), (4,), (5,), (4,)), ((5,), (4,), (3, 5), (0, 4)),
        ((1,), (4,), (5,), (0,)), ((), (), (2, 2), (0, 0)), ((0, 1), (4, 4), (0, 2), (4, 0)),
        ((2,), (4,), (3,), None), ((2, 3), (12, 4), (3, 3), None), ((3, 2), (8, 4), (3, 3), None),
        ((3,), (4,), (), None), ((1,), (4,), (), None), ((3, 3), (12, 4), (3,), None), ((1, 3), (12, 4), (3,), None),
    ],
)  # fmt: skip
def test_an_array_is_broadcast_as_in_numpy(
    shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...], found: tuple[int, ...] | None
) -> None:
    array = Array(shape, strides, FLOAT)
    if found is None:
        with pytest.raises(ShapeError):
            array.broadcast_to(target)
    else:
        assert array.broadcast_to(target) == Array(target, found, FLOAT)


@pytest.mark.parametrize(
    ("shape", "order", "strides"),
    [
        ((2, 3, 5), "C", (60, 20, 4)), ((2, 3, 5), "F", (4, 8, 24)),
        ((2, 0, 5), "C", (20, 20, 4)), ((2, 0, 5), "F", (4, 8, 8)), ((), "C", ()),
    ],
)  # fmt: skip
def test_a_new_array_has_no_gaps(shape: tuple[int, ...], order: str, strides: tuple[int, ...]) -> None:
    assert Array.allocated(shape, FLOAT, order) == Array(shape, strides, FLOAT)


@pytest.mark.parametrize(
    ("shape", "strides", "writable"),
    [
        ((2, 3), (0, 4), False), ((3, 2), (4, 0), False), ((1, 3), (0, 4), True), ((2, 0), (0, 4), True),
        ((2, 3), (12, 4), True), ((), (), True),
    ],
)  # fmt: skip
def test_elements_that_share_an_address_cannot_be_written(
    shape: tuple[int, ...], strides: tuple[int, ...], writable: bool
) -> None:
    array = Array(shape, strides, FLOAT)
    if writable:
        array.check_writable()
    else:
        with pytest.raises(ShapeError):
            array.check_writable()


@pytest.mark.parametrize("shape", [(-1,), (2.0, 3), (True, 3), ("3",), (2**59 + 1,), (0, 2**60), (2**30, 2**30)])
def test_a_shape_that_no_array_has(shape: tuple[object, ...]) -> None:
    with pytest.raises(ShapeError):
        of_shape(shape)


def test_a_shape_is_that_of_a_row_major_array_of_float32() -> None:
    assert of_shape((2, np.int64(3))) == Array((2, 3), (12, 4), FLOAT)
    assert of_shape((0, 3), "float64") == Array((0, 3), (24, 8), np.dtype("f8"))
    assert of_shape((2**58, 2)).shape == (2**58, 2)


def test_a_number_is_no_array() -> None:
    assert [is_array(x) for x in (np.zeros(1), np.zeros(()), np.float32(1), 1.0, [1.0], None)] == [True] + 5 * [False]
    for name in ("__dlpack__", "__cuda_array_interface__"):
        assert is_array(type("Other", (), {name: None})())


def test_arrays_that_begin_together_or_are_the_same() -> None:
    x = np.zeros((4, 4), "f4")
    assert begin_together(x, x.T) and begin_together(x, x[::2]) and not begin_together(x, x[1:])
    assert not begin_together(1.0, 1.0), "neither has an address"
    assert is_same(x, x[:]) and not is_same(x, x[:3])
    assert not any(is_same(x, other) for other in (x.T, x.view("i4"), x.copy()))


# ---- layouts ----

SQUARE = np.zeros((6, 6), "f4")
WIDE = np.zeros((6, 12), "f4")
OPERANDS = {
    "contiguous": (SQUARE, "N"),
    "transposed": (SQUARE.T, "T"),
    "padded rows": (WIDE[:, :6], "N"),
    "padded rows, transposed": (WIDE[:, :6].T, "T"),
    "every other row": (np.zeros((12, 6), "f4")[::2], "N"),
    "every other column": (WIDE[:, ::2], "G"),
    "rows reversed": (SQUARE[::-1], "N"),
    "columns reversed": (SQUARE[:, ::-1], "G"),
    "columns reversed, transposed": (SQUARE[::-1].T, "T"),
    "one row for all": (np.broadcast_to(np.zeros(6, "f4"), (6, 6)), "N"),
    "one column for all": (np.broadcast_to(np.zeros((6, 1), "f4"), (6, 6)), "T"),
    "one element for all": (np.broadcast_to(np.zeros((), "f4"), (6, 6)), "G"),
    "sliding window": (np.lib.stride_tricks.sliding_window_view(np.zeros(11, "f4"), 6), "N"),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_layout_of_an_operand(name: str) -> None:
    x, letter = OPERANDS[name]
    problem = problem_of(x, SQUARE)
    assert problem.layout == letter + "N"
    assert problem.strides[:2] == tuple(s // 4 for s in x.strides)
    assert problem_of(SQUARE, x).layout == "N" + letter
    assert problem_of(SQUARE, x).strides[2:4] == tuple(s // 4 for s in x.strides)


def test_an_axis_of_one_element_takes_the_stride_that_suits() -> None:
    column = np.zeros((6, 3), "f4")[:, :1]  # (6, 1), strides (12, 4)
    row = np.zeros((3, 6), "f4").T[:1]  # (1, 3), strides (4, 24)
    vector = np.zeros((8, 3), "f4")[:, 0]  # (8,), 3 elements apart
    assert problem_of(column, np.zeros((1, 6), "f4")).layout == "NN"
    assert problem_of(row, np.zeros((3, 6), "f4")).layout == "TN"
    assert problem_of(vector, np.zeros((8, 6), "f4")).layout == "TN"
    # C is one column, so its transpose is computed: the vector is a row on the left there, too.
    assert problem_of(np.zeros((6, 8), "f4"), vector).layout == "TT"


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_a_product_into_columns_is_transposed(layout: str) -> None:
    flip = {"N": "T", "T": "N"}
    x1, x2 = (SQUARE if letter == "N" else SQUARE.T for letter in layout)
    x1 = x1[:4] if layout[0] == "N" else SQUARE[:, :4].T
    out = np.zeros((6, 4), "f4").T
    product = resolve(describe(x1), describe(x2), describe(out))
    assert product.is_transposed
    assert (product.problem.m, product.problem.n, product.problem.k) == (6, 4, 6)
    assert product.problem.layout == flip[layout[1]] + flip[layout[0]]
    assert product.problem.strides[5] == 1


def test_a_product_into_neither_is_not_transposed() -> None:
    out = np.zeros((12, 12), "f4")[::2, ::2]
    product = resolve(describe(SQUARE), describe(SQUARE), describe(out))
    assert not product.is_transposed
    assert product.problem.strides[4:] == (24, 2)


# ---- batches ----


def arranged(loop: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> Problem:
    return arrange((2, 3, 4), loop, (*a, 4, 1), (*b, 3, 1), (*c, 3, 1))[0]


def test_contiguous_batches_merge_to_one_dimension() -> None:
    x1, x2 = np.zeros((2, 3, 4, 5, 6), "f4"), np.zeros((2, 3, 4, 6, 7), "f4")
    problem = problem_of(x1, x2)
    assert problem.batch == (BatchDimension(24, 30, 42, 35),)
    assert problem.outer == ()


def test_a_matrix_shared_by_all_batches_merges_too() -> None:
    problem = problem_of(np.zeros((2, 3, 4, 5, 6), "f4"), np.zeros((6, 7), "f4"))
    assert problem.batch == (BatchDimension(24, 30, 0, 35),)


def test_batches_in_another_order_of_memory_merge() -> None:
    x1, x2 = (np.zeros((3, 2, *core), "f4").transpose(1, 0, 2, 3) for core in ((5, 6), (6, 7)))
    out = np.zeros((3, 2, 5, 7), "f4").transpose(1, 0, 2, 3)
    assert problem_of(x1, x2, out).batch == (BatchDimension(6, 30, 42, 35),)


def test_reversed_batches_merge() -> None:
    x1, x2 = np.zeros((2, 3, 5, 6), "f4")[::-1, ::-1], np.zeros((2, 3, 6, 7), "f4")[::-1, ::-1]
    out = np.zeros((2, 3, 5, 7), "f4")[::-1, ::-1]
    assert problem_of(x1, x2, out).batch == (BatchDimension(6, -30, -42, -35),)


def test_batches_that_only_one_operand_has_do_not_merge_with_shared_ones() -> None:
    problem = problem_of(np.zeros((4, 1, 5, 6), "f4"), np.zeros((4, 3, 6, 7), "f4"))
    assert problem.batch == (BatchDimension(4, 30, 126, 105), BatchDimension(3, 0, 42, 35))


def test_dimensions_of_one_disappear() -> None:
    assert problem_of(np.zeros((1, 1, 5, 6), "f4"), np.zeros((1, 6, 7), "f4")).batch == ()


def test_no_products_and_no_elements() -> None:
    problem = problem_of(np.zeros((0, 3, 5, 6), "f4"), np.zeros((1, 1, 6, 7), "f4"))
    assert problem.is_empty
    assert problem.products == 0
    assert problem_of(np.zeros((0, 6), "f4"), np.zeros((6, 7), "f4")).is_empty
    assert problem_of(np.zeros((5, 6), "f4"), np.zeros((6, 0), "f4")).is_empty
    assert not problem_of(np.zeros((5, 0), "f4"), np.zeros((0, 7), "f4")).is_empty, "zeros have to be written"


def test_the_smallest_surplus_dimensions_are_the_hosts() -> None:
    sizes = (2, 3, 5, 7, 11)
    a, b, c = ([], [], [])
    step = 12
    for i, size in reversed(list(enumerate(sizes))):
        c.insert(0, step)
        a.insert(0, 0 if i % 2 else step)
        b.insert(0, step if i % 2 else 0)
        step *= size
    problem = arranged(sizes, tuple(a), tuple(b), tuple(c))
    assert [d.size for d in problem.batch] == [5, 7, 11]
    assert [d.size for d in problem.outer] == [2, 3]
    assert len(list(problem.outer_offsets())) == 6
    assert next(problem.outer_offsets()) == (0, 0, 0)


def test_no_outer_dimensions_are_one_step() -> None:
    assert list(arranged((), (), (), ()).outer_offsets()) == [(0, 0, 0)]


@PROPERTY
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(-3, 3), st.integers(-3, 3), st.sampled_from((-1, 1))),
        max_size=6,
    )
)
def test_merging_keeps_every_product(rows: list[tuple[int, int, int, int]]) -> None:
    loop = tuple(row[0] for row in rows)
    # C's strides are an array's, so that no two products share a place.
    c_steps, step = [], 12
    for size, _, _, sign in reversed(rows):
        c_steps.insert(0, sign * step)
        step *= max(size, 1)
    a_steps, b_steps = [row[1] * 12 for row in rows], [row[2] * 12 for row in rows]
    problem = arranged(loop, tuple(a_steps), tuple(b_steps), tuple(c_steps))
    assert len(problem.batch) <= KERNEL_BATCH_DIMENSIONS
    assert problem.products == math.prod(loop)
    found = sorted(
        (
            a0 + sum(i * d.a for i, d in pairs),
            b0 + sum(i * d.b for i, d in pairs),
            c0 + sum(i * d.c for i, d in pairs),
        )
        for a0, b0, c0 in problem.outer_offsets()
        for index in itertools.product(*(range(d.size) for d in problem.batch))
        for pairs in [list(zip(index, problem.batch, strict=True))]
    )
    expected = sorted(
        tuple(sum(i * s for i, s in zip(index, steps, strict=True)) for steps in (a_steps, b_steps, c_steps))
        for index in itertools.product(*(range(size) for size in loop))
    )
    assert found == expected


# ---- spans ----


@pytest.mark.parametrize(
    ("shape", "strides", "span"),
    [
        ((), (), Span(0, 4)),
        ((3,), (4,), Span(0, 12)),
        ((3,), (-4,), Span(-8, 4)),
        ((3,), (0,), Span(0, 4)),
        ((0,), (4,), Span(0, 0)),
        ((2, 0, 2), (4, 4, 4), Span(0, 0)),
        ((2, 3), (100, -8), Span(-16, 104)),
        ((1, 1), (-400, 400), Span(0, 4)),
    ],
)
def test_span(shape: tuple[int, ...], strides: tuple[int, ...], span: Span) -> None:
    assert Span.of(shape, strides, 4) == span


# ---- launches ----


def blocks(shape: tuple[int, int], batch: tuple[int, ...] = (), tile: int = 8) -> list[int]:
    m, n = shape
    dtype = np.dtype("i1")
    x1 = Array((*batch, m, 1), (*(m,) * len(batch), 1, 1), dtype)
    x2 = Array((*batch, 1, n), (*(n,) * len(batch), n, 1), dtype)
    product = resolve(x1, x2)
    planned = schedule(kernel_spec("tiled", tile=tile, dtype="int8"), product.problem)
    return [each.blocks for each in planned.launches]


@pytest.mark.parametrize(
    ("shape", "batch", "tile"),
    [
        ((1, 1), (), 8),
        ((8, 8), (), 8),
        ((9, 8), (), 8),
        ((70_000 * 8, 5), (), 8),
        ((5, 70_000 * 8), (), 8),
        ((3, 3), (70_000,), 8),
        ((3, 3), (70_000, 70_000), 8),
        ((2**31 + 1, 7), (), 8),
        ((7, 2**31 + 1), (), 64),
        ((2**20, 2**20), (), 16),
        ((2**22, 2**22), (), 8),
    ],
)
def test_launches_cover_every_tile_within_cudas_limits(
    shape: tuple[int, int], batch: tuple[int, ...], tile: int
) -> None:
    launches = blocks(shape, batch, tile)
    needed = -(-shape[0] // tile) * -(-shape[1] // tile) * math.prod(batch)
    assert all(1 <= each <= 2**31 - 1 for each in launches)
    assert sum(launches) == needed
    assert len(launches) <= 4 * needed // 2**31 + 1, "as a rule one"


def test_too_many_tiles_are_an_error_that_says_so() -> None:
    with pytest.raises(ValueError):
        blocks((2**31, 2**31))


def test_as_many_tiles_as_a_grid_takes_are_one_launch() -> None:
    assert blocks((8 * (2**31 - 1), 1)) == [2**31 - 1]
    assert len(blocks((8 * (2**31 - 1) + 1, 1))) == 2


def test_as_many_tiles_as_all_launches_take_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiledmm.kernels.launches.MOST_TILES", 4)
    monkeypatch.setattr("tiledmm.kernels.launches.MOST_LAUNCHES", 2)
    assert blocks((64, 8)) == [4, 4]
    with pytest.raises(ShapeError, match=r"9.*2.*8"):
        blocks((65, 8))


def test_packed_sizes_are_what_the_kernels_struct_holds() -> None:
    x1, x2 = np.zeros((2, 1, 5, 6), "f4"), np.zeros((2, 3, 7, 6), "f4").swapaxes(-1, -2)
    problem = problem_of(x1, x2)
    (launch,) = schedule(kernel_spec("tiled", tile=8), problem).launches
    m, n, k, tiles_m, tiles_n, tiles, group, slices, slice_k, slice_c, *rest = launch.kernel_args.tolist()
    assert (m, n, k, tiles_m, tiles_n, tiles, group) == (5, 7, 6, 1, 1, 2 * 3, 1)
    assert (slices, slice_k, slice_c) == (1, 6, 0)
    assert rest[:3] == [1, 2, 3], "batches, slowest first"
    assert rest[3:8] == [6, 1, 0, 30, 0], "A: row, column, batches"
    assert rest[8:13] == [1, 6, 0, 126, 42]
    assert rest[13:] == [7, 1, 0, 105, 35]


@pytest.mark.parametrize(
    ("k", "split", "slices", "steps"),
    [
        (100, 1, 1, 100),
        (100, 2, 2, 56),
        (100, 4, 4, 32),
        (100, 100, 13, 8),
        (64, 2, 2, 32),
        (33, 2, 2, 24),
        (0, 8, 1, 0),
        (2**29, 1, 1, 2**29),
        (2**29 + 1, 1, 2, 2**28 + 8),
        (2**32, 3, 8, 2**29),
    ],
)
def test_slices_of_k_are_none_of_them_empty(k: int, split: int, slices: int, steps: int) -> None:
    assert split_k_partitions(split, k, 8) == (slices, steps)
    assert (slices - 1) * steps < max(k, 1) <= max(slices * steps, 1)


def test_a_product_in_slices_is_two_launches_and_a_workspace() -> None:
    x1, x2 = np.zeros((2, 1, 5, 96), "f2"), np.zeros((2, 3, 96, 7), "f2")
    spec = kernel_spec("tiled", tile=8, dtype="float16", config={"split_k": 3})
    problem = problem_of(x1, x2)
    planned = schedule(spec, problem)
    (sums,) = planned.scratch
    assert (sums.name, sums.shape, sums.pitch, sums.element.dtype_name) == ("partial sums", (3, 6, 5, 7), 8, "float32")
    assert sums.bytes == 4 * 3 * 6 * 5 * 8
    first, second = planned.launches
    assert (first.operands, second.operands) == (("A", "B", "partial sums"), ("partial sums", "C"))
    assert planned.multiplying is first
    assert first.spec.c == second.spec.a == sums.element
    assert second.spec.c.dtype_name == "float16"
    assert first.blocks == 3 * 6
    *_, row, col, _, slow, fast = first.kernel_args.tolist()
    assert (row, col, slow, fast) == (8, 1, 120, 40), "C's strides are the workspace's"
    assert first.spec.config.launch.split_k == 1, "any number of slices is the same kernel"


def test_a_packed_operand_is_copied_once_for_all_of_a_batch() -> None:
    x1, x2 = np.zeros((4, 5, 33), "f4"), np.zeros((7, 33), "f4").T
    spec = kernel_spec("tiled", tile=8, layout="NT", config={"pack_a": 1, "pack_b": 1})
    planned = schedule(spec, problem_of(x1, x2))
    assert [each.operands for each in planned.launches] == [
        ("A", "packed A"), ("B", "packed B"), ("packed A", "packed B", "C"),
    ]  # fmt: skip
    a, b = planned.scratch
    assert (a.shape, a.pitch, b.shape, b.pitch) == ((4, 5, 36), 64, (1, 33, 8), 32), "zeros up to 16 bytes"
    assert planned.multiplying.spec.layout == "NN"
    words = planned.multiplying.kernel_args.tolist()
    assert words[13:18] == [64, 1, 0, 0, 5 * 64], "A's strides are the packed one's"
    assert words[18:23] == [32, 1, 0, 0, 0], "B is the same in all of the batch"
    copying = planned.launches[1]
    assert copying.spec.layout == "TN"
    assert copying.kernel_args.tolist()[10:13] == [1, 1, 1], "and is copied once"


def test_a_product_transposed_is_the_same_product() -> None:
    problem = problem_of(np.zeros((2, 5, 6), "f4"), np.zeros((7, 6), "f4").T)
    again = problem.transposed()
    assert (again.m, again.n, again.k, again.layout) == (7, 5, 6, "NT")
    assert again.strides == (6, 1, 1, 6, 1, 7)
    assert [(d.size, d.a, d.b, d.c) for d in again.batch] == [(2, 0, 30, 35)]
    assert again.transposed() == problem


def test_every_variant_has_blocks_for_every_tile() -> None:
    problem = problem_of(np.zeros((100, 3), "f4"), np.zeros((3, 200), "f4"))
    for variant in general_variants():
        for tile in variant.tiles or (None,):
            spec = kernel_spec(variant, tile=tile)
            config = spec.config
            (launch,) = schedule(spec, problem).launches
            assert launch.blocks == -(-(-(-100 // config.bm) * -(-200 // config.bn)) // config.tiles_per_block)
            assert math.prod(spec.block) == spec.threads <= 1024


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_partitions_begin_at_whole_tiles_of_k(dtype: str) -> None:
    matrix = np.zeros((200, 4096), dtype)
    made = resolve(describe(matrix), describe(matrix.T))
    for variant in kernel_variants():
        if variant.multiplies(made.compute) and not variant.reads.small_products and variant.operands.has_epilogue:
            config = variant.config(None, made.compute, {"split_k": 5})
            (sums,) = (
                each
                for each in schedule(kernel_spec_of(variant.name, config, made), made.problem).scratch
                if each.name == "partial sums"
            )
            steps = tiles(tiles(4096, 5), config.bk) * config.bk
            assert sums.shape[0] == tiles(4096, steps) <= 5


def test_the_longest_partition_of_k_is_counted_in_32_bits() -> None:
    assert split_k_partitions(1, 2**29, 8) == (1, 2**29)
    partitions, steps = split_k_partitions(1, 2**29 + 1, 8)
    assert partitions == 2 and steps < 2**29


@pytest.mark.parametrize(
    ("variant", "m", "k", "strides_of_c", "group"),
    [
        ("warp_tiled", 256, 256, (1000, 1), 8), ("warp_tiled", 256, 256, (1, 1000), 1),
        ("warp_tiled", 256, 256, (2, 2), 8), ("warp_tiled", 256, 257, (1000, 1), 1),
        ("warp_tiled", 288, 257, (1000, 1), 4), ("warp_tiled", 288, 257, (1, 1000), 4),
        ("tiled", 256, 256, (1000, 1), 1),
    ],
)  # fmt: skip
def test_the_order_of_tiles(variant: str, m: int, k: int, strides_of_c: tuple[int, int], group: int) -> None:
    """Check groups of a C of 8 columns of tiles.

    For a K of at most 256, a group is a whole row of tiles or one column; else it is one column where that has at most
    as many tiles as a row, or as the config says.
    """
    config = kernel_spec(variant, tile=32, config={"group": 4} if variant == "warp_tiled" else None).config
    problem = Problem(m, 256, k, (k, 1, 256, 1, *strides_of_c), (), "NN", ())
    assert rasterization_group(config, problem) == group


def test_columns_of_many_tiles_are_grouped() -> None:
    config = kernel_spec("warp_tiled", tile=32).config
    for rows, group in ((16, 1), (17, config.launch.group)):
        problem = Problem(32 * rows, 32 * 100, 999, (999, 1, 3200, 1, 3200, 1), (), "NN", ())
        assert rasterization_group(config, problem) == group


@pytest.mark.parametrize(
    ("shape", "strides", "letter"), [((5, 2), (2, 1), "N"), ((2, 5), (1, 2), "T"), ((2, 2), (1, 2), "T")]
)
def test_two_contiguous_elements_are_a_row_or_a_column(
    shape: tuple[int, int], strides: tuple[int, int], letter: str
) -> None:
    rows, cols = shape
    problem, _ = arrange((rows, 9, cols), (), strides, (9, 1), (9, 1))
    assert problem.layout[0] == letter


# ---- what an epilogue reads, and parts ----


def places(problem: Problem) -> list[tuple[int, ...]]:
    """Return, per element of C, its offset and those of the row of A, the column of B and the epilogue's elements.

    The steps along K in A and B are included. All offsets are in elements, in a fixed order.
    """
    row_a, col_a, row_b, col_b, row_c, col_c = problem.strides
    rows = (row_a, 0, row_c, *(row for row, _ in problem.epilogue))
    cols = (0, col_b, col_c, *(col for _, col in problem.epilogue))
    sizes = [range(each.size) for each in problem.batch]
    return sorted(
        (
            *(
                begin + outer + i * row + j * col + sum(x * d.strides[number] for x, d in pairs)
                for number, (begin, outer, row, col) in enumerate(zip(problem.begins, far, rows, cols, strict=True))
            ),
            col_a,
            row_b,
        )
        for far in problem.outer_offsets()
        for index in itertools.product(*sizes)
        for pairs in [list(zip(index, problem.batch, strict=True))]
        for i, j in itertools.product(range(problem.m), range(problem.n))
    )


@st.composite
def problems(draw: st.DrawFn, most: int = 5) -> tuple[Problem, bool, list[tuple[int, ...]]]:
    """Draw a problem with an epilogue of two arrays, whether it is transposed, and its expected ``places``."""
    m, n = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    loop = tuple(draw(st.lists(st.integers(1, 3), max_size=most)))
    c_steps, step = [], 2 * m * n
    for size in reversed(loop):
        c_steps.insert(0, step)
        step *= size
    core_c = draw(st.sampled_from(((2 * n, 2), (n, 1), (1, m))))
    unit = st.sampled_from((0, 1, 7))

    def read(row: int, col: int) -> tuple[int, ...]:
        """Draw the shape of an array that may be broadcast to C."""
        whole = draw(st.booleans())
        return (*(each if whole else each * draw(st.integers(0, 1)) for each in c_steps), row, col)

    a, b = read(11, 3), read(5, 13)
    read_too = [read(draw(unit), draw(unit)) for _ in range(2)]
    problem, transposed = arrange((m, n, 4), loop, a, b, (*c_steps, *core_c), read_too)
    wanted = []
    for index in itertools.product(*map(range, loop)):
        for i, j in itertools.product(range(m), range(n)):
            at = [sum(x * s for x, s in zip(index, steps, strict=False)) for steps in (a, b, c_steps, *read_too)]
            left, right, c, *others = at
            others = [each + i * s[-2] + j * s[-1] for each, s in zip(others, read_too, strict=True)]
            wanted.append((left + 11 * i, right + 13 * j, c + i * core_c[0] + j * core_c[1], *others, 3, 5))
    return problem, transposed, sorted(wanted)


def in_the_calls_order(problem: Problem, transposed: bool) -> list[tuple[int, ...]]:
    """Reorder places so that those of x1 come first, whichever operand is the kernel's A."""
    found = places(problem)
    return sorted((b, a, *others, y, x) for a, b, *others, x, y in found) if transposed else found


@settings(PROPERTY, max_examples=60)
@given(problems())
def test_what_an_epilogue_reads_goes_with_every_element_of_c(
    made: tuple[Problem, bool, list[tuple[int, ...]]],
) -> None:
    problem, transposed, wanted = made
    assert in_the_calls_order(problem, transposed) == wanted
    assert in_the_calls_order(problem.transposed(), not transposed) == wanted
    assert problem.transposed().transposed() == problem
    assert problem.transposed().layout == "".join({"N": "T", "T": "N"}.get(x, x) for x in problem.layout[::-1])


@settings(PROPERTY, max_examples=40)
@given(problems(3), st.data())
def test_parts_of_parts_have_the_places_of_the_whole(
    made: tuple[Problem, bool, list[tuple[int, ...]]], data: st.DataObject
) -> None:
    problem, _, _ = made

    def cut(size: int) -> list[range]:
        at = data.draw(st.integers(0, size))
        return [each for each in (range(at), range(at, size)) if each]

    def parts_of(whole: Problem) -> list[Problem]:
        axes = [cut(each.size) for each in whole.batch[: data.draw(st.integers(0, len(whole.batch)))]]
        return [
            whole.part(rows, cols, products)
            for rows, cols, *products in itertools.product(cut(whole.m), cut(whole.n), *axes)
        ]

    parts = [problem]
    for _ in range(2):
        parts = [each for part in parts for each in parts_of(part)]
        assert sorted(itertools.chain(*map(places, parts))) == places(problem)
    assert all(in_the_calls_order(part.transposed(), True) == places(part) for part in parts)
    whole, halves = [problem], []
    while whole:
        each = whole.pop()
        if max(each.m, each.n, *(d.size for d in each.batch)) > 1:
            whole += each.halves(1, 1)
        else:
            halves.append(each)
    assert sorted(itertools.chain(*map(places, halves))) == places(problem)
