"""Cost model: the time that a kernel takes for a product on a GPU, from rates measured on that GPU or on another.

The rates are those of a table (``rates``). If the table is another GPU's, each rate is scaled by the data sheets of
both GPUs. A kernel's rate is scaled by the peak rates of the units that multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiledmm.elements import Element, compute_element
from tiledmm.hardware.banks import SECTOR_BYTES
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import VECTOR_BYTES, Config
from tiledmm.kernels.launches import split_k_partitions, tiles, tiles_of_c
from tiledmm.kernels.tensor_cores import loaded_columns
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.selection.rates import KernelRates, Rates


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a kernel's time for a product that do not depend on the kernel's own rates. Times are in microseconds.

    Attributes:
        blocks: Number of blocks, or of clusters of blocks.
        slots: Number of SMs, or of clusters that are resident at the same time.
        flops: FLOP per step of k if every SM computes one block.
        steps: Number of steps of k per block, rounded up to whole tiles. If the kernel computes only the columns that
            C has, a fraction of it.
        access: Width of accesses to the operands (see ``Operands.access``).
        sizes: Bytes of A and of B as the kernel reads them.
        layout: One letter per operand, A then B: N for K-major, T for MN-major, G for neither.
        aligned: Whether rows of A, and those of B, begin at cache lines.
        writing: Time of writing C, or its partial sums.
        aligned_c: Whether rows of C are aligned to 16 bytes.
        cache: Time of reading A and B from L2, once for every block that uses them.
        before: Time of the launch itself and of those before it.
        after: Time of the launches after the kernel, such as the split-K reduction.
        host: Time that the host needs for all launches. In a loop, no call takes less.
        above_diagonal: Time that a block needs to write its tile above the diagonal of a symmetric C, too.
    """

    blocks: int
    slots: int
    flops: float
    steps: float
    access: str
    sizes: tuple[float, float]
    layout: str
    aligned: tuple[bool, bool]
    writing: float
    aligned_c: bool
    cache: float
    before: float
    after: float
    host: float
    above_diagonal: float

    def phases(self, residents: Sequence[float]) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return two phases of a kernel: first all SMs are full, then some have the blocks that are left over.

        The SMs that still compute then wait less for memory, but the others do nothing.

        Args:
            residents: Fractions of the full rate with 1, 2, ... resident blocks per SM. With one more block than
                there are fractions, the rate is full.

        Returns:
            For each phase, how long the busiest SM computes, in multiples of the time of one block at the SM's full
            rate, and the phase's share of all blocks.
        """
        most = len(residents) + 1
        rounds = self.blocks // (self.slots * most)
        left = self.blocks - rounds * self.slots * most
        rest = tiles(left, self.slots)
        share = left / max(self.blocks, 1)
        return (rounds * most, 1 - share), (rest / (*residents, 1.0)[rest - 1] if rest else 0.0, share)


def together(overlap: float, *times: float) -> float:
    """Return the time of operations that overlap, as the norm of order ``overlap`` of their times.

    With order 1 nothing overlaps and the times add up. With order infinity only the longest time counts.
    """
    longest = max(times)
    if overlap == math.inf or not longest:
        return longest
    return longest * math.pow(math.fsum((time / longest) ** overlap for time in times), 1 / overlap)


class Cost:
    """Cost model of a GPU.

    Args:
        gpu: Data sheet of the GPU.
        rates: Table of rates, measured on this GPU or on another.
    """

    def __init__(self, gpu: Gpu, rates: Rates) -> None:
        self.gpu, self.device = gpu, rates.device
        measured = rates.gpu
        self._times = DeviceTimes(rates.device, gpu.bandwidth / measured.bandwidth, gpu.sms)
        # L2 bandwidth of this GPU as a multiple of the measured GPU's.
        self._l2 = gpu.sms * gpu.clock / (measured.sms * measured.clock)
        # FLOP/s of each kernel on this GPU and, if they are scaled, the peak of the unit that multiplies.
        self._flops: dict[KernelRates, tuple[float, float]] = {}
        for row in rates.rows:
            here, there = row_flops(row, gpu), row_flops(row, measured)
            flops = row.tflops * 1e12
            if here == there:
                self._flops[row] = flops, math.inf
            else:  # the time that the unit that multiplies does not explain scales with the SMs
                others = max(1 / flops - 1 / there, 0.0) / self._l2
                self._flops[row] = 1 / (1 / here + others) if here else 0.0, here

    @property
    def launch_time(self) -> float:
        """Time of one launch, in microseconds."""
        return self.device.launch

    def microseconds(
        self, row: KernelRates, config: Config, product: Product, packs: tuple[str, ...], split: int
    ) -> float:
        """Return the expected time of a product in microseconds.

        The times of the busiest SM, of memory and of L2 overlap, but the last round of blocks, which does not fill all
        SMs, overlaps only with its own share of both. The times of the launches are added. In a loop, calls
        take at least as long as the host needs for the launches. A hundredth of the device's time is added to that,
        so that kernels which the host limits are still ranked by their speed.

        Args:
            row: The kernel's row of the table of rates.
            config: The kernel's config.
            product: The product.
            packs: The fields of ``LaunchConfig`` that pack operands.
            split: Maximum number of split-K partitions.
        """
        terms = self.terms(row.variant, config, product, packs, split)
        time = self._on_device(row, terms)
        return max(time, terms.host + time / 100) + terms.after

    def on_device(
        self, row: KernelRates, config: Config, product: Product, packs: tuple[str, ...], split: int
    ) -> float:
        """Return the expected time of a product on the device in microseconds, without the time that the host needs.

        The arguments are those of ``microseconds``.
        """
        terms = self.terms(row.variant, config, product, packs, split)
        return self._on_device(row, terms) + terms.after

    def _on_device(self, row: KernelRates, terms: Terms) -> float:
        """Return the expected time from the launch of a product to the end of its kernel, in microseconds.

        Launches after the kernel, such as a split-K reduction, are not included.
        """
        rate, most = self._flops[row]
        fraction = self._rate_of(row, terms.access)
        if not rate * fraction:
            return math.inf
        if terms.layout[1] == "N":
            rate *= row.transposed_b
        steps = terms.steps / fraction + row.overhead_k
        of_block = terms.flops * steps / min(rate, most) * 1e6 + terms.above_diagonal
        speed = {"N": row.k_major, "T": row.mn_major, "G": min(row.mn_major, row.k_major)}
        reading = (
            self._times.moving(size, speed[letter]) for size, letter in zip(terms.sizes, terms.layout, strict=True)
        )
        writing = terms.writing / row.writing / (1.0 if terms.aligned_c else row.writing_unaligned or 1.0)
        moving = sum(reading) + writing
        return terms.before + sum(
            together(row.overlap, blocks * of_block, share * moving, share * terms.cache)
            for blocks, share in terms.phases(row.residents)
        )

    def _rate_of(self, row: KernelRates, access: str) -> float:
        """Return the fraction of its full rate that a kernel reaches with accesses to operands of a certain width.

        Args:
            row: The kernel's row of the table of rates.
            access: Width of the accesses: ``"chunks"``, ``"words"`` or ``"elements"`` (see ``Operands.access``).
        """
        if access == "chunks":
            return 1.0
        variant = find_variant(row.variant)
        measured = row.words if access == "words" else row.elements
        if variant.tensor_cores or (measured and variant.reads_unaligned):
            return measured
        return self.device.single_elements

    def terms(self, variant_name: str, config: Config, product: Product, packs: tuple[str, ...], split: int) -> Terms:
        """Return the terms of a kernel's time for a product that do not depend on the kernel's own rates.

        All arguments after ``variant_name`` are as for ``microseconds``.
        """
        problem, compute, variant = product.problem, product.compute, find_variant(variant_name)
        device, moving = self.device, self._times.moving
        launch = replace(config.launch, **dict.fromkeys(packs, 1)) if packs else config.launch
        operands = variant.operands.format_by(launch).cost(variant, config, launch, product, self._times)
        (a_bytes, b_bytes), c_bytes = operands.sizes, problem.m * problem.n * problem.products * compute.result.itemsize
        partitions, steps = split_k_partitions(max(split, config.cluster_k), operands.k, config.bk)
        config = variant.hopper.in_cluster(config, partitions, compute) if partitions > 1 else config
        reduced = max(partitions // config.cluster_k, 1)  # parts of K whose sums a reduction adds up
        blocks = tiles(tiles_of_c(config, problem) * problem.products * reduced, config.tiles_per_block)
        aligned_c = max(problem.strides[4:]) * compute.result.itemsize % VECTOR_BYTES == 0
        written: float = c_bytes if operands.writing is None else operands.writing
        if not (aligned_c or variant.reads.narrow):  # element by element, and no faster beyond C's edges
            whole = tiles(problem.m, config.bm) * config.bm * tiles(problem.n, config.bn) * config.bn
            written *= whole / max(problem.m * problem.n, 1)
        writing = moving(written, device.memory)
        asked = [a_bytes * tiles(problem.n, config.bn), b_bytes * tiles(problem.m, config.bm)]
        aligned, by_tma = operands.aligned, variant.hopper.tma
        if by_tma and operands.layout[1] == "T":  # a tile has whole slabs, which do not all begin at cache lines
            columns = loaded_columns(config, compute)
            asked[1] *= columns / config.bn
            aligned = aligned[0], aligned[1] and columns == config.bn
        full, unaligned = (device.l2_tma, device.l2_tma_unaligned) if by_tma else (device.l2, device.l2_unaligned)
        reading = sum(
            size * operands.reads / (full if whole else unaligned) for size, whole in zip(asked, aligned, strict=True)
        )
        if problem.strides[5] != 1 and not variant.tensor_cores:  # lanes write to different sectors
            reading += problem.m * problem.n * problem.products * SECTOR_BYTES / device.l2
        half = 0.5 if config.triangle else 1.0
        slots = self._times.resident_clusters(config.blocks_per_cluster)
        rounds = tiles(operands.planes * blocks, slots)
        mirrors = config.triangle and operands.writing is None  # else a later kernel does
        above = config.bm * config.bn / config.cluster / 1000 * device.above_diagonal if mirrors else 0.0
        # Fraction of a tile's columns that the kernel computes.
        computed = min(problem.n / config.bn, 1.0) if variant.reads.narrow else 1.0
        after = operands.after + (rounds * self._adding(config, compute) if config.cluster_k > 1 else 0.0)
        if reduced > 1:
            after += device.reduction_launch + partitions / 32 * device.reduction_partitions
            after += moving(c_bytes * (partitions + 1), device.reduction)
        return Terms(
            blocks=operands.planes * blocks,
            slots=slots,
            flops=2 * config.bm * config.bn * config.tiles_per_block / config.cluster * self.gpu.sms / operands.planes,
            steps=tiles(steps, config.bk) * config.bk * computed,
            access=variant.operands.access(variant, packs, product),
            sizes=operands.sizes,
            layout=operands.layout,
            aligned=aligned,
            writing=writing + moving(c_bytes * (reduced - 1), device.memory),
            aligned_c=aligned_c,
            cache=half * reading / self._l2 / 1e6,
            before=operands.before + device.launch,
            host=operands.host,
            after=after,
            above_diagonal=above,
        )

    def _adding(self, config: Config, compute: Element) -> float:
        """Return the time that the blocks of a cluster take to add up their sums of a tile, in microseconds.

        Args:
            config: Config of a kernel whose clusters share K.
            compute: Computation type.
        """
        size = config.bm * config.bn * compute.sum_bytes * self.gpu.sms
        rate = self.device.cluster_adding
        return self.device.cluster_sum + (size / rate / self._l2 / 1e6 if rate else 0.0)


def row_flops(row: KernelRates, gpu: Gpu) -> float:
    """Return the peak rate of the units by which a kernel multiplies, in FLOP/s, with the instructions that it uses.

    Args:
        row: The kernel's row of a table of rates.
        gpu: Data sheet of the GPU.
    """
    variant = find_variant(row.variant)
    return variant.unit_flops(compute_element(row.type), gpu, by_mma=not variant.hopper.warpgroup)
