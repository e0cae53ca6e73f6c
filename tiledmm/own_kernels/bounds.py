"""A bound on the speed of a product by a kernel, from its counts at small sizes, and the nearest rung of the ladder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.own_kernels.accesses import LINE_BYTES, Access
from tiledmm.own_kernels.trial import Trial

# Sizes of the product that bounds and rungs are compared at.
_LARGE = 4096


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on the speed of a product on a GPU, from a model and the data sheet; not a measurement.

    Attributes:
        gpu: Name of the GPU.
        flops: Bound in FLOP/s.
        limited_by: ``"multiply-adds"``, ``"memory"`` or ``"on-chip loads"``.
        wavefronts: Wavefronts of all loads per multiply-add of a warp.
        intensity: FLOP per byte that the kernel requests from global memory, at the simulated sizes.
        rung: The variant of the ladder whose figures are nearest.
        next_rung: The next variant that needs fewer wavefronts; empty if there is none.
        next_flops: That variant's bound in FLOP/s.
    """

    gpu: str
    flops: float
    limited_by: str
    wavefronts: float
    intensity: float
    rung: str
    next_rung: str
    next_flops: float


def bound_of(trial: Trial, accesses: Sequence[Access], itemsizes: tuple[int, int, int], target: str) -> Bound | None:
    """Return a bound on the speed of a product of 4096 x 4096 x 4096 by a kernel, from what it did at small sizes.

    Args:
        trial: A launch of the kernel.
        accesses: The accesses of that launch.
        itemsizes: Bytes of an element of A, B and C.
        target: Target architecture.
    """
    gpu = REFERENCE_GPUS.get(target.removesuffix("a"))
    traffic = trial.report.source
    if gpu is None or not trial.sizes or traffic.copy_load.requests:
        return None
    m, n, k = (trial.sizes[each] for each in "MNK")
    loads = sum(each.requests * each.wavefronts for each in accesses if each.kind == "load")
    wavefronts = loads / (m * n * k / WARP_SIZE)
    requested = traffic.global_load.bytes + traffic.global_store.bytes
    if not wavefronts or not requested:
        return None
    limits = _limits(gpu, itemsizes, wavefronts)
    limited_by = min(limits, key=lambda each: limits[each])
    intensity = 2 * m * n * k / requested
    rungs = _rungs(gpu)
    names = list(rungs)
    nearest = min(
        names,
        key=lambda name: abs(math.log(rungs[name][0] / wavefronts)) + abs(math.log(rungs[name][1] / intensity)) / 2,
    )
    better = [name for name in names[names.index(nearest) + 1 :] if rungs[name][2] > 1.2 * limits[limited_by]]
    return Bound(
        gpu.name, limits[limited_by], limited_by, wavefronts, intensity, nearest, better[0] if better else "",
        rungs[better[0]][2] if better else 0.0,
    )  # fmt: skip


def _limits(gpu: Gpu, itemsizes: tuple[int, int, int], wavefronts: float) -> Mapping[str, float]:
    a, b, c = itemsizes
    kind = {2: "float16", 4: "float32", 8: "float64"}.get(a, "float32")
    compulsory = _LARGE * _LARGE * (a + b + c)
    return {
        "multiply-adds": gpu.peak_flops(kind),
        "memory": 2 * _LARGE**3 / compulsory * gpu.bandwidth,
        "on-chip loads": gpu.load_bandwidth / LINE_BYTES / wavefronts * 2 * WARP_SIZE,
    }


def _rungs(gpu: Gpu) -> dict[str, tuple[float, float, float]]:
    """Return the wavefronts, the intensity and the bound of each variant that multiplies any matrices by CUDA cores."""
    from tiledmm.kernels.variants import kernel_spec, kernel_variants
    from tiledmm.report.roofline import roofline

    found: dict[str, tuple[float, float, float]] = {}
    for row in kernel_variants():
        if row.user is None and not row.tensor_cores and not row.is_for_few_shapes:
            limits = roofline(kernel_spec(row.name), gpu, _LARGE, _LARGE, _LARGE)
            found[row.name] = limits.wavefronts, limits.intensity, limits.bound
    return found
