"""Tests of products of 8-bit integers with wider results: kernels, calls and errors. No GPU is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledmm
from tests.conftest import slow_unless
from tests.strategies import np_dtype
from tiledmm import simulator
from tiledmm.elements import ELEMENTS, TF32, WIDE_RESULTS, Element, compute_element, compute_element_of, element
from tiledmm.errors import UnsupportedTypeError
from tiledmm.hardware.data_sheets import DATA_SHEETS
from tiledmm.kernels.variants import find_variant, general_variants, kernel_spec, kernel_variants
from tiledmm.problem.arrays import Array
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.keywords import AUTO
from tiledmm.problem.product import Product, resolve
from tiledmm.schedule.schedule import required_kernels, schedule
from tiledmm.selection import tuned
from tiledmm.selection.choose import call_of, select
from tiledmm.selection.model import H100, Model

LAYOUTS = ("NN", "NT", "TN", "TT")


def product(name: str, m: int, n: int, k: int, layout: str = "NN") -> Product:
    """Describe a product of matrices of a computation type."""
    return call_of((m, n, k), name, layout, "float32")[0].multiplied


def of_types(a: str, b: str, dtype: Any, k: int = 40, out: str | None = None, **keywords: Any) -> Element:
    """Return the computation type of a call with arrays of these types."""
    left, right = Array.allocated((30, k), np_dtype(a)), Array.allocated((k, 50), np_dtype(b))
    target = None if out is None else Array.allocated((30, 50), np_dtype(out))
    return resolve(left, right, target, dtype=dtype, **keywords).compute


# ---- the type ----


def test_its_parts() -> None:
    wide = compute_element("int8_int32")
    assert (wide.name, wide.stored, wide.result, wide.dtype) == ("i8i32", ELEMENTS["int8"], ELEMENTS["int32"], np.int8)
    assert (wide.multiplied, wide.c_type, wide.itemsize) == ("int8", "int8", 1)
    assert (dtype_of(wide), precision_of(wide)) == ("int32", "full")
    packed = compute_element("uint8_uint32").packed
    assert packed and (packed.c_type, packed.result, packed.per_packed) == ("uint8x4", ELEMENTS["uint32"], 4)
    for each in (*ELEMENTS.values(), TF32):
        assert (each.result, each.multiplied, dtype_of(each)) == (each.stored, each.dtype_name, None)


@pytest.mark.parametrize("name", WIDE_RESULTS)
def test_results_are_of_every_wider_type_that_numpy_converts_to(name: str) -> None:
    operand, result = name.split("_")
    assert np.can_cast(operand, result, "same_kind")
    assert np.dtype(result).itemsize > 1
    assert compute_element(name) is WIDE_RESULTS[name]
    wider = {each for each in ELEMENTS if np_dtype(each).kind in "iu" and np_dtype(each).itemsize > 1}
    assert {other.split("_")[1] for other in WIDE_RESULTS if other.startswith(operand)} == {
        each for each in wider if np.can_cast(operand, each, "same_kind")
    }


def test_no_array_is_of_such_a_type() -> None:
    x = np.ones((2, 2), "i1")
    for call in (
        lambda: element("int8_int32"),
        lambda: tiledmm.source("tiled", dtype="int8_int32", a_dtype="int8_int32"),
        lambda: simulator.matmul(x, x, dtype="int8_int32"),
        lambda: tiledmm.explain(x, x, dtype="int8_int32"),
    ):
        with pytest.raises(UnsupportedTypeError, match=r"dtype='int32'.*int8"):
            call()


# ---- from which calls ----


def test_the_operands_and_the_computation_type_decide() -> None:
    assert of_types("int8", "int8", "int32").dtype_name == "int8_int32"
    assert of_types("uint8", "uint8", np.dtype("u4")).dtype_name == "uint8_uint32"
    assert of_types("int8", "int8", None, signature="ii->i").dtype_name == "int8_int32"
    assert of_types("int8", "int8", None, signature=(None, None, "int16")).dtype_name == "int8_int16"
    assert of_types("int8", "int8", "int32", out="float64").dtype_name == "int8_int32"
    assert of_types("int8", "int8", "int32", out="int8").dtype_name == "int8_int32"
    assert of_types("int8", "int8", "int32", out="uint8", casting="unsafe").dtype_name == "int8_int32"


def test_others_are_as_they_were() -> None:
    assert of_types("int8", "int8", None).dtype_name == "int8"
    assert of_types("int8", "int8", None, out="int32").dtype_name == "int8", "NumPy, too, wraps before it converts"
    assert of_types("int8", "uint8", None).dtype_name == "int16"
    assert of_types("int8", "uint8", "int32").dtype_name == "int32"
    assert of_types("int16", "int16", "int32").dtype_name == "int32"
    assert of_types("bool", "bool", "int32").dtype_name == "int32"
    assert of_types("int8", "int8", "float32").dtype_name == "float32"
    assert of_types("int8", "int8", "uint32", casting="unsafe").dtype_name == "uint32", "CuPy converts the operands"


@pytest.mark.parametrize(("name", "term"), [("int8", 128 * 128), ("uint8", 255 * 255)])
def test_64_bits_are_for_sums_that_32_hold(name: str, term: int) -> None:
    most = 2**31 - 1 if name == "int8" else 2**32 - 1
    for k in (most // term, most // term + 1):
        assert (of_types(name, name, "int64", k).result_name == "int64") == (k * term <= most)
        assert of_types(name, name, "int32", k).result_name == "int32", "which wrap"
        assert of_types(name, name, "int16", k).result_name == "int16"
    row = ELEMENTS[name]
    assert compute_element_of(row, row, ELEMENTS["int64"]) == ELEMENTS["int64"]


# ---- kernels ----


@pytest.mark.parametrize("name", WIDE_RESULTS)
def test_kernels_are_those_of_the_operands_but_for_c(name: str) -> None:
    operand, result = name.split("_")
    assert {row.name for row in kernel_variants(name)} == {row.name for row in kernel_variants(operand)}
    for variant in ("naive", "warp_tiled", "tensor_core", "wgmma"):
        wide, narrow = kernel_spec(variant, dtype=name), kernel_spec(variant, dtype=operand)
        assert wide.config == narrow.config
        assert (wide.a, wide.b, wide.c) == (ELEMENTS[operand], ELEMENTS[operand], ELEMENTS[result])
        assert wide.symbol == narrow.symbol.replace(f"_{narrow.compute.name}_", f"_{wide.compute.name}_")
        text = tiledmm.source(variant, dtype=name)
        assert f"using T = {operand};" in text
        assert f"using TC = {result};" in text
    if np.dtype(result).itemsize <= 4:
        assert kernel_spec("wgmma", dtype=result, a_dtype=operand, b_dtype=operand) == kernel_spec("wgmma", dtype=name)


def test_variants_without_it_compute_in_the_type_of_results() -> None:
    spec = kernel_spec("split_integer", dtype="int32", a_dtype="int8", b_dtype="int8")
    assert (spec.compute, spec.a) == (ELEMENTS["int32"], ELEMENTS["int8"])
    assert find_variant("split_integer").computes_in(compute_element("int8_int32")) == ELEMENTS["int32"]
    with pytest.raises(UnsupportedTypeError, match=r"int8_int32.*int32, "):
        kernel_spec("split_integer", dtype="int8_int32")


def test_a_users_template_computes_in_the_type_of_results(tmp_path: Any) -> None:
    path = tmp_path / "mine.cu.j2"
    path.write_text('//% include "preamble.cuh.j2"\nextern "C" __global__ void KERNEL() {}\n', encoding="utf-8")
    tiledmm.register(path, name="mine", like="coalesced")
    try:
        choice = select("mine", None, product("int8_int32", 30, 40, 50))
        assert choice.spec.compute == ELEMENTS["int32"]
    finally:
        tiledmm.unregister("mine")


def test_auxiliary_kernels() -> None:
    spec = kernel_spec("tensor_core", dtype="int8_int32", config={"pack_a": 1, "pack_b": 1, "split_k": 3})
    first, second, multiplying, adding = schedule(spec, product("int8_int32", 100, 90, 3000).problem).launches
    assert {each.spec.symbol for each in (first, second)} <= {
        "tiledmm_pack_i8_64x64x1_nn",
        "tiledmm_pack_i8_64x64x1_tn",
    }
    assert (multiplying.spec.compute.name, multiplying.spec.c.name) == ("i8i32", "i32")
    assert (adding.spec.a.name, adding.spec.compute.name) == ("i32", "i32")
    spec = kernel_spec("warp_tiled", dtype="int8_int64", config={"pack_elements": 1, "split_k": 2})
    first, _, multiplying, adding = schedule(spec, product("int8_int64", 100, 90, 3000).problem).launches
    assert (first.spec.compute.name, first.spec.c.name) == ("i8", "i8x4")
    assert (multiplying.spec.compute.name, multiplying.spec.c.name) == ("i8x4i64", "i64")
    assert "dot_of_signed_bytes" in tiledmm.source("warp_tiled", dtype="int8_int32", config={"pack_elements": 1})
    assert "dot_of_signed_bytes" not in tiledmm.source("warp_tiled", dtype="int8", config={"pack_elements": 1})


@pytest.mark.parametrize("variant", [row.name for row in general_variants()] + ["tensor_core", "wgmma"])
def test_what_is_compiled_ahead_is_what_products_launch(variant: str) -> None:
    for tile in find_variant(variant).tiles or (None,):
        ahead = required_kernels(kernel_spec(variant, tile=tile, dtype="int8_int32"), (2, 3), by_auto=True)
        choice = select(variant, tile, product("int8_int32", 64, 64, 64), {"split_k": 2})
        assert set(choice.kernels) <= ahead


# ---- what auto takes ----


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        pytest.param(name, layout, marks=slow_unless(i % 4 == i // 4))
        for i, (name, layout) in enumerate(zip(WIDE_RESULTS, LAYOUTS * 3, strict=False))
    ],
)
def test_on_hopper_auto_takes_wgmma_for_large_products(name: str, layout: str) -> None:
    choice = H100.best(product(name, 4096, 4096, 4096, layout))
    assert (choice.spec.variant.name, choice.spec.compute.dtype_name) == ("wgmma", name)
    narrow = H100.best(product(name.split("_")[0], 4096, 4096, 4096, layout))
    assert choice.microseconds is not None and narrow.microseconds is not None
    assert choice.microseconds <= 1.5 * narrow.microseconds
    unaligned = H100.best(product(name, 4097, 4095, 4099, layout)).spec
    assert (unaligned.variant.name, unaligned.kernel.layout) == ("wgmma", "NT")


@pytest.mark.parametrize(
    "gpu", ["T4", pytest.param("A100 SXM4 80 GB", marks=pytest.mark.slow), "H100 SXM 80 GB", "RTX 5090"]
)
def test_wide_results_never_take_much_longer_than_narrow_ones_on_any_gpu(gpu: str) -> None:
    model = Model(DATA_SHEETS[gpu])
    for sizes in ((4096, 4096, 4096), (300, 200, 5000), (1, 4096, 4096), (64, 64, 65536)):
        wide, narrow = (model.best(product(name, *sizes)) for name in ("uint8_int32", "uint8"))
        assert wide.microseconds is not None and narrow.microseconds is not None
        m, n, _ = sizes
        written = 1 + wide.spec.config.launch.split_k
        assert (
            wide.microseconds <= 1.13 * narrow.microseconds + 2 * 4 * m * n * written / DATA_SHEETS[gpu].bandwidth * 1e6
        )


def test_explain_names_it() -> None:
    x = np.lib.stride_tricks.as_strided(np.zeros(1, "i1"), (4096, 4096), (4096, 1))
    text = str(tiledmm.explain(x, x, dtype="int32"))
    assert text.startswith("(4096 x 4096) @ (4096 x 4096), int8_int32, layout NN")
    assert "tiledmm_wgmma_i8i32_128x256x128_nt, B packed" in text
    assert "int8_int32" not in str(tiledmm.explain(x, x))
    assert tiledmm.explain(x, x, dtype="int32", target="sm_80").variant == "tensor_core"


@pytest.mark.parametrize("k", [700, 200_000])
def test_tuned_products_are_others(tmp_path: Any, k: int) -> None:
    for name in ("int8_int32", "int8_int64"):
        wanted = product(name, 1000, 900, k)
        key, spec = tuned.describe_product(wanted), select("warp_tiled", None, wanted).spec
        assert key != tuned.describe_product(product("int8", 1000, 900, k))
        entry = tuned.Entry(key, spec.compute.dtype_name, "warp_tiled", False, {"split_k": 3}, 50.0, 60.0)
        tuned.add(tmp_path / "table.json", tuned.stamped(entry))
        choice = select(AUTO, None, wanted, table=tuned.read(tmp_path / "table.json"))
        assert (choice.microseconds, choice.spec.compute) == (50.0, spec.compute)
        assert choice.spec.config.launch.split_k == 3
