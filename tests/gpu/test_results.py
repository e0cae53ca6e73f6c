"""Results of this GPU that documents show: they are of the kernels as they are now."""

from __future__ import annotations

from benchmarks.measure import gpu_of, to_measure
from tiledmm import devices


def test_results_are_measured_again_where_kernels_have_changed() -> None:
    gpu = devices.device_model().gpu.name
    stale = [run for run in to_measure() if gpu_of(run) in (gpu, None)]
    assert not stale, "python -m benchmarks.measure measures these again"
