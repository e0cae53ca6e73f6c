"""The bound of a kernel's speed by its simulated counts: the roofline model for kernels that are in no table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.banks import SECTOR_BYTES
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.variants import general_variants, kernel_spec
from tiledmm.report.inner_loops import WAVEFRONT_BYTES
from tiledmm.report.roofline import roofline
from tiledmm.simulator.report.report import Report
from tiledmm.simulator.report.traffic import AccessCounts, GlobalTraffic, Traffic

# Sectors over ideal sectors from which on each sector is taken to be in a line of its own.
_SCATTERED = 2.0

# The size at which rungs of the ladder are compared: that of its tables.
_SIZE = 4096


@dataclass(frozen=True, slots=True)
class CountedBound:
    """Bound of a kernel's speed by its counts.

    Attributes:
        gpu: GPU, with the rates of its data sheet.
        flops: Operations of the kernel, two for each multiply-add.
        wavefronts: Wavefronts in which shared memory and L1 serve the kernel's loads.
        peak: Peak of the units that multiply, in FLOP/s.
    """

    gpu: Gpu
    flops: float
    wavefronts: float
    peak: float

    @classmethod
    def of(cls, report: Report, gpu: Gpu, dtype: str, multiply_adds: int | None) -> CountedBound:
        """Return the bound of a kernel that the simulator has run.

        Args:
            report: The simulator's report.
            gpu: GPU, with the rates of its data sheet.
            dtype: Type in which the kernel multiplies.
            multiply_adds: Number of multiply-adds; None for half of the operations that were counted.
        """
        flops = float(report.flops if multiply_adds is None else 2 * multiply_adds)
        served = sum(loads(traffic_of(each)) for each in report.accesses)
        return cls(gpu, flops, served, gpu.peak_flops(dtype))

    @property
    def rate(self) -> float:
        """Bound of the speed in FLOP/s; 0 if no operations are known."""
        if not self.flops:
            return 0.0
        return min(self.peak, self.flops / self.wavefronts * self._served if self.wavefronts else math.inf)

    @property
    def per_multiply_add(self) -> float:
        """Wavefronts per multiply-add of a warp; 0 if no operations are known."""
        return self.wavefronts / (self.flops / 2 / WARP_SIZE) if self.flops else 0.0

    @property
    def _served(self) -> float:
        """Wavefronts that shared memory and L1 serve per second, on all SMs."""
        return self.gpu.load_bandwidth / WAVEFRONT_BYTES

    def without(self, wavefronts: float) -> CountedBound:
        """Return the bound of the same kernel with fewer wavefronts.

        Args:
            wavefronts: Wavefronts that are saved.
        """
        return replace(self, wavefronts=self.wavefronts - wavefronts)


def traffic_of(access: AccessCounts) -> Traffic:
    """Return the traffic of an access, as in the machine code if that was counted."""
    return access.sass if access.sass is not None else access.source


def loads(traffic: Traffic) -> float:
    """Return the wavefronts in which shared memory and L1 serve the loads of some traffic."""
    return l1_wavefronts(traffic.global_load) + traffic.shared_load.wavefronts


def l1_wavefronts(traffic: GlobalTraffic) -> float:
    """Return the wavefronts in which L1 serves accesses: one per 128-byte line, at best.

    Lines are not counted. Contiguous sectors are taken to be four in a line, scattered ones to be alone.
    """
    if traffic.ideal_sectors and traffic.sectors >= _SCATTERED * traffic.ideal_sectors:
        return float(traffic.sectors)
    return max(float(traffic.requests), traffic.sectors * SECTOR_BYTES / WAVEFRONT_BYTES)


def coalesced(traffic: GlobalTraffic) -> float:
    """Return the wavefronts of the same requests if the bytes of their lanes were contiguous."""
    return max(float(traffic.requests), traffic.ideal_sectors * SECTOR_BYTES / WAVEFRONT_BYTES)


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung of the ladder, with the bound of its speed.

    Attributes:
        variant: Name of the variant.
        tile: Its tile; None if it has no choice.
        rate: Bound of its speed in FLOP/s.
        wavefronts: Wavefronts of loads per multiply-add of a warp.
        reuse: Mean number of multiply-adds that use an element requested from global memory.
    """

    variant: str
    tile: int | None
    rate: float
    wavefronts: float
    reuse: float


def rungs(gpu: Gpu, dtype: str) -> list[Rung]:
    """Return the rungs of the ladder on CUDA cores, with each of their tiles, in order.

    Args:
        gpu: GPU, with the rates of its data sheet.
        dtype: Type in which they multiply.
    """
    rows = [row for row in general_variants() if not (row.is_baseline or row.is_for_few_shapes)]
    return [rung(row.name, gpu, dtype, tile) for row in rows for tile in row.tiles or (None,)]


def rung(variant: str, gpu: Gpu, dtype: str, tile: int | None = None) -> Rung:
    """Return a rung of the ladder with the bound of its speed.

    Args:
        variant: Name of the variant.
        gpu: GPU, with the rates of its data sheet.
        dtype: Type in which it multiplies.
        tile: Its tile; None for the default.
    """
    bounds = roofline(kernel_spec(variant, tile=tile, dtype=dtype), gpu, _SIZE, _SIZE, _SIZE)
    return Rung(variant, tile, bounds.bound, bounds.wavefronts, bounds.reuse)


def nearest(candidates: Iterable[Rung], wavefronts: float, reuse: float) -> Rung:
    """Return the rung that is closest to a kernel by its wavefronts per multiply-add and its reuse of elements.

    Args:
        candidates: The rungs.
        wavefronts: Wavefronts of the kernel's loads per multiply-add of a warp.
        reuse: Mean number of multiply-adds that use an element that the kernel loads from global memory.
    """

    def distance(rung: Rung) -> float:
        ratios = (rung.wavefronts / max(wavefronts, 1e-3), rung.reuse / max(reuse, 1e-3))
        return sum(abs(math.log2(ratio)) for ratio in ratios)

    return min(candidates, key=distance)
