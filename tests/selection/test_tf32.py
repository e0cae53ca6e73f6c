"""Tests of float32 products in tf32: which kernels compute them, for which calls, and errors. No GPU is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiledmm
from tests.selection.test_selection import product
from tiledmm import simulator
from tiledmm.elements import ELEMENTS, SCHEMES, TF32, compute_element, element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import find_variant, general_variants, kernel_spec, kernel_variants
from tiledmm.problem.call import Call, precision_of
from tiledmm.problem.keywords import AUTO, PRECISIONS, KernelKeywords
from tiledmm.schedule.schedule import schedule
from tiledmm.selection import tuned
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import choose, select, with_precision
from tiledmm.selection.model import H100, Model

AMPERE = Model(REFERENCE_GPUS["sm_80"])


def chosen(*sizes: int, variant: str = AUTO, model: Model = AMPERE, precision: str = "tf32", **how: Any) -> Choice:
    tile = how.pop("tile", None)
    wanted, kernel = product(*sizes, **how), KernelKeywords(variant, tile, None, precision)
    return choose(Call(wanted, wanted), kernel, lambda ieee: model, tuned=False)


# ---- the type ----


def test_no_array_is_of_type_tf32() -> None:
    assert compute_element("tf32") is TF32
    assert (TF32.stored, TF32.dtype) == (ELEMENTS["float32"], np.float32)
    assert all(each.stored is each for each in ELEMENTS.values())
    for call in (
        lambda: element("tf32"),
        lambda: tiledmm.source("tensor_core", dtype="tf32", a_dtype="tf32"),
        lambda: simulator.matmul(np.ones((2, 2), "f4"), np.ones((2, 2), "f4"), dtype="tf32"),
        lambda: tiledmm.explain(np.ones((2, 2), "f4"), np.ones((2, 2), "f4"), dtype="tf32"),
    ):
        with pytest.raises(UnsupportedTypeError, match="precision='tf32'"):
            call()


def test_it_is_for_variants_that_name_it() -> None:
    assert not any(row.multiplies(TF32) for row in general_variants())
    assert "tensor_core" in {row.name for row in kernel_variants("tf32")}
    with pytest.raises(UnsupportedTypeError, match=r"tf32.*float32, .*'tensor_core'"):
        kernel_spec("warp_tiled", dtype="tf32")
    assert find_variant("tensor_core").least_capability(TF32) == (8, 0)


def test_a_kernel_of_tf32_reads_and_writes_float32() -> None:
    spec = kernel_spec("tensor_core", dtype="tf32", layout="NT")
    assert (spec.a.name, spec.b.name, spec.c.name) == ("f32", "f32", "f32")
    assert spec.symbol == "tiledmm_tensor_core_tf32_128x128x16_nt"
    text = tiledmm.source("tensor_core", dtype="tf32")
    assert "using TA = float32;" in text
    assert "using T = tf32;" in text
    assert "#define MMA mma_tf32" in text and "MMA(acc" in text
    mixed = kernel_spec("tensor_core", dtype="tf32", a_dtype="float16", out_dtype="float64")
    assert mixed.symbol == "tiledmm_tensor_core_f16_f32_tf32_f64_128x128x16_nn"
    with pytest.raises(ConfigError, match=r"wm.*wn.*32"):
        kernel_spec("tensor_core", dtype="tf32", config={"wm": 16, "tm": 2})


def test_passes_around_it_are_of_float32() -> None:
    spec = kernel_spec("tensor_core", dtype="tf32", config={"pack_a": 1, "pack_b": 1, "split_k": 2})
    first, second, multiplying, adding = schedule(spec, product(100, 90, 3000).problem).launches
    for each in (first, second, adding):
        assert each.spec.compute.name == each.spec.c.name == "f32"
    kernel = multiplying.spec
    assert (kernel.compute.name, kernel.c.name, kernel.layout) == ("tf32", "f32", "NT"), "along k, for ldmatrix"


# ---- who takes it ----


def test_auto_takes_it_only_where_it_was_asked_for() -> None:
    for precision in PRECISIONS:
        if precision not in ("tf32", *SCHEMES):
            for part in chosen(4096, 4096, 4096, precision=precision).parts:
                assert part.spec.compute.name == "f32"
    large = chosen(4096, 4096, 4096).spec
    assert large.variant.tensor_cores and large.compute == TF32
    small = chosen(64, 64, 64).spec
    assert (small.variant.name, small.compute.name) == ("double_buffered", "f32"), "which is faster, and more exact"


def test_auto_takes_the_fastest_of_both() -> None:
    wanted = with_precision(product(2048, 2048, 2048), "tf32")
    ranked = list(H100.rank(wanted))
    types = {each.spec.compute.name for each in ranked}
    assert types == {"f32", "tf32"}
    assert select(AUTO, None, wanted).microseconds == min(each.microseconds or 0.0 for each in ranked)
    alone = {each.spec for each in H100.rank(product(2048, 2048, 2048)) if not each.others}
    in_float32 = {each for each in alone if not each.variant.multiplies(TF32)}
    assert in_float32 and in_float32 <= {each.spec for each in ranked}, "float32 is not forbidden"


def test_auto_may_take_it_for_a_part_of_c() -> None:
    parts = chosen(4096 + 64, 4096 + 64, 4096).parts
    assert {part.spec.compute.name for part in parts} <= {"f32", "tf32"}
    assert sum(part.product.problem.m * part.product.problem.n for part in parts) == 4160 * 4160


def test_auto_packs_what_cannot_be_copied_as_it_lies() -> None:
    ranked = AMPERE.rank(with_precision(product(4095, 4093, 4097), "tf32"))
    best = next(each.spec for each in ranked if each.spec.variant.name == "tensor_core" and not each.others)
    assert (best.config.launch.pack_a, best.config.launch.pack_b) == (1, 1)
    half = chosen(4096, 4096, 4096, dtype="float16").spec
    assert (half.variant.name, half.compute.name) == ("tensor_core" if half.variant.types else "warp_tiled", "f16")


def test_devices_without_it_take_float32() -> None:
    turing = Model(REFERENCE_GPUS["sm_75"])
    assert all(each.spec.compute.name == "f32" for each in turing.rank(_in_tf32(4096)))


@pytest.mark.parametrize(
    ("layout", "packs", "swapped", "kernels"),
    [("NT", 0, False, "NT"), ("TT", 0, False, "TT"), ("NN", 0, True, "TT"), ("TN", 1, False, "TT")],
)
def test_on_hopper_b_lies_along_k(layout: str, packs: int, swapped: bool, kernels: str) -> None:
    # A may lie either way. Where B does not, and A does, C is computed transposed; where neither does, B is packed.
    choice = chosen(4096, 4096, 4096, layout=layout, model=H100)
    config = choice.spec.config
    assert choice.spec.variant.name == "wgmma"
    assert (config.launch.pack_a, config.launch.pack_b, choice.product.is_transposed) == (0, packs, swapped)
    assert choice.spec.kernel.layout == kernels
    assert chosen(4096, 4096, 4096, layout=layout, variant="wgmma").spec.kernel.layout == kernels


@pytest.mark.parametrize("variant", ["naive", "warp_tiled", "thin"])
def test_a_variant_without_it_multiplies_float32(variant: str) -> None:
    choice = chosen(300, 500, 700, variant=variant)
    assert choice.spec.compute.name == "f32"
    assert choice.spec == chosen(300, 500, 700, variant=variant, precision="float32").spec


def test_a_variant_that_has_it_has_to_be_told() -> None:
    assert chosen(300, 500, 700, variant="tensor_core", tile=64).spec.compute == TF32
    for precision in ("float32", "ieee"):
        with pytest.raises(UnsupportedTypeError, match=r"float32.*precision='tf32'.*'warp_tiled'"):
            chosen(300, 500, 700, variant="tensor_core", precision=precision)
    with pytest.raises(UnsupportedTypeError, match=r"int32.*'warp_tiled'"):
        chosen(30, 50, 70, variant="tensor_core", dtype="int32")


@pytest.mark.parametrize("dtype", [name for name in ELEMENTS if name != "float32"])
def test_products_of_other_types_ignore_it(dtype: str) -> None:
    wanted = product(300, 200, 100, dtype=dtype)
    assert with_precision(wanted, "tf32") is wanted
    assert precision_of(wanted.compute) == "full"


def test_explain_says_what_it_would_take() -> None:
    a = np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (4096, 4096), (4096 * 4, 4))
    text = str(tiledmm.explain(a, a, precision="tf32"))
    assert text.startswith("(4096 x 4096) @ (4096 x 4096), tf32, layout NN")
    assert "tiledmm_wgmma_tf32_128x256x32_tt" in text
    assert "tf32" not in str(tiledmm.explain(a, a))
    doubles = np.ones((4, 4))
    converted = tiledmm.explain(doubles, doubles, precision="tf32", dtype="i4", casting="unsafe")
    assert converted.product.compute.name == "i32"
    converted = tiledmm.explain(doubles, doubles, precision="tf32", dtype="f4", casting="unsafe")
    assert converted.product.compute == TF32


# ---- tables of what was measured ----


def test_tuned_products_in_tf32_are_others(tmp_path: Any) -> None:
    plain, wanted = product(1000, 900, 5000), _in_tf32(1000, 900, 5000)
    name = tuned.describe_product(wanted)
    assert name != tuned.describe_product(plain)
    entries = [
        tuned.stamped(tuned.Entry(name, "tf32", "tensor_core", False, {"split_k": 3}, 50.0, 60.0)),
        tuned.stamped(tuned.Entry(name, "float32", "warp_tiled", False, {"split_k": 3}, 50.0, 60.0)),
    ]
    for entry in entries:
        path = tmp_path / "table.json"
        tuned.add(path, entry)
        table = tuned.read(path)
        assert table == {name: entry}
        choice = select(AUTO, None, wanted, table=table)
        assert (choice.microseconds, choice.spec.compute.dtype_name) == (50.0, entry.compute)
        assert choice.spec.config.launch.split_k == 3
        assert select(AUTO, None, plain, table=table) == select(AUTO, None, plain)


def _in_tf32(*sizes: int) -> Any:
    return with_precision(product(*(sizes if len(sizes) == 3 else sizes * 3)), "tf32")


# ---- the simulator ----


def test_the_simulator_takes_precision_as_matmul_does() -> None:
    x = np.ones((5, 6), "f4")
    with pytest.raises(ConfigError, match="'float16'"):
        simulator.matmul(x, x.T, precision="float16")
    with pytest.raises(UnsupportedTypeError, match="precision='tf32'"):
        simulator.matmul(x, x.T, variant="tensor_core")


# ---- one limb of float16 ----


def _with_one_limb() -> Model:
    """Return an H100 whose table has rates of one float16 limb: those of ``wgmma`` in float16."""
    rows = {row.tile: row for row in H100.rates.rows if (row.variant, row.type) == ("wgmma", "float16")}
    others = [row for row in H100.rates.rows if (row.variant, row.type) != ("split_float32", "tf32")]
    own = [replace(rows[tile], variant="split_float32", type="tf32") for tile in find_variant("split_float32").tiles]
    return Model(H100.gpu, replace(H100.rates, rows=(*others, *own)))


def test_auto_takes_one_limb_where_it_pays() -> None:
    model = _with_one_limb()
    large = chosen(8192, 8192, 8192, model=model).spec
    assert (large.variant.name, large.config.scheme) == ("split_float32", "fp16x1")
    assert large.compute == TF32
    assert schedule(large, product(8192, 8192, 8192).problem).launches[-1].spec.compute == TF32
    for size in (64, 256, 512):
        assert chosen(size, size, size, model=model).spec.variant.name != "split_float32", "decomposition costs more"
    assert chosen(8192, 8192, 200, model=model).spec.variant.name != "split_float32", "short sums"
    for precision in ("full", "fp16x3"):
        assert chosen(8192, 8192, 8192, model=model, precision=precision).spec.config.scheme == "fp16x3"


def test_without_rates_one_limb_is_used_only_by_name() -> None:
    rows = tuple(row for row in H100.rates.rows if (row.variant, row.type) != ("split_float32", "tf32"))
    model = Model(H100.gpu, replace(H100.rates, rows=rows))
    assert not any(each.spec.config.scheme == "fp16x1" for each in model.rank(_in_tf32(4096)))
    for named in ({"precision": "fp16x1"}, {"variant": "split_float32"}, {"variant": "split_tensor_core"}):
        spec = chosen(4096, 4096, 4096, model=model, **named).spec
        assert spec.config.scheme == "fp16x1" and spec.variant.name in ("split_float32", "split_tensor_core")
    assert chosen(4096, 4096, 4096, precision="fp16x1").spec.variant.name == "split_tensor_core", "on an A100"
    with pytest.raises(UnsupportedTypeError, match="'fp16x1'"):
        chosen(4096, 4096, 4096, precision="fp16x1", model=Model(REFERENCE_GPUS["sm_75"]))
    with pytest.raises(ConfigError, match="'fp16x1'"):
        chosen(4096, 4096, 4096, precision="fp16x1", variant="wgmma")


def test_one_limb_takes_half_the_bytes_of_two() -> None:
    plain, wanted = product(4096, 4096, 4096), _in_tf32(4096)
    sizes = {}
    for each in (plain, wanted):
        planned = schedule(select("split_float32", None, each).spec, each.problem)
        sizes[each.compute.name] = sum(memory.bytes for memory in planned.scratch if memory.name.startswith("limbs"))
        operands = find_variant("split_float32").operands
        assert sizes[each.compute.name] == operands.prepared_bytes(each.problem, each.compute)
    assert sizes["f32"] == 2 * sizes["tf32"]
