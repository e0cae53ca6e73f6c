"""Tests that the Hopper kernels with planted bugs compile for sm_90a, so that only their meaning is wrong."""

from __future__ import annotations

import pytest

from tests.simulator.hopper.planted_bugs import HopperBug, every_bug

pytest.importorskip("cuda.core", reason="needs the extra 'inspect' (cuda-core and NVRTC)")

from tiledmm.compile.inspection import compile_for


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in every_bug() if bug.old], ids=lambda bug: bug.id)
def test_a_kernel_with_a_bug_compiles(bug: HopperBug) -> None:
    source = bug.source()
    if "cooperative_groups.h" in source:
        pytest.skip("needs CCCL's headers")
    for kernel in (bug.rendered.spec.symbol,) if bug.rendered else bug.shown_by.kernels:
        assert compile_for(source, kernel, "sm_90a").cubin
