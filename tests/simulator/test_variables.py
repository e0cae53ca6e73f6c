"""Tests of ``__device__`` and ``__constant__`` variables, launch bounds and limits of shared memory."""

import re

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.simulator.api import compile_kernel, launch_kernel
from tiledmm.simulator.execute.settings import Settings

COUNTER = """
__device__ int total = 5;
__device__ float partial[4];
__constant__ float filter[3] = {1, 2, 4};
__global__ void k(float* x) {
    %s
}
"""


def launch(code: str, *, grid: int = 2, block: int = 8) -> simulator.Report:
    return simulator.launch(COUNTER % code, grid, block, (np.zeros(64, np.float32),))


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("if (threadIdx.x == 0) partial[blockIdx.x] = filter[2]; x[0] = 0 * x[0];", ["race on global memory"]),
        ("if (threadIdx.x < 1) partial[blockIdx.x] = filter[2];", []),
        ("partial[threadIdx.x & 3] = threadIdx.x;", ["race on global memory"]),
        ("if (threadIdx.x + blockIdx.x == 0) total += 1;", []),
        ("if (threadIdx.x == 0) total += 1;", ["race on global memory"]),
        ("float* p = partial; if (threadIdx.x == 0) p[4 + 0 * total] = 1;", ["global access out of bounds"]),
        ("float* p = partial; if (threadIdx.x == 0) p[total] = 1;", ["global access out of bounds"]),
        ("partial[total] = 1;", ["subscript out of bounds"]),
        ("float* p = (float*)filter; if (threadIdx.x == 0) p[1] = 3;", ["write to an operand"]),
        (
            "const float* p = filter; if (threadIdx.x == 0) x[blockIdx.x] = p[3 + 0 * total];",
            ["global access out of bounds"],
        ),
    ],
)
def test_accesses_are_checked(code, kinds):
    report = launch(code)
    assert sorted({each.kind for each in report.findings}) == kinds
    if kinds in (["race on global memory"], ["write to an operand"]):
        assert any(name in report.findings[0].message for name in ("partial", "total", "filter", "array x"))


def test_each_launch_begins_with_the_values_of_the_text():
    text = COUNTER % "if (threadIdx.x == 0) x[0] = total++;"
    for _ in range(2):
        x = np.zeros(1, np.float32)
        simulator.launch(text, 1, 2, (x,)).check()
        assert x[0] == 5


def test_the_variables_of_a_module_keep_their_values():
    kernel = compile_kernel(COUNTER % "if (threadIdx.x == 0) x[0] = total++;", None, Settings())
    state, other = kernel.new_state(), kernel.new_state()
    assert {name: raw.nbytes for name, raw in state.items()} == {"total": 4, "partial": 16, "filter": 12}
    x = np.zeros(1, np.float32)
    for values, expected in ((state, 5), (state, 6), (other, 5), (state, 7)):
        launch_kernel(kernel, 1, 2, (x,), 0, Settings(), state=values).check()
        assert x[0] == expected
    assert state["total"].view(np.int32)[0] == 8


@pytest.mark.parametrize(
    ("declaration", "name", "most"),
    [
        ("__global__ void __launch_bounds__(64) k(int* x)", "k", 64),
        ("__launch_bounds__(8 * 8, 2) __global__ void k(int* x)", "k", 0),
        ("#define N 16\n__global__ void __launch_bounds__(N * (N / 4)) k(int* x)", "k", 64),
        ("constexpr int N = 16;\n__global__ __launch_bounds__(N * N / 4) void k(int* x)", "k", 64),
        ("template <int N, int M = 4> __global__ void __launch_bounds__(N * M, 1) k(int* x)", "k<16>", 64),
        ("template <int N> __global__ void k(int* x)", "k<16>", 0),
        ("template <class T> constexpr int of() { return 64; }\n__global__ void __launch_bounds__(of<int>()) k(int* x)",
         "k", 0),
    ],
)  # fmt: skip
def test_a_block_beyond_the_launch_bounds(declaration, name, most):
    text = f"{declaration} {{ x[threadIdx.x] = 1; }}"
    for threads in (32, 64, 65):
        report = simulator.launch(text, 1, threads, (np.zeros(threads, np.int32),), name=name)
        wanted = ["block beyond the launch bounds"] if most and threads > most else []
        assert [each.kind for each in report.findings] == wanted
    if most:
        assert re.search(rf"65 threads.*__launch_bounds__ allows {most}", report.findings[0].message)
        assert "__launch_bounds__" in report.findings[0].text


def test_static_shared_memory_beyond_48_kib():
    text = """
    __global__ void k(float* x) {
        __shared__ float small[16];
        __shared__ float large[%d];
        small[threadIdx.x] = large[threadIdx.x] = 1;
        x[threadIdx.x] = small[threadIdx.x] + large[threadIdx.x];
    }
    """
    x = np.zeros(8, np.float32)
    simulator.launch(text % (12 * 1024 - 16), 1, 8, (x,), target="sm_90").check()
    (found,) = simulator.launch(text % (12 * 1024), 1, 8, (x,), target="sm_90").findings
    assert (found.kind, found.line) == ("too much shared memory", 4)
    assert re.search("49,216 bytes.*49,152", found.message)
