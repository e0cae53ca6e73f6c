"""Tests that floating-point operations are counted, whichever way they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator

M, N, K = 20, 24, 17

PRODUCT = """
#include <cuda_fp16.h>
typedef {type} T;
#define MAD(sum, x, y) sum = sum + (x) * (y)
template <class X> __device__ X mad(X x, X y, X z) {{ return x * y + z; }}
struct Sums {{ T of[2]; }};
__global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    T sum = 0;
    Sums sums = {{{{0, 0}}}};
    for (int k = 0; k < K; ++k) {{
        T a = A[row * K + k], b = B[k * N + col];
        {step}
    }}
    C[row * N + col] = sum + sums.of[0];
}}
"""


def _report(text: str, kind: Any = np.float32) -> simulator.Report:
    a, b, c = (np.ones(shape, kind) for shape in ((M, K), (K, N), (M, N)))
    report = simulator.launch(text, (2, 2), (16, 16), (a, b, c, M, N, K), expected={"C": np.full((M, N), K, kind)})
    report.check()
    return report


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(step, kind, marks=slow_unless(i % 2 == j))
        for i, step in enumerate([
            "sum += a * b;", "sum = sum + a * b;", "sum -= -a * b;", "MAD(sum, a, b);", "sum = mad(a, b, sum);",
            "sums.of[0] += a * b;", "T product = a * b; sum += product;", "sum = fma(a, b, sum);",
        ])
        for j, kind in enumerate(("float", "double"))
    ],
)  # fmt: skip
def test_a_multiply_add_counts_as_two_operations_however_it_is_written(step, kind):
    step = step.replace("fma(", "fmaf(") if kind == "float" else step
    report = _report(PRODUCT.format(type=kind, step=step), np.float32 if kind == "float" else np.float64)
    assert report.flops == 2 * M * N * K + M * N  # and the last sum
    assert sum(each.flops for each in report.lines) == report.flops
    own = PRODUCT.format(type="", step=step).splitlines()
    assert {each.text for each in report.lines if each.flops} <= set(own)


def test_operations_of_integers_and_conversions_do_not_count():
    assert _report(PRODUCT.format(type="int", step="sum += a * b;"), np.int32).flops == 0


def test_operations_on_different_lines_of_one_block_of_code_are_told_apart():
    text = """
    __global__ void k(const float* x, float* y) {
        float a = x[threadIdx.x];
        float b = a * 3;
        float c = a / 7 - b;
        y[threadIdx.x] = sqrtf(c * c) + c;
        if (threadIdx.x < 5) y[threadIdx.x] += 1;
    }
    """
    x = np.ones(32, np.float32)
    report = simulator.launch(text, 1, 32, (x, np.zeros(32, np.float32)))
    counts = {each.text.strip(): each.flops for each in report.lines}
    assert counts["float b = a * 3;"] + counts["float c = a / 7 - b;"] == 3 * 32
    assert counts["if (threadIdx.x < 5) y[threadIdx.x] += 1;"] == 5


def test_tiles_in_registers_and_shared_memory_count_the_products_of_their_loops():
    text = """
    __global__ void k(const float* A, const float* B, float* C, int n) {
        __shared__ float As[32][8], Bs[8][32];
        float acc[4][4] = {};
        for (int k0 = 0; k0 < n; k0 += 8) {
            for (int i = threadIdx.x; i < 256; i += 64) {
                As[i / 8][i % 8] = A[i / 8 * n + k0 + i % 8];
                Bs[i / 32][i % 32] = B[(k0 + i / 32) * n + i % 32];
            }
            __syncthreads();
            for (int k = 0; k < 8; ++k)
                for (int i = 0; i < 4; ++i)
                    for (int j = 0; j < 4; ++j)
                        acc[i][j] += As[threadIdx.x / 8 * 4 + i][k] * Bs[k][threadIdx.x % 8 * 4 + j];
            __syncthreads();
        }
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) C[(threadIdx.x / 8 * 4 + i) * n + threadIdx.x % 8 * 4 + j] = acc[i][j];
    }
    """
    a, b, c = (np.ones((32, 32), np.float32) for _ in range(3))
    report = simulator.launch(text, 1, 64, (a, b, c, 32), expected={"C": np.full((32, 32), 32, np.float32)})
    report.check()
    assert report.flops == 2 * 32**3


def test_complex_multiply_adds_count_once() -> None:
    """Check that an instruction of a header's function does not count again as the line that uses its result."""
    a = np.ones((40, 40), np.complex64)
    _, report = simulator.run(a, a, variant="tiled", tile=8, checks=False)
    assert report.flops == 8 * 40**3
