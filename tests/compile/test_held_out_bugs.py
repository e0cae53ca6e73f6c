"""Tests that the held-out bugs fit their kernels and compile for sm_90a, and that the kernels themselves are clean."""

from __future__ import annotations

import pytest

from tests.conftest import slow_unless
from tests.simulator.hopper.held_out.cases import HELD_OUT_CASES, KERNELS
from tests.simulator.hopper.planted_bugs import HopperBug, held_out_bugs

EVERY_DAY = {"halo_exchange", "tma_3d"}
BUGS = held_out_bugs()


def test_every_file_has_a_case():
    assert sorted(case.file for case in HELD_OUT_CASES) == sorted(path.stem for path in KERNELS.glob("*.cu"))


def test_names_are_unique():
    assert len({bug.id for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_bug_fits_its_kernel(bug: HopperBug):
    text, first, _ = bug.planted()
    assert (text != bug.text) == bool(bug.old)
    assert bug.old or bug.maps or bug.launch
    assert bool(first) != bug.refused
    if bug.rendered is None:
        assert bug.shown_by.make()


@pytest.mark.parametrize("case", HELD_OUT_CASES, ids=lambda case: case.name)
def test_kernels_compile_without_warnings_and_spills(case):
    inspection = pytest.importorskip("tiledmm.compile.inspection", reason="needs the extra 'inspect'")
    for kernel in case.kernels:
        resources = inspection.compile_for(case.source, kernel, "sm_90a")
        assert resources.warnings == ()
        assert resources.spill_store_bytes == resources.spill_load_bytes == resources.stack_bytes == 0
        assert "Potential Performance Loss" not in resources.log


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=slow_unless(bug.kernel in EVERY_DAY), id=bug.id) for bug in BUGS if not bug.refused],
)
def test_bug_compiles(bug: HopperBug):
    inspection = pytest.importorskip("tiledmm.compile.inspection", reason="needs the extra 'inspect'")
    if bug.rendered:
        inspection.compile_for(bug.source(), bug.rendered.spec.symbol, "sm_90a")
    else:
        for kernel in bug.shown_by.kernels:
            inspection.compile_for(bug.source(), kernel, "sm_90a")
