"""Tests that the cost model's predictions equal the recorded ones, so that no change goes unnoticed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from tests import expected
from tests.expected import product
from tiledmm.elements import compute_element
from tiledmm.kernels.operands.operands import OperandCost
from tiledmm.kernels.variants import find_variant
from tiledmm.selection.cost import Cost, together
from tiledmm.selection.model import H100, H100_IEEE, SPLIT_K_FACTORS, Model
from tiledmm.selection.rates import KernelRates

EXPECTED = json.loads(expected.PATH.read_text("utf-8"))


@pytest.mark.parametrize(
    ("target", "every"), [("sm_90", 3), *(pytest.param(name, 1, marks=pytest.mark.slow) for name in EXPECTED)]
)
def test_expectations_are_those_written_down(target: str, every: int) -> None:
    products, written = expected.products(target), dict([*EXPECTED[target].items()][::every])
    found = {name: expected.text(expected.choose(target, products[name])) for name in written}
    assert found == written, "if intended, python -m tests.expected rewrites them"


def test_times_of_all_kernels_are_those_written_down() -> None:
    written, found = json.loads(expected.TIMES.read_text("utf-8")), expected.times()
    assert found.keys() == written.keys()
    for name, sums in found.items():
        assert sums == {variant: pytest.approx(each, rel=1e-7) for variant, each in written[name].items()}, name


def split_factors(*sizes: int) -> set[int]:
    return {choice.spec.config.launch.split_k for choice in H100.rank(product("float32", "NN", (1, *sizes), 0))}


def test_few_partitions_of_k_are_considered_and_many() -> None:
    found = set().union(*(split_factors(m, m, k) for m in (64, 200, 500, 1000) for k in (300, 1000, 4000, 65536)))
    assert {1, 2, 3, 4, 8, 96} <= found <= set(SPLIT_K_FACTORS)
    assert SPLIT_K_FACTORS[0] == 1 and list(SPLIT_K_FACTORS) == sorted(set(SPLIT_K_FACTORS))


def test_a_model_takes_what_it_chooses_from() -> None:
    variants = {row.variant for row in H100.rates.rows}
    decomposing = {row.name for row in map(find_variant, variants) if not row.operands.is_ieee}
    for each in variants:
        assert H100.takes(each)
        assert H100_IEEE.takes(each) is (each not in decomposing)
    assert (
        decomposing
        and not H100.takes("naive")
        and not Model(H100.gpu, H100.rates.only(lambda name: name == "tiled")).takes("wgmma")
    )


@pytest.mark.parametrize("sizes", [(40, 60_000, 4096), (60_000, 40, 4096), (33, 200_000, 2048)])
def test_every_part_of_c_has_rows_and_columns(sizes: tuple[int, int, int]) -> None:
    for choice in H100.rank(product("float32", "NN", (1, *sizes), 0)):
        covered = 0
        for part in choice.parts:
            problem: Any = part.product.problem
            assert problem.m > 0 and problem.n > 0
            covered += problem.m * problem.n
        assert covered == sizes[0] * sizes[1]


@pytest.mark.parametrize(
    ("variant", "dtype"), [("wgmma", "float16"), ("tensor_core", "float16"), ("warp_tiled", "float32")]
)
def test_rows_that_begin_within_lines_of_l2_are_read_more_slowly(variant: str, dtype: str) -> None:
    cost, config = Cost(H100.gpu, H100.rates), find_variant(variant).config(64, compute_element(dtype))

    def cache(gap: int, *packs: str) -> float:
        made = product(dtype, "NN", (1, 1024, 1024, 1024), gap)
        return cost.terms(variant, config, made, packs, 1).cache

    device = H100.rates.device
    whole, part = (device.l2_tma, device.l2_tma_unaligned) if variant == "wgmma" else (device.l2, device.l2_unaligned)
    assert cache(8) == pytest.approx(cache(0) * whole / part) and part < whole
    assert cache(8, "pack_a", "pack_b") == pytest.approx(cache(0)), "packed rows begin at cache lines"
    assert cache(0) < cache(8, "pack_a") < cache(8)


@pytest.mark.parametrize(
    ("variant", "dtype", "layout", "gap", "how"),
    [
        ("tensor_core", "float16", "NN", 0, "chunks"),
        ("tensor_core", "float16", "NN", 2, "words"),
        ("tensor_core", "float16", "TT", 1, "elements"),
        ("tensor_core", "float64", "NT", 1, "words"),
        ("tensor_core", "complex128", "NN", 1, "chunks"),
        ("tensor_core", "int8", "NT", 4, "words"),
        ("tensor_core", "int8", "NT", 2, "elements"),
        ("tensor_core", "int8", "NN", 0, "elements"),  # bytes that are not K-major are transposed
        ("wgmma", "float16", "NN", 0, "chunks"),
        ("warp_tiled", "float32", "NN", 0, "chunks"),
        ("warp_tiled", "float32", "NN", 1, "elements"),
        ("dot_products", "float32", "NT", 0, "chunks"),
        ("dot_products", "float32", "NT", 1, "words"),
        ("dot_products", "float16", "NT", 1, "elements"),
        ("axpy", "float64", "NN", 1, "words"),
        ("axpy", "complex128", "NN", 1, "chunks"),
    ],
)
def test_how_operands_are_read(variant: str, dtype: str, layout: str, gap: int, how: str) -> None:
    made = product(dtype, layout, (1, 1024, 1024, 1024), gap)
    row = find_variant(variant)
    assert row.operands.access(row, (), made) == how
    assert row.operands.access(row, ("pack_a", "pack_b"), made) == "chunks"


def test_operands_that_are_not_aligned_are_packed_unless_reading_them_in_place_was_measured_and_is_faster() -> None:
    made = product("float16", "NN", (1, 96, 96, 4096), 2)
    (row,) = (row for row in H100.rates.rows if (*row.name, row.type) == ("tensor_core", 64, "float16"))

    def packed(**rates: float) -> bool:
        model = Model(H100.gpu, replace(H100.rates, rows=(replace(row, **rates),)))
        (choice,) = (each for each in model.rank(made) if not each.others)
        launch = choice.spec.config.launch
        return bool(launch.pack_a and launch.pack_b)

    assert packed(words=0.0, elements=0.9) and packed(words=0.01)
    assert not packed(words=0.95)


def test_a_kernel_whose_time_is_not_known_is_not_considered() -> None:
    made = product("float16", "NN", (1, 96, 96, 4096), 2)
    rows = tuple(
        row for row in H100.rates.rows if row.type == "float16" and row.variant in ("warp_tiled", "tensor_core")
    )
    model = Model(H100.gpu, replace(H100.rates, rows=tuple(replace(row, words=0.0) for row in rows)))
    assert all(0 < (choice.microseconds or 0) < math.inf for choice in model.rank(made))
    # But it runs where there is no memory to pack, and no other kernel.
    model = Model(H100.gpu, replace(H100.rates, rows=tuple(row for row in rows if row.variant == "tensor_core")))
    choice = model.best_within(made, lambda choice: choice.workspace == 0)
    assert choice is not None and choice.spec.variant.name == "tensor_core"


def test_rates_that_were_not_measured_change_nothing() -> None:
    row = KernelRates("warp_tiled", 64, "float32", 1.0, (), 0.0, 1.0, 1.0)
    assert (row.transposed_b, row.writing, row.overlap) == (1.0, 1.0, math.inf)
    assert (row.words, row.elements, row.writing_unaligned) == (0.0, 0.0, 0.0)


def test_operands_that_are_read_in_place_cost_only_their_reading() -> None:
    cost = OperandCost((100.0, 200.0), "NN", (True, True), 300, 5.0)
    assert (cost.reads, cost.planes, cost.writing, cost.after, cost.host) == (1.0, 1, None, 0.0, 0.0)
    config = find_variant("tiled").config(16, compute_element("float32"))
    terms = Cost(H100.gpu, H100.rates).terms("tiled", config, product("float32", "NN", (1, 64, 64, 64), 0), (), 1)
    assert (terms.before, terms.after, terms.host) == (H100.rates.device.launch, 0.0, 0.0)


def test_a_kernel_multiplies_whole_tiles_of_k() -> None:
    cost, config = Cost(H100.gpu, H100.rates), find_variant("wgmma").config(64, compute_element("float16"))
    steps = [cost.terms("wgmma", config, product("float16", "NN", (1, 64, 64, k), 0), (), 1).steps for k in (1, 64, 65)]
    assert steps == [64, 64, 128]


@pytest.mark.parametrize("packs", [(), ("pack_elements",)])
@pytest.mark.parametrize("dtype", ["bool", "int8"])
def test_packed_elements_take_the_time_of_their_type(dtype: str, packs: tuple[str, ...]) -> None:
    cost, device = Cost(H100.gpu, H100.rates), H100.rates.device
    config = find_variant("warp_tiled").config(64, compute_element(dtype))
    for layout, letters in (("NN", "NT"), ("NT", "NN"), ("TN", "TT")):
        before = cost.terms("warp_tiled", config, product(dtype, layout, (1, 4096, 4096, 4096), 0), packs, 1).before
        if packs:
            moved = [
                4096**2 / (device.packing_bits[letter] if dtype == "bool" else device.packing_elements) / 1e6
                for letter in letters
            ]
            assert before == pytest.approx(3 * device.launch + sum(moved), rel=1e-3)
        else:
            assert before == device.launch
    small = cost.terms("warp_tiled", config, product(dtype, "NN", (1, 64, 64, 64), 0), packs, 1).before
    if packs and dtype == "bool":
        least = device.packing_bits_least
        assert small == pytest.approx(3 * device.launch + least["N"] + least["T"], rel=1e-3)


def test_what_overlaps_takes_at_least_the_longest_and_at_most_all() -> None:
    assert together(math.inf, 3.0, 4.0, 1.0) == 4.0 and together(1.0, 3.0, 4.0, 1.0) == pytest.approx(8.0)
    assert together(2.0, 3.0, 4.0, 0.0) == pytest.approx(5.0)
    assert together(2.0, 0.0, 0.0, 0.0) == 0.0, "an empty product"
