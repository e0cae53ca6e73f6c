"""Tests of products from call to result, with any types, shapes and strides, by ``auto`` and by name.

They run on a stand-in GPU. Needs CuPy, but no GPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import tiledmm
from tests.conftest import slow_unless
from tests.host_gpu import HostArray, HostGpu
from tests.strategies import (
    PROPERTY,
    Layout,
    any_bits,
    batches,
    dtype_names,
    layouts,
    np_dtype,
    random_matrix,
    small_integers,
    tight,
)
from tiledmm.elements import ELEMENTS, SCHEMES, element
from tiledmm.errors import AlignmentError, OperandTypeError, TiledmmError
from tiledmm.kernels import launches
from tiledmm.kernels.variants import find_variant
from tiledmm.launch import by_cupy
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve
from tiledmm.selection import tuned

pytestmark = pytest.mark.cupy


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostGpu]:
    device = HostGpu()
    with pytest.MonkeyPatch.context() as patch:
        device.install(patch, tmp_path_factory.mktemp("cache"))
        yield device


@pytest.fixture
def h100(gpu: HostGpu) -> HostGpu:
    gpu.become("sm_90")
    return gpu


def random_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return random bits or normal numbers, since sums of small integers would not show what is rounded where."""
    kind = np_dtype(dtype)
    return any_bits(rng, shape, kind) if kind.kind in "biu" else random_matrix(rng, shape, dtype)


def check(result: np.ndarray, a: np.ndarray, b: np.ndarray, compute: np.dtype[Any], coarse: float = 0.0) -> None:
    """Check that the result is the operands' product in a computation type, except for rounding."""
    a, b = a.astype(compute), b.astype(compute)
    if compute.kind in "biu":
        with np.errstate(over="ignore"):
            expected = np.matmul(a, b).astype(result.dtype)
        np.testing.assert_array_equal(result, expected)
        return
    wide = np.complex128 if "c" in (compute.kind, result.dtype.kind) else np.float64
    exact = np.matmul(a.astype(wide), b.astype(wide))
    scale = np.matmul(abs(a.astype(wide)), abs(b.astype(wide)))
    unit = 2.0**-52 if compute.name in ("float64", "complex128") else 2.0**-23
    steps = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "complex64": 2.0**-23}
    rounded = max(steps.get(each.name, 0.0) for each in (compute, result.dtype))
    allowed = (unit * (4 + a.shape[-1] / 4) + coarse) * scale + rounded * 1.01 * abs(exact) + 1e-7
    with np.errstate(over="ignore", invalid="ignore"):
        overflown = ~np.isfinite(result.astype(wide)) & (result == exact.astype(result.dtype))
        assert ((abs(result.astype(wide) - exact) <= allowed) | overflown).all()


# ---- anything that a caller may have ----

SIZES = (0, 1, 1, 2, 3, 4, 5, 8, 13, 17, 33, 64, 70, 130)
DEPTHS = (0, 1, 2, 5, 16, 33, 64, 130, 260, 300, 520, 1100)

#: Kernels by name, and what is launched before and after them. Others are the tile sizes of each.
NAMED: tuple[dict[str, Any], ...] = (
    {"variant": "tiled", "tile": 8, "config": {"split_k": 3}},
    {"variant": "vectorized", "tile": 64, "config": {"split_k": 2}},
    {"variant": "warp_tiled", "tile": 32, "config": {"pack_a": 1, "split_k": 2}},
    {"variant": "warp_tiled", "tile": 64, "config": {"pack_b": 1}},
    {"variant": "warp_tiled", "tile": 64, "config": {"pack_elements": 1, "split_k": 2}},
    {"variant": "tiny", "tile": 4},
    {"variant": "thin", "tile": 16, "config": {"pack_a": 1, "pack_b": 1}},
    {"variant": "dot_products", "tile": 2, "config": {"split_k": 3}},
    {"variant": "tensor_core", "config": {"split_k": 2}},
    {"variant": "wgmma", "tile": 128, "config": {"split_k": 2}},
    {"variant": "wgmma", "tile": 64, "config": {"pack_a": 1}},
    {"variant": "split_float32"},
    {"variant": "split_float32", "tile": 64, "config": {"split_k": 2}},
    {"variant": "split_tensor_core", "config": {"split_k": 2}},
    {"variant": "split_integer", "tile": 64},
    {"variant": "split_float64", "tile": 64},
    {"variant": "split_float64_tensor_core", "tile": 64},
)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a product: shapes, types and layouts of operands and result, and keywords."""
    m, n, k = (draw(st.sampled_from(sizes)) for sizes in (SIZES, SIZES, DEPTHS))
    left_batch, right_batch = draw(batches(4)) if draw(st.booleans()) else ((), ())
    shapes = (
        (k,) if draw(st.integers(0, 9)) == 0 else (*left_batch, m, k),
        (k,) if draw(st.integers(0, 9)) == 0 else (*right_batch, k, n),
    )
    first = draw(dtype_names())
    second = draw(dtype_names()) if draw(st.integers(0, 2)) == 0 else first
    try:
        types, compute = (first, second), element(np.promote_types(np_dtype(first), np_dtype(second)))
    except TypeError:  # bfloat16 has a type in common with few
        types, compute = (first, first), element(first)
    kernels = [each for each in NAMED if find_variant(each["variant"]).multiplies(compute)]
    kernel = draw(st.sampled_from(kernels)) if kernels and draw(st.booleans()) else {}
    schemes = SCHEMES if compute.dtype_name in ("float32", "complex64") and not kernel else ()
    return {
        "target": draw(st.sampled_from(("sm_90", "sm_90", "sm_75", "sm_80", "sm_89", "sm_120"))),
        "shapes": shapes,
        "types": types,
        "layouts": tuple(draw(layouts(len(shape), broadcast=True)) for shape in shapes),
        "kernel": kernel,
        "precision": draw(st.sampled_from(("float32", "float32", "ieee", "tf32", *schemes))),
        "out": draw(st.one_of(st.none(), dtype_names())),
        "out_layout": draw(layouts(max(map(len, shapes)))),
        "seed": draw(st.integers(0, 99)),
    }


@settings(PROPERTY, max_examples=50)
@given(calls())
def test_a_call_computes_the_product(gpu: HostGpu, call: dict[str, Any]) -> None:
    gpu.become(call["target"])
    rng = np.random.default_rng(call["seed"])
    x1, x2 = (
        gpu.array(random_values(rng, *each[:2]), each[2])
        for each in zip(call["shapes"], call["types"], call["layouts"], strict=True)
    )
    before = [x.held.copy() for x in (x1, x2)]
    compute = np.promote_types(x1.dtype, x2.dtype)
    shape = np.matmul(np.zeros(x1.shape), np.zeros(x2.shape)).shape
    out = None
    if call["out"] is not None:
        kind = np_dtype(call["out"])
        half = np.dtype(np.float16)  # of bfloat16's kind, which NumPy does not know
        as_numpy = [half if each.name == "bfloat16" else each for each in (compute, kind)]
        assume(np.can_cast(*as_numpy, "same_kind"))
        axes = len(shape)
        layout = call["out_layout"]
        order = tuple(axis for axis in layout.memory if axis < axes)
        out = gpu.array(np.zeros(shape, kind), Layout(order, layout.steps[:axes], layout.margins[:axes]))
        around = gpu.surroundings(out) if out.size else None
    precision = call["precision"]
    named = call["kernel"]
    try:
        result = tiledmm.matmul(x1, x2, out=out, precision=precision, **named)
    except TiledmmError:  # a scheme, a device or a precision that this kernel is not for; ``auto`` is for all
        assert named or precision in SCHEMES
        return
    coarse = 0.0
    if compute.name in ("float32", "complex64"):
        coarse = 2.0**-10 if precision == "tf32" and compute.name == "float32" else 2.0**-17 * (precision in SCHEMES)
    assert isinstance(result, HostArray) and (result.shape, result.dtype) == (
        shape,
        compute if out is None else out.dtype,
    )
    check(result.held if result.size else np.empty(shape, result.dtype), *before, compute, coarse)
    gpu.memory.check()
    for x, values in zip((x1, x2), before, strict=True):
        np.testing.assert_array_equal(x.held if x.size else values, values, "an operand was written")
    if out is not None and around is not None:
        assert result is out
        np.testing.assert_array_equal(gpu.surroundings(out), around, "what lies between C's elements was written")


# ---- what ``auto`` takes ----

SHAPES = ((40, 50, 300), (1, 64, 1000), (257, 310, 513), (300, 20, 70), (272, 256, 384))


@pytest.mark.parametrize(
    ("dtype", "shape", "layout"),
    [
        pytest.param(dtype, shape, ("NN", "NT", "TN", "TT")[(i + j) % 4], marks=slow_unless(j == 2 * i % len(SHAPES)))
        for i, dtype in enumerate(ELEMENTS)
        for j, shape in enumerate(SHAPES)
    ],
)
def test_auto_computes_the_product_on_every_device(
    gpu: HostGpu, dtype: str, shape: tuple[int, int, int], layout: str
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a, b = random_values(rng, (m, k), dtype), random_values(rng, (k, n), dtype)
    for target in ("sm_75", "sm_80", "sm_90"):
        gpu.become(target)
        result = tiledmm.matmul(gpu.array(a, tight(layout[0])), gpu.array(b, tight(layout[1])))
        check(result.held, a, b, np_dtype(dtype), 2.0**-17)
        gpu.memory.check()


def kept(gpu: HostGpu, x1: Any, x2: Any, cut: tuple[int, int], **numbers: int) -> None:
    """Make ``auto`` use warp_tiled 32 for a part of a product's C, as if it had been measured."""
    product = resolve(describe(x1), describe(x2), same_memory=x1.data.ptr == x2.data.ptr)
    name, variant = tuned.describe_product(product), find_variant("warp_tiled")
    own, other = (variant.config(tile, product.compute).as_dict() for tile in (32, None))
    differs = {field: value for field, value in own.items() if other[field] != value}
    entry = tuned.Entry(name, product.compute.dtype_name, "warp_tiled", False, differs | numbers, 1.0, 1.0, cut)
    tuned.add(tuned.path_of(gpu.gpu.name), tuned.stamped(entry))
    tiledmm.launch.plans.forget_plans()


def test_c_in_parts_whose_k_is_in_slices(h100: HostGpu) -> None:
    rng = np.random.default_rng(1)
    a, b = random_values(rng, (70, 3000), "float32"), random_values(rng, (3000, 72), "float32")
    for letter in "NT":
        x1, x2, out = h100.array(a), h100.array(b), h100.array(np.zeros((70, 72), "f4"), tight(letter))
        kept(h100, x1, x2, (64, 64), split_k=3)
        check(tiledmm.matmul(x1, x2, out=out).held, a, b, np.dtype("f4"))
        assert sum(each.variant.name == "split_k_reduction" for each in h100.launched) > 1, (
            "parts with slices of their own"
        )
        h100.memory.check()


# ---- 8-bit integers with wider results ----


@pytest.mark.parametrize(
    ("name", "layout"), [("int8_int32", "NN"), ("uint8_int32", "NT"), ("int8_int64", "TN"), ("uint8_uint16", "TT")]
)
def test_wide_results_on_every_device(gpu: HostGpu, name: str, layout: str) -> None:
    operand, result = name.split("_")
    rng = np.random.default_rng(4)
    for target, (m, n, k) in (("sm_75", (40, 50, 300)), ("sm_90", (130, 70, 513))):
        gpu.become(target)
        a, b = random_values(rng, (2, m, k), operand), random_values(rng, (k, n), operand)
        kernels: list[dict[str, Any]] = [{}, {"variant": "tensor_core", "tile": 64, "config": {"split_k": 2}}]
        kernels += [{"variant": "warp_tiled", "config": {"pack_elements": 1, "split_k": 2}}]
        kernels += [{"variant": "wgmma", "config": {"split_k": split}} for split in (1, 3) if target == "sm_90"]
        for kernel in kernels:
            x1, x2 = gpu.array(a, tight(layout[0], 1)), gpu.array(b, tight(layout[1]))
            np.testing.assert_array_equal(
                tiledmm.matmul(x1, x2, dtype=result, **kernel).held, np.matmul(a, b, dtype=result), f"{target} {kernel}"
            )
            out = gpu.array(np.zeros((2, m, n), "f8"), tight("T", 1))
            tiledmm.matmul(x1, x2, out=out, dtype=result, **kernel)
            np.testing.assert_array_equal(out.held, np.matmul(a, b, dtype=result).astype("f8"))
            gpu.memory.check()


# ---- a product of an array and its own transpose ----


def triangles(gpu: HostGpu) -> list[int]:
    """Return for each kernel that ran whether it computed only C's lower half."""
    return [each.config.triangle for each in gpu.launched]


def test_a_symmetric_c_is_computed_by_half(h100: HostGpu) -> None:
    x = h100.array(random_values(np.random.default_rng(2), (6, 200, 64), "float32"))
    for array in (x.held, x.held[::-1], x.held[:, ::-1]):
        check(multiply(h100, array, array.swapaxes(-1, -2)), array, array.swapaxes(-1, -2), np.dtype("f4"))
        assert any(triangles(h100))


def multiply(gpu: HostGpu, x1: np.ndarray, x2: np.ndarray, **keywords: Any) -> np.ndarray:
    """Compute a product of views of one device's arrays."""
    gpu.launched.clear()
    return tiledmm.matmul(gpu.over(x1), gpu.over(x2), **keywords).held


def test_a_matrix_times_the_transposes_of_a_batch_is_not_symmetric(h100: HostGpu) -> None:
    x = h100.array(random_values(np.random.default_rng(3), (6, 200, 64), "float32")).held
    for left, right in ((x[0], x.swapaxes(1, 2)), (x, x[0].T)):
        check(multiply(h100, left, right), left, right, np.dtype("f4"))
        assert not any(triangles(h100))


def test_the_same_bits_of_another_type_are_another_matrix(h100: HostGpu) -> None:
    x = h100.array(any_bits(np.random.default_rng(4), (6, 200, 64), "int16")).held
    other = x.view("uint16").swapaxes(1, 2)
    np.testing.assert_array_equal(multiply(h100, x, other), x.astype("i4") @ other.astype("i4"))


def test_a_part_beside_the_diagonal_is_not_symmetric(h100: HostGpu) -> None:
    x = h100.array(random_values(np.random.default_rng(5), (20, 200, 64), "float32"))
    right = h100.over(x.held.swapaxes(1, 2))
    for cut in ((64, 64), (64, 200), (200, 64)):
        kept(h100, x, right, cut, triangle=int(len(set(cut)) == 1))
        check(tiledmm.matmul(x, right).held, x.held, right.held, np.dtype("f4"))


# ---- what is kept of a call ----


def test_values_of_config_are_told_apart(h100: HostGpu) -> None:
    a, b = (h100.array(random_values(np.random.default_rng(6), (40, 40), "float32")) for _ in range(2))
    for unroll in (1, 2, 1):
        tiledmm.matmul(a, b, variant="tiled", tile=8, config={"unroll": unroll})
    assert [each.config.unroll for each in h100.launched] == [1, 2, 1]


# ---- where arrays lie ----


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("shift", [-3, 0, 3])
def test_a_reversed_result_over_its_operand(h100: HostGpu, operand: int, shift: int) -> None:
    rng = np.random.default_rng(7)
    memory = h100.array(random_values(rng, (64 + 6,), "float32")).held
    operands = [h100.array(random_values(rng, (8, 8), "float32")).held for _ in range(2)]
    operands[operand] = memory[3:67].reshape(8, 8)
    values = [x.copy() for x in operands]
    out = memory[3 + shift : 67 + shift].reshape(8, 8)[::-1, ::-1]
    around = h100.surroundings(h100.over(out))
    result = multiply(h100, operands[0], operands[1], out=h100.over(out), variant="naive")
    check(result, *values, np.dtype("f4"))
    np.testing.assert_array_equal(h100.surroundings(h100.over(out)), around)
    h100.memory.check()


@pytest.mark.parametrize("operand", [0, 1])
def test_a_result_over_the_last_bytes_of_an_operand(h100: HostGpu, operand: int) -> None:
    rng = np.random.default_rng(8)
    memory = h100.array(random_values(rng, (16,), "float64")).held
    operands = [h100.array(small_integers(rng, (3, 3), "int8")).held for _ in range(2)]
    operands[operand] = memory[:9].reshape(3, 3)
    values = [x.copy() for x in operands]
    out = memory.view("f4")[17:26].reshape(3, 3)  # from the last element's second half on
    check(multiply(h100, *operands, out=h100.over(out), variant="naive"), *values, np.dtype("f8"))


def test_every_operand_begins_at_a_multiple_of_its_own_element(h100: HostGpu) -> None:
    wide, narrow = h100.array(np.zeros((5, 4), "f8")), h100.array(np.zeros((4, 4), "i1"))
    shifted = h100.over(wide.held.reshape(-1).view("f4")[1:33].view("f8").reshape(4, 4))
    assert tiledmm.matmul(narrow, h100.over(wide.held[:4])).shape == (4, 4)
    for operands, name in (((shifted, narrow), "x1"), ((narrow, shifted), "x2")):
        with pytest.raises(AlignmentError, match=name):
            tiledmm.matmul(*operands)
    with pytest.raises(AlignmentError, match="out"):
        tiledmm.matmul(narrow, narrow, out=shifted)


@pytest.mark.parametrize("size", [2, 3])
def test_an_axis_of_odd_bytes_is_refused_however_short(h100: HostGpu, size: int) -> None:
    memory = h100.array(np.zeros(64, "u1")).held
    odd = h100.over(np.ndarray((size, 3), "f4", memory.data, 0, (14, 4)))
    with pytest.raises(AlignmentError, match="14"):
        tiledmm.matmul(odd, h100.array(np.zeros((3, 2), "f4")))


# ---- types ----


@pytest.mark.parametrize("signature", [(None, "d", None), ("d", None, None), (None, "d", "d"), "dd->d"])
def test_a_signature_names_the_type_by_any_of_its_entries(h100: HostGpu, signature: Any) -> None:
    a, b = (random_values(np.random.default_rng(9), (5, 5), "float32") for _ in range(2))
    result = multiply(h100, h100.array(a).held, h100.array(b).held, signature=signature)
    assert result.dtype == np.float64
    check(result, a, b, np.dtype("f8"))


@pytest.mark.parametrize(("kept_wide", "narrow"), [(0, 1), (1, 0)])
def test_each_operand_is_mapped_by_the_bytes_of_its_own_elements(h100: HostGpu, kept_wide: int, narrow: int) -> None:
    """Check rows of 4 elements, which TMA loads in float32 (16 bytes) but not in float16 (8 bytes)."""
    rng = np.random.default_rng(10)
    a, b = random_values(rng, (64, 4), "float16"), random_values(rng, (4, 4), "float16")
    operands = [a, b]
    operands[kept_wide] = operands[kept_wide].astype("float32")
    x1, x2 = map(h100.array, operands)
    result = tiledmm.matmul(x1, x2, dtype="float16", variant="wgmma")
    check(result.held, a, b, np.dtype("f2"))
    assert [each.variant.name for each in h100.launched] == ["pack", "pack", "wgmma"]


def test_an_operand_that_begins_at_an_odd_byte_is_packed(h100: HostGpu) -> None:
    rng = np.random.default_rng(18)
    a, b = any_bits(rng, (64, 64), "int8"), any_bits(rng, (64, 64), "int8")
    memory = h100.array(np.zeros(64 * 64 + 1, "i1")).held
    odd = memory[1:].reshape(64, 64)
    odd[...] = a
    result = tiledmm.matmul(h100.over(odd), h100.array(b, tight("T")), variant="wgmma")
    check(result.held, a, b, np.dtype("i1"))
    assert [each.variant.name for each in h100.launched] == ["pack", "pack", "wgmma"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_slices_of_narrow_floats_are_rounded_once(h100: HostGpu, dtype: str) -> None:
    rng = np.random.default_rng(11)
    a, b = random_values(rng, (40, 3000), dtype), random_values(rng, (3000, 40), dtype)
    for variant in ("tiled", "wgmma"):
        result = tiledmm.matmul(h100.array(a), h100.array(b), variant=variant, config={"split_k": 6})
        check(result.held, a, b, np_dtype(dtype))
        assert h100.launched[-1].variant.name == "split_k_reduction"


@pytest.mark.parametrize(
    ("first", "compute", "out"),
    [
        ("float32", "int32", "int32"),
        ("float32", None, "int32"),
        ("complex64", "float32", None),
        ("int64", "bool", "int8"),
    ],
)
def test_conversions_that_no_kernel_does(h100: HostGpu, first: str, compute: str | None, out: str | None) -> None:
    rng = np.random.default_rng(12)
    values = [small_integers(rng, (2, 9, 9), first) for _ in range(2)]
    arrays = [h100.array(x, tight(letter, 1)) for x, letter in zip(values, "NT", strict=True)]
    target = None if out is None else h100.array(np.zeros((2, 9, 9), out), tight("T", 1))
    result = tiledmm.matmul(*arrays, out=target, dtype=compute, casting="unsafe", variant="naive")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        expected = np.matmul(*(x.astype(compute or first) for x in values)).astype(out or compute or first)
    np.testing.assert_array_equal(result.held, expected)
    assert h100.copies, "by CuPy"


@pytest.mark.parametrize("layout", ["NN", "TN", "NT", "TT"])
def test_what_is_converted_first_lies_as_explain_says(h100: HostGpu, layout: str) -> None:
    rng = np.random.default_rng(13)
    x1, x2 = (h100.array(small_integers(rng, (40, 40), "float64"), tight(letter)) for letter in layout)
    explained = tiledmm.explain(x1.held, x2.held, dtype="int32", casting="unsafe")
    tiledmm.matmul(x1, x2, dtype="int32", casting="unsafe", variant="naive")
    assert explained.product.problem.layout == h100.launched[-1].layout == layout


# ---- nothing to multiply ----


@pytest.mark.parametrize(
    ("dtype", "kernel"),
    [
        ("int8", {"variant": "warp_tiled", "tile": 64, "config": {"pack_elements": 1}}),
        ("bool", {"variant": "warp_tiled", "tile": 64, "config": {"pack_elements": 1}}),
        ("float32", {"variant": "warp_tiled", "tile": 64, "config": {"pack_a": 1}}),
        ("float16", {"variant": "wgmma"}),
        ("float32", {"variant": "split_float32"}),
        ("float64", {"variant": "split_float64"}),
        ("complex128", {"variant": "split_float64_tensor_core"}),
        ("float32", {}),
    ],
)
def test_a_sum_of_no_terms_is_zero(h100: HostGpu, dtype: str, kernel: dict[str, Any]) -> None:
    kind = np_dtype(dtype)
    result = tiledmm.matmul(h100.array(np.zeros((5, 0), kind)), h100.array(np.zeros((0, 6), kind)), **kernel)
    np.testing.assert_array_equal(result.held, np.zeros((5, 6), kind))
    assert not any(each.variant.name.startswith("pack") for each in h100.launched), "there is nothing to pack"


# ---- batches and grids ----


@pytest.mark.parametrize(
    ("dtype", "variant", "broadcast"),
    [
        ("float32", "split_float32", ""), ("float32", "split_float32", "x1"), ("float32", "split_float32", "x2"),
        ("complex64", "split_float32", "x1"), ("int32", "split_integer", "x2"), ("float64", "split_float64", "x1"),
        ("complex128", "split_float64", "x2"), ("float64", "split_float64_tensor_core", ""),
        ("float64", "split_float64_tensor_core", "x1"), ("float64", "split_float64_tensor_core", "x2"),
    ],
)  # fmt: skip
def test_each_product_of_a_batch_has_decomposed_operands_of_its_own(
    h100: HostGpu, dtype: str, variant: str, broadcast: str
) -> None:
    rng = np.random.default_rng(14)
    a, b = random_values(rng, (2, 3, 20, 300), dtype), random_values(rng, (2, 3, 300, 24), dtype)
    a, b = (a[:, :1] if broadcast == "x1" else a), (b[0, 0] if broadcast == "x2" else b)
    result = tiledmm.matmul(h100.array(a), h100.array(b), variant=variant)
    check(result.held, a, b, np.dtype(dtype), 2.0**-20)


@pytest.mark.parametrize("tile", [64, pytest.param(256, marks=pytest.mark.slow)])
def test_a_persistent_kernel_has_a_block_for_every_sm_and_no_more(h100: HostGpu, tile: int) -> None:
    rng = np.random.default_rng(15)
    for size in (100, 1100 if tile == 64 else 2100):  # tiles for a few SMs, and for each several
        a, b = random_values(rng, (size, 16), "float16"), random_values(rng, (16, size), "float16")
        check(tiledmm.matmul(h100.array(a), h100.array(b), variant="wgmma", tile=tile).held, a, b, np.dtype("f2"))


@pytest.mark.parametrize(
    ("dtype", "kernel"),
    [
        ("float32", {"variant": "warp_tiled", "tile": 32, "config": {"pack_a": 1, "pack_b": 1, "split_k": 2}}),
        ("int8", {"variant": "warp_tiled", "tile": 32, "config": {"pack_elements": 1}}),
        ("float64", {"variant": "tiled", "tile": 16}),
        ("float32", {"variant": "tiny", "tile": 8}),
    ],
)
@pytest.mark.parametrize("most", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_more_tiles_than_one_launch_numbers_are_several_launches(
    h100: HostGpu, dtype: str, kernel: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "MOST_TILES", most)
    rng = np.random.default_rng(16)
    for batch in ((), (2, 3)):
        a, b = random_values(rng, (*batch, 90, 70), dtype), random_values(rng, (*batch, 70, 100), dtype)
        layouts = [tight(letter, len(batch)) for letter in "TN"]
        x1, x2 = (h100.array(x, layout) for x, layout in zip((a, b), layouts, strict=True))
        check(tiledmm.matmul(x1, x2, **kernel).held, a, b, np.dtype(dtype))


# ---- what is not ours ----


def test_cublas_gets_the_keywords_that_were_given(h100: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[dict[str, Any]] = []
    monkeypatch.setattr(by_cupy, "cupy_matmul", lambda x1, x2, **keywords: got.append(keywords))
    x = h100.array(np.zeros((3, 3), "f4"))
    tiledmm.matmul(x, x, variant="cublas", casting="unsafe", dtype="f8")
    tiledmm.matmul(x, x, variant="cublas", out=x)
    assert got == [{"casting": "unsafe", "dtype": "f8", "out": None}, {"out": x}]


def test_both_operands_are_cupy_arrays(h100: HostGpu) -> None:
    x = h100.array(np.zeros((3, 3), "f4"))
    for operands, name in (((x, x.held), "x2"), ((x.held, x), "x1")):
        with pytest.raises(OperandTypeError, match=name):
            tiledmm.matmul(*operands)
    with pytest.raises(OperandTypeError, match="out"):
        tiledmm.matmul(x, x, out=x.held)
