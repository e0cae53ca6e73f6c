"""Programmatic dependent launches: griddepcontrol.wait before accesses to what the launch before accesses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.hopper.case import FOLDER
from tiledmm import simulator
from tiledmm.errors import CompilationError

BEFORE_WAIT = "access before griddepcontrol.wait"
WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
KERNEL = """__global__ void add(const int* x, const int* weights, int* y) {
    __shared__ int whether;
    const int t = threadIdx.x, weight = weights[t];
    %s
    y[t] = weight + x[t];
}"""


def findings(body: str, *, dependent: bool = True) -> list[simulator.Finding]:
    """Run the kernel with statements before its accesses to arrays of the launch before."""
    x, weights, y = (np.arange(64, dtype=np.int32) for _ in range(3))
    report = simulator.launch(KERNEL % body, 1, 64, (x, weights, y), dependent_on=(x, y) if dependent else ())
    if report.ok:
        assert (y == 2 * np.arange(64)).all()
    assert all(each.kind == BEFORE_WAIT for each in report.findings)
    return list(report.findings)


@pytest.mark.parametrize(
    "body",
    [
        WAIT,
        f"if (t == 0) {{ {WAIT} }} __syncthreads();",
        f"if (t < 32) {{ {WAIT} }} asm volatile(\"bar.sync 1, 64;\" ::: \"memory\");",
        f"if (t == 40) {{ {WAIT} whether = 1; }} __syncthreads(); if (whether) {WAIT}",
    ],
    ids=["each thread", "barrier", "named barrier", "twice"],
)  # fmt: skip
def test_a_thread_that_comes_after_a_wait(body: str) -> None:
    assert not findings(body)


@pytest.mark.parametrize(
    ("body", "thread"),
    [
        ("", 0),
        ('asm volatile("griddepcontrol.launch_dependents;" ::: "memory");', 0),
        (f"if (t == 0) {{ {WAIT} }}", 1),
        (f"__syncthreads(); if (t == 0) {{ {WAIT} }} __syncwarp();", 63),
    ],
    ids=["none", "another instruction", "another thread", "another warp"],
)
def test_a_thread_that_does_not(body: str, thread: int) -> None:
    found = findings(body)
    assert [each.thread[0] for each in found] == [thread] * 2  # it reads x, and writes y
    assert "at x[" in found[0].message and "at y[" in found[1].message
    assert {each.line for each in found} == {5}
    assert not findings(body, dependent=False)


TMA = """#include "hopper.cuh"
__global__ void copy(const __grid_constant__ TensorMap map, int* y) {
    __shared__ alignas(128) int box[32];
    __shared__ mbarrier full;
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%%0, {%%1}];" ::"l"(&map), "r"(0) : "memory");
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        %s
        mbarrier_arrive_expect_tx(&full, sizeof box);
        tma_load_1d(box, map, &full, 0);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    y[threadIdx.x] = box[threadIdx.x];
}"""


@pytest.mark.parametrize("waits", [False, True])
def test_tma_loads_after_the_wait_and_may_prefetch_before(waits: bool) -> None:
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    arguments = simulator.tensor_map(x, 32), y
    report = simulator.launch(
        TMA % (WAIT if waits else ""), 1, 32, arguments, options=(f"-I{FOLDER}",), dependent_on=(x,)
    )
    assert [each.kind for each in report.findings] == ([] if waits else [BEFORE_WAIT])
    assert (x == y).all()


def test_a_cluster_waits_through_one_block() -> None:
    text = f"""__global__ void __cluster_dims__(2) copy(const int* x, int* y) {{
        if (blockIdx.x == 0) {{ {WAIT} }}
        SYNC
        y[blockIdx.x] = x[blockIdx.x];
    }}"""
    sync = 'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");'
    for after, found in ((sync, 0), ("", 1)):
        x, y = np.ones(2, np.int32), np.zeros(2, np.int32)
        report = simulator.launch(text.replace("SYNC", after), 2, 32, (x, y), dependent_on=(x,))
        assert sum(each.kind == BEFORE_WAIT for each in report.findings) == found


def test_another_action_is_refused() -> None:
    with pytest.raises(CompilationError, match="griddepcontrol"):
        findings('asm volatile("griddepcontrol.begin;");')
