"""Tests of every atomic function and type that CUDA documents, on shared and global memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.errors import CompilationError

INTEGERS = {"int": np.int32, "unsigned": np.uint32, "unsigned long long": np.uint64, "long long": np.int64}
TYPES = {**INTEGERS, "float": np.float32, "double": np.float64, "__half": np.float16}


def after(body: str, start: np.ndarray, *, blocks: int = 3, threads: int = 64, header: str = "", target: str = "sm_90"):
    """Run a kernel with a pointer to an array, and return the array's contents."""
    kind = next(name for name, dtype in TYPES.items() if dtype == start.dtype)
    index = "const int i = threadIdx.x + blockIdx.x * blockDim.x;"
    text = f"{header}\n__global__ void kernel({kind}* at) {{\n{index}\n{body}\n}}"
    got = start.copy()
    simulator.launch(text, blocks, threads, (got,), target=target).check()
    return got


N = 192  # threads
CALLS = [
    ("Add", "at, i", lambda x: x + N * (N - 1) // 2, ("int", "unsigned", "unsigned long long", "float", "double")),
    ("Sub", "at, i", lambda x: x - N * (N - 1) // 2, ("int", "unsigned")),
    ("Min", "at, i - 5", lambda x: min(x, -5), ("int", "long long")),
    ("Min", "at, i + 5", lambda x: min(x, 5), ("unsigned", "unsigned long long")),
    ("Max", "at, i - 5", lambda x: max(x, N - 6), tuple(INTEGERS)[::3]),
    ("Max", "at, i + 5", lambda x: max(x, N + 4), ("unsigned", "unsigned long long")),
    ("And", "at, ~(1 << i % 32)", lambda x: 0, ("int", "unsigned")),
    ("Or", "at, 1 << i % 31", lambda x: x | (1 << 31) - 1, ("int", "unsigned", "unsigned long long")),
    ("Xor", "at, i", lambda x: x, ("int", "unsigned", "unsigned long long")),
    ("Inc", "at, 100", lambda x: (x + N) % 101, ("unsigned",)),
    ("Dec", "at, 100", lambda x: (x - N) % 101, ("unsigned",)),
]


@pytest.mark.parametrize(
    ("name", "arguments", "expected", "kind", "scope"),
    [
        pytest.param(*call, kind, scope, marks=slow_unless((i + j + k) % 3 == 0 and (j == 0 or i == 0)))
        for i, (*call, kinds) in enumerate(CALLS)
        for j, kind in enumerate(kinds)
        for k, scope in enumerate(("", "_block", "_system"))
    ],
)
def test_integers_and_floats(name, arguments, expected, kind, scope):
    start = 77 if kind != "double" else 0.5
    place, value = arguments.split(", ", 1)
    blocks = 1 if scope == "_block" else 3
    got = after(
        f"atomic{name}{scope}({place}, ({kind})({value}));",
        np.array([start], TYPES[kind]),
        blocks=blocks,
        threads=N // blocks,
    )
    assert got[0] == (expected(start) % 2**32 if kind == "unsigned" else expected(start))


@pytest.mark.parametrize(
    ("one", "other", "wrong"),
    [
        ("atomicAdd_block(at, 1)", "atomicAdd_block(at, 1)", True),
        ("atomicAdd(at, 1)", "atomicAdd_block(at, 1)", True),
        ("atomicAdd_block(at, 1)", "atomicAdd(at, 1)", True),
        ("atomicCAS_block(at, 0, 1)", "atomicCAS_block(at, 0, 1)", True),
        ("atomicAdd(at, 1)", "atomicAdd_system(at, 1)", False),
        ("atomicAdd_block(at + 1 + blockIdx.x, 1)", "atomicAdd(at, 1)", False),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_atomics_of_block_scope_race_with_other_blocks(one, other, wrong, workers):
    text = f"""
    __global__ void kernel(int* at) {{
        if (blockIdx.x) {one};
        else {other};
    }}"""
    at = np.zeros(4, np.int32)
    found = simulator.launch(text, 3, 32, (at,), workers=workers).findings
    assert [each.kind for each in found] == (["race on global memory"] * len(found))
    assert bool(found) == wrong


def test_atomics_of_block_scope_are_for_threads_of_a_block_and_shared_memory():
    text = """
    __global__ void kernel(int* at) {
        __shared__ int sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        atomicAdd_block(&sum, 1);
        atomicAdd_block(at + blockIdx.x, 1);
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(at + 3, sum);
    }"""
    at = np.zeros(4, np.int32)
    simulator.launch(text, 3, 64, (at,)).check()
    assert at.tolist() == [64, 64, 64, 192]


def test_the_old_value_comes_back():
    got = after("at[1 + atomicAdd(at, 1)] = 1;", np.zeros(N + 1, np.int32))
    assert got.tolist() == [N] + [1] * N


@pytest.mark.parametrize("kind", ["int", "unsigned", "unsigned long long", "float"])
def test_exchange(kind):
    got = after(f"at[2 + i] = atomicExch(at, ({kind})(i + 1));", np.zeros(N + 2, TYPES[kind]))
    assert sorted([got[0], *got[2:]]) == list(range(N + 1))


def test_compare_and_swap_makes_other_atomics():
    body = """
    unsigned long long* bits = (unsigned long long*)at;
    unsigned long long old = *(volatile unsigned long long*)bits, seen;
    do {
        seen = old;
        old = atomicCAS(bits, seen, __double_as_longlong(__longlong_as_double(seen) * 2));
    } while (old != seen);
    """
    assert after(body, np.ones(1), blocks=1, threads=32).tolist() == [2.0**32]


SWAPS = """
    __global__ void kernel(int* x) {
        const int i = threadIdx.x;
        SPACE
        int seen = atomicAdd(at, 0);
        while (true) {
            const int before = atomicCAS(at, seen, seen + 1);
            if (before == seen) break;
            seen = before;
        }
        __syncthreads();
        if (i == 0) x[1] = atomicAdd(at, 0);
    }
    """
SPACES = ("int* at = x;", "__shared__ int s; if (i == 0) s = 0; __syncthreads(); int* at = &s;")


@pytest.mark.parametrize("space", SPACES)
def test_lanes_that_swap_what_they_read_count_up(space):
    x = np.zeros(2, np.int32)
    simulator.launch(SWAPS.replace("SPACE", space), 1, 64, (x,)).check()
    assert x[1] == 64


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES)
def test_not_all_lanes_can_swap_what_they_read(space):
    """Check that a compare-and-swap loop that does not read again never ends, since all lanes compare at once."""
    text = SWAPS.replace("SPACE", space).replace("seen = before;", "")
    (found,) = simulator.launch(text, 1, 64, (np.zeros(2, np.int32),)).findings
    assert (found.kind, found.line, found.other_line) == ("thread that waits forever", 7, 6)


def test_compare_and_swap_of_16_and_128_bits():
    text = """
    struct alignas(16) Pair { long long first, second; };
    __global__ void kernel(unsigned short* small, Pair* large, int* out) {
        out[0] = atomicCAS(small, (unsigned short)7, (unsigned short)9);
        out[1] = atomicCAS(small, (unsigned short)7, (unsigned short)11);
        Pair old = atomicCAS(large, Pair{1, 2}, Pair{3, 4});
        out[2] = old.first * 10 + old.second;
        old = atomicExch(large, Pair{5, 6});
        out[3] = old.first * 10 + old.second;
    }
    """
    small, large, out = np.array([7, 0], np.uint16), np.array([1, 2], np.int64), np.zeros(4, np.int32)
    simulator.launch(text, 1, 1, (small, large, out)).check()
    assert (small[0], large.tolist(), out.tolist()) == (9, [5, 6], [7, 9, 12, 34])


def test_halves_and_vectors_of_floats():
    half = after("atomicAdd(at, __half(1.0f));", np.zeros(1, np.float16), header="#include <cuda_fp16.h>")
    assert half[0] == N
    pair = after(
        "atomicAdd((__half2*)at, __floats2half2_rn(1, i % 2));",
        np.zeros(2, np.float16),
        header="#include <cuda_fp16.h>",
    )
    assert pair.tolist() == [N, N / 2]
    wide = after(
        "atomicAdd((float4*)at, make_float4(1, i, 0, -1)); atomicAdd((float2*)at, make_float2(1, 0));",
        np.zeros(4, np.float32),
    )
    assert wide.tolist() == [2 * N, N * (N - 1) / 2, 0, -N]


def test_a_float_that_is_nan_is_replaced_once():
    assert np.isnan(after("atomicAdd(at, 1.0f);", np.array([np.nan], np.float32)))[0]
    assert after("atomicExch(at, 2.0f);", np.array([np.nan], np.float32))[0] == 2


def test_shared_memory():
    body = """
    __shared__ unsigned bins[4];
    if (threadIdx.x < 4) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[i % 4], 1u);
    __syncthreads();
    if (threadIdx.x < 4) atomicAdd(&at[threadIdx.x], bins[threadIdx.x]);
    """
    assert after(body, np.zeros(4, np.uint32)).tolist() == [N / 4] * 4


@pytest.mark.parametrize(
    ("call", "target", "message"),
    [
        (
            "short* p = (short*)at; atomicAdd(p, (short)1);",
            "sm_90",
            "kernel.cu:4: .*atomicAdd",
        ),
        ("atomicAdd((float4*)at, make_float4(1, 1, 1, 1));", "sm_80", "atomicAdd"),
        ("atomicMax((float*)at, 1.0f);", "sm_90", "atomicMax"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("atomicMinn(at, 1);", "sm_90", r"atomicMinn\b.*\batomicMin\b"),)
        ),
    ],
)
def test_what_there_is_not(call, target, message):
    with pytest.raises(CompilationError, match=message):
        after(call, np.zeros(1, np.int32), target=target)
