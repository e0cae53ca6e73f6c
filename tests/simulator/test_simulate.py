"""Tests of the simulator's matmul against NumPy's, for every kind of operand."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import slow_unless
from tests.strategies import PROPERTY, any_bits, lay_out, layouts, np_dtype, operand_shapes, small_integers
from tiledmm import errors, simulator
from tiledmm.elements import ELEMENTS
from tiledmm.kernels.variants import kernel_variants


@pytest.mark.parametrize(
    ("dtypes", "kernels"),
    [
        (("float32", "int16"), (("naive", None), ("tiled", 8))),
        pytest.param(
            ("float32", "int16", "bool", "complex64"),
            (("naive", None), ("tiled", 8), ("double_buffered", 8)),
            marks=pytest.mark.slow,
        ),
    ],
)
@settings(PROPERTY, max_examples=12)
@given(data=st.data())
def test_any_operands(data, dtypes, kernels):
    left, right = data.draw(operand_shapes(max_batch=5))
    dtype = data.draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    operands = []
    for shape in (left, right):
        layout = data.draw(layouts(len(shape), broadcast=True))
        operands.append(lay_out(np, small_integers(rng, shape, dtype), layout, poison=True)[0])
    x1, x2 = operands
    variant, tile = data.draw(st.sampled_from(kernels))
    expected = np.matmul(x1, x2)
    result = simulator.matmul(x1, x2, variant=variant, tile=tile)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


@settings(PROPERTY, max_examples=10)
@given(data=st.data())
def test_any_out(data):
    left, right = data.draw(operand_shapes(max_batch=2))
    rng = np.random.default_rng(0)
    x1, x2 = small_integers(rng, left, "int32"), small_integers(rng, right, "int32")
    expected = np.matmul(x1, x2)
    out_type = data.draw(st.sampled_from(("int32", "int64", "float64", "int8")))
    layout = data.draw(layouts(expected.ndim))
    out, memory = lay_out(np, np.zeros(expected.shape, out_type), layout, poison=True)
    before = memory.copy()
    assert simulator.matmul(x1, x2, out=out, variant="tiled", tile=8) is out
    np.testing.assert_array_equal(out, expected.astype(out_type))
    out[...] = 0
    np.testing.assert_array_equal(memory, before)  # nothing beside it was written


@pytest.mark.parametrize(
    "dtype",
    [pytest.param(name, marks=slow_unless(i % 6 == 0 or name == "bfloat16")) for i, name in enumerate(ELEMENTS)],
)
def test_the_product_of_two_vectors_is_a_scalar(dtype):
    v = np.ones(5, np_dtype(dtype))
    kind, right = v.dtype.type, np.matmul(v[None], v)[0]
    result, report = simulator.run(v, v, variant="naive")
    for each in (
        result,
        simulator.matmul(v, v, variant="naive"),
        simulator.matmul(v, v, None),
        simulator.matmul(v, v, (None,)),
    ):
        assert type(each) is kind and each == right
    assert report.ok
    assert type(simulator.matmul(v[:0], v[:0], variant="naive")) is kind


def test_a_result_of_no_dimensions_stays_an_array_where_one_is_asked_for():
    v = np.arange(5.0)
    out = np.empty(())
    assert simulator.matmul(v, v, out) is out and out == 30
    assert simulator.matmul(v, v, out=(out,)) is out
    assert simulator.run(v, v, out=out)[0] is out
    assert np.shape(simulator.matmul(v, v, dtype="f4")) == ()
    fresh = simulator.matmul(v, v, out=...)
    assert isinstance(fresh, np.ndarray) and fresh.shape == () and fresh == 30
    row = simulator.matmul(v[None], v)
    assert isinstance(row, np.ndarray) and row.shape == (1,) and row.base is None
    wide = np.empty((2, 3))
    assert simulator.matmul(v, v, out=wide) is wide and (wide == 30).all()


@pytest.mark.parametrize("workers", [0, -1, "two", 1.5, True])
def test_a_number_of_workers_that_there_is_not(workers):
    v = np.ones(3)
    with pytest.raises(errors.ConfigError, match=f"workers .*{workers!r}"):
        simulator.run(v, v, workers=workers)
    with pytest.raises(errors.ConfigError, match="workers"):
        simulator.launch("__global__ void nothing() {}", 1, 1, (), workers=workers)


def test_more_workers_than_blocks():
    a = np.ones((40, 40))
    for workers in (1, np.int64(2), 64):
        result, report = simulator.run(a, a, variant="tiled", tile=8, workers=workers)
        assert report.ok and (result == 40).all()


@pytest.mark.parametrize("can_start", [1, 3])
def test_the_system_has_fewer_threads_than_workers(monkeypatch, can_start):
    start, started = threading.Thread.start, []

    def starts(thread):
        if thread.name.startswith("tiledmm-"):
            if len(started) == can_start:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    a = np.ones((40, 40))
    result, report = simulator.run(a, a, variant="tiled", tile=8, workers=8)
    assert report.ok and (result == 40).all() and len(started) == can_start


def test_an_out_that_overlaps_an_operand():
    a = np.arange(36.0).reshape(6, 6)
    expected = a @ a
    simulator.matmul(a, a, out=a, variant="tiled", tile=8)
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_every_type_wraps_and_rounds_as_numpy_does(dtype):
    rng = np.random.default_rng(1)
    kind = np_dtype(dtype)
    if kind.kind in "iub":
        a, b = any_bits(rng, (9, 20), kind), any_bits(rng, (20, 11), kind)
        np.testing.assert_array_equal(simulator.matmul(a, b, variant="double_buffered", tile=16), a @ b)
        return
    a = rng.standard_normal((9, 20)).astype(kind)
    b = rng.standard_normal((20, 11)).astype(kind)
    wide = np.complex128 if kind.kind == "c" else np.float64
    exact = a.astype(wide) @ b.astype(wide)
    bound = np.abs(a.astype(wide)) @ np.abs(b.astype(wide))
    epsilon = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(dtype)
    result = simulator.matmul(a, b, variant="double_buffered", tile=16)
    assert result.dtype == kind
    if epsilon is None:
        epsilon = 22 * float(np.finfo(kind).eps)
    assert (np.abs(result.astype(wide) - exact) <= epsilon * (np.abs(exact) + 1e-3 * bound) + 1e-6 * bound).all()


def test_subnormals_are_kept():
    a = np.full((8, 64), 1e-39, np.float32)
    b = np.full((64, 8), 0.5, np.float32)
    np.testing.assert_array_equal(simulator.matmul(a, b, variant="tiled", tile=8), a @ b)


def test_conversions_that_no_kernel_does():
    a, b = np.full((4, 4), 2.7), np.eye(4)
    result = simulator.matmul(a, b, dtype="int32", casting="unsafe", variant="tiled", tile=8)
    np.testing.assert_array_equal(result, np.matmul(a, b, dtype="int32", casting="unsafe"))
    out = np.zeros((4, 4), np.float32)
    with pytest.warns(np.exceptions.ComplexWarning):
        simulator.matmul(a + 0j, b, out=out, casting="unsafe", variant="naive")
    np.testing.assert_array_equal(out, a.astype("f4"))


def test_mistakes_are_the_same_errors():
    a = np.zeros((3, 4))
    with pytest.raises(errors.ShapeError):
        simulator.matmul(a, a)
    with pytest.raises(errors.UnknownVariantError):
        simulator.matmul(a, a.T, variant="tilde")
    with pytest.raises(errors.ConfigError, match="cublas"):
        simulator.matmul(a, a.T, variant="cublas")
    with pytest.raises(errors.OperandTypeError, match="numpy"):
        simulator.matmul([[1.0]], a)
    with pytest.raises(errors.OperandTypeError, match="numpy"):
        simulator.matmul(np.ma.ones((2, 3)), a)
    with pytest.raises(errors.ConfigError, match=r"sm_75 .*65,536"):
        simulator.run(a.astype("f2"), a.T.astype("f2"), variant="tensor_core", tile=256, target="sm_75")
    with pytest.raises(errors.ConfigError, match="config"):
        simulator.matmul(a, a.T, variant="warp_tiled", config=[1])
    with pytest.raises(errors.KeywordValueError, match="out"):
        frozen = np.zeros((3, 3))
        frozen.flags.writeable = False
        simulator.matmul(a, a.T, out=frozen)
    with pytest.raises(errors.AlignmentError):
        odd = np.zeros(4 * 16 + 1, np.uint8)[1:].view("f4").reshape(4, 4)
        simulator.matmul(odd, odd)
    with pytest.raises(errors.ConfigError, match="reverse"):
        simulator.run(a, a.T, threads="sideways")


@pytest.mark.parametrize("shapes", [((0, 3), (3, 4)), ((3, 0), (0, 4)), ((2, 3, 4), (0, 4, 5)), ((0,), (0,))])
def test_nothing_to_compute(shapes):
    x1, x2 = (np.zeros(shape, np.float32) for shape in shapes)
    if shapes[1][0] == 0 and len(shapes[1]) == 3:
        x1 = x1[:1]
    np.testing.assert_array_equal(simulator.matmul(x1, x2, variant="tiled"), np.matmul(x1, x2))


def test_without_checks_the_result_is_the_same():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 70, 45)), rng.standard_normal((45, 66))
    checked = simulator.matmul(a, b, variant="double_buffered", tile=32)
    np.testing.assert_array_equal(checked, simulator.matmul(a, b, variant="double_buffered", tile=32, checks=False))


@pytest.mark.parametrize(
    ("m", "n", "k"), [(3, 2, 0), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((0, 3, 2), (3, 0, 2)))]
)
def test_every_kernel_takes_empty_products(m: int, n: int, k: int) -> None:
    for row in kernel_variants():
        if not row.simulated:
            continue
        dtype = row.default_type
        result = simulator.matmul(np.ones((m, k), dtype), np.ones((k, n), dtype), variant=row.name)
        assert result.shape == (m, n) and not result.any()
