"""Tests of the launches of products whose operands are decomposed into limbs. No GPU is needed."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import tiledmm
from tiledmm.codegen.rendering import render
from tiledmm.elements import SCHEMES, compute_element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.launches import Schedule
from tiledmm.kernels.operands.limbs import Limbs, decompose_spec
from tiledmm.kernels.operands.operand_scan import SCAN
from tiledmm.kernels.variants import kernel_spec, kernel_variants
from tiledmm.problem.arrays import describe
from tiledmm.problem.keywords import AUTO, KernelKeywords
from tiledmm.problem.product import resolve
from tiledmm.schedule.schedule import fallbacks, required_kernels, schedule
from tiledmm.selection.choose import select, with_precision, with_scheme
from tiledmm.selection.model import H100, H100_IEEE, Model
from tiledmm.selection.tuned import Entry, describe_product, stamped

TYPES = ("float32", "complex64")
# Schemes of three limbs: two stages of 256 columns do not fit shared memory.
_NARROW = ("bf16x6", "bf16x9")
VARIANTS = tuple(row.name for row in kernel_variants() if row.operands.schemes)
OF_FLOAT32 = tuple(name for name, scheme in SCHEMES.items() if scheme.emulates == "float32")


def matrix(
    rows: int, cols: int, letter: str = "N", batch: tuple[int, ...] = (), dtype: str = "float32"
) -> np.ndarray[Any, Any]:
    """Return a matrix in a layout without memory of its size."""
    step = {"N": (cols, 1), "T": (1, rows), "G": (2 * cols, 2)}[letter]
    size = rows * cols * (2 if letter == "G" else 1)
    outer = tuple(size * math.prod(batch[i + 1 :]) for i in range(len(batch)))
    one = np.zeros(1, dtype)
    strides = tuple(one.itemsize * each for each in (*outer, *step))
    return np.lib.stride_tricks.as_strided(one, (*batch, rows, cols), strides)


def planned(a: Any, b: Any, variant: str = "split_float32", **keywords: Any) -> Schedule:
    choice = select(variant, keywords.pop("tile", None), resolve(describe(a), describe(b)), keywords or None)
    return schedule(choice.spec, choice.product.problem)


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_operands_are_split_then_multiplied_or_not_split_and_multiplied(variant: str) -> None:
    launches = planned(matrix(1000, 700, "N"), matrix(700, 900, "T"), variant).launches
    assert [each.spec.variant.name for each in launches] == ["decompose", "decompose", variant, "warp_tiled"]
    assert [each.spec.condition for each in launches] == [
        "scan",
        "scan",
        "if decomposed",
        "unless decomposed",
    ]
    assert [each.operands for each in launches] == [
        ("A", "limbs of A"), ("B", "limbs of B"), ("limbs of A", "limbs of B", "C"), ("A", "B", "C"),
    ]  # fmt: skip
    first, second, multiplying, otherwise = (each.scan for each in launches)
    assert first[0] == first[1] == 0
    assert second[0] == second[1] >= 12 + 4 * 1000, "behind A's scan, four bytes a row"
    assert multiplying == otherwise == (first[0], second[0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG", "TG"])
def test_pieces_lie_as_the_operands_do(layout: str, dtype: str) -> None:
    parts = 2 if dtype == "complex64" else 1
    k, n = 300 * parts, 140 * parts  # of the real numbers: of each of C's columns, two
    for batch in ((), (3,), (2, 3)):
        a, b = matrix(200, 300, layout[0], batch, dtype), matrix(300, 140, layout[1], dtype=dtype)
        plan = planned(a, b, tile=128)
        pieces_a, pieces_b, findings = plan.scratch
        # Of rows that are neighbours, blocks write 32, and of k, to the end of 16 bytes.
        written = math.ceil(k / 8) * 8
        of_a = (2, math.prod(batch), *((k, 224) if layout[0] == "T" else (200, written)))
        of_b = (2, 1, *((k, math.ceil(n / 32) * 32) if layout[1] == "N" else (n, written)))
        assert pieces_a.shape == of_a
        assert pieces_b.shape == of_b, "one B is split once"
        assert pieces_a.pitch % 64 == 0, "rows that the copy engine reads"
        assert pieces_a.bytes == math.prod(of_a[:3]) * pieces_a.pitch * 2
        assert (findings.name, findings.bytes % 8) == (SCAN, 0)
        multiplying = plan.launches[2]
        assert multiplying.spec.layout == layout[0].replace("G", "N") + layout[1].replace("G", "T")
        neighbours = 200 if layout[0] == "T" else k, n if layout[1] == "N" else k
        for each, memory, width in zip(multiplying.maps, plan.scratch, neighbours, strict=False):
            assert each.sizes == (width, *reversed(memory.shape[:3]), 1)
            assert each.strides[0] == memory.pitch * 2
            assert each.strides[2] * memory.shape[0] == memory.bytes
        assert [box.box for box in multiplying.maps] == [
            (64, 64 if layout[0] == "T" else 128), (64, 64 if layout[1] == "N" else 128),
        ], "a line along k, or of real rows and columns, in lines of 64 steps of k"  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG", "TG"])
def test_pieces_that_tensor_cores_do_not_transpose_lie_along_k(layout: str, dtype: str) -> None:
    parts = 2 if dtype == "complex64" else 1
    for batch, slices in (((), 1), ((3,), 1), ((3,), 2)):
        a, b = matrix(200, 300, layout[0], batch, dtype), matrix(300, 140, layout[1], dtype=dtype)
        plan = planned(a, b, tile=128, scheme="tf32x3", split_k=slices)
        packed = [name for name, letter, across in zip("AB", layout, "TN", strict=True) if letter == across]
        names = [each.spec.variant.name for each in plan.launches]
        assert names[: names.index("decompose")] == ["pack"] * len(packed)
        assert [each.name for each in plan.scratch[: len(packed)]] == [f"packed {name}" for name in packed]
        sources = [f"packed {name}" if name in packed else name for name in "AB"]
        splits = [each for each in plan.launches if each.spec.variant.name == "decompose"]
        assert [each.operands[0] for each in splits] == sources
        assert [each.spec.layout[0] for each in splits] == ["G" if letter == "G" else "N" for letter in layout]
        multiplying = plan.multiplying
        assert multiplying.spec.layout == "NT"
        memory = {each.name: each for each in plan.scratch}
        for i, (each, rows) in enumerate(zip(multiplying.maps, (200, 140 * parts), strict=True)):
            pieces = memory[f"limbs of {'AB'[i]}"]
            assert pieces.shape[:3] == (2, math.prod(batch) if i == 0 else 1, rows)
            assert each.sizes == (300 * parts, *reversed(pieces.shape[:3]), 1)
            assert (each.box, each.itemsize, each.rounds) == ((32, 128), 4, False)
        otherwise = plan.launches[-1]
        assert (otherwise.operands, otherwise.spec.layout) == (("A", "B", "C"), layout), "as they lie"
    only = planned(matrix(200, 300, layout[0]), matrix(300, 140, layout[1]), "split_tensor_core", scheme="tf32x3")
    assert [each.spec.variant.name for each in only.launches[:3]] == [
        "decompose",
        "decompose",
        "split_tensor_core",
    ]


def test_what_precedes_a_product_is_compiled_ahead() -> None:
    spec = kernel_spec("split_float32", layout="TN", config={"scheme": "tf32x3"})
    plan = planned(matrix(500, 600, "T"), matrix(600, 500), scheme="tf32x3")
    assert {each.spec for each in plan.launches} <= required_kernels(spec)
    assert len(plan.launches) == 6


def test_complex_numbers_are_told_by_the_elements_and_multiplied_as_real_ones() -> None:
    a, b = (matrix(1000, 1000, dtype="complex64") for _ in range(2))
    first, second, multiplying, otherwise = planned(a, b).launches
    for each in (first, second, multiplying, otherwise):
        assert each.kernel_args[2] == 1000, "splits() counts two terms a step of k, in every kernel"
    assert list(multiplying.kernel_args[:6]) == [1000, 1000, 1000, 4, 8, 32], "256 rows and 128 columns of C a cluster"
    assert multiplying.blocks == 32
    text = render(multiplying.spec)
    for line in ("constexpr int PARTS = 2;", "constexpr int BN = 256;", "constexpr int BK = 64;",
                 "using Output = complex64;", "using T = float16;"):  # fmt: skip
        assert line in text
    assert "constexpr int COPIES = 1;" in render(first.spec)
    assert "constexpr int COPIES = 2;" in render(second.spec)
    assert "constexpr int PARTS = 2;" in render(otherwise.spec)
    assert otherwise.spec.compute.dtype_name == "complex64"
    real = planned(matrix(1000, 1000), matrix(1000, 1000)).launches[2].spec
    wide = kernel_spec("split_float32", out_dtype="complex64").kernel
    assert len({each.symbol for each in (multiplying.spec, real, wide)}) == 3, "also where C is complex64"
    sliced = planned(matrix(100, 5000, dtype="complex64"), matrix(5000, 100, dtype="complex64"), split_k=4)
    assert sliced.launches[2].kernel_args[8] % 32 == 0, "slices of whole lines of 64 real numbers"
    assert sliced.scratch[-1].element.dtype_name == "complex64"


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG"])
def test_pieces_without_maps_are_found_by_strides(layout: str) -> None:
    for batch, slices in (((), 1), ((3,), 1), ((3,), 4)):
        plan = planned(
            matrix(200, 3000, layout[0], batch), matrix(3000, 140, layout[1]), "split_tensor_core", split_k=slices
        )
        multiplying = plan.launches[2]
        assert multiplying.maps == ()
        assert multiplying.operands[:2] == ("limbs of A", "limbs of B")
        pieces_a, pieces_b, *_ = plan.scratch
        *words, apart_a, apart_b = (int(word) for word in multiplying.kernel_args)
        assert words[13:18] == [
            *((1, pieces_a.pitch) if layout[0] == "T" else (pieces_a.pitch, 1)),
            0, 0, pieces_a.shape[2] * pieces_a.pitch if batch else 0,
        ]  # fmt: skip
        assert words[18:23] == [*((pieces_b.pitch, 1) if layout[1] == "N" else (1, pieces_b.pitch)), 0, 0, 0]
        for apart, memory in ((apart_a, pieces_a), (apart_b, pieces_b)):
            assert apart * memory.shape[0] * memory.element.itemsize == memory.bytes


def test_short_sums_are_not_split() -> None:
    (only,) = planned(matrix(500, Limbs.shortest - 1), matrix(Limbs.shortest - 1, 500)).launches
    assert (only.spec.variant.name, only.spec.condition) == ("warp_tiled", "")
    assert only.scan == ()
    assert len(planned(matrix(500, Limbs.shortest), matrix(Limbs.shortest, 500)).launches) == 4
    for short, kernels in (
        (Limbs.shortest // 2, 4),
        (Limbs.shortest // 2 - 1, 1),
    ):  # complex: two terms per step
        a, b = matrix(500, short, dtype="complex64"), matrix(short, 500, dtype="complex64")
        assert len(planned(a, b).launches) == kernels


def test_slices_are_added_up_before_the_cuda_cores_have_their_turn() -> None:
    launches = planned(matrix(100, 5000), matrix(5000, 100), split_k=4).launches
    names = [each.spec.variant.name for each in launches]
    assert names == ["decompose", "decompose", "split_float32", "split_k_reduction", "warp_tiled"], (
        "which then write all of C"
    )


def test_what_is_rendered_asks_only_where_it_is_asked() -> None:
    spec = kernel_spec("split_float32", layout="TN")
    assert "is_decomposed(p) == true" in render(spec.kernel)
    assert "is_decomposed(p) == false" in render(fallbacks(spec)[0].spec)
    assert "constexpr int LIMBS = 2;" in render(decompose_spec(spec, 0, False))
    assert "OperandScan" not in render(kernel_spec("warp_tiled"))
    six = kernel_spec("split_float32", config={"scheme": "bf16x6"})
    assert "using T = bfloat16;" in render(six.kernel)
    assert "constexpr int LIMBS = 3;" in render(decompose_spec(six, 1, False))
    distinct = spec.kernel, six.kernel, fallbacks(spec)[0].spec, kernel_spec("warp_tiled")
    assert len({each.symbol for each in distinct}) == 4


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"scheme": "fp16x4"}, f"'fp16x4'.*{', '.join(OF_FLOAT32)}$"),
        ({"scheme": ""}, "scheme ''"),
        ({"scheme": 3}, "scheme 3"),
        ({"pack_a": 1}, "limbs"),
        ({"tile": 256, "scheme": "bf16x6"}, r"\d+ bytes"),
        ({"stages": 1}, "stages.*2"),
    ],
)
def test_numbers_that_it_cannot_have(numbers: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        planned(matrix(500, 500), matrix(500, 500), **numbers)


def test_a_variant_that_splits_nothing_has_no_schemes() -> None:
    halves = resolve(describe(np.zeros((9, 9), "f2")), describe(np.zeros((9, 9), "f2")))
    with pytest.raises(ConfigError, match=r"'wgmma'.*'fp16x3'"):
        select("wgmma", None, halves, {"scheme": "fp16x3"})
    assert select("wgmma", None, halves, {"scheme": ""}) == select("wgmma", None, halves)


def test_numbers_of_complex_types_are_counted_in_real_ones() -> None:
    a, b = (matrix(500, 500, dtype="complex64") for _ in range(2))
    with pytest.raises(ConfigError, match=r"bn.*64, 128, 144 or 256"):
        planned(a, b, bn=256, wn=256, tn=64)
    smaller = planned(a, b, bm=128, cluster=1).launches[2].spec
    assert (smaller.config.bn, smaller.threads) == (128, 384)


@pytest.mark.parametrize(
    ("variant", "dtype", "says"),
    [
        ("split_float32", "float64", "float64.*float32, complex64, tf32"),
        ("split_tensor_core", "float64", "float64.*float32, complex64, tf32"),
    ],
)
def test_types_that_it_does_not_multiply(variant: str, dtype: str, says: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=says):
        kernel_spec(variant, dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "precision"), [*((dtype, scheme) for dtype in TYPES for scheme in OF_FLOAT32), ("tf32", "fp16x1")]
)
def test_a_scheme_takes_the_first_variant_that_runs_on_a_device(dtype: str, precision: str) -> None:
    stored = compute_element(dtype).stored.dtype_name
    wanted = resolve(describe(matrix(1000, 1000, dtype=stored)), describe(matrix(1000, 1000, dtype=stored)))
    wanted = with_precision(wanted, precision)
    assert wanted.compute.dtype_name == dtype
    rows = [row for row in kernel_variants() if row.operands.schemes and row.multiplies(wanted.compute)]
    for gpu in REFERENCE_GPUS.values():
        here = [row.name for row in rows if row.runs_on(gpu.arch.capability, wanted.compute)]
        if not here:
            with pytest.raises(UnsupportedTypeError, match=f"'{precision}'.*{dtype}.*'split_float32'.*'full'"):
                with_scheme(wanted, KernelKeywords(precision=precision), Model(gpu))
            continue
        named = with_scheme(wanted, KernelKeywords(precision=precision), Model(gpu))
        choice = select(named.variant, named.tile, wanted, named.config)
        spec = choice.spec
        assert (spec.variant.name, spec.config.scheme) == (here[0], precision)
        assert spec.config.bn * spec.compute.components == (128 if precision in _NARROW else spec.variant.default_tile)
        assert (
            len(schedule(spec, choice.product.problem).launches)
            == 4 + spec.config.launch.pack_a + spec.config.launch.pack_b
        )
    named = {row.name for row in rows}
    for variant in named:
        assert with_scheme(wanted, KernelKeywords(variant=variant, precision=precision)).variant == variant
    for variant in {"tiled", *VARIANTS} - named:
        with pytest.raises(ConfigError, match=f"{dtype}.*'split_float32'.*'{variant}'"):
            with_scheme(wanted, KernelKeywords(variant=variant, precision=precision))


def test_other_types_have_no_schemes_and_multiply_adds_no_pieces() -> None:
    wanted, other = (
        resolve(describe(matrix(500, 500, dtype=dtype)), describe(matrix(500, 500, dtype=dtype)))
        for dtype in ("float32", "float64")
    )
    assert with_scheme(other, KernelKeywords(precision="fp16x3")).variant == AUTO
    assert with_scheme(wanted, KernelKeywords(precision="ieee")).variant == AUTO
    for variant in VARIANTS:
        with pytest.raises(ConfigError, match=f"'{variant}'"):
            with_scheme(wanted, KernelKeywords(variant=variant, precision="ieee"))


def test_pieces_are_as_fast_as_a_gpus_tensor_cores() -> None:
    wanted = resolve(describe(matrix(8192, 8192)), describe(matrix(8192, 8192)))

    def expected(gpu: str) -> float:
        ranked = Model(REFERENCE_GPUS[gpu]).rank(wanted)
        return min(each.microseconds or 0.0 for each in ranked if "split_tensor_core" in str(each) and not each.cut)

    for gpu in ("sm_80", "sm_86"):
        rates = [REFERENCE_GPUS[name].tensor_flops(2, by_mma=True) for name in ("sm_90", gpu)]
        assert expected(gpu) / expected("sm_90") == pytest.approx(rates[0] / rates[1], rel=0.2)


@pytest.mark.parametrize(("dtype", "short", "large"), [("float32", 200, 40_000), ("complex64", 100, 20_000)])
def test_auto_takes_it_where_it_pays_and_may(dtype: str, short: int, large: int) -> None:
    a, b = matrix(4096, 4096, dtype=dtype), matrix(4096, 4096, dtype=dtype)
    wanted = resolve(describe(a), describe(b))
    assert select(AUTO, None, wanted).spec.variant.name == "split_float32"
    assert select(AUTO, None, wanted, model=H100_IEEE).spec.variant.name == "warp_tiled"
    assert "split_float32" in str(tiledmm.explain(a, b))
    assert "split_float32" not in str(tiledmm.explain(a, b, precision="ieee"))
    few, many = (
        resolve(describe(matrix(m, k, dtype=dtype)), describe(matrix(k, m, dtype=dtype)))
        for m, k in ((4096, short), (large, large))
    )
    assert all(each.spec.variant.name != "split_float32" for each in H100.rank(few)), "sums of few terms"
    in_parts = [each for each in H100.rank(many) if each.spec.variant.name == "split_float32"]
    assert in_parts and all(each.others and each.workspace < 9 << 30 for each in in_parts), "not 12 or 9.6 GB at once"
    for precision, says in (("float16", "'float16'"), ("bf16x6", "'bf16x6'")):
        with pytest.raises(ConfigError, match=says):
            tiledmm.explain(a, b, precision=precision)
    elsewhere = {each.spec.variant.name for each in Model(REFERENCE_GPUS["sm_80"]).rank(wanted)}
    assert elsewhere.intersection(VARIANTS) == {"split_tensor_core"}


def test_a_tuned_entry_counts_only_where_it_may_be_used() -> None:
    wanted = resolve(describe(matrix(1000, 1000)), describe(matrix(1000, 1000)))
    name = describe_product(wanted)
    table = {name: stamped(Entry(name, "float32", "split_float32", False, {}, 1.0, 1.0, None))}
    assert select(AUTO, None, wanted, table=table).spec.variant.name == "split_float32"
    assert select(AUTO, None, wanted, table=table, model=H100_IEEE).spec.variant.name == "warp_tiled"


def test_what_blocks_update_with_atomics_is_read_by_relaxed_loads() -> None:
    text = render(decompose_spec(kernel_spec("split_float32"), 0, False))
    assert len(re.findall(r"load_relaxed\(&scan\.\w+\)\) atomicMin\(&scan\.\w+", text)) == 3
    assert not re.search(r"[^&]\bscan\.(?!exponent)", text)
