"""Tests of ``gemm``: the epilogue of every kernel, compared with NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import slow_unless
from tests.gemm_calls import GemmCall, check_gemm, gemm_calls
from tests.strategies import PROPERTY
from tiledmm import simulator
from tiledmm.elements import compute_element
from tiledmm.errors import KeywordTypeError, KeywordValueError, ShapeError, UnsupportedTypeError
from tiledmm.kernels.variants import kernel_variants

TYPES = ("float32", "float16", "float64", "complex64", "complex128", "int8", "uint8", "int32", "int64")
VARIANTS = {
    row.name: [dtype for dtype in TYPES if row.multiplies(compute_element(dtype))]
    for row in kernel_variants()
    if row.simulated
}
# Another type of each variant is quick to test, but the first one of those that decompose; the others are slow.
KERNELS = [
    pytest.param(
        name,
        types[i],
        ("NT", "TN")[(number + i) % 2],
        marks=slow_unless(i == (0 if "split" in name else number % len(types))),
    )
    for number, (name, types) in enumerate(VARIANTS.items())
    for i in range(len(types))
]
TOLERANCE = {"float16": 4e-3, "float32": 2e-6, "complex64": 2e-6, "float64": 1e-14, "complex128": 1e-14}


def _erf(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.vectorize(math.erf, otypes=[float])(x)


ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


@pytest.mark.parametrize(
    ("dtype", "near", "far", "activation"),
    [
        pytest.param(*accuracy, activation, marks=slow_unless((i + j) % 2 == 0 or activation == "gelu"))
        for i, accuracy in enumerate([("float32", 2e-6, 2e-5), ("float64", 4e-15, 4e-14)])
        for j, activation in enumerate(name for name in ACTIVATIONS if name)
    ],
)
def test_activations_have_small_relative_errors(activation: str, dtype: str, near: float, far: float) -> None:
    x = np.linspace(-8, 8, 1601, dtype=dtype).reshape(-1, 1)
    found = simulator.gemm(x, np.ones((1, 1), dtype), activation=activation, variant="naive").astype("f8")
    exact = {
        "gelu": lambda x: 0.5 * x * np.vectorize(math.erfc)(-x / math.sqrt(2)),
        "gelu_tanh": lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    }
    wanted = exact.get(activation, ACTIVATIONS[activation])(x.astype("f8"))
    np.testing.assert_allclose(found[abs(x) < 4], wanted[abs(x) < 4], rtol=near, atol=1e-300)
    np.testing.assert_allclose(found, wanted, rtol=far, atol=1e-300)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_activations_of_infinities_and_nan(dtype: str) -> None:
    x = np.array([[np.inf], [np.nan], [1e30], [0]], dtype)
    for activation, of_infinity in zip(ACTIVATIONS, (np.inf, np.inf, np.inf, np.inf, np.inf, 1, 1), strict=True):
        found = simulator.gemm(x, np.ones((1, 1), dtype), activation=activation, variant="naive")[:3, 0]
        wanted = [of_infinity, np.nan, x[2, 0] if of_infinity > 1 else 1]
        np.testing.assert_array_equal(found, np.array(wanted, dtype), err_msg=str(activation))


def test_run_counts_what_an_epilogue_reads() -> None:
    a, b, bias = np.ones((32, 16), "f4"), np.ones((16, 64), "f4"), np.arange(64, dtype="f4")
    _, alone = simulator.run(a, b, variant="tiled", tile=16)
    result, report = simulator.run(a, b, variant="tiled", tile=16, epilogue={"bias": bias, "activation": "relu"})
    np.testing.assert_array_equal(result, np.broadcast_to(16 + bias, (32, 64)))
    assert report.source.global_load.bytes - alone.source.global_load.bytes == 32 * 64 * 4  # each thread reads its own
    assert report.source.global_store.bytes == alone.source.global_store.bytes
    with pytest.raises(KeywordTypeError, match=r"unknown keys biass.*c, alpha, beta, bias, activation"):
        simulator.run(a, b, epilogue={"biass": bias})


@pytest.mark.slow
@settings(PROPERTY, max_examples=120)
@given(gemm_calls(), st.sampled_from((("auto", None), ("naive", None), ("tiled", 8), ("warp_tiled", 32))))
def test_any_call(call: GemmCall, kernel: tuple[str, int | None]) -> None:
    check_gemm(np, simulator.gemm, call, variant=kernel[0], tile=kernel[1])


@settings(PROPERTY, max_examples=4)
@given(gemm_calls(types=("float32", "int32")))
def test_some_calls(call: GemmCall) -> None:
    check_gemm(np, simulator.gemm, call, variant="naive")


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(0 if kind.kind == "u" else -20, 20, shape).astype(kind)
    real = rng.uniform(-1, 1, shape)
    return (real + 1j * rng.uniform(-1, 1, shape) if kind.kind == "c" else real).astype(kind)


def expected(a: Any, b: Any, c: Any, alpha: Any, beta: Any, bias: Any, activation: str | None = None) -> Any:
    kind = a.dtype
    wide = {"i": "int64", "u": "int64", "c": "complex128"}.get(kind.kind, "float64")
    x = np.asarray(alpha).astype(wide) * (a.astype(wide) @ b.astype(wide))
    if c is not None:
        x = x + np.asarray(beta).astype(wide) * c.astype(wide)
    if bias is not None:
        x = x + bias.astype(wide)
    if kind.kind in "iu":
        return ACTIVATIONS[activation](x.astype(kind))
    return ACTIVATIONS[activation](x)


def check(found: Any, wanted: Any, size: float = 1.0) -> None:
    if found.dtype.kind in "iu":
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found.shape == wanted.shape
        assert abs(found - wanted).max() <= TOLERANCE[found.dtype.name] * size


def laid_out(x: Any, letter: str) -> Any:
    return np.asfortranarray(x) if letter == "T" else x


@pytest.mark.parametrize(
    ("variant", "dtype", "layout", "epilogue"),
    [
        pytest.param(*kernel.values, epilogue, marks=[*kernel.marks, *slow_unless((number + i) % 2 == 0)])
        for number, kernel in enumerate(KERNELS)
        for i, epilogue in enumerate(("all of it", "activation"))
    ],
)
def test_every_kernel(variant: str, dtype: str, layout: str, epilogue: str) -> None:
    rng = np.random.default_rng(len(variant) + len(dtype))
    decomposed, few = "split" in variant, variant in ("axpy", "tiny", "dot_products", "block_dot_products")
    k = 256 if decomposed else 4 if variant == "outer_products" else 37
    m, n = (6, 75) if few else (10, 9) if decomposed else (33, 40)
    tile = 64 if decomposed else None
    a, b = laid_out(random(rng, (m, k), dtype), layout[0]), laid_out(random(rng, (k, n), dtype), layout[1])
    c, bias = random(rng, (m, n), dtype), random(rng, (n,), dtype)
    if epilogue == "all of it":
        alpha, beta = (3, -2) if np.dtype(dtype).kind in "iu" else (0.5, -2.0)
        out = laid_out(np.empty((m, n), dtype), layout[0])
        found = simulator.gemm(a, b, c, alpha=alpha, beta=beta, bias=bias, variant=variant, tile=tile, out=out)
        check(found, expected(a, b, c, alpha, beta, bias), k)
        return
    activation = None if np.dtype(dtype).kind == "c" else "relu"
    found = simulator.gemm(a, b, bias=bias[:1], activation=activation, variant=variant, tile=tile)
    check(found, expected(a, b, None, 1, 0, bias[:1], activation), k)


@pytest.mark.parametrize(
    ("variant", "dtype", "n", "first", "pitch"),
    [
        pytest.param(*kernel, *row, marks=slow_unless((i + j) % 6 == 0))
        for i, kernel in enumerate(
            [("warp_tiled", "float32"), ("warp_tiled", "complex64")]
            + [("tensor_core", dtype) for dtype in ("float16", "float64", "int8")]
        )
        for j, row in enumerate([(96, 0, 96), (96, 1, 98), (96, 0, 97), (95, 0, 96), (2, 0, 8), (1, 0, 2)])
    ],
)
def test_reads_of_several_elements(variant: str, dtype: str, n: int, first: int, pitch: int) -> None:
    """Check vector loads where rows of c and the bias begin at any element, with any length and any pitch."""
    rng = np.random.default_rng(9)
    a, b = random(rng, (70, 40), dtype), random(rng, (40, n), dtype)
    memory = random(rng, (70 * pitch + first,), dtype)
    c = np.lib.stride_tricks.as_strided(memory[first:], (70, n), (pitch * memory.itemsize, memory.itemsize))
    bias = random(rng, (n + first,), dtype)[first:]
    found = simulator.gemm(a, b, c, beta=2, bias=bias, variant=variant)
    check(found, expected(a, b, c, 1, 2, bias), 40)


@pytest.mark.parametrize(
    "activation", [pytest.param(name, marks=slow_unless(name in ("relu", "gelu"))) for name in ACTIVATIONS if name]
)
def test_activations_of_rounded_results(activation: str) -> None:
    rng = np.random.default_rng(1)
    a, b = 3 * random(rng, (20, 24), "float16"), random(rng, (24, 33), "float16")
    check(simulator.gemm(a, b, activation=activation), expected(a, b, None, 1, 0, None, activation), 40)


@pytest.mark.parametrize("split_k", [2, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("variant", "dtype"),
    [("warp_tiled", "float32"), ("tensor_core", "float16"),
     pytest.param("split_tensor_core", "float32", marks=pytest.mark.slow),
     pytest.param("warp_tiled", "int8", marks=pytest.mark.slow),
     pytest.param("tensor_core", "complex128", marks=pytest.mark.slow), ("dot_products", "float64"),
     *(pytest.param(*each, marks=pytest.mark.slow)
       for each in (("wgmma", "float16"), ("split_float32", "float32"), ("split_integer", "int32"))),
     pytest.param("axpy", "complex64", marks=pytest.mark.slow)],
)  # fmt: skip
def test_split_k_applies_it_once(variant: str, dtype: str, split_k: int) -> None:
    rng, k = np.random.default_rng(2), 150 if split_k == 2 else 700
    a, b = random(rng, (33, k), dtype), random(rng, (k, 45), dtype)
    c, bias = random(rng, (33, 45), dtype), random(rng, (33, 1), dtype)
    wanted = expected(a, b, c, 3, 2, bias)
    found = simulator.gemm(a, b, c, alpha=3, beta=2, bias=bias, variant=variant, config={"split_k": split_k}, out=c)
    assert found is c
    check(found, wanted, 2100)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("int32", 1), ("float16", 1.0)]
    + [
        pytest.param(dtype, scale, marks=slow_unless((dtype, scale) in {("float32", 1.0), ("float64", 2.0**-60)}))
        for dtype in ("float32", "complex64", "float64", "complex128")
        for scale in (1.0, 2.0**-60)
    ],
)
def test_in_place_by_auto(dtype: str, scale: float) -> None:
    rng = np.random.default_rng(3)
    a, b = random(rng, (30, 270), dtype), random(rng, (270, 40), dtype)
    a[5, :7] *= np.array(scale, a.dtype)  # some rows are not decomposed: another kernel then writes all
    c = random(rng, (30, 40), dtype)
    wanted = expected(a, b, c, 2, 1, None)
    assert simulator.gemm(a, b, c, alpha=2, beta=1, out=c) is c
    check(c, wanted, 600)


@pytest.mark.parametrize(("variant", "dtype"), [
    ("split_tensor_core", "float32"), pytest.param("split_tensor_core", "complex64", marks=pytest.mark.slow),
    ("split_float64_tensor_core", "float64"), ("split_float64_tensor_core", "complex128"),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in (
        ("split_float32", "float32"), ("split_float32", "complex64"), ("split_float64", "float64"),
    )),
])  # fmt: skip
@pytest.mark.parametrize(
    ("spread", "split_k"),
    [(100, 3), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((0, 1), (0, 3), (100, 1)))],
)
def test_one_kernel_of_two_writes(variant: str, dtype: str, spread: int, split_k: int) -> None:
    if split_k > 1 and "float64" in variant:
        pytest.skip("products of residues have no split-K")
    rng = np.random.default_rng(4)
    a, b = random(rng, (40, 512), dtype), random(rng, (512, 50), dtype)
    a *= np.exp2(rng.integers(-spread // 2, spread // 2 + 1, a.shape)).astype(a.real.dtype)
    c = random(rng, (40, 50), dtype)
    wanted = expected(a, b, c, 2, 1, None)
    config = {"split_k": split_k} if split_k > 1 else None
    simulator.gemm(a, b, c, alpha=2, beta=1, out=c, variant=variant, config=config)
    check(c, wanted, 1024 * 2.0 ** (spread // 2))


@pytest.mark.parametrize(
    ("variant", "tile"), [("tiled", 16), ("auto", None), pytest.param("warp_tiled", 32, marks=pytest.mark.slow)]
)
def test_batches_and_broadcasting(variant: str, tile: int | None) -> None:
    rng = np.random.default_rng(5)
    a, b = random(rng, (2, 1, 3, 20, 30), "float32"), random(rng, (4, 1, 30, 25), "float32")
    c, bias = random(rng, (4, 3, 20, 25), "float32"), random(rng, (2, 1, 1, 1, 25), "float64")
    alpha = random(rng, (20, 1), "float32")
    found = simulator.gemm(a, b, c[..., ::-1], alpha=alpha, beta=0.5, bias=bias, variant=variant, tile=tile)
    check(found, expected(a, b, c[..., ::-1], alpha, 0.5, bias), 60)
    vector = a[0, 0, 0, 0]
    check(simulator.gemm(vector, b, c[:, :1, 0], beta=1), expected(vector, b, c[:, :1, 0], 1, 1, None), 60)


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(shape, marks=slow_unless(i in (1, 2)))
        for i, shape in enumerate([(2, 1, 1, 6), (3, 1, 6), (2, 1, 5, 1), (2, 3, 1, 1), (2, 1, 5, 6), (1, 3, 5, 6)])
    ],
)
def test_arrays_that_differ_along_some_batch_dimensions(shape: tuple[int, ...]) -> None:
    """Check arrays broadcast along one of the batch dimensions that the operands and C merge into one."""
    rng = np.random.default_rng(12)
    a, b, array = (rng.integers(-4, 5, size).astype("f4") for size in ((2, 3, 5, 7), (2, 3, 7, 6), shape))
    for name, wanted in (("bias", a @ b + array), ("alpha", array * (a @ b)), ("c", a @ b + array)):
        given = {name: array, "beta": int(name == "c")}
        np.testing.assert_array_equal(simulator.gemm(a, b, variant="naive", **given), wanted, err_msg=name)


@pytest.mark.parametrize(
    "dtype",
    ["float32", *(pytest.param(each, marks=pytest.mark.slow) for each in ("int32", "complex64", "float16"))],
)
def test_what_is_scaled_by_0_is_not_read(dtype: str) -> None:
    rng = np.random.default_rng(6)
    a, b, c = (random(rng, shape, dtype) for shape in ((15, 20), (20, 17), (15, 17)))
    wanted = expected(a, b, None, 1, 0, None)
    bad = np.full((15, 17), np.nan if a.dtype.kind in "fc" else 77).astype(dtype)
    check(simulator.gemm(a, b, bad), wanted, 20)
    check(simulator.gemm(a, b, bad, beta=np.zeros((), dtype)), wanted, 20)
    spoilt = np.full_like(a, np.nan if a.dtype.kind in "fc" else 77)
    for variant in ("auto", "tiled", "tensor_core" if dtype == "float16" else "warp_tiled"):
        check(simulator.gemm(spoilt, b, c, alpha=0, beta=2, variant=variant), expected(a, b, c, 0, 2, None), 20)
    check(simulator.gemm(spoilt, b, c, alpha=np.zeros((), dtype), beta=1), c)
    check(simulator.gemm(a[:, :0], b[:0], c, beta=1), c)


def test_factors_on_the_device_and_of_each_column() -> None:
    rng = np.random.default_rng(7)
    x, y, c = (random(rng, shape, "float64") for shape in ((9, 8), (8, 7), (9, 7)))
    alpha, beta = np.array(0.3), np.array(-1.5)
    check(simulator.gemm(x, y, c, alpha=alpha, beta=beta), expected(x, y, c, alpha, beta, None), 20)


@pytest.mark.parametrize(
    ("kernel", "dtype", "result"),
    [
        pytest.param(kernel, *types, marks=slow_unless((i + j) % 2 == 0))
        for i, kernel in enumerate(
            [
                {"variant": "naive"},
                {"variant": "tensor_core", "config": {"split_k": 3}},
                {"variant": "warp_tiled", "tile": 32, "config": {"pack_elements": 1, "split_k": 2}},
                {},
            ]
        )
        for j, types in enumerate([("int8", "float32"), ("uint8", "float16")])
    ],
)
def test_bytes_have_integer_sums_and_a_float_epilogue(dtype: str, result: str, kernel: dict[str, Any]) -> None:
    rng, least = np.random.default_rng(10), -128 if dtype == "int8" else 0
    a, b = (rng.integers(least, least + 256, shape).astype(dtype) for shape in ((33, 260), (260, 40)))
    scale, bias = rng.uniform(0, 1e-3, 40).astype("f4"), rng.standard_normal(40).astype(result)
    found = simulator.gemm(a, b, alpha=scale, bias=bias, dtype=result, activation="gelu_tanh", **kernel)
    sums = a.astype("i8") @ b.astype("i8")
    wanted = ACTIVATIONS["gelu_tanh"](scale.astype("f8") * sums + bias.astype("f8"))
    assert found.dtype == result
    check(found, wanted, 2e-1 * abs(wanted).max())


def test_sums_of_bytes_exceed_24_bits() -> None:
    a, b = np.full((1, 1050), 127, "i1"), np.full((1050, 1), 127, "i1")
    b[0] = 126
    found = simulator.gemm(a, b, dtype="f8", alpha=2.0)
    assert found[0, 0] == 2 * (127 * 127 * 1050 - 127) > 2**25


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_wide_results_of_bytes(dtype: str) -> None:
    a, b = (random(np.random.default_rng(i), shape, "int8") for i, shape in enumerate(((30, 50), (50, 20))))
    bias, factor = random(np.random.default_rng(3), (20,), dtype), 2**33 + 5 if dtype == "int64" else 3
    found = simulator.gemm(a, b, alpha=factor, bias=bias, dtype=dtype, activation="relu")
    sums = factor * (a.astype("i8") @ b.astype("i8")) + bias
    np.testing.assert_array_equal(found, np.maximum(sums.astype(dtype), 0))


def test_the_result_is_rounded_once() -> None:
    a, b = np.full((1, 1), 1.0, "f2"), np.full((1, 1), 2.0**-11, "f2")
    found = simulator.gemm(a, b, bias=np.full(1, 1.0, "f2"), alpha=1.5, variant="naive")
    assert found[0, 0] == np.float16(1 + 1.5 * 2.0**-11)
    wide = simulator.gemm(a, b, bias=np.full(1, 1.0, "f2"), out=np.empty((1, 1), "f4"))
    assert wide[0, 0] == np.float32(1 + 2.0**-11)


FLOATS, WHOLE = np.ones((4, 4), "f4"), np.ones((4, 4), "i4")


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "named"),
    [
        ((FLOATS, FLOATS), {"beta": 2}, KeywordTypeError, "beta"),
        ((FLOATS, FLOATS), {"activation": "softmax"}, KeywordValueError, "activation.*'relu'"),
        ((FLOATS, FLOATS), {"bias": 1.0}, KeywordTypeError, "bias"),
        ((FLOATS, FLOATS), {"adjoint_a": "N"}, KeywordTypeError, "adjoint_a.*'N'"),
        ((FLOATS, FLOATS), {"adjoint_b": np.ones(2, bool)}, KeywordTypeError, "adjoint_b"),
        ((WHOLE, WHOLE), {"activation": "tanh"}, UnsupportedTypeError, "'tanh'"),
        ((FLOATS.astype("c8"), FLOATS), {"activation": "relu"}, UnsupportedTypeError, "complex.*activation"),
        ((FLOATS, FLOATS), {"alpha": 1j}, UnsupportedTypeError, "alpha"),
        ((WHOLE, WHOLE), {"alpha": 0.5}, UnsupportedTypeError, "alpha"),
        ((FLOATS, FLOATS), {"alpha": np.str_("2")}, UnsupportedTypeError, "alpha"),
        ((FLOATS, FLOATS), {"alpha": np.datetime64("2020")}, UnsupportedTypeError, "alpha"),
        ((FLOATS, FLOATS), {"alpha": np.timedelta64(2)}, UnsupportedTypeError, "alpha"),
        ((FLOATS, FLOATS), {"alpha": 10**5000}, KeywordValueError, "alpha.*float64"),
        ((FLOATS > 0, FLOATS > 0), {}, UnsupportedTypeError, "bool"),
        ((WHOLE, WHOLE), {"bias": np.ones(4, "f4")}, UnsupportedTypeError, "bias"),
        ((FLOATS, FLOATS), {"bias": np.ones(3, "f4")}, ShapeError, r"\(3,\).*\(4, 4\)"),
        ((FLOATS, FLOATS, FLOATS), {"beta": np.ones(4, "f4")}, ShapeError, "beta"),
    ],
)
def test_wrong_calls(arguments: tuple[Any, ...], keywords: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        simulator.gemm(*arguments, **keywords)


def test_without_an_epilogue_it_is_matmul() -> None:
    a, b = (random(np.random.default_rng(8), (20, 20), "float32") for _ in range(2))
    np.testing.assert_array_equal(simulator.gemm(a, b), simulator.matmul(a, b))
