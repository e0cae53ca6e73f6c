"""Tests of every way to call matmul, computed on NumPy arrays from exactly what a kernel receives."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tiledmm
from tests.strategies import (
    PROPERTY,
    SIZES,
    any_bits,
    batches,
    byte_bounds,
    lay_out,
    layouts,
    move_core,
    moved_axes,
    np_dtype,
    operand_shapes,
    plain,
    small_integers,
)
from tiledmm import api
from tiledmm.elements import ELEMENTS
from tiledmm.errors import (
    AlignmentError,
    AxisError,
    KeywordError,
    ShapeError,
    TiledmmError,
    UnsupportedTypeError,
)
from tiledmm.launch import plans
from tiledmm.problem.arrays import Array, describe
from tiledmm.problem.casting import can_cast
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.problem.product import Product, resolve
from tiledmm.problem.strides import KERNEL_BATCH_DIMENSIONS
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import Within
from tiledmm.selection.model import H100

MATRIX = (-2, -1)

# NumPy multiplies bfloat16 as float32 and has no rule for some of its pairs: those have tests of their own.
NUMPY_TYPES = tuple(name for name in ELEMENTS if name != "bfloat16")


def matrices(x: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Build an array from a pointer, sizes and strides in elements, as a kernel does, within ``x``'s memory."""
    size = x.dtype.itemsize
    address = x.__array_interface__["data"][0] + offset * size
    if 0 in shape:
        return np.empty(shape, x.dtype)
    reach = [(n - 1) * stride * size for n, stride in zip(shape, strides, strict=True)]
    low, high = byte_bounds(x)
    assert low <= address + sum(min(r, 0) for r in reach), "reads before the array"
    assert address + sum(max(r, 0) for r in reach) + size <= high, "reads behind the array"
    interface = {
        "version": 3,
        "data": (address, False),
        "shape": shape,
        "typestr": f"|V{size}",
        "strides": tuple(stride * size for stride in strides),
    }
    memory = SimpleNamespace(__array_interface__=interface, keep=x)
    return np.asarray(memory).view(x.dtype)


def by_letter(letter: str, row: int, col: int) -> tuple[int, int]:
    """Return the strides that a kernel of this layout uses, of which N and T imply one."""
    return {"N": (row, 1), "T": (1, col), "G": (row, col)}[letter]


def carry_out(product: Product, x1: Any, x2: Any, out: Any = None) -> Any:
    """Compute what a launch would."""
    result = np.full(product.shape, 99, product.result_type, product.order) if out is None else out
    problem = product.problem
    if problem.is_empty:
        return result
    assert len(problem.batch) <= KERNEL_BATCH_DIMENSIONS
    left, right = (x2, x1) if product.is_transposed else (x1, x2)
    assert (left.dtype, right.dtype, result.dtype) == (product.a.dtype, product.b.dtype, product.c.dtype)
    sizes = tuple(d.size for d in problem.batch)
    row_a, col_a, row_b, col_b, row_c, col_c = problem.strides
    m, n, k = problem.m, problem.n, problem.k
    steps = problem.outer_offsets()
    # As launches do: an out that overlaps an operand would be overwritten before that is read.
    target = lay_like(result) if any(np.may_share_memory(result, x) for x in (x1, x2)) else result
    for a0, b0, c0 in steps:
        a = matrices(
            left,
            a0,
            (*sizes, m, k),
            (*(d.a for d in problem.batch), *by_letter(problem.layout[0], row_a, col_a)),
        )
        b = matrices(
            right,
            b0,
            (*sizes, k, n),
            (*(d.b for d in problem.batch), *by_letter(problem.layout[1], row_b, col_b)),
        )
        c = matrices(target, c0, (*sizes, m, n), (*(d.c for d in problem.batch), row_c, col_c))
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.matmul(a.astype(product.compute.result.dtype), b.astype(product.compute.result.dtype))
            c[...] = value.astype(product.compute.result.dtype).astype(product.c.dtype)
    if target is not result:
        result[...] = target
    return result


def lay_like(array: Any) -> Any:
    """Return an array with the same shape and strides in new memory."""
    low, high = byte_bounds(array)
    memory = np.zeros(high - low, np.uint8)
    start = array.__array_interface__["data"][0] - low
    return np.ndarray(array.shape, array.dtype, memory, start, array.strides)


class _ReferencePlan:
    """A stand-in for ``tiledmm.launch.plan.Plan``."""

    def __init__(self, choice: Choice, within: Within | None = None) -> None:
        self.product = choice.product
        assert choice.spec.layout == choice.product.problem.layout

    def run(self, x1: Any, x2: Any, out: Any, epilogue: Any = None, allocate: Any = None) -> Any:
        return carry_out(self.product, x1, x2, out)


@pytest.fixture(scope="module", autouse=True)
def launch_on_numpy() -> Iterator[None]:
    """Let ``tiledmm.matmul`` launch on NumPy arrays, so that whole calls work without a GPU."""
    launch = SimpleNamespace(Plan=_ReferencePlan, cupy=np)
    devices = SimpleNamespace(current_device=lambda: 0, device_model=lambda ieee=False: H100, as_cupys=lambda x: x)

    def plan_of(x1: Any, x2: Any, out: Any, ufunc: Any, kernel: Any, epilogue: Any = None) -> Any:
        return plans._make_plan(x1, x2, out, UfuncKeywords(*ufunc), KernelKeywords(*kernel), epilogue)

    with pytest.MonkeyPatch.context() as patch:
        for module in (plans, api):
            patch.setattr(module, "plan_of", plan_of)
        patch.setattr(api, "are_cupys", lambda *arguments: True)
        patch.setattr(plans, "_check_device", lambda *arguments: None)
        patch.setitem(sys.modules, "tiledmm.launch.plan", launch)
        patch.setitem(sys.modules, "tiledmm.launch.devices", devices)
        yield


def expected_product(x1: Any, x2: Any, out: Any = None, **keywords: Any) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.matmul(x1, x2, **({} if out is None else {"out": out}), **keywords)


def check(x1: Any, x2: Any, out: Any = None, memory: Any = None, **keywords: Any) -> Any:
    """Check that the product equals NumPy's: values, type, shape and ``out`` itself, with nothing else changed."""
    again = None if out is None else lay_like(out)
    if again is not None:
        again[...] = out
    expected = expected_product(x1, x2, again, **keywords)
    before = None if memory is None else memory.copy()
    result = tiledmm.matmul(x1, x2, out=out, **keywords)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)
    if out is not None:
        assert result is out
    if memory is not None and before is not None:
        out[...] = 0
        changed = memory.copy()
        memory[...] = before
        out[...] = 0
        np.testing.assert_array_equal(changed, memory, "written outside of out")
    return result


# ---- the property: whatever NumPy computes, so do we ----


@settings(PROPERTY, max_examples=40)
@given(st.data())
def test_any_shapes_and_strides(data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes())
    rng = np.random.default_rng(0)
    x1, x2 = (
        lay_out(np, small_integers(rng, shape, "f4"), data.draw(layouts(len(shape), broadcast=True)))[0]
        for shape in shapes
    )
    check(x1, x2)


@settings(PROPERTY, max_examples=40)
@given(st.data())
def test_out_of_any_strides_and_type(data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes(4))
    names = [data.draw(st.sampled_from(NUMPY_TYPES)) for _ in range(2)]
    rng = np.random.default_rng(1)
    x1, x2 = (
        lay_out(np, small_integers(rng, shape, name, 2), data.draw(layouts(len(shape), broadcast=True)))[0]
        for shape, name in zip(shapes, names, strict=True)
    )
    compute = np.promote_types(*names)
    fits = [name for name in NUMPY_TYPES if np.can_cast(compute, name, "same_kind")]
    shape = np.matmul(np.zeros(shapes[0]), np.zeros(shapes[1])).shape
    more = data.draw(st.sampled_from(((), (), (1,), (2,), (0,), (3, 2))))
    values = np.zeros((*more, *shape), data.draw(st.sampled_from(fits)))
    out, memory = lay_out(np, values, data.draw(layouts(values.ndim)), poison=True)
    check(x1, x2, out, memory if values.size else None)


@settings(PROPERTY, max_examples=40)
@given(st.data())
def test_axes(data: st.DataObject) -> None:
    left_batch, right_batch = data.draw(batches(3))
    m, n, k = (data.draw(st.sampled_from((1, 2, 3, 5))) for _ in range(3))
    vectors = data.draw(st.sampled_from(((False, False), (False, False), (True, False), (False, True), (True, True))))
    shapes = ((k,) if vectors[0] else (*left_batch, m, k)), ((k,) if vectors[1] else (*right_batch, k, n))
    result = np.matmul(np.zeros(shapes[0]), np.zeros(shapes[1])).shape
    cores = (1 if vectors[0] else 2, 1 if vectors[1] else 2, 2 - sum(vectors))
    rng = np.random.default_rng(2)
    entries, arrays = [], []
    for shape, core in zip((*shapes, result), cores, strict=True):
        entry, positions = data.draw(moved_axes(len(shape), core))
        entries.append(entry[0] if core == 1 and data.draw(st.booleans()) else entry)
        moved = move_core(shape, positions)
        arrays.append(lay_out(np, small_integers(rng, moved, "f4"), data.draw(layouts(len(moved))), poison=True))
    (x1, _), (x2, _), (out, memory) = arrays
    if data.draw(st.booleans()):
        check(x1, x2, out, memory if out.size else None, axes=entries)
    else:
        check(x1, x2, axes=entries)


@settings(PROPERTY, max_examples=40)
@given(
    st.sampled_from(NUMPY_TYPES), st.sampled_from(NUMPY_TYPES), st.sampled_from((None, *NUMPY_TYPES)),
    st.sampled_from((None, *NUMPY_TYPES)), st.sampled_from(("no", "equiv", "safe", "same_kind", "unsafe")),
    st.booleans(),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_types(
    left: str, right: str, dtype: str | None, out_type: str | None, casting: str, as_signature: bool
) -> None:
    rng = np.random.default_rng(3)
    x1, x2 = small_integers(rng, (3, 4), left), small_integers(rng, (4, 5), right)
    out = None if out_type is None else np.full((3, 5), 77, out_type)
    keywords: dict[str, Any] = {"casting": casting}
    if dtype is not None and as_signature:
        char = np.dtype(dtype).char
        keywords["signature"] = f"{char}{char}->{char}"
    elif dtype is not None:
        keywords["dtype"] = dtype
    try:
        expected_product(x1, x2, None if out is None else out.copy(), **keywords)
    except TypeError:
        with pytest.raises(UnsupportedTypeError):
            tiledmm.matmul(x1, x2, out=out, **keywords)
        if out is not None:
            assert (out == np.full((3, 5), 77, out_type)).all(), "a rejected call wrote to out"
        return
    check(x1, x2, out, **keywords)


def test_complex_operands_of_a_product_in_float64_are_converted() -> None:
    """Check complex operands with ``dtype="float64"``, which equals None where NumPy compares dtypes."""
    x1, x2 = small_integers(np.random.default_rng(5), (3, 4), "float64"), np.full((4, 5), 2 + 3j, "complex64")
    for left, right in ((x1, x2), (x2.T, x1.T), (x2.T[:3, :4] + x1, x2)):
        with pytest.warns(np.exceptions.ComplexWarning):
            check(left, right, dtype="float64", casting="unsafe")


@pytest.mark.parametrize("name", [name for name in ELEMENTS if np_dtype(name).kind in "iub"])
def test_integers_wrap_in_their_own_width(name: str) -> None:
    rng = np.random.default_rng(4)
    x1, x2 = any_bits(rng, (5, 9), name), any_bits(rng, (9, 4), name)
    check(x1, x2)
    check(x1, x2, np.zeros((5, 4), np.promote_types(name, "int64") if name != "uint64" else "uint64"))


def test_dtype_widens_before_the_product() -> None:
    x = np.full((2, 2), 100, np.int8)
    result = check(x, x, dtype=np.int16)
    assert result[0, 0] == 20_000


def test_dtype_float64_as_a_dtype_object_is_not_taken_for_none() -> None:
    # numpy.dtype("float64") == None is True.
    x = np.ones((2, 2), np.float32)
    assert check(x, x, dtype=np.dtype("float64")).dtype == np.float64


def test_many_batch_dimensions_that_do_not_merge() -> None:
    full = small_integers(np.random.default_rng(5), (2, 3, 2, 3, 2, 3, 4, 5), "f4")
    x1 = full[::-1, :, ::-1, :, ::-1, :]
    x2 = full[:, :1, :, :1, :, :1].swapaxes(-1, -2)
    product = resolve(describe(x1), describe(x2))
    assert len(product.problem.batch) == KERNEL_BATCH_DIMENSIONS
    assert product.problem.outer
    check(x1, x2)


# ---- memory order of new results ----


@pytest.mark.parametrize("order", ["C", "F", "A", "K", "c", "f", "a", "k"])
@pytest.mark.parametrize("f_ordered", [(False, False), (True, False), (True, True)])
def test_order_of_a_new_result(order: str, f_ordered: tuple[bool, bool]) -> None:
    x1, x2 = (np.asfortranarray(np.ones((3, 3))) if f else np.ones((3, 3)) for f in f_ordered)
    product = resolve(describe(x1), describe(x2), order=order)
    expected = "F" if order.upper() == "F" or (order.upper() == "A" and all(f_ordered)) else "C"
    assert product.order == expected
    # K gives C order, as CuPy has it; NumPy may choose otherwise.
    check(x1, x2, order=order)


def test_order_a_with_vectors_is_c() -> None:
    # A vector is contiguous in both orders, hence not F alone.
    x1, x2 = np.asfortranarray(np.ones((3, 2, 3))), np.ones(3)
    assert resolve(describe(x1), describe(x2), order="A").order == "C"


@pytest.mark.parametrize("shapes", [((5, 0), (0, 3)), ((5, 0, 2), (5, 2, 0)), ((2, 5, 0), (2, 0, 3))])
def test_order_a_with_empty_operands_is_c(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    # NumPy and CuPy count an array without elements as contiguous in both orders.
    for make in (np.ascontiguousarray, np.asfortranarray):
        x1, x2 = (make(np.empty(shape)) for shape in shapes)
        assert resolve(describe(x1), describe(x2), order="A").order == "C"


# ---- out ----


def test_out_with_columns_contiguous_transposes_the_product() -> None:
    out = np.empty((5, 3), np.float32).T
    x1, x2 = np.ones((3, 4), np.float32), np.ones((4, 5), np.int8)
    product = resolve(describe(x1), describe(x2), describe(out))
    assert product.is_transposed
    assert (product.a.dtype_name, product.b.dtype_name) == ("int8", "float32")
    assert product.problem.strides[-2:] == (3, 1)
    check(x1, x2, out)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0), (0, 3, 4), (2, 0, 4)])
def test_empty_out(shape: tuple[int, ...]) -> None:
    # Arrays without elements have strides of 0: nothing is wrong with them.
    m, n = shape[-2:]
    out = np.empty(shape, np.float32)
    check(np.ones((m, 2), np.float32), np.ones((2, n), np.float32), out)


def test_empty_out_with_nothing_to_sum() -> None:
    check(np.ones((2, 0), np.float32), np.ones((0, 0), np.float32), np.empty((2, 0), np.float32))


def test_nothing_to_sum_gives_zeros() -> None:
    check(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), np.full((2, 3), np.nan, np.float32))


def test_out_may_have_more_batches() -> None:
    out = np.empty((5, 2, 3, 4), np.float32)
    check(np.ones((2, 3, 2), np.float32), np.ones((2, 4), np.float32), out)


def test_out_with_more_batches_converted_in_a_pass_of_its_own() -> None:
    out = np.full((3, 4, 5), 77, np.int32)
    rng = np.random.default_rng(6)
    x1, x2 = small_integers(rng, (3, 2), "f4"), small_integers(rng, (2, 4), "f4")
    check(x1, x2, out, axes=[MATRIX, MATRIX, (0, 1)], casting="unsafe")


def test_out_in_a_tuple() -> None:
    x = np.ones((2, 2), np.float32)
    out = np.zeros((2, 2), np.float32)
    assert tiledmm.matmul(x, x, out=(out,)) is out
    assert (out == 2).all()
    assert (tiledmm.matmul(x, x, out=(None,)) == 2).all()


@pytest.mark.parametrize("count", [0, 2])
def test_out_in_a_tuple_of_another_length(count: int) -> None:
    x = np.ones((2, 2), np.float32)
    out = (np.zeros((2, 2), np.float32),) * count
    with pytest.raises(ValueError):
        np.matmul(x, x, out=out)  # type: ignore[call-overload]
    with pytest.raises(ValueError):
        tiledmm.matmul(x, x, out=out)


def test_out_that_is_an_operand() -> None:
    x1 = small_integers(np.random.default_rng(7), (4, 4), "f4")
    expected = x1 @ x1
    assert tiledmm.matmul(x1, x1, out=x1) is x1
    np.testing.assert_array_equal(x1, expected)


def test_out_of_float32_keeps_the_whole_sum_of_16_bit_products() -> None:
    # A float16 product would round 2049 to 2048. (NumPy rounds first and converts then.)
    product = resolve(*(Array((1, 2), (4, 2), np.dtype("f2")), Array((2, 1), (2, 2), np.dtype("f2"))), dtype="f2")
    assert product.c.dtype_name == "float16"
    wide = resolve(
        Array((1, 2), (4, 2), np.dtype("f2")),
        Array((2, 1), (2, 2), np.dtype("f2")),
        Array((1, 1), (4, 4), np.dtype("f4")),
    )
    assert (wide.compute.dtype_name, wide.c.dtype_name, wide.via_temporary) == ("float16", "float32", False)


# ---- spans ----


@settings(PROPERTY, max_examples=40)
@given(st.data())
def test_spans_are_the_bytes_that_arrays_occupy(data: st.DataObject) -> None:
    shapes = data.draw(operand_shapes(3))
    arrays = [lay_out(np, np.zeros(s, "f4"), data.draw(layouts(len(s), broadcast=True)))[0] for s in shapes]
    product = resolve(*map(describe, arrays))
    for x, span in zip(arrays, product.spans[:2], strict=True):
        if x.size:
            start = x.__array_interface__["data"][0]
            assert (start + span.start, start + span.stop) == byte_bounds(x)
        else:
            assert span.start == span.stop


# ---- bfloat16, which NumPy knows only by name ----


@pytest.mark.parametrize(
    "other", ["bool", "int8", "uint8", "bfloat16", "float32", "float64", "complex64", "complex128"]
)
def test_bfloat16_with_another_type(other: str) -> None:
    rng = np.random.default_rng(8)
    x1, x2 = small_integers(rng, (3, 5), np_dtype("bfloat16")), small_integers(rng, (5, 2), np_dtype(other))
    for left, right in ((x1, x2), (x2.T, x1.T)):
        result = tiledmm.matmul(left, right)
        assert result.dtype == np.promote_types(left.dtype, right.dtype)
        np.testing.assert_array_equal(result.astype("D"), left.astype("D") @ right.astype("D"))


@pytest.mark.parametrize("other", ["float16", "int64", "uint64"])
def test_bfloat16_without_a_common_type_is_an_error_unless_dtype_says(other: str) -> None:
    x1, x2 = np.ones((2, 2), np_dtype("bfloat16")), np.ones((2, 2), other)
    with pytest.raises(UnsupportedTypeError, match="dtype="):
        resolve(describe(x1), describe(x2))
    assert tiledmm.matmul(x1, x2, dtype=np.float32).dtype == np.float32
    assert tiledmm.matmul(x1, x2, dtype="bfloat16").dtype == np_dtype("bfloat16")


# ---- mistakes: the class of error that NumPy raises ----

A, B, V = np.ones((2, 3)), np.ones((3, 4)), np.ones(3)
BATCH = np.ones((3, 2, 3))
MISTAKES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "scalar on the left": (np.array(1.0), B, {}),
    "scalar on the right": (A, np.array(1.0), {}),
    "inner sizes": (A, A, {}),
    "inner sizes, vector left": (V, np.ones((4, 3)), {}),
    "inner sizes, vector right": (A, np.ones(2), {}),
    "inner sizes, vectors": (V, np.ones(2), {}),
    "inner size of one does not broadcast": (A, np.ones((1, 4)), {}),
    "batches": (np.ones((2, 2, 3)), np.ones((3, 3, 4)), {}),
    "batches of zero and two": (np.ones((0, 2, 3)), np.ones((2, 3, 4)), {}),
    "out too few dimensions": (A, B, {"out": np.empty(4)}),
    "out 0-d": (A, B, {"out": np.empty(())}),
    "out rows": (A, B, {"out": np.empty((3, 4))}),
    "out columns": (A, B, {"out": np.empty((2, 5))}),
    "out transposed": (A, B, {"out": np.empty((4, 2))}),
    "out too few batches": (BATCH, B, {"out": np.empty((2, 4))}),
    "out one batch of three": (BATCH, B, {"out": np.empty((1, 2, 4))}),
    "out another number of batches": (BATCH, B, {"out": np.empty((2, 2, 4))}),
    "out larger, its batch of one": (BATCH, B, {"out": np.empty((5, 1, 2, 4))}),
    "out of another shape, vectors": (A, V, {"out": np.empty(3)}),
    "out broadcast": (A, B, {"out": np.broadcast_to(np.empty(4), (2, 4))}),
    "out integer": (A, B, {"out": np.empty((2, 4), int)}),
    "out real of complex": (A + 0j, B, {"out": np.empty((2, 4))}),
    "out bool of int": (A.astype(int), B.astype(int), {"out": np.empty((2, 4), bool)}),
    "out unsafe under safe": (A, B, {"out": np.empty((2, 4), "f4"), "casting": "safe"}),
    "out another under no": (A, B, {"out": np.empty((2, 4), "D"), "casting": "no"}),
    "operand under no": (A.astype("f4"), B, {"casting": "no"}),
    "operand under equiv": (A.astype("f4"), B, {"casting": "equiv"}),
    "dtype of another kind": (A, B, {"dtype": np.int64}),
    "dtype bool": (A, B, {"dtype": bool}),
    "dtype unsafe under safe": (A, B, {"dtype": np.float32, "casting": "safe"}),
    "dtype unsigned of signed": (A.astype(int), B.astype(int), {"dtype": np.uint64}),
    "dtype unknown": (A, B, {"dtype": "xyz"}),
    "dtype a number": (A, B, {"dtype": 5}),
    "dtype text": (A, B, {"dtype": "U3"}),
    "dtype date": (A, B, {"dtype": "M8[s]"}),
    "dtype record": (A, B, {"dtype": [("a", "f4")]}),
    "dtype of the other byte order": (A, B, {"dtype": ">f8"}),
    "dates": (A.astype("M8[s]"), B.astype("M8[s]"), {}),
    "text": (A, B.astype("U3"), {}),
    "casting unknown": (A, B, {"casting": "foo"}),
    "casting in capitals": (A, B, {"casting": "SAFE"}),
    "casting None": (A, B, {"casting": None}),
    "casting a number": (A, B, {"casting": 1}),
    "casting unknown, in bytes": (A, B, {"casting": b"sa"}),
    "order unknown": (A, B, {"order": "X"}),
    "order empty": (A, B, {"order": ""}),
    "order too long": (A, B, {"order": "CC"}),
    "order a number": (A, B, {"order": 1}),
    "axis": (A, B, {"axis": 0}),
    "axis of vectors": (V, V, {"axis": -1}),
    "axis and axes": (A, B, {"axis": 0, "axes": [MATRIX, MATRIX, MATRIX]}),
    "keepdims": (A, B, {"keepdims": True}),
    "keepdims of vectors": (V, V, {"keepdims": True}),
    "keepdims a number": (A, B, {"keepdims": 0}),
    "axes a tuple": (A, B, {"axes": (MATRIX, MATRIX, MATRIX)}),
    "axes text": (A, B, {"axes": "abc"}),
    "axes a list in text": (A, B, {"axes": "[(-2, -1), (-2, -1), (-2, -1)]"}),
    "axes a number": (A, B, {"axes": 5}),
    "axes empty": (A, B, {"axes": []}),
    "axes two": (A, B, {"axes": [MATRIX, MATRIX]}),
    "axes two, vectors": (V, V, {"axes": [0, 0]}),
    "axes four": (A, B, {"axes": [MATRIX] * 4}),
    "axes entry a number for a matrix": (A, B, {"axes": [0, MATRIX, MATRIX]}),
    "axes entry too short": (A, B, {"axes": [(0,), MATRIX, MATRIX]}),
    "axes entry too long": (A, B, {"axes": [(0, 1, 2), MATRIX, MATRIX]}),
    "axes entry too short, out": (A, B, {"axes": [MATRIX, MATRIX, (0,)]}),
    "axes entry empty, out": (A, B, {"axes": [MATRIX, MATRIX, ()]}),
    "axes entry a list": (A, B, {"axes": [[0, 1], MATRIX, MATRIX]}),
    "axes entry text": (A, B, {"axes": [MATRIX, "ab", MATRIX]}),
    "axes entry of fractions": (A, B, {"axes": [(0.5, 1), MATRIX, MATRIX]}),
    "axes entry of None": (A, B, {"axes": [(None, 1), MATRIX, MATRIX]}),
    "axes out of bounds": (A, B, {"axes": [(0, 5), MATRIX, MATRIX]}),
    "axes out of bounds, negative": (A, B, {"axes": [(-3, 1), MATRIX, MATRIX]}),
    "axes out of bounds, out": (A, B, {"axes": [MATRIX, MATRIX, (0, 3)]}),
    "axes twice the same": (A, B, {"axes": [(0, 0), MATRIX, MATRIX]}),
    "axes twice the same, negative": (A, B, {"axes": [(0, -2), MATRIX, MATRIX]}),
    "axes twice the same, out": (A, B, {"axes": [MATRIX, MATRIX, (1, 1)]}),
    "axes of a matrix for a vector": (V, B, {"axes": [MATRIX, MATRIX, (0,)]}),
    "axes of a matrix for a vector's result": (V, B, {"axes": [0, MATRIX, MATRIX]}),
    "axes out of bounds of a vector": (V, B, {"axes": [1, MATRIX, 0]}),
    "axes a number for a 0-d result": (V, V, {"axes": [0, 0, 0]}),
    "axes one for a 0-d result": (V, V, {"axes": [0, 0, (0,)]}),
    "axes make inner sizes differ": (A, B, {"axes": [(1, 0), MATRIX, MATRIX]}),
    "signature and dtype": (A, B, {"signature": "dd->d", "dtype": "d"}),
    "signature of one letter": (A, B, {"signature": "d"}),
    "signature without arrow": (A, B, {"signature": "dd"}),
    "signature without result": (A, B, {"signature": "dd->"}),
    "signature with two arrows": (A, B, {"signature": "dd->d->d"}),
    "signature empty": (A, B, {"signature": ""}),
    "signature mixed": (A, B, {"signature": "fd->d"}),
    "signature of an unknown type": (A, B, {"signature": "zz->z"}),
    "signature with an unknown result": (A, B, {"signature": "dd->x"}),
    "signature of text": (A, B, {"signature": "UU->U"}),
    "signature too long": (A, B, {"signature": "dd->dd"}),
    "signature of one": (A, B, {"signature": ("d",)}),
    "signature of two": (A, B, {"signature": ("d", "d")}),
    "signature a list": (A, B, {"signature": ["d", "d", "d"]}),
    "signature a number": (A, B, {"signature": 5}),
    "signature mixed tuple": (A, B, {"signature": ("f", None, "d")}),
    "signature forbids the cast": (A, B, {"signature": (None, None, np.int8)}),
    "signature of an unknown type in a tuple": (A, B, {"signature": ("x", None, None)}),
}  # fmt: skip


def builtins_of(error: type[BaseException]) -> set[type[BaseException]]:
    """Return the classes that user code would name, since NumPy's own subclasses are private."""
    if issubclass(error, Warning):  # what a newer NumPy rejects, an older one may only warn of
        return builtins_of(TypeError)
    return {
        row for row in error.__mro__ if row is np.exceptions.AxisError or getattr(builtins, row.__name__, None) is row
    }


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises_what_numpy_raises_and_nothing_else(mistake: str) -> None:
    x1, x2, keywords = MISTAKES[mistake]
    with pytest.raises(Exception) as numpys:
        np.matmul(x1, x2, **keywords)
    with pytest.raises(TiledmmError) as ours:
        tiledmm.matmul(x1, x2, **keywords)
    assert builtins_of(ours.type) == builtins_of(numpys.type), f"NumPy raises {numpys.value!r}"
    assert len(str(ours.value)) > 10
    out = keywords.get("out")
    resolve_keywords = {name: value for name, value in keywords.items() if name != "out"}
    with pytest.raises(type(ours.value)):
        resolve(describe(x1), describe(x2), None if out is None else describe(out), **resolve_keywords)


# What CuPy's matmul raises where it differs from NumPy (cupy/_core/_gufuncs.py), which counts: one class cannot be what
# both raise and derive from nothing else. tests/gpu/test_rejections.py checks that CuPy does, and nowhere else.
CUPY_DIFFERS: dict[str, type[Exception]] = {
    "axis": ValueError,
    "axis of vectors": ValueError,
    "axis and axes": ValueError,
    "keepdims": ValueError,
    "keepdims of vectors": ValueError,
    "axes a tuple": ValueError,
    "axes text": ValueError,
    "axes a list in text": ValueError,
    "axes a number": ValueError,
    "signature without arrow": TypeError,
    "signature without result": TypeError,
    "signature with two arrows": TypeError,
    "signature empty": TypeError,
    "signature of two": TypeError,
    "signature of an unknown type": TypeError,
    "signature with an unknown result": TypeError,
    "signature too long": TypeError,
}


@pytest.mark.parametrize("mistake", CUPY_DIFFERS)
def test_where_cupy_raises_another_class_numpys_counts(mistake: str) -> None:
    x1, x2, keywords = MISTAKES[mistake]
    with pytest.raises(TiledmmError) as ours:
        tiledmm.matmul(x1, x2, **keywords)
    assert not isinstance(ours.value, CUPY_DIFFERS[mistake])


@pytest.mark.parametrize(
    ("x1", "x2", "shape", "axes", "instead"),
    [
        (A[None], B, (2, 4), None, "(1, 2, 4); pass out.reshape(1, 2, 4)"),
        (A[:1], B, (4,), None, "(1, 4); pass out.reshape(1, 4)"),
        (A[:1], V, (), None, "(1,); pass out.reshape(1,)"),
        (A[None], B, (4, 2), [(-2, -1), (-2, -1), (2, 0)], "(4, 1, 2); pass out.reshape(4, 1, 2)"),
        (BATCH, B, (2, 4), None, "(3, 2, 4)"),
        (A, B, (8,), None, "(2, 4)"),
    ],
)
def test_out_with_fewer_dimensions_is_told_the_shape(
    x1: Any, x2: Any, shape: tuple[int, ...], axes: Any, instead: str
) -> None:
    """Check that ``out`` may not lack dimensions, as in CuPy; NumPy allows it for extents of 1."""
    with pytest.raises(ShapeError) as ours:
        tiledmm.matmul(x1, x2, out=np.empty(shape), axes=axes)
    assert str(shape) in str(ours.value) and str(ours.value).endswith(instead)


@pytest.mark.parametrize("keyword", ["foo", "where", "subok", "extobj"])
def test_an_unknown_keyword_raises_type_error(keyword: str) -> None:
    with pytest.raises(TypeError):
        tiledmm.matmul(A, B, **{keyword: True})


def test_out_by_position_is_an_error() -> None:
    # cupy.matmul takes out by keyword only.
    with pytest.raises(TypeError):
        tiledmm.matmul(A, B, np.empty((2, 4)))  # type: ignore[misc]


def test_defaults_may_be_written_out() -> None:
    check_keywords = {
        "axis": None,
        "axes": None,
        "keepdims": False,
        "dtype": None,
        "signature": None,
        "order": "K",
    }
    result = tiledmm.matmul(A, B, out=None, casting="same_kind", **check_keywords)  # type: ignore[arg-type]
    np.testing.assert_array_equal(result, A @ B)


@pytest.mark.parametrize("signature", [("d", "d", "d"), (None, None, "d"), (np.float64, None, np.float64)])
def test_signature_as_a_tuple(signature: tuple[Any, ...]) -> None:
    x1, x2 = A.astype("f4"), B.astype("f4")
    assert check(x1, x2, signature=signature).dtype == np.float64


@pytest.mark.parametrize("signature", [("d", None, None), (None, "d", None), (None, None, None)])
def test_signature_as_a_tuple_that_leaves_the_result_open(signature: tuple[Any, ...]) -> None:
    check(A, B, signature=signature)


def test_strides_between_elements_are_an_alignment_error() -> None:
    x = Array((3, 3), (9, 4), np.dtype("f4"))
    with pytest.raises(AlignmentError, match=r"copy"):
        resolve(x, describe(np.ones((3, 3), "f4")))


def test_strides_of_single_elements_do_not_matter() -> None:
    x = Array((1, 3), (9, 4), np.dtype("f4"))
    assert resolve(x, describe(np.ones((3, 3), "f4"))).problem.layout == "NN"


@pytest.mark.parametrize("dtype", ["float128" if hasattr(np, "float128") else "longdouble", "O", ">f4", "V4"])
def test_types_that_are_not_supported_name_those_that_are(dtype: str) -> None:
    x = Array((2, 2), (32, 16), np.dtype(dtype))
    with pytest.raises(UnsupportedTypeError, match="bfloat16"):
        resolve(x, x)


def test_messages_say_what_came() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\) @ \(2, 3\)"):
        resolve(describe(A), describe(A))
    with pytest.raises(ShapeError, match=r"'\*'"):
        resolve(describe(A), describe(np.array(1.0)))
    with pytest.raises(AxisError, match="axis 5"):
        resolve(describe(A), describe(B), axes=[(0, 5), MATRIX, MATRIX])
    with pytest.raises(KeywordError, match="'foo'"):
        resolve(describe(A), describe(B), casting="foo")
    with pytest.raises(UnsupportedTypeError, match=r"float64.*int64"):
        resolve(describe(A), describe(B), dtype=int)


@settings(PROPERTY, max_examples=40)
@given(st.data())
def test_shapes_that_do_not_fit_fail_as_in_numpy(data: st.DataObject) -> None:
    size = st.sampled_from(SIZES[:4])
    shapes = [tuple(data.draw(st.lists(size, max_size=4))) for _ in range(2)]
    x1, x2 = (np.zeros(shape) for shape in shapes)
    keywords: dict[str, Any] = {}
    if data.draw(st.booleans()):
        keywords["out"] = np.zeros(tuple(data.draw(st.lists(size, max_size=4))))
        # With an out of too few dimensions NumPy takes a matrix for a stack of vectors; nothing says so.
        assume(keywords["out"].ndim >= sum(len(shape) > 1 for shape in shapes))
    try:
        expected = np.matmul(x1, x2, **keywords)
    except ValueError:
        with pytest.raises(ShapeError):
            tiledmm.matmul(x1, x2, **keywords)
        return
    if "out" in keywords and keywords["out"].ndim < np.matmul(x1, x2).ndim:
        # NumPy lets out lack batch dimensions of one. CuPy does not, nor do we.
        with pytest.raises(ShapeError):
            tiledmm.matmul(x1, x2, **keywords)
        return
    assert tiledmm.matmul(x1, x2, **keywords).shape == expected.shape


@settings(PROPERTY, max_examples=40)
@given(st.data())
def test_axes_that_do_not_fit_fail_as_in_numpy(data: st.DataObject) -> None:
    position = st.integers(-4, 3)
    entry = st.one_of(position, st.lists(position, max_size=3).map(tuple))
    axes = data.draw(st.lists(entry, min_size=3, max_size=3))
    ndims = [data.draw(st.integers(1, 3)) for _ in range(2)]
    x1, x2 = (np.zeros((2,) * ndim) for ndim in ndims)
    try:
        expected = np.matmul(x1, x2, axes=axes)
    except (ValueError, TypeError) as error:
        with pytest.raises(TiledmmError) as ours:
            tiledmm.matmul(x1, x2, axes=axes)
        assert builtins_of(ours.type) == builtins_of(type(error))
        return
    assert tiledmm.matmul(x1, x2, axes=axes).shape == expected.shape


@settings(PROPERTY, max_examples=40)
@given(
    st.sampled_from(tuple(ELEMENTS)),
    st.sampled_from(tuple(ELEMENTS)),
    st.sampled_from(("no", "safe", "same_kind")),
)
def test_out_is_written_only_where_the_cast_is_allowed(compute: str, target: str, casting: str) -> None:
    assume(compute != target)
    x = np.ones((2, 2), np_dtype(compute))
    out = np.full((2, 2), 3, np_dtype(target))
    before = out.copy()
    if can_cast(x.dtype, out.dtype, casting):
        assert tiledmm.matmul(x, x, out=out, casting=casting) is out
        return
    with pytest.raises(UnsupportedTypeError):
        tiledmm.matmul(x, x, out=out, casting=casting)
    np.testing.assert_array_equal(out, before)


def test_an_out_of_plain_layout_is_written_in_place() -> None:
    out, memory = lay_out(np, np.zeros((3, 5), "f4"), plain(2), poison=True)
    check(np.ones((3, 4), "f4"), np.ones((4, 5), "f4"), out, memory)


@pytest.mark.parametrize(
    "shapes",
    [((5, 6), (6, 4)), ((1, 6), (6, 1)), ((6,), (6, 4)), ((3, 5, 6), (6, 4)), ((2, 3, 5, 6), (3, 6, 4))],
)
def test_operands_that_are_converted_first_are_multiplied_as_any_of_that_type(shapes: Any) -> None:
    whole, real = ([np.empty(shape, dtype) for shape in shapes] for dtype in ("i4", "f8"))
    expected = tiledmm.explain(*whole).product
    for x1, x2 in (real, (real[0], whole[1]), (whole[0], real[1])):
        assert tiledmm.explain(x1, x2, dtype="i4", casting="unsafe").product == expected


@settings(PROPERTY, max_examples=40)
@given(st.data(), st.lists(st.integers(2, 4), max_size=4))
def test_a_converted_operand_lies_as_numpys(data: st.DataObject, shape: list[int]) -> None:
    x, _ = lay_out(np, np.zeros(shape, "f4"), data.draw(layouts(len(shape))))
    for kind in ("i1", "c16"):
        assert describe(x).as_type(kind) == describe(x.astype(kind))


@pytest.mark.parametrize("strides", [(0, 0), (4, 4), (8, 8, 4), (0, 4, 4)])
def test_a_converted_operand_of_equal_strides_lies_as_numpys(strides: tuple[int, ...]) -> None:
    x = np.lib.stride_tricks.as_strided(np.zeros(100, "f4"), (3, 4, 2)[: len(strides)], strides)
    for kind in ("i1", "c16"):
        assert describe(x).as_type(kind) == describe(x.astype(kind))


def test_an_entry_of_axes_for_a_vector_is_one_integer() -> None:
    vector, matrix = describe(np.zeros(3)), describe(np.zeros((3, 4)))
    for axes in ([0, (0, 1), 0], [(0,), (0, 1), (0,)]):
        assert resolve(vector, matrix, axes=axes).shape == (4,)
    for entry in ((0, 1), 5.0, "a"):
        with pytest.raises((KeywordError, AxisError)):
            resolve(vector, matrix, axes=[entry, (0, 1), 0])


def test_a_malformed_entry_of_axes_is_named_by_its_place() -> None:
    x = describe(np.zeros((3, 3)))
    for place in range(3):
        for entry in (5.0, (0, "a")):
            axes: list[Any] = [(0, 1), (0, 1), (0, 1)]
            axes[place] = entry
            with pytest.raises(KeywordError, match=f"axes item {place}"):
                resolve(x, x, x, axes=axes)


def test_axes_of_the_result_are_named_by_their_place() -> None:
    with pytest.raises(AxisError, match=r"axes item 2 .*1"):
        resolve(describe(A), describe(B), axes=[MATRIX, MATRIX, (0,)])


def test_axes_of_one_element_have_any_stride() -> None:
    """Check that F order is recognized whatever the stride along a batch of one."""
    x1 = np.lib.stride_tricks.as_strided(np.zeros(1000), (1, 4, 5), (800, 8, 32))
    x2 = np.zeros((5, 3), order="F")
    assert np.matmul(x1, x2, order="A").flags.f_contiguous
    assert resolve(describe(x1), describe(x2), order="A").order == "F"


def test_inner_batch_dimensions_are_merged_though_the_outer_one_is_not() -> None:
    x1, x2 = np.zeros((2, 3, 4, 5, 6)), np.zeros((1, 3, 4, 6, 7))
    batch = resolve(describe(x1), describe(x2)).problem.batch
    assert [(each.size, each.a, each.b) for each in batch] == [(2, 12 * 30, 0), (12, 30, 42)]
