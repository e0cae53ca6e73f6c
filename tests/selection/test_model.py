"""Tests that the cost model's predictions equal the recorded ones, so that no change goes unnoticed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import expected
from tests.expected import product
from tiledmm.elements import compute_element
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.operands.operands import OperandCost
from tiledmm.kernels.tensor_cores import loaded_columns
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import Array
from tiledmm.problem.product import resolve
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


@pytest.mark.parametrize(
    ("kernel", "dtype", "inside", "outside"),
    [
        (("thin", 16), "float32", (1, 64, 512, 512), (1, 65, 512, 512)),
        (("thin", 16), "float32", (1, 512, 64, 512), (1, 512, 65, 512)),
        (("tensor_core", 32), "float16", (1, 1024, 2000, 512), (1, 1025, 2000, 512)),
        (("tiny", 16), "float32", (16, 32, 32, 40), (15, 32, 32, 40)),
        (("tiny", 16), "float32", (64, 32, 32, 40), (64, 33, 32, 40)),
        (("tiny", 16), "float32", (64, 32, 32, 40), (64, 32, 33, 40)),
        (("outer_products", 2), "float32", (1, 300, 300, 2), (1, 300, 300, 3)),
        (("outer_products", 2), "float32", (1, 300, 64, 2), (1, 300, 63, 2)),  # half of a tile's columns
        (("narrow_outer_products", 4), "float32", (1, 300, 64, 4), (1, 300, 64, 5)),
        (("narrow_outer_products", 4), "float32", (1, 256, 64, 4), (1, 255, 64, 4)),  # a quarter of a tile's rows
        (("narrow_outer_products", 4), "int8", (3, 300, 256, 4), (3, 300, 257, 4)),  # 256 bytes per row
        (("narrow_outer_products", 4), "complex128", (3, 1, 300, 4), (3, 20, 300, 4)),  # a vector, as a column
        (("wgmma", 64), "float16", (1, 8, (1 << 31) - 64, 320), (1, 8, 1 << 31, 320)),
        (("axpy", 2), "float32", (1, 2, 512, 512), (1, 3, 512, 512)),
    ],
)
def test_kernels_are_considered_for_products_of_their_sizes(
    kernel: tuple[str, int], dtype: str, inside: tuple[int, int, int, int], outside: tuple[int, int, int, int]
) -> None:
    for sizes, considered in ((inside, True), (outside, False)):
        names = {row.name for row, _ in H100._in_one(product(dtype, "NN", sizes, 0))}
        assert (kernel in names) is considered, sizes


@pytest.mark.parametrize(
    ("variant", "tile", "sizes", "most"),
    [
        ("warp_tiled", 64, (1, 64, 64, 63), 1), ("warp_tiled", 64, (1, 64, 64, 64), 2),  # 32 steps of k, at least
        ("tiled", 32, (1, 64, 64, 127), 1), ("tiled", 32, (1, 64, 64, 128), 2),  # two tiles of k, at least
        ("warp_tiled", 256, (1, 1024, 1024, 1 << 20), 32), ("warp_tiled", 256, (1, 1024, 1025, 1 << 20), 24),  # 2^27 B
        ("warp_tiled", 32, (1, 352, 64, 1 << 20), 96), ("warp_tiled", 32, (1, 352, 65, 1 << 20), 64),  # 16 blocks an SM
        ("warp_tiled", 32, (11, 32, 64, 1 << 20), 96), ("split_float64", 128, (1, 64, 64, 1 << 20), 1),
    ],
)  # fmt: skip
def test_split_k_factors_are_limited(variant: str, tile: int, sizes: tuple[int, int, int, int], most: int) -> None:
    wanted = product("float64" if variant == "split_float64" else "float32", "NN", sizes, 0)
    factors = [*H100._splits(find_variant(variant).config(tile, wanted.compute), wanted)]
    assert factors == [each for each in SPLIT_K_FACTORS if each <= most]


def test_narrow_results_have_no_gaps_between_their_rows() -> None:
    a, b, c = (Array.laid_out(shape, np.dtype("f4"), "N") for shape in ((3000, 4), (4, 20), (3000, 20)))
    for out, considered in ((c, True), (replace(c, strides=(96, 4)), False)):
        wanted = resolve(a, b, out).computed_in(compute_element("float32"))
        assert any(row.variant == "narrow_outer_products" for row, _ in H100._in_one(wanted)) is considered


def test_a_cluster_shares_k_or_the_reduction_adds_partitions() -> None:
    def ways(model: Model, k: int) -> set[tuple[int, int]]:
        configs = [each.spec.config for each in model.every(product("float64", "NN", (1, 200, 200, k), 0))]
        return {(config.launch.split_k, config.cluster_k) for config in configs}

    assert {blocks for split, blocks in ways(H100, 2000) if split == 1} == {1, 2, 4, 8}
    assert all(1 in way for way in ways(H100, 2000)), "never both"
    assert {blocks for _, blocks in ways(H100, 60)} == {1}, "two tiles of k per block, at least"
    assert {blocks for _, blocks in ways(Model(REFERENCE_GPUS["sm_80"]), 2000)} == {1}


def test_no_product_is_faster_than_the_roofline() -> None:
    long, square = product("float32", "NN", (1, 64, 32, 65536), 0), product("float16", "NT", (2, 8192, 8192, 8192), 0)
    assert H100.bound(long) == pytest.approx((96 * 65536 + 64 * 32) * 4 / H100.gpu.bandwidth * 1e6)
    assert H100.bound(square) == pytest.approx(4 * 8192**3 / H100.gpu.tensor_flops(2) * 1e6)
    assert H100.bound(replace(square, symmetric=True)) == pytest.approx(H100.bound(square) / 2)
    mirrored = replace(product("float32", "NT", (1, 64, 64, 65536), 0), symmetric=True)
    assert H100.bound(mirrored) == pytest.approx((64 * 65536 + 64 * 64) * 4 / H100.gpu.bandwidth * 1e6)
    short = H100.bound(product("float32", "NN", (5, 2000, 3000, 1), 0))
    assert short == pytest.approx(5 * (2000 + 3000 + 2000 * 3000) * 4 / H100.gpu.bandwidth * 1e6)
    for dtype in ("bool", "int8"):
        packed = H100_IEEE.bound(product(dtype, "NN", (1, 4096, 4096, 4096), 0))
        assert 0 < packed < H100_IEEE.bound(product("int32", "NN", (1, 4096, 4096, 4096), 0))


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
        ("warp_tiled", "float32", "NN", 1, "words"),
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


@pytest.mark.parametrize(
    ("variant", "measured", "rate"),
    [
        ("tensor_core", 0.25, 0.25), ("tensor_core", 0.0, 0.0),  # which reads every address, if slowly
        ("dot_products", 0.25, 0.25), ("dot_products", 0.0, None), ("tiled", 0.25, None), ("tiled", 0.0, None),
    ],
)  # fmt: skip
def test_rates_of_unaligned_reads_are_measured_or_those_of_single_elements(
    variant: str, measured: float, rate: float | None
) -> None:
    row, cost = (
        KernelRates(variant, 16, "float32", 1.0, (), 0.0, 1.0, 1.0, elements=measured),
        Cost(H100.gpu, H100.rates),
    )
    assert cost._rate_of(row, "elements") == (H100.rates.device.single_elements if rate is None else rate)
    assert cost._rate_of(replace(row, words=measured, elements=0.5), "words") == cost._rate_of(row, "elements")
    assert cost._rate_of(row, "chunks") == 1.0


def test_a_kernel_takes_forever_without_the_unit_that_multiplies() -> None:
    turing = Cost(REFERENCE_GPUS["sm_75"], H100.rates)
    (row,) = (row for row in H100.rates.rows if (*row.name, row.type) == ("tensor_core", 64, "float64"))
    config, made = (
        find_variant("tensor_core").config(64, compute_element("float64")),
        product("float64", "NN", (1, 8, 8, 8), 0),
    )
    assert turing.on_device(row, config, made, (), 1) == math.inf
    assert Cost(H100.gpu, H100.rates).on_device(row, config, made, (), 1) < 100


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


@pytest.mark.parametrize(
    ("blocks", "residents", "phases"),
    [
        (0, (), ((0, 1.0), (0.0, 0.0))),
        (10, (), ((1, 1.0), (0.0, 0.0))),
        (28, (), ((2, 20 / 28), (1.0, 8 / 28))),
        (25, (0.5, 0.75), ((0, 0.0), (3 / 1.0, 1.0))),  # 3 blocks on some SMs, at the full rate
        (45, (0.5, 0.75), ((3, 30 / 45), (2 / 0.75, 15 / 45))),
    ],
)
def test_the_last_blocks_are_a_phase_of_their_own(
    blocks: int, residents: tuple[float, ...], phases: tuple[tuple[float, float], ...]
) -> None:
    terms = Cost(H100.gpu, H100.rates).terms(
        "warp_tiled", find_variant("warp_tiled").config(64, compute_element("float32")),
        product("float32", "NN", (1, 64, 64, 64), 0), (), 1,
    )  # fmt: skip
    found = replace(terms, blocks=blocks, slots=10).phases(residents)
    assert [*found[0], *found[1]] == pytest.approx([*phases[0], *phases[1]])


@pytest.mark.parametrize(("tile", "columns"), [(128, 128), (144, 192), (96, 128)])
def test_tiles_of_b_that_are_not_k_major_are_read_in_whole_slabs(tile: int, columns: int) -> None:
    cost, config = Cost(H100.gpu, H100.rates), find_variant("wgmma").config(tile, compute_element("float16"))
    assert loaded_columns(config, compute_element("float16")) == columns
    size = 18 * 1024  # whole tiles of each size
    kmajor, mnmajor = (
        cost.terms("wgmma", config, product("float16", layout, (1, 128, size, 1024), 0), (), 1)
        for layout in ("NT", "NN")
    )
    whole = columns == config.bn
    assert kmajor.aligned == (True, True) and mnmajor.aligned == (True, whole)
    assert mnmajor.cache == pytest.approx(kmajor.cache) if whole else mnmajor.cache > 1.2 * kmajor.cache


def test_what_overlaps_takes_at_least_the_longest_and_at_most_all() -> None:
    assert together(math.inf, 3.0, 4.0, 1.0) == 4.0 and together(1.0, 3.0, 4.0, 1.0) == pytest.approx(8.0)
    assert together(2.0, 3.0, 4.0, 0.0) == pytest.approx(5.0)
    assert together(2.0, 0.0, 0.0, 0.0) == 0.0, "an empty product"
