"""Tests of C in a grid of parts, for operands too large to decompose at once. Needs no GPU."""

from __future__ import annotations

import itertools
import operator
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.selection.test_selection import product
from tests.strategies import PROPERTY
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import Array, describe
from tiledmm.problem.product import resolve
from tiledmm.problem.strides import Problem
from tiledmm.selection import parts
from tiledmm.selection.choice import MOST_APART, Choice
from tiledmm.selection.choose import select
from tiledmm.selection.model import H100
from tiledmm.selection.parts import grids

# A type, the variant that decomposes it, the largest square whose operands are decomposed at once, and how fast large
# squares are expected to be at least, as a fraction of one of half that size.
LARGE = (
    ("float32", "split_float32", 32768, 0.95), ("complex64", "split_float32", 18918, 0.95),
    ("float64", "split_float64", 23930, 0.95), ("complex128", "split_float64", 13816, 0.9),
    ("int32", "split_integer", 32768, 0.95), ("int64", "split_integer", 23170, 0.95),
)  # fmt: skip


def microseconds(dtype: str, size: int) -> float:
    return H100.best(product(size, size, size, dtype=dtype)).microseconds or 0.0


@pytest.mark.parametrize(("dtype", "variant", "largest", "fraction"), LARGE)
def test_large_products_are_as_fast_as_smaller_ones(dtype: str, variant: str, largest: int, fraction: float) -> None:
    wanted, larger = (product(size, size, size, dtype=dtype) for size in (largest, largest + 1))
    assert find_variant(variant).operands.fits(wanted.problem, wanted.compute)
    assert not find_variant(variant).operands.fits(larger.problem, larger.compute)
    assert microseconds(dtype, largest + 1) < 1.15 * microseconds(dtype, largest)
    rate, large = (size**3 / microseconds(dtype, size) for size in (largest // 2, 65536))
    assert large > fraction * rate
    choice = H100.best(larger)
    assert {part.spec.variant.name for part in choice.parts} == {variant} and choice.cut


@pytest.mark.parametrize(
    ("shapes", "dtype", "sizes"),
    [
        (((64, 8192, 8192), (64, 8192, 8192)), "float32", {(16, 8192, 8192): 4}),  # nothing is decomposed twice
        (((64, 64, 65536), (65536, 65536)), "float32", {(64, 64, 22016): 2, (64, 64, 21504): 1}),  # B is the larger one
        (((200, 16384, 1024), (1024, 64)), "float32", {(100, 16384, 64): 2}),
        (((32769, 32769), (32769, 32769)), "float32", {(1, 16640, 32769): 1, (1, 16129, 32769): 1}),
        (((65536, 65536), (65536, 65536)), "float64", {(1, 8192, 8192): 64}),
    ],
)
def test_the_operands_that_are_too_large_are_cut(
    shapes: Any, dtype: str, sizes: dict[tuple[int, int, int], int]
) -> None:
    kind = np.dtype(dtype)
    wanted = resolve(*(Array.allocated(shape, kind) for shape in shapes))
    variant = find_variant("split_float64" if dtype == "float64" else "split_float32")
    grid = [part.problem for part in next(grids(variant, wanted))]
    found = Counter((problem.products, problem.m, problem.n) for problem in grid)
    assert found == sizes


@pytest.mark.parametrize("size", [65536, 50_000])
def test_operands_of_each_grid_need_less_than_half_as_much_memory_as_those_before(size: int) -> None:
    wanted, operands = product(size, size, size), find_variant("split_float32").operands
    firsts = [next(grid).problem for grid in grids(find_variant("split_float32"), wanted)]
    sizes = [operands.prepared_bytes(first, wanted.compute) for first in firsts]
    assert len(sizes) > 2 and sizes[0] <= operands.most_bytes
    assert all(after < before / 2 for before, after in itertools.pairwise(sizes))


def view(flat: np.ndarray, problem: Problem, operand: int) -> np.ndarray:
    """Return A, B or C of a problem, as a view of memory that begins with the whole matrix."""
    m, n, k = problem.m, problem.n, problem.k
    shape = (*(each.size for each in problem.batch), *((m, k), (k, n), (m, n))[operand])
    strides = (*(each.strides[operand] for each in problem.batch), *problem.strides[2 * operand : 2 * operand + 2])
    steps = [flat.itemsize * step for step in strides]
    return np.lib.stride_tricks.as_strided(flat[problem.begins[operand] :], shape, steps)


@given(
    batches=st.lists(st.tuples(st.integers(1, 3), st.sampled_from([(1, 1), (0, 1), (1, 0)])), max_size=3),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 9)),
    letters=st.tuples(*[st.sampled_from("NT")] * 3),
    variant=st.sampled_from(["split_float32", "split_float64", "split_integer"]),
    limit=st.integers(6, 14),
)
@settings(PROPERTY, max_examples=60)
def test_parts_are_all_of_c_once(
    batches: Any, sizes: tuple[int, int, int], letters: tuple[str, ...], variant: str, limit: int
) -> None:
    m, n, k = sizes
    kind = np.dtype({"split_float32": "f4", "split_float64": "f8", "split_integer": "i4"}[variant])
    rng = np.random.default_rng(m + n)
    arrays, flat = [], []
    for i, (core, letter) in enumerate(zip(((m, k), (k, n), (m, n)), letters, strict=True)):
        batch = [size if i == 2 or varies[i] else 1 for size, varies in batches]
        memory = rng.integers(-4, 5, (*batch, *(core if letter == "N" else core[::-1]))).astype(kind)
        arrays.append(memory if letter == "N" else memory.swapaxes(-1, -2))
        flat.append(memory.reshape(-1))
    x1, x2, out = arrays
    product = resolve(*map(describe, arrays))
    first, second, third = flat if not product.is_transposed else (flat[1], flat[0], flat[2])
    times = np.zeros_like(third)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_GRID_TILE", 4)
        patch.setattr(type(find_variant(variant).operands), "most_bytes", 1 << limit)
        for grid in grids(find_variant(variant), product):
            problems = [part.problem for part in grid]
            assert 1 < len(problems) <= 1024
            third[...] = times[...] = 0
            for problem in problems:
                assert find_variant(variant).operands.fits(problem, product.compute)
                assert all(map(operator.le, _sizes(problem), _sizes(problems[0])))
                view(times, problem, 2)[...] += 1
                view(third, problem, 2)[...] = view(first, problem, 0) @ view(second, problem, 1)
            assert (times == 1).all()
            np.testing.assert_array_equal(out, x1 @ x2)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("size", [33_000, 40_000, 65_536])
def test_parts_on_both_sides_of_the_diagonal_sum_alike(size: int, hermitian: bool) -> None:
    """Check that a part above the diagonal of a symmetric C multiplies the same elements as the one below, alike."""
    kind = np.dtype("c8")
    x = Array.allocated((size, size), kind)
    keywords: dict[str, Any] = {"adjoint": (False, True)} if hermitian else {}
    wanted = resolve(x, x if hermitian else Array((size, size), (8, 8 * size), kind), same_memory=True, **keywords)
    assert wanted.symmetric and wanted.hermitian == hermitian
    choices = H100.best(wanted).parts
    assert sum(part.product.problem.m * part.product.problem.n for part in choices) == size**2
    on = [choice for choice in choices if choice.product.symmetric]
    assert len(on) > 1 and all(choice.spec.config.triangle for choice in on)
    beside = [choice for choice in choices if not choice.product.symmetric]
    for below, above in zip(beside[::2], beside[1::2], strict=True):
        one, other = below.product.problem, above.product.problem
        assert (one.m, one.n, one.begins[:2]) == (other.m, other.n, other.begins[:2])
        assert one.strides[:4] == other.strides[:4]
        assert (one.begins[2] // size, one.begins[2] % size) == (other.begins[2] % size, other.begins[2] // size)
        assert one.strides[4:] == other.strides[:3:-1]
        assert below.spec.config == above.spec.config and below.spec.variant == above.spec.variant
        assert (below.spec.conjugates, above.spec.conjugates) == (("b", "a") if hermitian else ("", ""))


def _sizes(problem: Problem) -> tuple[int, ...]:
    return problem.m, problem.n, *(dimension.size for dimension in problem.batch)


def test_parts_of_parts_are_one_list() -> None:
    """Check that nested parts are flattened, as in a tuned row that contains only the first part."""
    wanted = product(65536, 65536, 65536)
    first, others = H100.with_others(wanted, (16384, 16384))
    choice = Choice(first, H100.best(wanted).spec, 1.0, others)
    assert any(other.others for other in choice.others)
    assert sum(part.product.problem.m * part.product.problem.n for part in choice.parts) == 65536**2
    assert len(choice.schedules) == len(choice.parts) > 1 + len(choice.others)
    assert choice.workspace == max(planned.workspace for planned in choice.schedules) < 9 << 30
    assert choice.with_packing().workspace == choice.workspace


def test_all_parts_are_packed_where_tma_cannot_read_in_place() -> None:
    wanted = product(4096, 4096, 4096, dtype="float16")
    first, others = H100.with_others(wanted, (2048, 2048))
    whole = H100.best(wanted).spec
    assert whole.variant.hopper.tma
    alike = tuple(replace(other, spec=whole) for other in others)
    choice = Choice(first, whole, 1.0, alike)
    packed = [part.spec.config.launch for part in choice.with_packing().parts]
    assert len(packed) > 1 and all(launch.pack_a and launch.pack_b for launch in packed)
    assert not any(part.spec.config.launch.pack_a for part in choice.parts)


def test_what_is_in_a_grid_is_not_cut_once_more() -> None:
    """Check that choices in a grid of parts are not cut again, and that their parts cover C exactly."""
    wanted = product(33000, 33000, 33000)
    ranked = list(H100.rank(wanted))
    assert all(choice.spec.variant.name != "split_float32" or choice.others for choice in ranked)
    for choice in ranked:
        assert sum(part.product.problem.m * part.product.problem.n for part in choice.parts) == 33000**2
    assert {choice.others for choice in H100.every(wanted)} == {()}


def test_a_workspace_that_is_large_is_one_for_all_parts() -> None:
    large, small = (H100.best(product(size, size, size)) for size in (40_000, 4097))
    assert large.shares_workspace and large.workspace == max(each.workspace for each in large.schedules)
    assert sum(each.workspace for each in large.schedules) > MOST_APART >= large.workspace // 8
    assert small.others and not small.shares_workspace
    assert small.workspace == sum(each.workspace for each in small.schedules) > 0


def test_parts_share_a_workspace_of_more_than_a_gibibyte() -> None:
    half = select("tiled", 32, product(8192, 8192, 4096), {"split_k": 2})
    two, three = replace(half, others=(half,)), replace(half, others=(half, half))
    assert (half.workspace, two.workspace, three.workspace) == (1 << 29, 1 << 30, 1 << 29)
    assert not two.shares_workspace and three.shares_workspace
    alone = select("tiled", 32, product(8192, 8192, 4096), {"split_k": 8})
    assert alone.workspace == 1 << 31 and not alone.shares_workspace


def test_less_memory_is_smaller_parts() -> None:
    wanted = product(65536, 65536, 65536)
    best = H100.best(wanted)
    found = [H100.best_within(wanted, lambda choice, n=n: choice.workspace <= best.workspace // n) for n in (1, 2, 4)]
    assert found[0] == best
    for choice, fewer in zip(found, (1, 2, 4), strict=True):
        assert choice is not None and choice.workspace <= best.workspace // fewer
        assert {part.spec.variant.name for part in choice.parts} == {"split_float32"}
        assert best.microseconds <= choice.microseconds < 1.5 * best.microseconds
    nothing = H100.best_within(wanted, lambda choice: choice.workspace == 0)
    assert nothing is not None and not nothing.others and nothing.workspace == 0


def test_operands_that_could_be_decomposed_at_once_are_decomposed_in_parts_where_memory_is_short() -> None:
    wanted = product(20_000, 20_000, 20_000)
    assert not H100.best(wanted).others
    found = H100.best_within(wanted, lambda choice: choice.workspace <= MOST_APART)
    assert found is not None and found.others and found.workspace <= MOST_APART
    assert {part.spec.variant.name for part in found.parts} == {"split_float32"}


def test_no_grid_of_sums_of_few_terms_of_batches_for_the_host_or_of_nothing() -> None:
    kind = np.dtype("f4")
    odd = Array((2, 2, 2, 2, 1 << 16, 1 << 16), tuple(4 * step for step in (3, 11, 77, 1001, 1 << 20, 1)), kind)
    for wanted in (product(1 << 25, 1 << 9, 200), product(0, 1 << 15, 1 << 20), resolve(odd, odd.as_type(kind))):
        assert not any(each.others for each in H100.alone(wanted))


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (65536, r"16 x \(16384 x 16384\) of C: tiledmm_split_float32_\w+"),
        (32769, r"16640 x 32769, 16129 x 32769 of C: tiledmm_split_float32_\w+"),
    ],
)
def test_parts_that_are_alike_are_counted(size: int, says: str) -> None:
    assert re.fullmatch(says, str(H100.best(product(size, size, size))))


def test_two_parts_that_are_alike_are_counted_too() -> None:
    choice = H100.best(product(64, 32, 16))
    assert str(replace(choice, others=(choice,))) == f"2 x (64 x 32) of C: {choice.spec}"
    several = replace(choice, product=product(64, 32, 16, batch=3))
    assert str(replace(several, others=(choice,))) == f"3 x 64 x 32, 64 x 32 of C: {choice.spec}"


def test_parts_of_batches_say_how_many_products() -> None:
    best = H100.best(product(8192, 8192, 8192, batch=64))
    assert re.fullmatch(r"4 x \(16 x 8192 x 8192\) of C: tiledmm_split_float32_\w+", str(best))
