"""Errors on random data compared with the theory's bounds, and on real data with cuBLAS and a chain of FMAs."""

from __future__ import annotations

import cupy
import numpy as np
import pytest

import tiledmm
from benchmarks.support.accuracy import accuracy, keeps_promise
from benchmarks.support.data import REAL, operands
from tests.gpu.device import SMALLEST, matrix_layout, to_device, to_host
from tests.strategies import INEXACT, np_dtype
from tiledmm.kernels.variants import general_variants

SHAPE = (67, 71, 1031)

#: Half the distance between 1 and the next number, of the type in memory and of the type sums have.
ROUNDOFF = {
    "float16": (2.0**-11, 2.0**-24),
    "bfloat16": (2.0**-8, 2.0**-24),
    "float32": (0.0, 2.0**-24),
    "float64": (0.0, 2.0**-53),
    "complex64": (0.0, 2.0**-24),
    "complex128": (0.0, 2.0**-53),
}

KERNELS = [*SMALLEST, *((row.name, row.default_tile) for row in general_variants() if row.tiles)]


def random(rng: np.random.Generator, shape: tuple[int, int], dtype: str, positive: bool) -> np.ndarray:
    values = rng.random(shape) if positive else rng.standard_normal(shape)
    if np_dtype(dtype).kind == "c":
        values = values + 1j * (rng.random(shape) if positive else rng.standard_normal(shape))
    return values.astype(np_dtype(dtype))


def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return real and imaginary part in NumPy's widest type."""
    if x.dtype.kind == "c":
        return x.real.astype(np.longdouble), x.imag.astype(np.longdouble)
    wide = (x.astype(np.float64) if x.dtype.itemsize == 2 else x).astype(np.longdouble)
    return wide, np.zeros_like(wide)


@pytest.mark.parametrize("positive", [False, True], ids=["normal", "uniform"])
@pytest.mark.parametrize("dtype", INEXACT)
def test_errors_are_within_the_bounds_of_theory(dtype: str, positive: bool) -> None:
    m, n, k = SHAPE
    rng = np.random.default_rng(20)
    left, right = random(rng, (m, k), dtype, positive), random(rng, (k, n), dtype, positive)
    (ar, ai), (br, bi) = parts(left), parts(right)
    exact = (ar @ br - ai @ bi, ar @ bi + ai @ br)
    # What is summed, in absolute value: a chain of k (2k for complex types) fused multiply-adds.
    sizes = (abs(ar) @ abs(br) + abs(ai) @ abs(bi), abs(ar) @ abs(bi) + abs(ai) @ abs(br))
    steps = 2 * k if left.dtype.kind == "c" else k
    stored, summed = ROUNDOFF[dtype]
    gamma = steps * summed / (1 - steps * summed)
    for variant, tile in KERNELS:
        for layout in ("NN", "TT"):
            x1, x2 = to_device(left, matrix_layout(layout[0])), to_device(right, matrix_layout(layout[1]))
            result = to_host(tiledmm.matmul(x1, x2, variant=variant, tile=tile))
            assert result.dtype == np_dtype(dtype)
            for found, truth, size in zip(parts(result), exact, sizes, strict=True):
                what = f"{variant} {tile} {layout}"
                error = abs(found - truth)
                worst = gamma * size + stored * (abs(truth) + gamma * size)
                assert (error <= worst).all(), what  # false for NaN
                # Rounding errors partly cancel: as a whole they grow with the square root of the steps.
                likely = 3 * np.sqrt(steps) * summed * np.linalg.norm(size.astype(float))
                allowed = likely + stored * np.linalg.norm(truth.astype(float))
                assert np.linalg.norm(error.astype(float)) <= allowed, what


def test_variants_that_sum_in_one_order_agree_to_the_last_bit() -> None:
    # But for those whose lanes share k, every rung adds the products of a sum in the order of k, into one number.
    rng = np.random.default_rng(21)
    left, right = random(rng, (65, 130), "float32", False), random(rng, (130, 63), "float32", False)
    x1, x2 = to_device(left), to_device(right)
    results = [
        tiledmm.matmul(x1, x2, variant=variant, tile=tile).get()
        for variant, tile in KERNELS
        if tiledmm.kernel(variant, tile=tile).spec.config.lanes == 1
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("shape", [(1024, 1024, 2048), (300, 200, 256), (128, 96, 20_000), (1000, 1, 5000)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("kind", REAL)
def test_auto_keeps_the_promise_on_real_data(kind: str, dtype: str, shape: tuple[int, int, int]) -> None:
    a, b = operands(kind, dtype, cupy, cupy.random.RandomState(22), *shape)
    for left, right in ((a, b), (b.T, a.T)):
        errors = accuracy(left, right)
        assert keeps_promise({"errors": errors}), errors
