"""Every kernel of the Hopper corpus on the simulator: right, and without a finding, in several orders of threads."""

from __future__ import annotations

import pytest

from tests.conftest import slow_unless
from tests.simulator.hopper.cases import CASES
from tests.simulator.hopper.facts import FACTS
from tests.simulator.hopper.held_out.cases import HELD_OUT_CASES
from tests.simulator.hopper.simulate import named_places, simulate

ORDERS = (("forward", 0), ("reverse", 0), ("random", 1), ("preemptive", 1), ("preemptive", 2), ("preemptive", 3))

EVERY_DAY = {
    "mbarrier_phases", "bulk_scale_5", "tma_2d_at", "tma_multicast", "cluster_sum", "remote_arrive", "st_async",
    "redux_sync", "stmatrix", "wgmma_swizzle_128", "gemm_ring",
}  # fmt: skip


def chosen(case: str, order: str, seed: int) -> bool:
    """Return whether a case is run every day in an order: a few are, forward and preemptively."""
    return case in EVERY_DAY and (order, seed) in (("forward", 0), ("preemptive", 1))


def test_the_cases_of_every_day_exist():
    assert {case.name for case in CASES} >= EVERY_DAY


@pytest.mark.parametrize(
    ("case", "order", "seed"),
    [
        pytest.param(
            case, order, seed, id=f"{case.name}-{order}-{seed}", marks=slow_unless(chosen(case.name, order, seed))
        )
        for case in (*CASES, *FACTS, *HELD_OUT_CASES)
        for order, seed in ORDERS
    ],
)
def test_a_case_is_right_and_without_a_finding(case, order, seed):
    report = simulate(case, threads=order, seed=seed, counts=False, timeout=60)
    assert [each.message for each in (*report.findings, *report.warnings)] == []


def test_a_wrong_result_is_a_finding():
    case = next(case for case in CASES if case.name == "redux_sync")
    source = case.path.read_text("utf-8").replace('REDUX("xor.b32")', 'REDUX("or.b32")')
    report = simulate(case, source)
    assert [each.kind for each in report.findings] == ["wrong result"]
    (place,) = named_places(report, report.findings[0])
    assert place == f"redux_sync.cu:{source[: source.index('out[7')].count(chr(10)) + 1}"
