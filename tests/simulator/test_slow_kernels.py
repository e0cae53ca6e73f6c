"""Tests that kernels are told what slows them down, by counts, in the ladder's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.compile.inspection import Resources
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import VARIANTS, kernel_spec
from tiledmm.report.roofline import roofline
from tiledmm.simulated.explanation.slow import Advice, explain_slow_kernel, nearest_rung
from tiledmm.simulator.build.translation.accesses import access_at

NAIVE = """
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float sum = 0;
        for (int k = 0; k < K; ++k)
            sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
"""
COLUMNS = NAIVE.replace("blockIdx.y * blockDim.y + threadIdx.y", "?").replace(
    "blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.y * blockDim.y + threadIdx.y"
).replace("?", "blockIdx.x * blockDim.x + threadIdx.x")  # fmt: skip

TILED = """
#define TILE 32
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0;
    for (int t = 0; t < K; t += TILE) {
        As[ty][tx] = A[row * K + t + tx];
        Bs[ty][tx] = B[(t + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
"""
CONFLICTS = TILED.replace("Bs[ty][tx] =", "Bs[tx][ty] =").replace("Bs[k][tx];", "Bs[tx][k];")

REGISTERS = """
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[16][64], Bs[16][64];
    int tid = threadIdx.x, tx = tid % 8, ty = tid / 8;
    float acc[8][8] = {};
    for (int t = 0; t < K; t += 16) {
        for (int i = tid; i < 1024; i += 64) {
            As[i / 64][i % 64] = A[(blockIdx.y * 64 + i % 64) * K + t + i / 64];
            Bs[i / 64][i % 64] = B[(t + i / 64) * N + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            float a[8], b[8];
            for (int i = 0; i < 8; ++i) a[i] = As[k][ty * 8 + i];
            for (int j = 0; j < 8; ++j) b[j] = Bs[k][tx + 8 * j];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) C[(blockIdx.y * 64 + ty * 8 + i) * N + blockIdx.x * 64 + tx + 8 * j] = acc[i][j];
}
"""


def _report(text: str, grid: Any = (2, 2), block: Any = (32, 32), size: int = 64) -> simulator.Report:
    a, b, c = (np.ones((size, size), np.float32) for _ in range(3))
    report = simulator.launch(text, grid, block, (a, b, c, size, size, size), expected={"C": np.full_like(c, size)})
    report.check()
    return report


def _advice(text: str, **keywords: Any) -> dict[str, Advice]:
    return {each.cause: each for each in explain_slow_kernel(_report(text), **keywords)}


def test_a_plain_kernel_is_told_of_reuse():
    found = _advice(NAIVE)
    assert list(found) == ["little reuse"]
    assert found["little reuse"].variant == "tiled"


@pytest.mark.parametrize(("text", "variant"), [(NAIVE, "coalesced"), (COLUMNS, "naive")])
def test_the_bound_of_a_plain_kernel_is_that_of_its_rung(text, variant):
    gpu = REFERENCE_GPUS["sm_90"]
    bound = roofline(kernel_spec(variant), gpu, 4096, 4096, 4096)
    (advice,) = [each for each in explain_slow_kernel(_report(text)) if each.cause == "little reuse"]
    assert advice.bound == pytest.approx(bound.bound, rel=0.02)
    assert nearest_rung(_report(text)).variant == variant


def test_columns_of_threads_are_told_of_uncoalesced_accesses_first():
    first, second = explain_slow_kernel(_report(COLUMNS))[:2]
    assert (first.cause, first.variant) == ("uncoalesced accesses", "coalesced")
    assert first.text.strip() == "sum += A[row * K + k] * B[k * N + col];"
    assert ", A[row * K + k]: 32 sectors per request (ideally 4)" in first.message
    assert first.mended_bound > 10 * first.bound
    assert (second.cause, second.variant) in {("uncoalesced accesses", "coalesced"), ("little reuse", "tiled")}


def test_bank_conflicts_are_told_with_their_line():
    found = _advice(CONFLICTS)
    conflicts = found["bank conflicts"]
    assert conflicts.variant == "tiled_padded"
    assert conflicts.text.strip() == "sum += As[ty][k] * Bs[tx][k];"
    assert ", Bs[tx][k]: 32 wavefronts per request (ideally 1)" in conflicts.message
    assert "(bank conflicts)" in conflicts.message
    assert conflicts.mended_bound > 10 * conflicts.bound
    assert "bank conflicts" not in _advice(TILED)


def test_a_tiled_kernel_is_told_of_loads_and_barriers():
    found = _advice(TILED)
    assert {cause: each.variant for cause, each in found.items()} == {
        "barriers": "double_buffered", "shared-memory loads": "register_tiled",
    }  # fmt: skip
    assert "16 multiply-adds" in found["barriers"].message


def test_tiles_in_registers_are_told_of_narrow_loads_at_most():
    report = _report(REGISTERS, grid=(2, 2), block=64, size=128)
    causes = {each.cause for each in explain_slow_kernel(report)}
    assert "narrow loads" in causes
    assert causes.isdisjoint({"little reuse", "shared-memory loads", "barriers", "bank conflicts"})
    assert nearest_rung(report).tile == 64


def test_divisions_by_variables_in_the_inner_loop_are_told():
    text = NAIVE.replace("A[row * K + k]", "A[(row * K + k) % (M * K)]").replace("B[k * N + col]", "B[k * N + col % N]")
    found = _advice(text)["integer division"]
    assert "inner loop divides an integer by M" in found.message
    assert found.line == next(i for i, line in enumerate(text.splitlines(), 1) if "sum +=" in line)
    fixed = text.replace("col % N", "col % TILE").replace("% (M * K)", "")
    assert "integer division" not in _advice("#define TILE 64\n" + fixed)


def test_idle_lanes_are_told():
    report = _report(NAIVE, grid=(8, 8), block=(8, 9))
    (found,) = [each for each in explain_slow_kernel(report) if each.cause == "idle lanes"]
    assert "72 threads" in found.message
    assert "24 lanes" in found.message


def _resources(**changed: int) -> Resources:
    values = {"registers": 32, "shared_bytes": 8192, "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0}
    return Resources("sm_90", **values | changed, constant_bytes=None, cubin=b"", log="")


def test_registers_spills_and_occupancy_are_those_of_the_compiled_kernel():
    def causes(**changed: int) -> set[str]:
        return set(_advice(TILED, resources=_resources(**changed)))

    usual = {"barriers", "shared-memory loads"}
    assert causes() == usual
    assert causes(spill_store_bytes=48, spill_load_bytes=64) == usual | {"spills"}
    assert causes(stack_bytes=256) == usual | {"local arrays"}
    report = _report(NAIVE, grid=(4, 4), block=(16, 16))
    found = explain_slow_kernel(report, resources=_resources(registers=255))
    (low,) = [each for each in found if each.cause == "low occupancy"]
    assert "12%" in low.message or "13%" in low.message
    assert "255 registers" in low.message
    found = explain_slow_kernel(report, resources=_resources(), shared_bytes=120_000)
    (low,) = [each for each in found if each.cause == "low occupancy"]
    assert "limited by shared memory" in low.message


def test_integers_have_bounds_where_their_multiply_adds_are_given():
    text = NAIVE.replace("float", "int")
    a, b, c = (np.ones((64, 64), np.int32) for _ in range(3))
    report = simulator.launch(text, (2, 2), (32, 32), (a, b, c, 64, 64, 64))
    assert report.flops == 0
    assert explain_slow_kernel(report) == []
    (found,) = explain_slow_kernel(report, dtype="int32", multiply_adds=64**3)
    assert found.cause == "little reuse"
    assert found.bound > 0


def test_every_cause_that_a_variant_mends_is_mended_by_one():
    causes = [row.mends for row in VARIANTS.values() if row.mends]
    assert len(causes) == len(set(causes)) >= 6


def test_a_kernel_that_accesses_nothing_is_told_nothing():
    report = simulator.launch("__global__ void k() {}", 1, 32, ())
    assert explain_slow_kernel(report) == []
    assert nearest_rung(report) is None


def test_each_access_of_a_line_has_counts():
    report = _report(COLUMNS)
    counts = {each.text: each.source for each in report.accesses}
    assert list(counts) == ["A[row * K + k]", "B[k * N + col]", "C[row * N + col]"]
    a, b, c = counts.values()
    assert (a.global_load.sectors_per_request, b.global_load.sectors_per_request) == (32, 1)
    assert c.global_store.sectors_per_request == 32
    assert sum((each.source for each in report.accesses), simulator.Traffic()) == report.source


@pytest.mark.parametrize(
    ("line", "column", "access"),
    [
        ("    sum += A[row * K + k] * B[i];", 25, "A[row * K + k]"),
        ("    sum += A[row * K + k] * B[i];", 12, "A[row * K + k]"),
        ("    C[i][j[2]] = sum;", 16, "C[i][j[2]]"),
        ("    C[i] += sum;", 10, "C[i]"),
        ("    s.acc[i][j] = x;", 5, "s.acc[i][j]"),
        ("    s[i] = i < n ? A[row * K + k] : 0;", 18, "A[row * K + k]"),
        ("    f(i < n ? __ldg(&A[i]) : 0, B[j]);", 13, "A[i]"),
        ("    s[i] = i < n ? A[i] : B[i];", 18, ""),
        ("    *p = 3;", 8, ""),
        ("    x = y;", 9, ""),
        ("    A[i", 5, ""),
        ("    i] = 3;", 6, ""),
        ("", 3, ""),
    ],
)
def test_the_access_at_a_column_is_read_from_the_line(line, column, access):
    assert access_at(line, column) == access
