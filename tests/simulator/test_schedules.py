"""Tests of the order ``"preemptive"``, and of the runs in other orders of threads that full checks make."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import slow_unless
from tests.simulator.synchronized_kernels import CASES, SIZE, Case
from tiledmm import simulator
from tiledmm.simulator.build.translation.syntax import discards_sums
from tiledmm.simulator.check import schedules
from tiledmm.simulator.check.finding_kinds import BARRIER, WRONG_RESULT
from tools.bugs.kernels import held_out_bugs

BUGS = [(name, bug) for name, case in CASES.items() for bug in case.bugs]

#: One of each kind: a lock, a counter that is one short, an order left to atomics, a message, a partial barrier.
EVERYDAY_KERNELS = {"lock between blocks", "ring of two flags", "maximum of floats"}
EVERYDAY_BUGS = {
    ("lock between blocks", "result ignored"),
    ("counter of arrivals", "threshold 31"),
    ("stable compaction", "places from a counter"),
    ("message to another block", "published by a failed swap"),
    ("last block with volatile parts", "no fence"),
    ("barrier of two warps", "a third warp reads"),
    ("two locks", "taken in two orders"),
}


def run(case: Case, text: str, **keywords) -> simulator.Report:
    expected = np.zeros(SIZE, np.int32)
    expected[: len(case.expected)] = case.expected
    arrays = np.zeros(SIZE, np.int32), np.zeros(SIZE, np.int32)
    return simulator.launch(
        text, case.grid, case.block, arrays, expected={"out": expected}, counts=False, workers=2, **keywords
    )


ORDERS = [{}, *({"threads": "preemptive", "seed": seed} for seed in schedules.SEEDS)]


def test_there_are_enough_bugs() -> None:
    assert len(BUGS) >= 60 and set(BUGS) >= EVERYDAY_BUGS


@pytest.mark.parametrize("name", [pytest.param(each, marks=slow_unless(each in EVERYDAY_KERNELS)) for each in CASES])
def test_a_correct_kernel_is_right_in_every_order(name: str) -> None:
    case = CASES[name]
    for order in [{}, *({"threads": "preemptive", "seed": seed} for seed in range(12))]:
        assert run(case, case.text, **order).findings == (), order


@pytest.mark.parametrize(
    ("name", "bug"), [pytest.param(*each, marks=slow_unless(each in EVERYDAY_BUGS)) for each in BUGS]
)
def test_a_bug_shows_in_some_order(name: str, bug: str) -> None:
    case = CASES[name]
    text = case.planted(bug)
    assert any(run(case, text, **order).findings for order in ORDERS)


def launch(body: str, *, grid: int = 1, block: int = 64, dtype=np.int32, parameters: str = "int* x", **keywords):
    x = np.zeros(SIZE, dtype)
    text = f"__global__ void k({parameters}) {{ {body} }}"
    return simulator.launch(text, grid, block, (x,), counts=False, **keywords), x


def test_full_checks_name_the_seed_with_which_a_finding_can_be_replayed() -> None:
    case = CASES["counter of arrivals"]
    text = case.planted("threshold 31")
    assert run(case, text).ok
    found, *_ = run(case, text, checks="full").findings
    assert found.kind == "race on global memory" and found.seed in schedules.SEEDS
    assert f'threads="preemptive", seed={found.seed}' in found.message
    again, *_ = run(case, text, threads="preemptive", seed=found.seed).findings
    assert found.message.startswith(again.message) and again.seed is None


def test_a_wrong_result_of_another_order_is_found_and_the_arrays_stay() -> None:
    expected = np.zeros(SIZE, np.int32)
    expected[:65] = 64, *range(64)
    report, x = launch("x[1 + atomicAdd(&x[0], 1)] = threadIdx.x;", checks="full", expected={"x": expected})
    (found,) = report.findings
    assert (found.kind, found.line) == ("wrong result", 1) and found.seed is not None
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    ("kernel", "name", "seed"),
    [
        ("square_handoff", "does not wait for an empty buffer", 0), ("warp_ring", "row not made yet", 0),
        ("warp_ring", "one row too far", 6),
    ],
)  # fmt: skip
def test_a_wrong_launch_is_explained_by_the_race_of_another_order(kernel: str, name: str, seed: int) -> None:
    bug = next(each for each in held_out_bugs() if (each.kernel, each.name) == (kernel, name))
    text, lines = bug.planted(bug.edited.text())
    first, *others = bug.edited.run(text, {}).findings
    assert first.kind == "race on shared memory" and lines == {first.line, first.other_line}
    assert f"seed={seed}" in first.message and {each.kind for each in others} <= {WRONG_RESULT, BARRIER}


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("x[1 + atomicAdd(&x[0], 1)] = threadIdx.x;", [schedules.ORDER_OF_ELEMENTS]),
        (
            "if (!atomicCAS(&x[0], 0, 1)) { __threadfence(); ++x[1]; __threadfence(); atomicExch(&x[0], 0); }",
            [schedules.ORDER_OF_THREADS],
        ),
        pytest.param("atomicAdd(&x[threadIdx.x % 3], 1);", [], marks=pytest.mark.slow),
        pytest.param("atomicAdd((float*)x, 1.0f / (1 + threadIdx.x));", [], marks=pytest.mark.slow),
        pytest.param("x[100 + threadIdx.x] = clock64(); atomicAdd(x, 1);", [], marks=pytest.mark.slow),
        pytest.param("x[100 + threadIdx.x] = clock64() % 7; atomicAdd(x, 1);", [], marks=pytest.mark.slow),
    ],
)
def test_without_expected_results_other_orders_give_warnings_alone(body: str, kinds: list[str]) -> None:
    is_float = "float" in body
    dtype, parameters = (np.float32, "float* x") if is_float else (np.int32, "int* x")
    report, _ = launch(body, checks="full", dtype=dtype, parameters=parameters)
    assert report.ok and [each.kind for each in report.warnings] == kinds


@pytest.mark.parametrize(
    "value",
    [
        "clock64() + (long long)x",
        pytest.param("(long long)&local", marks=pytest.mark.slow), pytest.param("time()", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_clocks_and_addresses_are_no_unset_variables(value: str) -> None:
    body = f"""
    long long local = 0;
    auto time = [] {{ long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }};
    local = time();
    x[threadIdx.x] = {value};
    """
    report, _ = launch(body, checks="full", dtype=np.int64, parameters="long long* x")
    assert report.ok and not report.warnings


def test_kernels_without_atomics_run_in_no_other_order(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    monkeypatch.setattr(schedules.Schedules, "found", lambda self, _: runs.append(self.launch.kernel.name) or [])
    launch(
        "__shared__ int s[64]; s[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x];",
        checks="full",
    )
    assert runs == []
    launch("atomicAdd(x, 1); if (threadIdx.x < 9) atomicSub(&x[1], (int)threadIdx.x);", checks="full")
    assert runs == []
    for body in (
        "x[1 + threadIdx.x] = atomicAdd(x, 1);",
        "atomicAdd(x, 1); __threadfence();",
        "atomicAdd(x, 1); x[threadIdx.x + 1] = __activemask();",
    ):
        launch(body, checks="full")
    assert runs == ["k"] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ atomicAdd(&s[x[i]], f(g(1))); }", True), ("{ if (a(b)) atomicAdd(p, 1); else atomicSub(p, 2); }", True),
        ("{ for (int i = 0; i < 3; ++i) atomicAdd(p, 1); } // atomicMax", True), ("{ x = 1; }", False),
        ("{ int y = atomicAdd(p, 1); }", False), ("{ y = (int)atomicAdd(p, 1); }", False),
        ("{ atomicMax(p, 1); atomicAdd(p, 1); }", False), ("#define ADD(p) atomicAdd(p, 1);\n", False),
        ("{ for (int i = 0; atomicAdd(p, 1);) ; }", False), ("{ while (atomicAdd(p, 0) < 3) ; }", False),
        ("{ atomicAdd(p, 1); asm(\"\"); }", False), ("{ y = ({ atomicAdd(p, 1); }); }", False),
        ("{ return atomicAdd(p, 1); }", False), ("{ x = y, atomicAdd(p, 1); }", False),
        ("{ if (c) { atomicAdd(p, 1); } f(atomicAdd(p, 1)); }", False),
    ],
)  # fmt: skip
def test_sums_whose_results_nobody_uses(text: str, expected: bool) -> None:
    assert discards_sums(text) == expected


def test_a_seed_gives_one_order() -> None:
    def order(seed: int) -> list[int]:
        _, x = launch(
            "x[1 + atomicAdd(x, 1)] = blockIdx.x * 64 + threadIdx.x;", grid=5, threads="preemptive", seed=seed
        )
        return x[1:321].tolist()

    orders = [order(seed) for seed in range(8)]
    assert orders == [order(seed) for seed in range(8)]
    assert len(set(map(tuple, orders))) == 8 and all(sorted(each) == list(range(320)) for each in orders)


def test_lanes_that_were_preempted_still_run_together() -> None:
    body = "atomicAdd(&x[0], 1); x[100 + threadIdx.x] = __popc(__activemask());"
    for seed in range(4):
        _, x = launch(body, threads="preemptive", seed=seed)
        assert x[100:164].tolist() == [32] * 64


def test_blocks_run_at_a_time_so_that_one_can_wait_for_a_later_one() -> None:
    body = "if (blockIdx.x == 0) while (atomicAdd(&x[0], 0) == 0) {} else if (blockIdx.x == 3) atomicExch(&x[0], 1);"
    report, _ = launch(body, grid=4, block=1, threads="preemptive")
    assert report.ok
