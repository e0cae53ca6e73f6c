"""Tests of cooperative launches: barriers of the grid, what they order, and launches that a GPU would refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.errors import SimulationError

HEAD = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"

# Each block sums a part of x; after the barrier block 0 sums the parts.
SUM = (
    HEAD
    + """
extern "C" __global__ void total(const float* x, float* part, float* out, int n) {
    cg::grid_group grid = cg::this_grid();
    __shared__ float s[64];
    float sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int k = 32; k > 0; k /= 2) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) part[blockIdx.x] = s[0];
    grid.sync();
    if (grid.thread_rank() == 0) {
        float all = 0;
        for (int b = 0; b < gridDim.x; ++b) all += part[b];
        out[0] = all;
    }
}
"""
)
SYNC = SUM[: SUM.index("grid.sync()")].count("\n") + 1


def total(text: str = SUM, blocks: int = 5, **options: object) -> tuple[simulator.Report, float]:
    x, part, out = np.ones(1000, np.float32), np.zeros(blocks, np.float32), np.zeros(1, np.float32)
    options.setdefault("cooperative", True)
    report = simulator.launch(text, blocks, 64, (x, part, out, x.size), **options)
    return report, float(out[0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"workers": 1},
        {"checks": False, "counts": False},
        {"threads": "reverse"},
        {"threads": "random", "seed": 3},
        *({"threads": "preemptive", "seed": seed, "counts": seed == 1} for seed in range(4)),
        {"checks": "full"},
    ],
    ids=str,
)
def test_all_blocks_wait_for_each_other(options):
    report, result = total(**options)
    report.check()
    assert result == 1000
    assert report.barriers == 5 * 8
    if options.get("counts", True):
        assert next(each.barriers for each in report.lines if each.line == SYNC) == 5


def test_more_blocks_than_cores_can_run_and_more_stacks_than_can_have_guards():
    report, result = total(blocks=132 * 3)
    report.check()
    assert result == 1000


def test_steps_between_two_arrays_are_ordered_and_each_missing_barrier_is_found():
    text = (
        HEAD
        + """
    __global__ void smooth(float* a, float* b, int n, int steps) {
        auto grid = cg::this_grid();
        const int i = grid.thread_rank();
        for (int step = 0; step < steps; ++step) {
            b[i] = (a[(i + n - 1) % n] + a[(i + 1) % n]) / 2;
            grid.sync();
            a[i] = b[i];
            cg::sync(grid);
        }
    }
    """
    )
    start = np.random.default_rng(0).random(128, np.float32)
    expected = start.copy()
    for _ in range(3):
        expected = (np.roll(expected, 1) + np.roll(expected, -1)) / np.float32(2)
    a = start.copy()
    simulator.launch(text, 4, 32, (a, np.zeros(128, np.float32), 128, 3), cooperative=True).check()
    np.testing.assert_array_equal(a, expected)
    for barrier in ("grid.sync();", "cg::sync(grid);"):
        without = text.replace(barrier, "__syncthreads();")
        arguments = start.copy(), np.zeros(128, np.float32), 128, 3
        found = simulator.launch(without, 4, 32, arguments, cooperative=True).findings
        assert {each.kind for each in found} == {"race on global memory"}
        assert all(each.block != each.other_block for each in found)


def test_a_reader_before_the_barrier_does_not_hide_one_after_it():
    text = (
        HEAD
        + """
    __global__ void k(int* x, int* out) {
        out[blockIdx.x] = x[0];
        cg::this_grid().sync();
        if (blockIdx.x == 2) out[3] = x[0];
        if (blockIdx.x == 0) x[0] = 1;
    }
    """
    )
    (found,) = simulator.launch(text, 3, 1, (np.zeros(1, np.int32), np.zeros(4, np.int32)), cooperative=True).findings
    assert found.kind == "race on global memory"
    assert {found.line, found.other_line} == {7, 8}


def test_blocks_that_wait_by_atomics_for_later_ones_run_too():
    text = """
    __global__ void k(unsigned* arrived, int* x) {
        x[blockIdx.x] = blockIdx.x;
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < gridDim.x) {}
        __threadfence();
        x[gridDim.x + blockIdx.x] = x[gridDim.x - 1 - blockIdx.x];
    }
    """
    for workers in (1, 2):
        x = np.zeros(10, np.int32)
        report = simulator.launch(text, 5, 1, (np.zeros(1, np.uint32), x), cooperative=True, workers=workers)
        report.check()
        assert x[5:].tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("threads", ["forward", "preemptive"])
def test_a_block_that_waits_forever_is_named(threads):
    text = (
        HEAD
        + """
    __global__ void k(int* flag) {
        if (blockIdx.x == 1)
            while (atomicAdd(flag, 0) == 0) {}
        cg::this_grid().sync();
    }
    """
    )
    (found,) = simulator.launch(text, 3, 1, (np.zeros(1, np.int32),), cooperative=True, threads=threads).findings
    assert (found.kind, found.block, found.line) == ("thread that waits forever", (1, 0, 0), 6)


@pytest.mark.parametrize(
    ("code", "other_block", "said"),
    [
        ("if (blockIdx.x != 3) grid.sync();", (3, 0, 0), "has ended without reaching it"),
        ("if (threadIdx.x != 7) grid.sync();", None, "thread (7, 0) has ended without reaching it"),
        ("if (threadIdx.x != 7) grid.sync(); else __syncthreads();", None, "is at another one"),
        ("for (int i = 0; i < 1 + (blockIdx.x == 2); ++i) grid.sync();", None, "has ended without reaching it"),
    ],
)
@pytest.mark.parametrize("threads", ["forward", "preemptive"])
def test_a_barrier_that_not_all_threads_reach_is_a_deadlock(code, other_block, said, threads):
    report, _ = total(SUM.replace("grid.sync();", code), threads=threads, workers=1)
    (found,) = report.findings
    assert (found.kind, found.line) == ("barrier not reached by all", SYNC)
    assert said in found.message
    assert other_block is None or found.other_block == other_block


def test_one_block_waits_only_in_a_cooperative_launch():
    report, _ = total(cooperative=False, blocks=1)
    (found,) = report.findings
    assert found.kind == "call that cannot be made" and found.line == SYNC
    assert "cooperative=True" in found.message and "enable_cooperative_groups=True" in found.message
    text = HEAD + "__global__ void k(int* x) { x[0] = cg::this_grid().is_valid(); }"
    for cooperative in (False, True):
        x = np.full(1, 7, np.int32)
        simulator.launch(text, 1, 1, (x,), cooperative=cooperative).check()
        assert x[0] == cooperative


@pytest.mark.parametrize(
    ("target", "threads", "shared_bytes", "most"),
    [("sm_90a", 64, 0, 132 * 32), ("sm_90", 1024, 0, 132 * 2), ("sm_80", 64, 60_000, 108 * 2), ("sm_75", 1024, 0, 40)],
)
def test_a_grid_that_does_not_fit_is_refused_with_the_number_that_fits(target, threads, shared_bytes, most):
    text = HEAD + "\n__global__ void wide(int* x) { cg::this_grid().sync(); x[0] = 1; }"
    x = np.zeros(1, np.int32)
    options = {"target": target, "shared_bytes": shared_bytes, "cooperative": True}
    report = simulator.launch(text, most + 1, threads, (x,), expected={"x": np.ones(1, np.int32)}, **options)
    (found,) = report.findings
    assert found.kind == "too many blocks for a cooperative launch" and found.line == 4
    assert f"{most + 1:,} blocks" in found.message and f"{most:,} fit" in found.message
    assert x[0] == 0  # it did not run


def test_cupys_keyword_makes_launches_cooperative():
    x, part, out = np.ones(100, np.float32), np.zeros(3, np.float32), np.zeros(1, np.float32)
    arguments = (x, part, out, np.int32(x.size))
    kernel = simulator.RawKernel(SUM, "total", enable_cooperative_groups=True)
    assert kernel.enable_cooperative_groups
    kernel((3,), (64,), arguments)
    module = simulator.RawModule(code=SUM, enable_cooperative_groups=True)
    module.get_function("total")((3,), (64,), arguments)
    assert out[0] == 100
    with pytest.raises(SimulationError, match="cooperative launch"):
        simulator.RawKernel(SUM, "total")((3,), (64,), arguments)


def test_a_launch_that_is_stopped_ends():
    text = (
        HEAD
        + """
    __global__ void k(int* x) {
        if (blockIdx.x == 0) for (long long i = 0; i < 1ll << 50; ++i) x[i % 64 + 1] = i;
        cg::this_grid().sync();
    }
    """
    )
    report = simulator.launch(text, 9, 1, (np.zeros(65, np.int32),), cooperative=True, timeout=0.5, workers=1)
    assert [each.kind for each in report.findings] == ["timeout"]
    assert report.seconds < 5


def test_a_stack_that_is_too_deep_is_found_without_guards():
    text = (
        HEAD
        + """
    __device__ int deep(volatile int* x, int n) { return n > x[0] ? n : deep(x, n + 1) + x[1]; }
    __global__ void k(int* x) { if (blockIdx.x == 20 && threadIdx.x == 9) x[2] = deep(x, 0); }
    """
    )
    x = np.array([1 << 30, 0, 0], np.int32)
    found = simulator.launch(text, 40, 512, (x,), cooperative=True).findings
    assert [(each.kind, each.block, each.thread) for each in found] == [("stack overflow", (20, 0, 0), (9, 0, 0))]
