"""Tests of what orders two accesses, and what does not: barriers, named barriers, fences with atomics."""

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator

RACE_GLOBAL, RACE_SHARED = "race on global memory", "race on shared memory"


def launched(body: str, *, grid: int = 1, block: int = 64, head: str = "", **options) -> simulator.Report:
    text = f"{head}\n__global__ void k(volatile int* flag, int* x) {{\n{body}\n}}"
    return simulator.launch(text, grid, block, (np.zeros(8, np.int32), np.zeros(4096, np.int32)), **options)


def kinds(body: str, **options) -> list[str]:
    return sorted({each.kind for each in launched(body, **options).findings})


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("", [RACE_GLOBAL]),
        ("__threadfence();", [RACE_GLOBAL]),
        ("__syncwarp();", [RACE_GLOBAL]),  # the other warp
        ("__syncthreads();", []),
        ("for (int i = 0; i < 1024; ++i) __syncthreads();", []),
        ("for (int i = 0; i < 1025; ++i) __syncthreads();", []),
    ],
)
def test_within_a_block(between, found, order):
    body = f"x[threadIdx.x] = 1; {between} x[64 + threadIdx.x] = x[(threadIdx.x + 32) % 64];"
    assert kinds(body, threads=order) == found


@pytest.mark.parametrize("where", ["x", "s"])
@pytest.mark.parametrize(
    ("between", "ordered"),
    [
        ("", False),
        ("__syncwarp();", True),
        ("__syncwarp(lane < 16 ? 0x0000ffff : 0xffff0000);", False),
        ("for (int i = 0; i < 5000; ++i) __syncwarp();", True),
        ("__shfl_sync(~0u, lane, 0);", False),
    ],
)
def test_within_a_warp(where, between, ordered):
    body = (
        f"__shared__ int s[64]; const int lane = threadIdx.x % 32; {where}[threadIdx.x] = 1; {between} "
        f"x[100 + threadIdx.x] = {where}[threadIdx.x ^ 16];"
    )
    found = kinds(body, counts=False)
    assert ((RACE_GLOBAL if where == "x" else RACE_SHARED) in found) is not ordered


def test_4096_barriers_of_a_warp_between_two_writes():
    body = "__shared__ int s; for (int i = 0; i < 9000; ++i) { if (threadIdx.x == i % 32) s = i; __syncwarp(); }"
    assert kinds(body, block=32, counts=False) == []


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("x[0] = 1;", "x[0] = 2;", [RACE_GLOBAL]),
        ("x[0] = 1;", "x[1] = x[0];", [RACE_GLOBAL]),
        ("x[1] = x[0];", "x[0] = 1;", [RACE_GLOBAL]),  # write after read
        ("x[1] = x[0];", "x[2] = x[0];", []),
        ("atomicAdd(&x[0], 1);", "atomicAdd(&x[0], 1);", []),
        ("atomicAdd(&x[0], 1);", "x[0] = 1;", [RACE_GLOBAL]),
        ("x[0] = 1;", "atomicAdd(&x[0], 1);", [RACE_GLOBAL]),
        ("x[1] = x[0];", "atomicAdd(&x[0], 1);", [RACE_GLOBAL]),
        ("atomicAdd(&x[0], 1);", "x[1] = x[0];", [RACE_GLOBAL]),
        ("*(volatile int*)&x[0] = 1;", "*(volatile int*)&x[0] = 1;", []),
        ("((char*)x)[0] = 1;", "((char*)x)[1] = 1;", []),
        ("((char*)x)[0] = 1;", "((short*)x)[0] = 1;", [RACE_GLOBAL]),
    ],
)
@pytest.mark.parametrize("grid", [1, 2])
@pytest.mark.parametrize("workers", [1, 2])
def test_two_threads_with_nothing_between(first, second, found, grid, workers):
    """Check unordered accesses of two threads, in different warps of a block and in two blocks."""
    body = (
        f"if (threadIdx.x == 0 && blockIdx.x == 0) {{ {first} }}\n"
        f"if (threadIdx.x == (gridDim.x == 1 ? 32 : 0) && blockIdx.x == gridDim.x - 1) {{ {second} }}"
    )
    assert kinds(body, grid=grid, workers=workers) == found


MESSAGE = """
    if (threadIdx.x == 0 && blockIdx.x == 0) { x[0] = 7; %s %s; }
    if (threadIdx.x == 0 && blockIdx.x == 1) { while (%s == 0) {} __threadfence(); x[1] = x[0]; }
"""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("fence", "write", "read", "ordered"),
    [
        ("__threadfence();", "*flag = 1", "*flag", True),
        ("__threadfence();", "atomicExch((int*)flag, 1)", "atomicAdd((int*)flag, 0)", True),
        ("__threadfence();", "atomicExch((int*)flag, 1)", "*flag", True),
        ("__threadfence_system();", "*flag = 1", "*flag", True),
        ("__threadfence_block();", "*flag = 1", "*flag", False),
        ("__threadfence(); __threadfence_block();", "*flag = 1", "*flag", True),
        ("", "*flag = 1", "*flag", False),
        ("", "atomicExch((int*)flag, 1)", "atomicAdd((int*)flag, 0)", False),
    ],
)
def test_a_message_between_blocks_needs_a_fence(fence, write, read, ordered, workers):
    assert kinds(MESSAGE % (fence, write, read), grid=2, workers=workers) == ([] if ordered else [RACE_GLOBAL])


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize(
    ("fence", "ordered"), [("__threadfence_block();", True), ("__threadfence();", True), ("", False)]
)
@pytest.mark.parametrize("data", ["x", "s"])
def test_a_message_between_warps_by_a_flag_in_shared_memory(data, fence, ordered, order):
    body = f"""
    __shared__ int s[32], ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {{ {data}[0] = 7; {fence} atomicExch(&ready, 1); }}
    if (threadIdx.x == 32) {{ while (atomicAdd(&ready, 0) == 0) {{}} __threadfence_block(); x[100] = {data}[0]; }}
    """
    found = [] if fence else [RACE_GLOBAL if data == "x" else RACE_SHARED]
    assert kinds(body, threads=order) == found


def test_blocks_have_shared_memory_at_the_same_addresses():
    """Check that a release in one block's shared memory is not acquired by another block."""
    body = """
    __shared__ int ready;
    if (threadIdx.x) return;
    if (blockIdx.x) { x[1] = atomicExch(&ready, 1) + x[0]; return; }
    x[0] = 7;
    __threadfence();
    atomicExch(&ready, 1);
    """
    assert RACE_GLOBAL in kinds(body, grid=2, workers=1)


@pytest.mark.parametrize(
    ("after", "ordered"),
    [
        ("__threadfence();", True),
        ("__syncthreads();", True),
        ("__syncwarp();", True),
        ("__barrier_sync(1);", True),
        ("", False),
    ],
)
@pytest.mark.parametrize("read", ["*flag", "atomicAdd((int*)flag, 0)"])
def test_whoever_reads_a_flag_needs_a_fence_or_a_barrier_too(read, after, ordered):
    """Check that data may be read after a flag only past a fence or a barrier, as in the CUDA guide's ``readXY``."""
    body = f"""
    if (threadIdx.x == 0 && blockIdx.x == 0) {{ x[0] = 7; __threadfence(); *flag = 1; }}
    if (blockIdx.x == 0) return;
    if (threadIdx.x == 0) while ({read} == 0) {{}}
    {after}
    if (threadIdx.x == 0) x[1] = x[0];
    """
    found = launched(body, grid=2).findings
    assert [each.kind for each in found] == ([] if ordered else [RACE_GLOBAL])
    assert ordered or "which thread (0, 0) of block (0, 0) wrote" in found[0].message
    assert ordered or found[0].message.endswith("with no fence after this thread read the flag")


RING = """
    __shared__ int ring[4][32];
    __shared__ volatile int made, used;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) made = used = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int i = 0; i < 9; ++i) {
            if (lane == 0) { while (i - used >= 4) {} __threadfence_block(); }
            __syncwarp();
            ring[i % 4][lane] = x[i] + lane;
            __threadfence_block();
            __syncwarp();
            if (lane == 0) made = i + 1;
        }
    } else {
        for (int i = 0; i < 9; ++i) {
            if (lane == 0) { while (made <= i) {} __threadfence_block(); }
            __syncwarp();
            x[100 + lane] += ring[i % 4][lane];
            __threadfence_block();
            __syncwarp();
            if (lane == 0) used = i + 1;
        }
    }
"""


@pytest.mark.parametrize("order", ["forward", "random", pytest.param("reverse", marks=pytest.mark.slow)])
def test_volatile_flags_in_shared_memory(order):
    assert kinds(RING, threads=order) == []
    assert kinds(RING.replace("volatile", ""), threads=order, max_steps=10**5)
    fence = "__threadfence_block();\n            __syncwarp();\n            if (lane == 0) made"
    assert fence in RING
    assert kinds(RING.replace(fence, fence[len("__threadfence_block();") :]), threads=order) == [RACE_SHARED]


def test_volatile_data_in_shared_memory_need_a_barrier():
    body = """
    __shared__ volatile int s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 32) { s[threadIdx.x] += s[threadIdx.x + 32]; s[threadIdx.x] += s[threadIdx.x + 16]; }
    """
    assert kinds(body) == [RACE_SHARED]


def test_an_update_by_volatile_accesses_that_another_overwrites():
    """Check that a lock makes volatile updates safe, and that they race without one."""
    sum_up = "volatile int* sum = &x[1]; if (threadIdx.x == 0) { LOCK *sum = *sum + 1 + blockIdx.x; FREE }"
    lock = "while (atomicCAS(&x[0], 0, 1)) {} __threadfence();"
    free = "__threadfence(); atomicExch(&x[0], 0);"
    for taken, freed, found in (
        (lock, free, []),
        ("", "", [RACE_GLOBAL]),
        (lock, "atomicExch(&x[0], 0);", [RACE_GLOBAL]),
    ):
        body = sum_up.replace("LOCK", taken).replace("FREE", freed)
        assert kinds(body, grid=3) == found, body
    assert kinds("if (!*flag) *flag = 1;", grid=3) == []
    after = sum_up.replace("LOCK", lock).replace(
        "FREE", "__threadfence(); atomicExch(&x[0], 0); x[2 + blockIdx.x] = *sum; *sum = 0;"
    )
    assert RACE_GLOBAL in kinds(after.replace("*sum = 0", "*sum = *sum + 5"), grid=3)


@pytest.mark.parametrize("writer", [0, 1])
def test_a_volatile_read_that_nothing_orders_is_a_warning(writer):
    """Check the warning whether the volatile read or the write comes first."""
    body = """
    volatile int* total = &x[0];
    if (threadIdx.x == 0) { if (blockIdx.x == WRITER) *total = 7; else x[1] = *total; }
    """.replace("WRITER", str(writer))
    report = launched(body, grid=2, workers=1)
    assert report.ok and [each.kind for each in report.warnings] == ["volatile read that nothing orders"]
    (warning,) = report.warnings
    assert warning.block == (1 - writer, 0, 0) and warning.other_block == (writer, 0, 0)
    assert "reads 4 bytes at x[0]" in str(warning)


def test_a_volatile_read_that_a_flag_orders():
    body = """
    volatile int* total = &x[0];
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) { *total = 7; __threadfence(); *flag = 1; }
        else { while (*flag == 0) {} __threadfence(); x[1] = *total; }
    }
    """
    report = launched(body, grid=2)
    assert report.ok and not report.warnings


def test_what_is_written_after_the_fence_is_not_in_the_message():
    body = MESSAGE.replace("x[0] = 7; %s", "%s x[0] = 7;") % ("__threadfence();", "*flag = 1", "*flag")
    assert kinds(body, grid=2) == [RACE_GLOBAL]


def test_a_message_says_what_the_block_did_before_its_barrier():
    body = """
    x[100 * blockIdx.x + threadIdx.x] = 1;
    __threadfence();
    __syncthreads();
    __shared__ bool last;
    if (threadIdx.x == 0) last = atomicAdd((int*)flag, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) for (int i = 0; i < gridDim.x; ++i) x[1000 + threadIdx.x] += x[100 * i + threadIdx.x];
    """
    assert kinds(body, grid=5) == []
    assert kinds(body.replace("__threadfence();", ""), grid=5) == [RACE_GLOBAL]
    assert kinds(body.replace("__threadfence();\n    __syncthreads();", "__threadfence();"), grid=5) == [RACE_GLOBAL]


def test_a_message_that_is_passed_on_within_a_block_alone():
    body = """
    if (threadIdx.x == 0 && blockIdx.x == 0) { x[0] = 7; __threadfence(); flag[0] = 1; }
    if (threadIdx.x == 0 && blockIdx.x == 1) { while (flag[0] == 0) {} FENCE; flag[1] = 1; }
    if (threadIdx.x == 32 && blockIdx.x == READER) { while (flag[1] == 0) {} __threadfence(); x[1] = x[0]; }
    """
    for fence, reader, found in (
        ("__threadfence()", 2, []),
        ("__threadfence_block()", 1, []),
        ("__threadfence_block()", 2, [RACE_GLOBAL]),
    ):
        assert kinds(body.replace("FENCE", fence).replace("READER", str(reader)), grid=3) == found, (fence, reader)


def test_a_chain_of_messages():
    body = """
    if (threadIdx.x) return;
    const int b = blockIdx.x;
    if (b) { while (flag[b - 1] == 0) {} __threadfence(); }
    x[b] = b ? x[b - 1] + 1 : 0;
    if (b > 1) x[100 + b] = x[b - 2];
    __threadfence();
    flag[b] = 1;
    """
    for _ in range(30):  # a value may be written between the look of the checks and the read itself
        assert kinds(body, grid=6, workers=2, counts=False) == []


def test_named_barriers():
    body = """
    __shared__ int s[128];
    s[threadIdx.x] = 1;
    if (threadIdx.x < 64) { __barrier_sync_count(1, 64); x[threadIdx.x] = s[threadIdx.x ^ 32]; }
    else x[threadIdx.x] = s[threadIdx.x %s];
    """
    assert kinds(body % "^ 1 ^ 1", block=128) == []
    assert kinds(body % "- 64", block=128) == [RACE_SHARED]


@pytest.mark.parametrize(
    "order", ["random", *(pytest.param(each, marks=pytest.mark.slow) for each in ("forward", "reverse"))]
)
@pytest.mark.parametrize(
    ("writer", "reader", "found"),
    [
        ("s[t] = t; ARRIVE", "WAIT x[t] = s[t];", []),
        ("ARRIVE s[t] = t;", "WAIT x[t] = s[t];", ["race on shared memory"]),
        # Who only arrives does not know what others did before.
        ("ARRIVE s[t] = t;", "x[t] = s[t]; WAIT", ["race on shared memory"]),
        ("WAIT s[t] = t;", "x[t] = s[t]; ARRIVE", []),
        # Who has arrived at one barrier and waits at another goes on when that one is complete.
        ("ARRIVE OTHER s[t] = t;", "WAIT x[t] = s[t]; OTHER", []),
    ],
)
def test_who_arrives_at_a_named_barrier_and_who_waits(writer, reader, found, order):
    body = "__shared__ int s[32]; int t = threadIdx.x % 32; if (threadIdx.x < 32) s[t] = t; __syncthreads(); "
    body += f"if (threadIdx.x < 32) {{ {writer} }} else {{ {reader} }}"
    for name, text in {"ARRIVE": "bar.arrive 1, 64;", "WAIT": "bar.sync 1, 64;", "OTHER": "bar.sync 2, 64;"}.items():
        body = body.replace(name, f'asm volatile("{text}" ::: "memory");')
    assert kinds(body, threads=order) == found


def test_a_plain_read_that_begins_a_loop_around_a_swap():
    body = """
    int old = x[0], assumed;
    do { assumed = old; old = atomicCAS(&x[0], assumed, assumed + 1); } while (old != assumed);
    """
    for _ in range(20):  # by two workers: a read may come just before another's swap
        assert kinds(body, grid=4) == []
    assert kinds("x[1 + threadIdx.x] = x[0]; atomicAdd(&x[0], 1);", block=32) == [RACE_GLOBAL]


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        pytest.param(kind, order, marks=slow_unless((i + j) % 2 == 0))
        for i, kind in enumerate(["int", "unsigned long long"])
        for j, order in enumerate(["forward", "reverse", "random"])
    ],
)
def test_the_same_in_shared_memory(kind, order):
    body = f"""
    __shared__ {kind} s[2];
    if (threadIdx.x < 2) s[threadIdx.x] = 0;
    __syncthreads();
    {kind} old = s[1], assumed;
    %s
    __syncthreads();
    x[threadIdx.x] = s[1] == 64;
    """
    swap = "do { assumed = old; old = atomicCAS(&s[1], assumed, assumed + 1); } while (old != assumed);"
    assert kinds(body % swap, threads=order) == []
    add = "x[64 + threadIdx.x] = old; atomicAdd(&s[1], assumed = 1);"
    assert kinds(body % add, threads=order) == [RACE_SHARED]


@pytest.mark.slow
def test_a_block_that_waits_for_a_later_one():
    body = "if (blockIdx.x == 0 && threadIdx.x == 0) while (flag[0] == 0) {}\nelse if (blockIdx.x == 3) flag[0] = 1;"
    assert kinds(body, grid=4, workers=1) == ["thread that waits forever"]


def test_stores_of_structures_that_a_function_returns_are_seen():
    head = """
    struct Pair { int a, b; };
    __device__ Pair both(int i) { return {i, i + 1}; }
    """
    assert kinds("((Pair*)x)[0] = both(threadIdx.x);", head=head) == [RACE_GLOBAL]


FLAG = "if (x[threadIdx.x] < 7) x[64] = VALUE;"
LANES = """
    __shared__ int part[2];
    int sum = __reduce_add_sync(~0u, x[threadIdx.x] + 1);
    part[threadIdx.x / 32] = VALUE;
    __syncthreads();
    if (threadIdx.x == 0) x[64] = part[0] + part[1];
"""


@pytest.mark.parametrize(("body", "kind"), [(FLAG, RACE_GLOBAL), (LANES, RACE_SHARED)])
@pytest.mark.parametrize("grid", [1, 2])
def test_plain_writes_of_the_same_value_are_a_warning(body, kind, grid):
    """Check a flag that many threads set, and a warp's sum that all its lanes store."""
    body = body if grid == 1 else body.replace("x[64] = part", "x[65 + blockIdx.x] = part")
    report = launched(body.replace("VALUE", "1 + (threadIdx.x > 100)"), grid=grid)
    assert report.ok and {each.kind for each in report.warnings} == {"equal writes that nothing orders"}
    found = launched(body.replace("VALUE", "1 + (threadIdx.x > 5)"), grid=grid).findings
    assert {each.kind for each in found} == {kind}


def test_parts_of_two_writes_are_not_the_same_value():
    assert kinds("if (threadIdx.x == 0) *(char*)x = 0; if (threadIdx.x == 32) *(short*)x = 0;") == [RACE_GLOBAL]
    copies = """
    struct S { int a[16]; };
    S mine;
    for (int i = 0; i < 16; ++i) mine.a[i] = threadIdx.x;
    *(S*)x = mine;
    """
    assert kinds(copies) == [RACE_GLOBAL]


POLLED = """
    if (threadIdx.x == 0 && blockIdx.x == 0) { x[1] = 7; __threadfence(); atomicExch(&x[0], 1); }
    if (threadIdx.x == 0 && blockIdx.x == 1) { while (READ) {} __threadfence(); x[2] = x[1]; }
"""


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("__ldcg(&x[0]) == 0", []),
        ("__ldcv(&x[0]) == 0", []),
        ("atomicCAS(&x[0], 1, 1) != 1", []),
        ("atomicOr(&x[0], 0) == 0", []),
        ("__ldg(&x[0]) == 0", [RACE_GLOBAL]),
        ("x[0] == 0", [RACE_GLOBAL]),
    ],
)
def test_loops_that_wait(read, found):
    assert kinds(POLLED.replace("READ", read), grid=2) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if (threadIdx.x > x[0]) atomicMax(&x[0], threadIdx.x);", []),
        (
            "if (threadIdx.x == 40 && x[0] < 5) atomicMax(&x[0], 9); else if (x[0] > 5) x[1 + threadIdx.x] = 1;",
            [RACE_GLOBAL],
        ),
        ("if (!(x[0] & 1 << threadIdx.x % 32)) atomicOr(&x[0], 1 << threadIdx.x % 32);", []),
        ("if (x[0] < 5) atomicAdd(&x[0], 1);", [RACE_GLOBAL]),
        ("if (x[0] == 0) atomicExch(&x[0], 1);", [RACE_GLOBAL]),
        ("while (x[0] == 0 && threadIdx.x < 63) {} atomicMax(&x[0], 1);", [RACE_GLOBAL]),
        ("for (int i = 0; i < 2; ++i) { if (threadIdx.x > x[0]) atomicMax(&x[0], threadIdx.x); __syncthreads(); }", []),
        (
            "for (int i = 0; i < 2; ++i) { int was = x[0]; __syncthreads(); atomicOr(&x[0], was + threadIdx.x); }",
            [RACE_GLOBAL],
        ),
        (
            "__shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads();"
            "for (int i = 0; i < 2; ++i) { const int was = s; __syncthreads(); atomicOr(&s, was + threadIdx.x); }",
            ["race on shared memory"],
        ),
    ],
)
def test_a_look_before_an_atomic_that_may_not_be_needed(body, found):
    assert kinds(body, grid=2, workers=1) == found


def test_an_atomic_that_changes_nothing_releases_nothing():
    body = """
    if (threadIdx.x == 0 && blockIdx.x == 0) { x[1] = 7; __threadfence(); atomicAdd(&x[0], ADDED); }
    if (threadIdx.x == 0 && blockIdx.x == 1) { while (atomicAdd(&x[0], 0) < ADDED) {} __threadfence(); x[2] = x[1]; }
    """
    assert kinds(body.replace("ADDED", "1"), grid=2) == []
    assert kinds(body.replace("ADDED", "0"), grid=2, workers=1) == [RACE_GLOBAL]


def test_a_store_replaces_what_another_thread_released():
    """Check that whoever reads a flag that two threads set knows only what the last one did."""
    body = """
    if (threadIdx.x) return;
    if (blockIdx.x < 2) { x[1 + blockIdx.x] = 7; __threadfence(); *flag = 1; }
    else { while (*flag == 0) {} __threadfence(); x[3] = x[1]; }
    """
    assert kinds(body, grid=3, workers=1) == [RACE_GLOBAL]
    assert kinds(body.replace("*flag = 1", "atomicAdd((int*)flag, 1)").replace("== 0", "< 2"), grid=3, workers=1) == []
