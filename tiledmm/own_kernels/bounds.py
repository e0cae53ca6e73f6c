"""Bound on the speed of a product by a kernel, from its counts at small sizes, and the variant nearest to it."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.own_kernels.trial import Trial


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on the speed of a product on a GPU, from a model and the data sheet; not a measurement.

    Attributes:
        gpu: Name of the GPU.
        flops: Bound in FLOP/s.
        limited_by: ``"multiply-adds"`` or ``"on-chip loads"``.
        wavefronts: Wavefronts of all loads per multiply-add of a warp.
        rung: Name of the variant whose figures are nearest.
    """

    gpu: str
    flops: float
    limited_by: str
    wavefronts: float
    rung: str


def bound_of(trial: Trial, dtype: str, target: str) -> Bound | None:
    """Return the bound of a kernel from its counts at small sizes; None if these are unknown.

    Args:
        trial: A launch of the kernel.
        dtype: Type in which it multiplies.
        target: Target architecture.
    """
    from tiledmm.simulated.explanation.counted_bound import CountedBound
    from tiledmm.simulated.explanation.slow import nearest_rung

    gpu = REFERENCE_GPUS.get(target.removesuffix("a"))
    if gpu is None or not trial.sizes or trial.report.source.copy_load.requests:
        return None
    m, n, k = (trial.sizes[each] for each in "MNK")
    counted = CountedBound.of(trial.report, gpu, dtype, m * n * k)
    rung = nearest_rung(trial.report, gpu=gpu, dtype=dtype)
    if not counted.wavefronts or rung is None:
        return None
    limited_by = "multiply-adds" if counted.rate == counted.peak else "on-chip loads"
    return Bound(gpu.name, counted.rate, limited_by, counted.per_multiply_add, rung.variant)
