"""Tests of CUDA C that the package's own kernels do not use: small kernels of all kinds on the bare runtime."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tiledmm.errors import CompilationError
from tiledmm.hardware.architectures import TARGETS
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.debug.debug_info import debug_info
from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.check.finding_kinds import KINDS
from tiledmm.simulator.execute.grid import run_grid
from tiledmm.simulator.execute.interface import ORDERS, Operand


def launch(body: str, *, out: np.ndarray, threads: tuple[int, int] = (32, 1), blocks: int = 1, **options: Any):
    """Run ``kernel(T* out)`` and return the outcome; ``out`` receives the result."""
    text = body if "__global__" in body else f'extern "C" __global__ void kernel(int* out) {{\n{body}\n}}\n'
    path = toolchain.build_kernel(text, "kernel", target=TARGETS["sm_90"], build="checked")
    debug = debug_info(path)
    anchor = debug.address("tiledmm_anchor")
    writes, reads = np.zeros((out.size, 2), np.uint64), np.zeros((out.size, 4), np.uint64)
    address = out.ctypes.data
    operand = Operand(
        begin=address, bytes=out.nbytes, granule=out.itemsize, writes=writes.ctypes.data, reads=reads.ctypes.data
    )
    return run_grid(
        Library.load(path),
        grid=(blocks, 1, 1),
        block=(*threads, 1),
        arguments=(ctypes.c_void_p(address),),
        operands=[operand],
        shared=[(array.offset - anchor, array.bytes) for array in debug.shared_arrays()],
        **{"checks": True, "counts": False, **options},
    )


def result(body: str, size: int = 32, **options: Any) -> list[int]:
    out = np.full(size, -1, np.int32)
    outcome = launch(body, out=out, **options)
    assert [KINDS[found.kind] for found in outcome.findings] == []
    return out.tolist()


LANES = list(range(32))


def test_indices():
    body = (
        "out[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * blockIdx.x)] = threadIdx.x + 100 * threadIdx.y"
        " + 10000 * blockIdx.x + 1000000 * gridDim.x + warpSize;"
    )
    got = result(body, size=24, threads=(4, 3), blocks=2)
    assert got == [x + 100 * y + 10000 * b + 2000032 for b in range(2) for y in range(3) for x in range(4)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__shfl_sync(~0u, lane * lane, 5)", [25] * 32),
        ("__shfl_sync(~0u, lane, lane + 1, 8)", [i // 8 * 8 + (i + 1) % 8 for i in LANES]),
        ("__shfl_up_sync(~0u, lane, 3)", [i - 3 if i >= 3 else i for i in LANES]),
        ("__shfl_down_sync(~0u, lane, 4, 16)", [i + 4 if i % 16 < 12 else i for i in LANES]),
        ("__shfl_xor_sync(~0u, lane, 9)", [i ^ 9 for i in LANES]),
        ("int(__shfl_xor_sync(~0u, double(lane), 1) * 2)", [2 * (i ^ 1) for i in LANES]),
        ("__ballot_sync(~0u, lane % 3 == 0) == 0x49249249u", [1] * 32),
        ("__any_sync(~0u, lane == 7) + 2 * __all_sync(~0u, lane < 32) + 4 * __all_sync(~0u, lane)", [3] * 32),
    ],
)
@pytest.mark.parametrize("order", ORDERS)
def test_lanes_exchange_values(expression, expected, order):
    assert result(f"const int lane = threadIdx.x; out[lane] = {expression};", order=order) == expected


def test_a_sum_over_a_warp():
    body = """int sum = threadIdx.x; for (int i = 16; i; i /= 2) sum += __shfl_down_sync(~0u, sum, i);
    out[threadIdx.x] = sum;"""
    assert result(body)[0] == 496


def test_half_a_warp_alone():
    body = """const int lane = threadIdx.x; out[lane] = 0;
    if (lane < 16) out[lane] = __shfl_xor_sync(0xffffu, lane, 1);"""
    out = np.zeros(32, np.int32)
    launch(body.replace("out[lane] = 0;", "if (lane >= 16) out[lane] = 0;"), out=out)
    assert out.tolist() == [i ^ 1 for i in range(16)] + [0] * 16


def test_a_block_votes():
    body = (
        "out[threadIdx.x] = __syncthreads_count(threadIdx.x < 40) + 1000 * __syncthreads_or(threadIdx.x == 63)"
        " + 10000 * __syncthreads_and(threadIdx.x < 63) + 100000 * __syncthreads_and(1);"
    )
    assert result(body, size=64, threads=(64, 1)) == [101040] * 64


@pytest.mark.parametrize(("barrier", "kinds"), [("__syncwarp();", []), ("", ["race on shared memory"])])
def test_a_barrier_of_the_warp_orders_its_lanes(barrier, kinds):
    body = f"""__shared__ int x[32]; x[threadIdx.x] = threadIdx.x; {barrier}
    out[threadIdx.x] = x[threadIdx.x ^ 1]; {barrier} x[threadIdx.x] = 0;"""
    found = launch(body, out=np.zeros(32, np.int32)).findings
    assert sorted({KINDS[each.kind] for each in found} - {"uninitialised shared memory"}) == kinds


def test_a_barrier_of_the_warp_does_not_order_others():
    body = "__shared__ int x[64]; x[threadIdx.x] = 1; __syncwarp(); out[threadIdx.x] = x[threadIdx.x ^ 32];"
    found = launch(body, out=np.zeros(64, np.int32), threads=(64, 1), order="reverse").findings
    assert "race on shared memory" in {KINDS[each.kind] for each in found}


def test_shared_memory_asked_for_at_launch():
    body = """extern "C" __global__ void kernel(int* out) {
        extern __shared__ __align__(16) int dynamic[];
        __shared__ int fixed[64];
        dynamic[threadIdx.x] = threadIdx.x; fixed[threadIdx.x] = 2; __syncthreads();
        out[threadIdx.x] = dynamic[63 - threadIdx.x] * fixed[threadIdx.x];
    }"""
    assert result(body, size=64, threads=(64, 1)) == [2 * (63 - i) for i in range(64)]


def test_a_shared_array_of_a_function_template():
    body = """template <int N> __device__ int* room() { __shared__ int x[N]; return x; }
    extern "C" __global__ void kernel(int* out) { room<32>()[threadIdx.x] = threadIdx.x + %d; __syncthreads();
        out[threadIdx.x] = room<32>()[31 - threadIdx.x]; }"""
    for start in (1, 2):  # two libraries, each with an array of that name
        assert result(body % start) == [31 - i + start for i in LANES]


@pytest.mark.parametrize(("kind", "bytes_"), [("short", 2), ("signed char", 1)])
def test_races_on_parts_of_a_word(kind, bytes_):
    body = f"""__shared__ {kind} x[64]; x[threadIdx.x] = threadIdx.x; __syncthreads();
    out[threadIdx.x] = x[31 - threadIdx.x];"""
    assert result(body) == [31 - i for i in LANES]
    found = launch(body.replace("x[threadIdx.x] =", "x[threadIdx.x / 2] ="), out=np.zeros(32, np.int32)).findings
    assert "race on shared memory" in {KINDS[each.kind] for each in found}
    assert found[0].bytes == bytes_


def test_vector_types_and_hints():
    body = """__shared__ alignas(16) int x[128]; const int4 v = make_int4(threadIdx.x, 1, 2, 3);
    *reinterpret_cast<int4*>(&x[4 * threadIdx.x]) = v; __syncthreads();
    const float2 f = {1.0f, 2.0f}; const dim3 d(2);
    out[threadIdx.x] = __ldg(&x[4 * threadIdx.x]) + x[4 * (31 - threadIdx.x) + 3] + int(f.y) + d.x * d.z;"""
    assert result(body) == [i + 7 for i in LANES]


def test_constants_are_no_operands():
    body = "static const int table[4] = {5, 6, 7, 8}; volatile int i = threadIdx.x % 4; out[threadIdx.x] = table[i];"
    assert result(body) == [5 + i % 4 for i in LANES]


def test_copies_in_groups():
    """Check that waiting for the older of two groups of copies makes only that group's data available."""
    body = """__shared__ int x[2][32];
    cp_async<4>(&x[0][threadIdx.x], out + 32 + threadIdx.x, 4); tiledmm_commit_copies();
    cp_async<4>(&x[1][threadIdx.x], out + 64 + threadIdx.x, 4); tiledmm_commit_copies();
    tiledmm_wait_for_copies(%d);
    __syncthreads();
    out[threadIdx.x] = x[%d][threadIdx.x];"""
    for pending, stage, kinds in ((1, 0, set()), (1, 1, {"copy not waited for"}), (0, 1, set())):
        out = np.arange(96, dtype=np.int32)
        found = launch(body % (pending, stage), out=out).findings
        assert {KINDS[each.kind] for each in found} - {"uninitialised result"} == kinds
        if not kinds:
            assert out[:32].tolist() == [32 * (stage + 1) + i for i in LANES]


def test_a_kernel_may_have_functions_named_as_the_packages_own():
    body = """__device__ float add(float x, float y) { return x + y + 1; }
    __device__ int store(int* at, int value) { return *at = value; }
    extern "C" __global__ void kernel(int* out) { store(out + threadIdx.x, (int)add(threadIdx.x, 1)); }"""
    assert result(body) == [i + 2 for i in LANES]


def test_a_thread_that_never_ends_is_stopped():
    found = launch(
        "volatile int* p = out; *p = 0; while (*p == 0) {}", out=np.zeros(1, np.int32), max_steps=1000
    ).findings
    assert [KINDS[each.kind] for each in found] == ["runaway thread"] or "runaway thread" in {
        KINDS[each.kind] for each in found
    }


def test_a_trap_is_found():
    found = launch("if (threadIdx.x == 5) __trap(); out[threadIdx.x] = 0;", out=np.zeros(32, np.int32)).findings
    assert [(KINDS[each.kind], each.thread[0]) for each in found] == [("trap", 5)]


def test_an_error_of_the_compiler_names_the_line():
    with pytest.raises(CompilationError, match=r"kernel\.cu:2.*undeclared_name"):
        launch("out[0] = undeclared_name;", out=np.zeros(1, np.int32))
