"""Tests that the corpus of Hopper kernels compiles for sm_90a, without warnings and spills. No GPU is needed."""

from __future__ import annotations

import pytest

from tests.conftest import slow_unless
from tests.simulator.hopper.case import FOLDER
from tests.simulator.hopper.cases import CASES

pytest.importorskip("cuda.core", reason="needs the extra 'inspect' (cuda-core and NVRTC)")

from tiledmm.compile.inspection import compile_for

EVERY_DAY = {"mbarrier_ring", "tma_store", "st_async", "wgmma_fp8", "gemm_warp_specialized"}
FILES = {case.file: case for case in CASES}


def test_every_file_has_a_case_and_names_are_unique():
    assert sorted(FILES) == sorted(path.stem for path in FOLDER.glob("*.cu"))
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("file", [pytest.param(name, marks=slow_unless(name in EVERY_DAY)) for name in FILES])
def test_kernels_compile_without_warnings_and_spills(file):
    source = FILES[file].source
    if "cooperative_groups.h" in source:
        pytest.skip("needs CCCL's headers")
    for kernel in sorted({name for case in CASES if case.file == file for name in case.kernels}):
        resources = compile_for(source, kernel, "sm_90a")
        assert resources.warnings == (), kernel
        assert resources.spill_store_bytes == resources.spill_load_bytes == resources.stack_bytes == 0, kernel
        assert "Potential Performance Loss" not in resources.log  # wgmma serialised, or setmaxnreg ignored
