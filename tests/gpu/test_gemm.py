"""Tests of ``tiledmm.gemm`` on a GPU: every kernel with an epilogue, on exact integers, and in place."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest
from hypothesis import given, settings

import tiledmm
from tests.gemm_calls import GemmCall, check_gemm, gemm_calls
from tests.strategies import PROPERTY, small_integers
from tiledmm.elements import compute_element
from tiledmm.kernels.variants import kernel_variants

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
TYPES = ("float32", "float16", "float64", "complex64", "complex128", "int8", "int32", "int64")
VARIANTS = {
    row: [dtype for dtype in TYPES if row.multiplies(kind := compute_element(dtype)) and row.runs_on(CAPABILITY, kind)]
    for row in kernel_variants()
}
# Every type of a variant's default tile, and every tile in one type, in either order of C.
CASES = [
    (row.name, tile, dtype)
    for row, types in VARIANTS.items()
    for tile in row.tiles or (None,)
    for dtype in (types if tile in (row.default_tile, None) else types[:1])
]
KERNELS = [(*case, "NT"[number % 2]) for number, case in enumerate(CASES)]


@settings(PROPERTY, max_examples=100)
@given(gemm_calls())
def test_any_call(call: GemmCall) -> None:
    check_gemm(cupy, tiledmm.gemm, call)


def integers(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    """Return integers so small that sums are exact."""
    return cupy.asarray(small_integers(np.random.default_rng(seed), shape, dtype, 3))


def wide(x: Any) -> Any:
    return x.get().astype({"i": "i8", "c": "c16"}.get(x.dtype.kind, "f8"))


@pytest.mark.parametrize(("variant", "tile", "dtype", "layout"), KERNELS)
def test_every_kernel(variant: str, tile: int | None, dtype: str, layout: str) -> None:
    k = 4 if variant == "outer_products" else 300
    a, b = integers(1, (70, k), dtype), integers(2, (k, 75), dtype)
    c, bias, column = integers(3, (70, 75), dtype), integers(4, (75,), dtype), integers(5, (70, 1), dtype)
    kernel = {"variant": variant, "tile": tile}
    out = cupy.full((70, 75), 7, dtype) if layout == "N" else cupy.full((75, 70), 7, dtype).T
    tiledmm.gemm(a, b, c, alpha=2, beta=-3, bias=bias, out=out, **kernel)
    wanted = 2 * (wide(a) @ wide(b)) - 3 * wide(c) + wide(bias)
    np.testing.assert_array_equal(out.get(), wanted.astype(dtype))
    held = c.copy() if layout == "N" else c.T.copy().T
    tiledmm.gemm(a, b, held, beta=1, bias=column, out=held, **kernel)
    wanted = wide(a) @ wide(b) + wide(c) + wide(column)
    np.testing.assert_array_equal(held.get(), wanted.astype(dtype))
    if np.dtype(dtype).kind != "c":
        found = tiledmm.gemm(a, b, alpha=column, activation="relu", **kernel)
        wanted = np.maximum((wide(column) * (wide(a) @ wide(b))).astype(dtype), 0)
        np.testing.assert_array_equal(found.get(), wanted)


@pytest.mark.parametrize(
    ("n", "first", "pitch"), [(264, 0, 264), (264, 1, 266), (264, 0, 265), (263, 0, 264), (2, 0, 8)]
)
@pytest.mark.parametrize(("variant", "tile", "dtype"), [
    case for case in CASES if case[0] in ("warp_tiled", "tensor_core", "wgmma")
])  # fmt: skip
def test_reads_of_several_elements(variant: str, tile: int | None, dtype: str, n: int, first: int, pitch: int) -> None:
    """Check vector loads where rows of c and the bias begin at any element, with any length and any pitch."""
    a, b = integers(1, (300, 70), dtype), integers(2, (70, n), dtype)
    memory, bias = integers(3, (300 * pitch + first,), dtype), integers(4, (n + first,), dtype)[first:]
    strides = (pitch * memory.itemsize, memory.itemsize)
    c = cupy.lib.stride_tricks.as_strided(memory[first:], (300, n), strides)
    found = tiledmm.gemm(a, b, c, beta=2, bias=bias, variant=variant, tile=tile)
    wanted = wide(a) @ wide(b) + 2 * wide(c) + wide(bias)
    np.testing.assert_array_equal(found.get(), wanted.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"])
@pytest.mark.parametrize("shape", [(300, 200, 100), (1024, 512, 256), (1, 4096, 300)])
def test_activations_are_those_of_cupy(activation: str, dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = cupy.random.default_rng(1)
    a, b = (rng.standard_normal(size, dtype=cupy.float64).astype(dtype) / 4 for size in ((m, k), (k, n)))
    found = tiledmm.gemm(a, b, activation=activation)
    wanted = tiledmm.gemm(a.astype("f8"), b.astype("f8"), activation=activation, variant="cublas")
    assert abs(found - wanted).max() <= {"float16": 2e-2, "float32": 1e-4, "float64": 1e-12}[dtype]


@pytest.mark.parametrize("variant", ["auto", "wgmma", "tensor_core", "warp_tiled"])
@pytest.mark.parametrize("result", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(70, 75, 900), (512, 1024, 2048), (9, 4096, 4096)])
def test_bytes_have_integer_sums_and_a_float_epilogue(variant: str, result: str, shape: tuple[int, int, int]) -> None:
    if variant == "wgmma" and CAPABILITY != (9, 0):
        pytest.skip("wgmma is for compute capability 9.0")
    m, n, k = shape
    rng = np.random.default_rng(6)
    a, b = (cupy.asarray(rng.integers(-128, 128, size).astype("i1")) for size in ((m, k), (k, n)))
    scale = cupy.asarray(rng.uniform(0, 1e-3, n).astype("f4"))
    found = tiledmm.gemm(a, b, alpha=scale, dtype=result, variant=variant)
    wanted = scale.get() * (a.get().astype("f8") @ b.get().astype("f8")).astype("f4")
    np.testing.assert_allclose(found.get(), wanted, rtol=1e-6 if result == "float32" else 1e-3)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float64", "complex128"])
@pytest.mark.parametrize("spread", [0, 60])
def test_large_products_in_place(dtype: str, spread: int) -> None:
    rng = cupy.random.default_rng(2)
    a, b, c = (rng.standard_normal(size).astype(dtype) for size in ((3000, 2000), (2000, 2500), (3000, 2500)))
    a[7] *= cupy.exp2(cupy.arange(2000) % (spread + 1) - spread / 2).astype(a.real.dtype)
    wanted = c + 2 * cupy.matmul(a, b)
    tiledmm.gemm(a, b, c, alpha=2, beta=1, out=c)
    size = cupy.abs(cupy.abs(a).astype("f8") @ cupy.abs(b).astype("f8")).max()
    assert abs(c - wanted).max() <= (1e-13 if c.real.dtype == "f8" else 1e-5) * float(size)


def test_captured_in_a_graph_with_factors_on_the_device() -> None:
    a, b, c = integers(1, (500, 400), "float32"), integers(2, (400, 300), "float32"), integers(3, (500, 300), "float32")
    alpha, beta, out = cupy.array(2.0, "f4"), cupy.array(0.0, "f4"), cupy.empty((500, 300), "f4")
    tiledmm.gemm(a, b, c, alpha=alpha, beta=beta, out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        tiledmm.gemm(a, b, c, alpha=alpha, beta=beta, out=out)
        graph = stream.end_capture()
        for left, right in ((1, 0), (3, -2), (0, 1)):
            alpha.fill(left)
            beta.fill(right)
            c[0, 0] = np.nan if right == 0 else 1
            graph.launch()
            wanted = left * (a @ b) + (right * c if right else 0)
            stream.synchronize()
            np.testing.assert_array_equal(out.get(), wanted.get())
