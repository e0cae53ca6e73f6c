"""Tests of findings: one for one cause, lanes in words, and what a wrong result costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.simulator import api
from tiledmm.simulator.check.expected import ENDED_EARLY
from tiledmm.simulator.check.lanes import lanes_in_words
from tiledmm.simulator.execute import launch as launches

N = 64

REDUCTION = """
__global__ void reduce(float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32]; WARP
        s[t] += s[t + 16]; WARP
        s[t] += s[t + 8]; WARP
        s[t] += s[t + 4]; WARP
        s[t] += s[t + 2]; WARP
        s[t] += s[t + 1];
    }
    __syncthreads();
    x[t] = s[0];
}
"""

TILED = """
#define T 8
__global__ void product(const float* A, const float* B, float* C, int n) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += T) {
        a[y][x] = A[row * n + k0 + x];
        b[y][x] = B[(k0 + y) * n + col];
        FILLED
        for (int k = 0; k < T; ++k)
            sum += a[y][k] * b[k][COLUMN];
        USED
    }
    C[row * n + col] = sum;
}
"""
BARRIER = "__syncthreads();"


def product(filled: str = BARRIER, used: str = BARRIER, column: str = "x", n: int = N, **options) -> simulator.Report:
    text = TILED.replace("FILLED", filled).replace("USED", used).replace("COLUMN", column)
    a, b = np.random.default_rng(0).random((2, n, n), np.float32)
    c = np.full((n, n), np.nan, np.float32)
    return simulator.launch(text, (n // 8, n // 8), (8, 8), (a, b, c, n), expected={"C": a @ b}, **options)


def test_a_sequence_of_a_warp_without_barriers_has_one_finding():
    (found,) = simulator.launch(REDUCTION.replace("WARP", ""), 1, 64, (np.ones(64, np.float32),)).findings
    assert found.kind == "race on shared memory"
    assert {found.line, found.other_line, *found.also} == {*range(8, 14)}
    assert "one warp" in found.message and "__syncwarp()" in found.message and "kernel.cu:13" in found.message


def test_threads_of_several_warps_are_not_said_to_be_in_one():
    text = """__global__ void k(float* x) { __shared__ float s[64]; s[threadIdx.x] = 1;
        x[threadIdx.x] = s[63 - threadIdx.x]; }"""
    (found,) = simulator.launch(text, 1, 64, (np.ones(64, np.float32),)).findings
    assert (found.line, found.other_line) == (2, 1) and "one warp" not in found.message


@pytest.mark.parametrize(("filled", "used"), [("", BARRIER), (f"// {BARRIER}", BARRIER), (BARRIER, "")])
def test_a_missing_barrier_between_two_arrays_and_their_use_has_one_finding(filled, used):
    race, wrong = product(filled, used).findings
    assert (race.kind, wrong.kind) == ("race on shared memory", "wrong result")
    assert {race.line, race.other_line, *race.also} == {8, 9, 12}
    assert re.search(r"[\d,]+ pairs of accesses to a and b race", race.message) and race.count > 1000
    assert ("in another iteration" in race.message) == (filled == BARRIER)


def test_barriers_that_are_missing_at_two_places_have_two_findings():
    text = """
    __global__ void k(float* x) {
        __shared__ float s[64], u[64];
        int t = threadIdx.x;
        s[t] = x[t];
        u[t] = s[63 - t];
        x[t] = u[t ^ 32];
    }
    """
    found = simulator.launch(text, 1, 64, (np.ones(64, np.float32),)).findings
    assert sorted({each.line, each.other_line} for each in found) == sorted([{5, 6}, {6, 7}])


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0xFFFF, "lanes 0 to 15"), (1 << 31, "lane 31"), (0, "no lane"),
        (0xF00F0003, "lanes 0 to 1, 16 to 19 and 28 to 31"),
        (0x55555555, "16 lanes (the bits of 0x55555555)"), (0xFFFFFFFF, "lanes 0 to 31"),
    ],
)  # fmt: skip
def test_lanes_in_words(mask, words):
    assert lanes_in_words(mask) == words


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("v = __shfl_sync(0xffffu, v, 20);", r"lane 20.*lanes 0 to 15 of warp 3"),
        ("v = __shfl_down_sync(0xf0u, v, 1);", r"own lane.*lanes 4 to 7 of warp 3"),
        ("if (t % 2) __syncwarp(); else __syncwarp(0xffffu);", r"lanes 0 to 15 of warp 3, .*lanes 0 to 31"),
    ],
)
def test_the_lanes_of_a_mask_are_named(statement, said):
    text = f"""
    __global__ void k(float* x) {{
        int t = threadIdx.x;
        float v = x[t];
        if (t / 16 == 6) {{ {statement} }}
        x[t] = v;
    }}
    """
    found = simulator.launch(text, 1, 128, (np.ones(128, np.float32),)).findings
    assert re.search(said, found[0].message), found[0].message


def test_a_warp_of_fewer_lanes_is_named():
    text = "__global__ void k(float* x) { x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 16); }"
    (found,) = simulator.launch(text, 1, 48, (np.ones(48, np.float32),)).findings
    assert re.search("lane 31.*warp 1 .*only lanes 0 to 15", found.message)


STOPPED = """
__global__ void k(const float* x, float* o, int n) {
    __shared__ float s[32];
    int i = blockIdx.x * 32 + threadIdx.x;
    s[threadIdx.x] = x[i + 1];
    __syncthreads();
    if (i < n) o[i] = s[31 - threadIdx.x];
}
"""


@pytest.mark.parametrize(("padding", "n", "stopped"), [(0, 64, True), (1, 64, False), (1, 40, False)])
@pytest.mark.parametrize("workers", [1, None])
def test_what_no_thread_wrote_is_said_of_launches_that_ended_only(padding, n, stopped, workers):
    x, o = np.ones(64 + padding, np.float32), np.zeros(64, np.float32)
    report = simulator.launch(STOPPED, 2, 32, (x, o, n), expected={"o": np.ones(64)}, workers=workers)
    messages = [each.message for each in report.findings]
    assert any("global access out of bounds" in each for each in messages) == stopped
    assert any("no thread wrote it" in each for each in messages) == (n < 64)
    assert any(ENDED_EARLY in each for each in messages) == stopped


def test_more_races_than_are_kept_leave_a_place_for_what_ended_the_launch():
    lines = "\n".join(f"s[t % {n}] += t;" for n in range(2, 42))
    begin = "__global__ void k(float* x) { __shared__ float s[64]; int t = threadIdx.x; s[t] = 0;"
    text = f"{begin}\n{lines}\nx[t] = s[t]; }}"
    found = simulator.launch(text, 1, 64, (np.ones(63, np.float32),)).findings
    assert "global access out of bounds" in [each.kind for each in found]


@pytest.fixture
def blocks_run(monkeypatch):
    """Numbers of the blocks of each run of a kernel."""
    runs = []
    run_kernel = launches.run_kernel

    def counted(*arguments, **keywords):
        outcome = run_kernel(*arguments, **keywords)
        runs.append(outcome.finished)
        return outcome

    monkeypatch.setattr(launches, "run_kernel", counted)
    return runs


def test_a_wrong_result_costs_a_part_of_the_launch(blocks_run):
    assert product().ok
    assert blocks_run == [64]
    blocks_run.clear()
    (wrong,) = product(column="x ^ 1").findings
    assert wrong.kind == "wrong result"
    assert blocks_run[0] == 64 and sum(blocks_run[1:]) <= 32


def test_an_unset_variable_is_named_by_a_part_of_the_launch(blocks_run):
    text = TILED.replace("float sum = 0", "float sum").replace("FILLED", BARRIER).replace("USED", BARRIER)
    a, b = np.random.default_rng(0).random((2, N, N), np.float32)
    c = np.zeros((N, N), np.float32)
    arguments = (text.replace("COLUMN", "x"), (8, 8), (8, 8), (a, b, c, N))
    unset, wrong = simulator.launch(*arguments, expected={"C": a @ b}).findings
    assert (unset.kind, unset.line, wrong.kind) == ("variable read before it is set", 12, "wrong result")
    assert unset.other_line == 6
    assert blocks_run[0] == 64 and sum(blocks_run[1:]) <= 32


def test_other_builds_are_left_out_where_a_block_is_most_of_the_launch(monkeypatch):
    monkeypatch.setattr(api, "FullChecks", None)  # called, it would raise
    text = """
    __global__ void k(const float* x, float* y, int n) {
        float sum;
        for (int i = 0; i < n; ++i) sum += x[i % 32];
        y[threadIdx.x] = sum;
    }
    """
    x, y = np.ones((2, 32), np.float32)
    (wrong,) = simulator.launch(text, 1, 32, (x, y, 10_000), expected={"y": np.zeros(32)}).findings
    assert wrong.kind == "wrong result"


def test_a_copy_that_is_never_committed_has_no_unknown_line():
    text = """
    #include <cuda_pipeline.h>
    __global__ void k(const float* x, float* y) {
        __shared__ float s[32];
        __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
        y[threadIdx.x] = 1;
    }
    """
    (found,) = simulator.launch(text, 1, 32, (np.ones(32, np.float32), np.ones(32, np.float32))).findings
    assert (found.kind, found.line, found.other_line) == ("copy not waited for", 5, None)
    assert "unknown" not in found.message and "commit" in found.message


def test_a_lane_that_waits_for_one_that_has_ended_has_no_second_line():
    text = "__global__ void k(float* x) { if (threadIdx.x < 16) __syncwarp(); x[threadIdx.x] = 1; }"
    (found,) = simulator.launch(text, 1, 32, (np.ones(32, np.float32),)).warnings
    assert found.other_line is None and found.other_location is None


def test_an_update_in_a_loop_is_named_at_the_loops_body():
    text = """
    __global__ void k(float* x, int n) {
        float sum;
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < 2; ++j)
                sum += x[i];
        x[0] = sum;
    }
    """
    (found,) = simulator.launch(text, 1, 1, (np.ones(8, np.float32), 8), checks="full").findings
    assert (found.text.strip(), found.other_line) == ("sum += x[i];", 3)


def test_a_barrier_that_is_missing_at_the_end_of_a_loops_body_is_named_there() -> None:
    text = """
__global__ void k(float* x) {
    __shared__ float s[64];
    float sum = 0;
    for (int t = 0; t < 3; ++t) {
        s[threadIdx.x] = x[threadIdx.x] + t;
        __syncthreads();
        sum += s[63 - threadIdx.x];
    }
    x[threadIdx.x] = sum;
}"""
    for removed, is_last in (("", True), ("        __syncthreads();\n", False)):
        found = simulator.launch(
            text.replace(removed, "") if removed else text, 1, 64, (np.ones(64, np.float32),)
        ).findings
        assert found and ("end of the loop's body" in found[0].message) == is_last
