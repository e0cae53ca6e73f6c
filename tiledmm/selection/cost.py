"""How long a kernel takes for a product: a model of a GPU, by what was measured on it or on another.

Rates come from a table (``rates``). For a GPU that is not the table's, each is scaled by both data sheets: a kernel's
by the unit that multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledmm.elements import compute_element
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import VECTOR_BYTES, Config
from tiledmm.kernels.launches import split_k_partitions, tiles, tiles_of_c
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.selection.rates import KernelRates, Rates


@dataclass(frozen=True, slots=True)
class Terms:
    """What a kernel's time for a product consists of, whatever its rates. Times in microseconds on this GPU.

    Attributes:
        blocks: Blocks of the busiest SM.
        flops: FLOP of a step of k by a block on every SM.
        steps: Steps of k, whole tiles of them.
        access: How wide accesses to operands are: see ``Operands.access``.
        sizes, layout: Bytes of A and B, and their layouts: N K-major, T MN-major, G neither.
        aligned: Whether rows begin at cache lines, of A and of B.
        writing: Time of writing C, or partial sums of it.
        aligned_c: Whether rows of C are aligned to 16 bytes.
        cache: Time of reading A and B as often as blocks do, from L2.
        before, after: Times of the launch and of those before it, and of the split-K reduction.
        host: Host time of launches, the least that a loop of calls takes; such kernels keep their order.
    """

    blocks: int
    flops: float
    steps: int
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

    def rounds(self, residents: Sequence[float]) -> float:
        """Blocks that the busiest SM computes one after the other, if each has the full rate of an SM."""
        full, rest = divmod(self.blocks, len(residents) + 1)
        return full * (len(residents) + 1) + (rest / residents[rest - 1] if rest else 0)


def together(overlap: float, *times: float) -> float:
    """The time of what overlaps: the norm of the times, of this order."""
    longest = max(times)
    if overlap == math.inf or not longest:
        return longest
    return longest * math.pow(math.fsum((time / longest) ** overlap for time in times), 1 / overlap)


class Cost:
    """The cost model of a GPU.

    Args:
        gpu: Its data sheet.
        rates: A table, its own or another GPU's.
    """

    def __init__(self, gpu: Gpu, rates: Rates) -> None:
        self.gpu, self.device = gpu, rates.device
        measured = rates.gpu
        self._times = DeviceTimes(rates.device, gpu.bandwidth / measured.bandwidth, gpu.sms)
        # Ratio to the L2 bandwidth of the measured GPU.
        self._l2 = gpu.sms * gpu.clock / (measured.sms * measured.clock)
        # A kernel's FLOP/s here, and, where they are scaled, the most that there can be.
        self._flops: dict[KernelRates, tuple[float, float]] = {}
        for row in rates.rows:
            here, there = row_flops(row, gpu), row_flops(row, measured)
            flops = row.tflops * 1e12
            if here == there:
                self._flops[row] = flops, math.inf
            else:  # what the unit that multiplies does not explain of the time is the SM's
                others = max(1 / flops - 1 / there, 0.0) / self._l2
                self._flops[row] = 1 / (1 / here + others) if here else 0.0, here

    @property
    def launch(self) -> float:
        """Microseconds of a launch."""
        return self.device.launch

    def microseconds(
        self, row: KernelRates, config: Config, product: Product, packs: tuple[str, ...], split: int
    ) -> float:
        """The time of a product: of the busiest SM, memory and L2, which overlap, and of the launches.

        Args:
            row, config: The kernel.
            product: The product.
            packs: The fields of ``LaunchConfig`` that pack operands.
            split: Most split-K partitions.
        """
        terms = self.terms(row.variant, config, product, packs, split)
        time = self._on_device(row, terms)
        return max(time, terms.host + time / 100) + terms.after

    def on_device(
        self, row: KernelRates, config: Config, product: Product, packs: tuple[str, ...], split: int
    ) -> float:
        """The time on the device alone. Arguments are those of ``microseconds``."""
        terms = self.terms(row.variant, config, product, packs, split)
        return self._on_device(row, terms) + terms.after

    def _on_device(self, row: KernelRates, terms: Terms) -> float:
        """The time up to the kernel's end, without a split-K reduction."""
        rate, most = self._flops[row]
        part = self._rate_of(row, terms.access)
        if not rate * part:
            return math.inf
        if terms.layout[1] == "N":
            rate *= row.transposed_b
        steps = terms.steps / part + row.overhead_k
        multiplying = terms.rounds(row.residents) * terms.flops * steps / min(rate, most) * 1e6
        speed = {"N": row.k_major, "T": row.mn_major, "G": min(row.mn_major, row.k_major)}
        reading = (
            self._times.moving(size, speed[letter]) for size, letter in zip(terms.sizes, terms.layout, strict=True)
        )
        writing = terms.writing / row.writing / (1.0 if terms.aligned_c else row.writing_unaligned or 1.0)
        return terms.before + together(row.overlap, multiplying, sum(reading) + writing, terms.cache)

    def _rate_of(self, row: KernelRates, access: str) -> float:
        """The fraction of its rate that a kernel reaches with an ``access``."""
        if access == "chunks":
            return 1.0
        variant = find_variant(row.variant)
        measured = row.words if access == "words" else row.elements
        if variant.tensor_cores or (measured and variant.reads_unaligned):
            return measured
        return self.device.single_elements

    def terms(self, variant_name: str, config: Config, product: Product, packs: tuple[str, ...], split: int) -> Terms:
        """What a kernel's time consists of. Arguments are those of ``microseconds``."""
        problem, compute, variant = product.problem, product.compute, find_variant(variant_name)
        device, moving = self.device, self._times.moving
        launched = config.changed(dict.fromkeys(packs, 1)) if packs else config
        operands = variant.operands.packed_by(launched.launch).cost(variant, launched, product, self._times)
        (a_bytes, b_bytes), c_bytes = operands.sizes, problem.m * problem.n * problem.products * compute.result.itemsize
        partitions, steps = split_k_partitions(split, operands.k, config.bk)
        blocks = tiles(tiles_of_c(config, problem) * problem.products * partitions, config.tiles_per_block)
        writing = moving(c_bytes if operands.writing is None else operands.writing, device.memory)
        asked = (a_bytes * tiles(problem.n, config.bn), b_bytes * tiles(problem.m, config.bm))
        by_tma = variant.hopper.tma
        whole, part = (device.l2_tma, device.l2_tma_unaligned) if by_tma else (device.l2, device.l2_unaligned)
        reading = sum(
            size * operands.reads / (whole if aligned else part)
            for size, aligned in zip(asked, operands.aligned, strict=True)
        )
        half = 0.5 if config.triangle else 1.0
        after = operands.after
        if partitions > 1:
            after = device.reduction_launch + partitions / 32 * device.reduction_partitions
            after += moving(c_bytes * (partitions + 1), device.reduction)
        return Terms(
            blocks=tiles(operands.planes * blocks, self.gpu.sms // config.cluster),
            flops=2 * config.bm * config.bn * config.tiles_per_block / config.cluster * self.gpu.sms / operands.planes,
            steps=tiles(steps, config.bk) * config.bk,
            access=variant.operands.access(variant, packs, product),
            sizes=operands.sizes,
            layout=operands.layout,
            aligned=operands.aligned,
            writing=writing + moving(c_bytes * (partitions - 1), device.memory),
            aligned_c=max(problem.strides[4:]) * compute.result.itemsize % VECTOR_BYTES == 0,
            cache=half * reading / self._l2 / 1e6,
            before=operands.before + device.launch,
            host=operands.host,
            after=after,
        )


def row_flops(row: KernelRates, gpu: Gpu) -> float:
    """Return the peak of the unit of a table's row, by the instructions that its kernel has."""
    variant = find_variant(row.variant)
    return variant.unit_flops(compute_element(row.type), gpu, by_mma=not variant.hopper.warpgroup)
