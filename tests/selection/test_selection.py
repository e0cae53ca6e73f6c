"""Tests of what ``auto`` selects, ``config=`` accepts and ``explain`` says. Needs no GPU."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiledmm
from tests.conftest import slow_unless
from tests.strategies import PROPERTY, np_dtype
from tiledmm.elements import ELEMENTS, element
from tiledmm.errors import ConfigError, DeviceError
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.hardware.device import gpu_of
from tiledmm.kernels.config import CONFIG_FIELDS, STATIC_SHARED_BYTES
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import VARIANTS, find_variant, general_variants
from tiledmm.problem.arrays import Array, describe
from tiledmm.problem.call import resolve_call
from tiledmm.problem.epilogue import EpilogueKeywords, resolve_epilogue
from tiledmm.problem.keywords import AUTO, KernelKeywords, UfuncKeywords
from tiledmm.problem.product import Product, resolve
from tiledmm.schedule.schedule import required_kernels, schedule
from tiledmm.selection import choose as choosing
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import select
from tiledmm.selection.model import H100, H100_IEEE, SPLIT_K_FACTORS, Model
from tiledmm.tuning.calibrate import kernels_of
from tiledmm.tuning.tune import proposals


def product(m: int, n: int, k: int, layout: str = "NN", dtype: str = "float32", batch: int = 1) -> Product:
    """Describe a product of matrices in a layout, in a batch or not."""
    kind = element(dtype).dtype

    def matrix(rows: int, cols: int, letter: str) -> Array:
        size = kind.itemsize
        strides = (cols * size, size) if letter == "N" else (size, rows * size)
        if batch == 1:
            return Array((rows, cols), strides, kind)
        return Array((batch, rows, cols), (rows * cols * size, *strides), kind)

    return resolve(matrix(m, k, layout[0]), matrix(k, n, layout[1]))


def chosen(*sizes: int, **keywords: Any) -> tuple[str, int]:
    spec = select(AUTO, None, product(*sizes, **keywords)).spec
    return spec.variant.name, spec.config.launch.split_k


# ---- auto ----


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ELEMENTS)
@given(
    sizes=st.tuples(*[st.integers(0, 5000)] * 3),
    layout=st.sampled_from(["NN", "NT", "TN", "TT"]),
    batch=st.integers(1, 9),
)
@PROPERTY
def test_auto_has_a_kernel_for_everything(dtype: str, sizes: tuple[int, int, int], layout: str, batch: int) -> None:
    wanted = product(*sizes, layout=layout, dtype=dtype, batch=batch)
    choice = select(AUTO, None, wanted)
    assert choice.spec.variant.template is not None
    covered = 0
    for part in choice.parts:
        problem = part.product.problem
        assert part.spec.layout == problem.layout
        covered += problem.m * problem.n * problem.products
        if not problem.is_empty:
            assert schedule(part.spec, problem).launches
    assert covered == sizes[0] * sizes[1] * batch


def test_auto_counts_rounds_of_tiles() -> None:
    columns = [select(AUTO, None, product(n, n, n, dtype="float16")).spec.config.bn for n in (1536, 2048, 3072)]
    assert columns[0] == columns[2] == 192
    assert 2048 % columns[1] == 0, "tiles of 192 columns would take another round"


def test_auto_cuts_a_long_k_and_only_that() -> None:
    assert chosen(64, 64, 65536)[1] > 32
    assert chosen(512, 512, 512)[1] > 1
    assert chosen(4096, 4096, 4096)[1] == 1
    assert chosen(64, 64, 64, batch=4096)[1] == 1


@pytest.mark.parametrize(("m", "n"), [(20, 3000), (3000, 20), (63, 64), (64, 63)])
def test_tensor_cores_have_tiles_for_few_rows(m: int, n: int) -> None:
    for layout in ("NN", "NT", "TN", "TT"):
        wanted = product(m, n, 500, layout=layout, dtype="float16")
        for tile in find_variant("tensor_core").tiles:
            choice = select("tensor_core", tile, wanted)
            assert choice.product.is_transposed == (tile < 64 and n < m)
            assert choice.spec.config.bm == min(tile, 128)


def test_auto_takes_tiles_for_few_rows_once_their_rates_are_known() -> None:
    rows = H100.rates.rows
    (like,) = (row for row in rows if row.name == ("tensor_core", 64) and row.type == "float16")
    known = [row for row in rows if row.name not in (("tensor_core", 16), ("tensor_core", 32))]
    fast = replace(like, tile=16, tflops=300.0, residents=(), overhead_k=1, mn_major=2.9, k_major=2.9)
    for added, skinny in (((), set()), ((fast,), {16})):
        model = Model(H100.gpu, replace(H100.rates, rows=(*known, *added)))
        for m, n in ((20, 3000), (3000, 20)):
            ranked = [choice.spec for choice in model.rank(product(m, n, 512, dtype="float16"))]
            names = [(spec.variant.name, spec.config.bm) for spec in ranked]
            assert {bm for name, bm in names if name == "tensor_core"} & {16, 32} == skinny
            assert (names[0] == ("tensor_core", 16)) == bool(added)
        for m, n in ((200, 900), (900, 200)):
            ranked = [choice.spec for choice in model.rank(product(m, n, 512, dtype="float16"))]
            assert ({spec.config.bm for spec in ranked if spec.variant.name == "tensor_core"} & {16, 32}) == skinny
        ranked = [choice.spec for choice in model.rank(product(1100, 1100, 512, dtype="float16"))]
        tiles = {spec.config.bm for spec in ranked if spec.variant.name == "tensor_core"}
        assert 16 not in tiles, "those are for at most 1024 rows"


def test_auto_reads_a_row_or_a_column_at_the_speed_of_memory() -> None:
    narrow = [(m, n, 8192, layout) for m, n in ((1, 8192), (8192, 1)) for layout in ("NN", "NT", "TN", "TT")]
    narrow += [(m, 8192, 8192, "NN") for m in (2, 3, 4, 16)] + [(8192, n, 8192, "TT") for n in (2, 3, 4, 16)]
    for m, n, k, layout in narrow:
        (best, *_) = H100.rank(product(m, n, k, layout=layout))
        assert best.spec.variant.reads.few_rows(best.spec.config)
        assert best.microseconds < 1.35 * 1e6 * 4 * 8192 * 8192 / H100.gpu.bandwidth
    assert chosen(8192, 1, 8192, layout="NN")[0] in ("dot_products", "block_dot_products"), "a matrix times a vector"
    assert chosen(1, 8191, 8192)[0] in ("axpy", "thin"), "rows that are not read 16 bytes at a time, too"


def test_auto_takes_tiny_for_batches_of_small_products_alone() -> None:
    assert chosen(8, 8, 8, batch=16384)[0] == "tiny"
    assert chosen(16, 16, 16, batch=4096)[0] == "tiny"
    for sizes, batch in (((8, 8, 8), 1), ((8, 8, 8), 20), ((8, 64, 8), 4096), ((64, 64, 64), 4096)):
        assert "tiny" not in {each.spec.variant.name for each in H100.rank(product(*sizes, batch=batch))}


@pytest.mark.parametrize(
    ("sizes", "dtype", "batch"),
    [((640, 640, 65536), "float32", 3), ((640, 3000, 65536), "float32", 1), ((1000, 3000, 8192), "float32", 3)],
)
def test_the_workspace_of_split_k_is_bounded(sizes: tuple[int, int, int], dtype: str, batch: int) -> None:
    for choice in H100.rank(product(*sizes, dtype=dtype, batch=batch)):
        for part in choice.parts:
            scratch = schedule(part.spec, part.product.problem).scratch
            assert sum(each.bytes for each in scratch if each.name == "partial sums") <= 2**27


def test_a_block_may_compute_several_tiles() -> None:
    choice = select("tiny", 8, product(20, 9, 5, batch=7))
    tiles = 3 * 2 * 7
    assert choice.spec.config.tiles_per_block == 16
    assert schedule(choice.spec, choice.product.problem).multiplying.blocks == -(-tiles // 16)


def test_auto_compiles_a_handful_of_kernels() -> None:
    sizes = [int(1.3**i) for i in range(4, 36, 10)]
    shapes = itertools.product(sizes, repeat=3)
    kernels = {
        each.spec
        for m, n, k in shapes
        for part in select(AUTO, None, product(m, n, k)).parts
        for each in schedule(part.spec, part.product.problem).launches
    }
    assert len(kernels) < 45


def test_every_candidate_is_a_kernel() -> None:
    for row in H100.rates.rows:
        assert row.tile in find_variant(row.variant).tiles
        assert all(0 < part <= 1 for part in row.residents)
    types = {"float32", "tf32", "float64", "complex64", "complex128", "float16", "int8", "int32", "int64"}
    assert types == {row.type for row in H100.rates.rows}


@pytest.mark.parametrize("dtype", [pytest.param(x, marks=slow_unless(not x.startswith("uint"))) for x in ELEMENTS])
def test_what_is_ranked_has_numbers_that_its_variant_allows(dtype: str) -> None:
    one = np.zeros(1, np_dtype(dtype))
    products = []
    for size in (64, 513, 2048):
        x = np.lib.stride_tricks.as_strided(one, (size, size), (size * one.itemsize, one.itemsize))
        described = describe(x)
        products += [resolve(described, describe(x.T), same_memory=True), resolve(described, described)]
    for wanted in products:
        for choice in H100.rank(wanted):
            for part in choice.parts:
                spec, problem = part.spec, part.product.problem
                # Rows of C from one on, and as many columns from the same one on.
                mirrored = wanted.symmetric and problem.m == problem.n and problem.begins[0] == problem.begins[1]
                half = mirrored and spec.variant.has_triangle(spec.config)
                if half and spec.variant.operands.sums_in_order and wanted.compute.components == 1:
                    continue  # all of C is as symmetric as a triangle of it
                assert spec.config.triangle == half, str(choice)
                numbers = spec.config.as_dict()
                fixed = spec.variant.config(None, spec.compute).as_dict()
                changed = {name: value for name, value in numbers.items() if value != fixed[name]}
                assert spec.variant.config(None, spec.compute, changed) == spec.config, str(spec)


def test_what_is_ranked_is_what_is_chosen() -> None:
    wanted = product(300, 200, 1000)
    ranked = sorted(H100.rank(wanted), key=lambda choice: choice.microseconds or 0.0)
    assert select(AUTO, None, wanted) == ranked[0]
    names = {(each.spec.variant.name, each.spec.config.bn) for each in ranked}
    assert len(names) == len(ranked)


def test_c_is_cut_where_tiles_would_stick_out_or_the_last_round_be_short() -> None:
    for size, cut in ((2049, (2048, 2048)), (3072, (2816, 3072)), (2048, None), (4096, None), (500, None)):
        assert select(AUTO, None, product(size, size, size), model=H100_IEEE).cut == cut
    ragged = select(AUTO, None, product(2049, 2049, 2049), model=H100_IEEE)
    assert [(part.product.problem.m, part.product.problem.n) for part in ragged.parts] == [
        (2048, 2048), (1, 2048), (1, 2049),
    ]  # fmt: skip
    assert ragged.parts[1].product.is_transposed, "a column of C is computed as a row"
    assert [part.product.problem.begins for part in ragged.parts] == [
        (0, 0, 0), (2048, 0, 2048), (2048 * 2049, 0, 2048 * 2049),
    ]  # fmt: skip
    assert ragged.microseconds == pytest.approx(sum(_expected(part) for part in ragged.parts))
    assert re.match(r"2048 x 2048 of C: tiledmm_warp_tiled_f32_\w+, B packed; 2048 x 1 of C: ", str(ragged))


def _expected(part: Choice) -> float:
    if not part.others:
        return part.microseconds or 0.0
    spec = part.spec
    (alone,) = (each for each in H100.rank(part.product) if each.spec == spec and not each.others)
    return alone.microseconds or 0.0


@pytest.mark.parametrize("gpu", REFERENCE_GPUS.values(), ids=lambda gpu: gpu.name)
def test_every_gpu_has_a_model(gpu: Gpu) -> None:
    model = Model(gpu, ieee=True)
    for sizes in ((64, 64, 64), (4096, 4096, 4096), (1, 8192, 8192)):
        expected, on_h100 = (each.best(product(*sizes)).microseconds or 0.0 for each in (model, H100_IEEE))
        slowest = max(H100.gpu.peak_flops("float32") / gpu.peak_flops("float32"), H100.gpu.bandwidth / gpu.bandwidth)
        assert 0 < expected < 1.5 * max(slowest, 1.0) * on_h100
    large = product(4096, 4096, 4096)
    wider = Model(replace(gpu, sms=2 * gpu.sms), ieee=True).best(large)
    assert (wider.microseconds or 0.0) < (model.best(large).microseconds or 0.0)


def test_c_is_cut_for_the_sms_that_there_are() -> None:
    wanted = product(3072, 3072, 3072)
    fewer = Model(replace(H100.gpu, sms=72), ieee=True)
    assert fewer.best(wanted).cut != H100_IEEE.best(wanted).cut


def test_a_device_is_described_by_its_properties() -> None:
    known: dict[str, Any] = {"name": b"made up", "major": 9, "minor": 0, "multiProcessorCount": 114}
    clocks = {"ClockRate": 1_755_000, "MemoryClockRate": 1_593_000, "GlobalMemoryBusWidth": 5120}
    gpu = gpu_of(known, clocks)
    assert (gpu.name, gpu.arch.name, gpu.sms, gpu.clock) == ("made up", "sm_90", 114, 1.755e9)
    assert gpu.bandwidth == pytest.approx(2.039e12, rel=1e-3)
    bare = gpu_of(known | {"minor": 3}, {})
    assert (bare.arch.name, bare.clock, bare.bandwidth) == ("sm_90", H100.gpu.clock, H100.gpu.bandwidth)
    assert gpu_of(known | {"major": 13}, {}).arch.name == "sm_120", "newer than all that are known"
    with pytest.raises(DeviceError, match=r"7\.5.*7\.0"):
        gpu_of(known | {"major": 7}, {})


# ---- variants and tiles that are new ----


@pytest.fixture
def newcomers() -> Iterator[list[str]]:
    """Add variants like some of the package's, for which no table has rates."""
    rows = [replace(find_variant(like), name=f"new_{like}") for like in ("tiled", "thin", "tensor_core")]
    for row in rows:
        VARIANTS.add(row)
    yield [row.name for row in rows]
    for row in rows:
        VARIANTS.remove(row.name)


def test_auto_ignores_variants_that_no_rate_table_knows(newcomers: list[str]) -> None:
    model = Model(H100.gpu)
    for wanted in (product(700, 700, 700), product(8, 4096, 4096), product(700, 700, 700, dtype="float16")):
        assert [*map(str, model.rank(wanted))] == [*map(str, H100.rank(wanted))]
        assert {choice.spec.variant.name for choice in proposals(wanted, 30, model)}.isdisjoint(newcomers)
    assert not any(map(model.takes, newcomers))
    assert not any(name in str(tiledmm.explain((700, 700), (700, 700))) for name in newcomers)
    timed = {row.variant for row in kernels_of(model.rates)}
    assert timed.intersection(newcomers) == {"new_thin", "new_tensor_core"}, "calibrate makes these known"


@pytest.mark.parametrize("variant", ["new_tiled", "new_thin", "new_tensor_core"])
def test_a_new_variant_is_taken_by_name(newcomers: list[str], variant: str) -> None:
    wanted = product(8, 300, 70, dtype=find_variant(variant).default_type)
    assert select(variant, None, wanted).spec.variant.name == variant


# ---- few rows ----


@pytest.mark.parametrize("variant", ["thin", "dot_products", "axpy"])
def test_few_columns_are_computed_as_few_rows(variant: str) -> None:
    wide, tall = product(5, 300, 70), product(300, 5, 70)
    assert select(variant, None, wide).product == wide
    turned = select(variant, None, tall).product
    assert turned == tall.transposed()
    assert (turned.problem.m, turned.problem.n, turned.problem.layout, turned.is_transposed) == (5, 300, "TT", True)
    assert turned.transposed() == tall


# ---- config ----


def test_config_replaces_single_numbers() -> None:
    element_ = ELEMENTS["float32"]
    variant = VARIANTS["warp_tiled"]
    config = variant.config(128, element_, {"bk": 16, "stages": 2, "split_k": 4})
    whole = variant.config(128, element_).as_dict()
    assert config.as_dict() == whole | {"bk": 16, "stages": 2, "split_k": 4}
    assert variant.config(128, element_, {}) == variant.config(128, element_)


@pytest.mark.parametrize("row", general_variants(), ids=lambda row: row.name)
def test_every_variants_own_numbers_keep_its_rules(row: Any) -> None:
    for tile in row.tiles or (None,):
        for element_ in ELEMENTS.values():
            config = row.config(tile, element_)
            assert row.config(tile, element_, {"bm": config.bm}) == config


@pytest.mark.parametrize(
    ("variant", "numbers", "message"),
    [
        ("tiled", {"nope": 3}, "'nope'.* bm, bn"),
        ("tiled", {"bk": 0}, "^bk.* 1.* 0$"),
        ("tiled", {"bk": 2.5}, r"^bk.* 2\.5"),
        ("tiled", {"bk": True}, "^bk.* True"),
        ("tiled", {"pad": -1}, "^pad.* 0.* -1"),
        ("tiled", {"stages": 2}, "^stages=2 .*stages must be 1"),
        ("tiled", {"bm": 33}, r"bm \* bk and bn \* bk .* threads .*bm=33, bk=32, bn=32"),
        ("tiled", {"bm": 64, "bn": 64}, "1024.*threads=4096"),
        ("double_buffered", {"bk": 512}, "49152 bytes"),
        ("double_buffered", {"pad": 1}, "pad must be a multiple of 4 .16 bytes"),
        ("naive", {"tm": 2}, "tm, tn, bk"),
        ("vectorized", {"tm": 2}, "tm and tn.* 4"),
        ("warp_tiled", {"wm": 16}, "wm / tm.* 32"),
        ("warp_tiled", {"stages": 1}, "stages.* 2"),
        ("warp_tiled", {"bn": 96}, "bm and bn.* wm and wn"),
        ("dot_products", {"bk": 64}, "bk must be 128.*bk=64, lanes=32"),
        ("dot_products", {"tiles_per_block": 2}, "tiles_per_block must be 1"),
        ("axpy", {"tm": 1}, "tm must be bm"),
        ("axpy", {"lanes": 16}, "lanes must be bk"),
        ("axpy", {"bk": 1, "lanes": 1, "bn": 128}, "lanes must be bk.* 2"),
        ("axpy", {"bn": 24, "tn": 3}, "tn.* 2"),
        ("axpy", {"bn": 12}, "bn / tn.* 32"),
        ("axpy", {"bk": 2, "lanes": 2}, "bk.* bn / tn.* 32"),
        ("axpy", {"stages": 2}, "stages, wm, wn.* 0"),
        ("tiny", {"tiles_per_block": 3}, "32"),
        ("tiny", {"bm": 64}, "bm / tm.* 32"),
        ("tiny", {"bk": 12}, "bm, bn and bk.* 4"),
        ("tiny", {"tn": 2}, "tn.* 4"),
        ("tiny", {"bk": 4, "unroll": 4, "bm": 4, "tm": 1, "bn": 16}, r"bm \* bk and bn \* bk .* 64"),
        ("tiny", {"stages": 2}, "stages must be 1"),
    ],
)  # fmt: skip
def test_config_that_no_kernel_can_have(variant: str, numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_variant(variant).config(None, ELEMENTS["float32"], numbers)


@given(
    variant=st.sampled_from([row.name for row in general_variants()]),
    dtype=st.sampled_from(["float32", "float64", "int8", "complex128"]),
    numbers=st.dictionaries(st.sampled_from(CONFIG_FIELDS), st.sampled_from([1, 2, 4, 8, 16, 32, 64])),
)
@PROPERTY
def test_config_is_taken_whole_or_refused(variant: str, dtype: str, numbers: dict[str, int]) -> None:
    row, element_ = VARIANTS[variant], ELEMENTS[dtype]
    try:
        config = row.config(None, element_, numbers)
    except ConfigError as error:
        assert variant in str(error)
        return
    assert config.as_dict() == row.config(None, element_).as_dict() | numbers
    assert config.threads <= 1024
    assert row.shared_bytes(config, element_, "NT") <= STATIC_SHARED_BYTES


def test_config_needs_a_variant() -> None:
    with pytest.raises(ConfigError, match="variant="):
        select(AUTO, None, product(5, 5, 5), {"bk": 8})


# ---- calls ----


@pytest.mark.parametrize(
    ("kernel", "tuned", "tables", "ieee"),
    [
        (KernelKeywords(), True, 1, False), (KernelKeywords(), False, 0, False),
        (KernelKeywords(precision="ieee"), True, 1, True), (KernelKeywords(precision="tf32"), True, 1, False),
        (KernelKeywords(variant="tiled"), True, 0, False),
        (KernelKeywords(variant="tiled", precision="ieee"), True, 0, True),
    ],
)  # fmt: skip
def test_tuned_rows_are_for_auto_and_models_for_a_precision(
    kernel: KernelKeywords, tuned: bool, tables: int, ieee: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(choosing, "table_of", lambda gpu: read.append(gpu) or {})
    asked: list[bool] = []

    def models(ieee: bool) -> Model:
        asked.append(ieee)
        return H100_IEEE if ieee else H100

    call, _ = choosing.call_of((700, 800, 900), "float32", "NN", kernel.precision)
    choice = choosing.choose(call, kernel, models, tuned)
    assert read == [H100.gpu.name] * tables and asked == [ieee]
    assert choice.spec.variant.operands.is_ieee or kernel.precision == "full"
    asked.clear()
    found = choosing.choose_within(call, kernel, models, lambda each: each.workspace == 0)
    assert (found is None) == (kernel.variant != "auto") and asked == [ieee]
    assert found is None or (found.workspace == 0 and not (ieee and not found.spec.variant.operands.is_ieee))
    named = KernelKeywords(tile=16, precision=kernel.precision)
    assert choosing.choose_within(call, named, models, lambda each: True) is None


@pytest.mark.parametrize(("k", "bias", "variant"), [(0, True, "warp_tiled"), (0, False, "wgmma"), (64, True, "wgmma")])
def test_an_epilogue_without_a_product_is_computed_by_a_kernel_that_reads_no_operand(
    k: int, bias: bool, variant: str
) -> None:
    a, b = np.empty((64, k), "f2"), np.empty((k, 64), "f2")
    keywords = EpilogueKeywords(bias=np.ones(64, "f2") if bias else None)
    call = resolve_call(a, b, None, UfuncKeywords(), resolve_epilogue(a.dtype, "same_kind", keywords))
    choice = choosing.choose(call, KernelKeywords(variant="wgmma"), lambda ieee: H100)
    assert choice.spec.variant.name == variant


@pytest.mark.parametrize(
    ("dtype", "layout", "precision", "asked", "compute"),
    [
        ("float32", "NT", "full", "full", "float32"), ("float32", "TN", "tf32", "tf32", "tf32"),
        ("tf32", "NN", "full", "tf32", "tf32"), ("float16", "TT", "ieee", "ieee", "float16"),
        ("int8_int32", "NT", "full", "full", "int8_int32"),
    ],
)  # fmt: skip
def test_a_call_of_sizes_is_that_of_such_arrays(
    dtype: str, layout: str, precision: str, asked: str, compute: str
) -> None:
    call, found = choosing.call_of((7, 8, 9), dtype, layout, precision)
    problem = call.multiplied.problem
    assert (found, call.multiplied.compute.dtype_name) == (asked, compute)
    assert (problem.m, problem.n, problem.k, problem.layout) == (7, 8, 9, layout)


# ---- explain ----


def test_explain_names_the_kernel_and_the_others() -> None:
    text = str(tiledmm.explain(np.empty((64, 65536), "f4"), np.empty((65536, 64), "f4")))
    first, second, *others, last = text.splitlines()
    assert first == "(64 x 65536) @ (65536 x 64), float32, layout NN"
    assert second.startswith("tiledmm_warp_tiled_f32_64x64x8_nn, split-K ")
    assert second.endswith(" us expected on H100 SXM 80 GB")
    assert len(others) == 4
    assert last.startswith("roofline 10 us; rates measured on NVIDIA H100 80GB HBM3, 20")


def test_explain_tells_what_auto_takes_elsewhere() -> None:
    a = np.empty((4096, 4096), "f2")
    found = {name: tiledmm.explain(a, a, target=name) for name in ("sm_75", "sm_80", "A10", "sm_90", "sm_120")}
    assert {name: each.variant for name, each in found.items()} == {
        name: "wgmma" if name == "sm_90" else "tensor_core" for name in found
    }
    assert found["A10"].gpu == "A10" and found["sm_80"].expected_us > found["sm_90"].expected_us
    for each in found.values():
        assert each.expected_us >= each.bound_us > 0
        assert each.tile in find_variant(each.variant).tiles
        assert each.config.bm == each.best.spec.config.bm
    assert re.search(r"scaled .*\bA10\b", str(found["A10"]))
    assert "scaled" not in str(found["sm_90"])
    with pytest.raises(ConfigError, match=r"'A11'.*sm_75, .*, A10,"):
        tiledmm.explain(a, a, target="A11")


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "c16", "i1"])
def test_explain_names_the_tile(dtype: str) -> None:
    for n in (16, 300, 2048):
        a = np.empty((n, n), dtype)
        each = tiledmm.explain(a, a)
        spec = each.best.spec
        own = spec.variant.config(each.tile, spec.compute)
        assert (own.bm, own.bn, own.bk) == (spec.config.bm, spec.config.bn, spec.config.bk)


def test_explain_takes_what_matmul_takes() -> None:
    batch = tiledmm.explain(np.empty((3, 5, 6), "i1"), np.empty((6, 4), "f4"))
    assert str(batch).startswith("3 x (5 x 6) @ (6 x 4), float32")
    assert " us" not in str(tiledmm.explain(np.empty((0, 6), "f4"), np.empty((6, 4), "f4")))
    converted = tiledmm.explain(np.empty((5, 6), "f8"), np.empty((6, 4), "f8"), dtype="f4", casting="unsafe")
    assert converted.product.compute.dtype_name == "float32"
    with pytest.raises(ValueError, match=r"6.*7"):
        tiledmm.explain(np.empty((5, 6), "f8"), np.empty((7, 4), "f8"))


@pytest.mark.parametrize(
    "dtype", [pytest.param(x, marks=slow_unless(x != "int8")) for x in ("float32", "float16", "int8", "complex128")]
)
def test_all_that_is_launched_is_compiled_ahead(dtype: str) -> None:
    bare = {"split_k": 1, "pack_a": 0, "pack_b": 0, "pack_elements": 0, "triangle": 0}
    for *sizes, layout in ((301, 499, 90, "TN"), (40, 40, 9000, "NT"), (2048, 2048, 2048, "TT")):
        wanted = product(*sizes, layout, dtype)
        for part in itertools.chain.from_iterable(choice.parts for choice in H100.rank(wanted)):
            spec = part.spec
            plain = replace(spec, config=spec.config.changed(bare))
            known: set[KernelSpec] = set()
            for each in ("NN", "NT", "TN", "TT"):
                known |= required_kernels(replace(plain, layout=each), SPLIT_K_FACTORS[1:], by_auto=True)
            launched = {each.spec for each in schedule(spec, part.product.problem).launches}
            assert launched <= known, (str(spec), {each.symbol for each in launched - known})


@pytest.mark.parametrize("numbers", [{"split_k": 3}, {"pack_b": 1}, {"split_k": 3, "triangle": 1}])
@pytest.mark.parametrize("tile", [32, 64])
def test_what_auto_may_launch_is_known_before(tile: int, numbers: dict[str, int]) -> None:
    variant = find_variant("warp_tiled")
    x = np.empty((200, 900), np.float32)
    wanted = resolve(describe(x), describe(x.T), same_memory=True)
    config = variant.config(tile, wanted.compute, numbers)
    spec = KernelSpec(variant, config, wanted.a, wanted.b, wanted.compute, wanted.c, wanted.problem.layout)
    plain = replace(spec, config=variant.config(tile, wanted.compute))
    known = required_kernels(plain, (3,), by_auto=True)
    if "pack_b" in numbers:
        known |= required_kernels(replace(plain, layout="NN"), (3,), by_auto=True)
    assert {each.spec for each in schedule(spec, wanted.problem).launches} <= known


@pytest.mark.parametrize("layout", ["NN", "TT", "NT", "TN"])
@pytest.mark.parametrize(
    ("variant", "dtype"), [("split_integer", "int32"), ("split_float32", "float32"), ("wgmma", "float16")]
)
def test_what_a_named_variant_launches_is_known_before(variant: str, dtype: str, layout: str) -> None:
    wanted = product(300, 200, 700, layout, dtype)
    choice = select(variant, None, wanted)
    known = required_by(choice.spec)
    assert {each.spec for each in schedule(choice.spec, choice.product.problem).launches} <= known


def required_by(spec: KernelSpec) -> set[KernelSpec]:
    return required_kernels(
        replace(spec, config=spec.config.changed({"pack_a": 0, "pack_b": 0})).with_packing_for_tma(True, True)
    )


def test_arrays_are_one_matrix_if_they_begin_together() -> None:
    one, another = np.zeros((64, 64), "f4"), np.zeros((64, 64), "f4")
    for x1, x2, symmetric in ((one, one.T, True), (one, another.T, False), (describe(one), describe(one.T), False)):
        assert resolve_call(x1, x2, None, UfuncKeywords()).product.symmetric is symmetric
