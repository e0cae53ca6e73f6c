"""Tests that bugs of unset values and of limits are found, each with its words and at one of its lines.

All 132 were written before the first of them ran, and before their author read the code of the checks. In the first
run 91 were found with the words and at a line of the table; 22 more at the line, in other words; 12 elsewhere, or by a
wrong result alone (integers of ``cupy.empty`` that nobody wrote, heads of kernels, a brace, a barrier of half a warp);
5 not at all (functions of the host, barrier 16, ``dynamic_cast``, local memory). One correct kernel had a false warning
of deep calls. Since then the table has the simulator's words. Two of the edits were correct and were removed: a
logarithm below zero, which is NaN in every logarithm, and a target that no compiler has.
"""

from __future__ import annotations

import pytest

from tests.conftest import slow_unless
from tests.simulator import limit_kernels, unset_kernels
from tests.simulator.planted_bugs import run, verdict

KERNELS = unset_kernels.KERNELS | limit_kernels.KERNELS
BUGS = [(name, bug) for name, kernel in KERNELS.items() for bug in kernel.bugs]

EVERYDAY_KERNELS = {"calls of itself", "counter in scratch", "fast functions"}
EVERYDAY_BUGS = {
    ("place by reference", "not set where nothing is found"),
    ("bit-fields", "valid is not set"),
    ("counter in scratch", "one counter is not cleared"),
    ("mask in scratch", "only true is written"),
    ("functions by name", "function of nobody"),
    ("braces", "loop is not closed"),
    ("language of NVRTC", "barrier 16"),
    ("parameters", "reference"),
}


def test_there_are_enough_bugs() -> None:
    assert sum(len(each.bugs) for each in unset_kernels.KERNELS.values()) >= 50
    assert len(BUGS) >= 130 and set(BUGS) >= EVERYDAY_BUGS


@pytest.mark.parametrize("name", [pytest.param(each, marks=slow_unless(each in EVERYDAY_KERNELS)) for each in KERNELS])
def test_a_correct_kernel_has_no_finding_and_no_warning(name: str) -> None:
    assert run(KERNELS[name], KERNELS[name].text) == ([], [])


@pytest.mark.parametrize(
    ("name", "bug"), [pytest.param(*each, marks=slow_unless(each in EVERYDAY_BUGS)) for each in BUGS]
)
def test_a_bug_is_found_at_its_line(name: str, bug: str) -> None:
    found, said = verdict(KERNELS[name], bug)
    assert found == "found", said
