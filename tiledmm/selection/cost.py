"""How long a kernel takes for a product: a model of a GPU, by what was measured on it or on another.

Rates come from a table (``rates``). For a GPU that is not the table's, each is scaled by both data sheets: a kernel's
by the unit that multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledmm.elements import PACKED_ELEMENTS, Element
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.config import VECTOR_BYTES, Config
from tiledmm.kernels.residues import residue_planes
from tiledmm.kernels.split_variants import decompose_mn_major
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import TRANSPOSED
from tiledmm.schedule.launches import split_k_partitions, tiles, tiles_of_c
from tiledmm.selection.operand_reads import access, aligned_in_place, footprint, reads_in_place
from tiledmm.selection.rates import KernelRates, Rates
from tiledmm.selection.units import pairs_of_bytes, row_flops


@dataclass(frozen=True, slots=True)
class _Operands:
    """The operands as a kernel reads them.

    Attributes:
        sizes: Bytes of A and of B.
        layout: A letter each: N K-major, T MN-major, G neither.
        aligned: Whether rows begin at cache lines, of A and of B.
        k: Elements along k, packed ones where they are packed.
        microseconds: Time of packing or decomposition, launches included.
    """

    sizes: tuple[float, float]
    layout: str
    aligned: tuple[bool, bool]
    k: int
    microseconds: float


@dataclass(frozen=True, slots=True)
class Terms:
    """What a kernel's time for a product consists of, whatever its rates. Times in microseconds on this GPU.

    Attributes:
        blocks: Blocks of the busiest SM.
        flops: FLOP of a step of k by a block on every SM.
        steps: Steps of k, whole tiles of them.
        access: How operands are read: see ``access``.
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
        # Ratios to the measured GPU: of memory and L2 bandwidth.
        self._memory = gpu.bandwidth / measured.bandwidth
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

    def _operands(self, variant: Variant, config: Config, product: Product, packs: tuple[str, ...]) -> _Operands:
        """The operands of a kernel, packed or decomposed."""
        problem, compute = product.problem, product.compute
        a, b = (footprint(problem, operand) * each.itemsize for operand, each in enumerate((product.a, product.b)))
        layout = problem.layout[0] + problem.layout[1].translate(TRANSPOSED)
        if "pack_elements" in packs:
            packed_k = tiles(problem.k, PACKED_ELEMENTS[compute.multiplied].per_packed)
            packing = sum(self._packing_elements(*each, compute) for each in zip((a, b), layout, strict=True))
            part = 4 * packed_k / max(problem.k * compute.itemsize, 1)
            return _Operands((a * part, b * part), "TT", (True, True), packed_k, packing)
        if packs:
            packed = a * ("pack_a" in packs) + b * ("pack_b" in packs)
            packed_b = variant.packed_b(compute).translate(TRANSPOSED)
            layout = ("N" if "pack_a" in packs else layout[0]) + (packed_b if "pack_b" in packs else layout[1])
            left, right = aligned_in_place(product)
            aligned = left or "pack_a" in packs, right or "pack_b" in packs
            time = self.device.packing_launch + (len(packs) - 1) * self.device.packing_second
            time += self._moving(2 * packed, self.device.packing)
            return _Operands((a, b), layout, aligned, problem.k, time)
        if variant.decomposes_to_residues:
            planes = residue_planes(config.moduli, compute.parts)
            residues = tuple(planes * footprint(problem, operand) * 1.0 for operand in (0, 1))
            time = self._decomposing_to_residues(sum(residues[:1]) + a, layout[0])
            time += self._decomposing_to_residues(sum(residues[1:]) + b, layout[1]) + self.device.residue_launches
            return _Operands((residues[0], residues[1]), "NN", (True, True), problem.k, time)
        if variant.decomposes_to_bytes:
            rate = self.device.decomposing_bytes[str(compute.itemsize)]
            time = 2 * self.device.launch + self._moving(2 * (a + b), rate)
            return _Operands((a, b), layout, (True, True), problem.k, time)
        if variant.decomposes:
            time = sum(self._decomposing(product, operand, layout[operand], config.scheme) for operand in (0, 1))
            time += self.device.decomposing_launches
            return _Operands((a, b * compute.parts), layout, (True, True), problem.k, time)
        return _Operands((a, b), layout, aligned_in_place(product), problem.k, 0.0)

    def _decomposing_to_residues(self, size: float, letter: str) -> float:
        """Microseconds of decomposing an operand into residues: so many bytes are read and written."""
        rate = self.device.decomposing_residues.get(letter, 0.0)
        return self._moving(size, rate) if rate else math.inf

    def _packing_elements(self, size: float, letter: str, compute: Element) -> float:
        """Microseconds of packing the elements of an operand."""
        device = self.device
        if compute.multiplied != "bool":
            return device.launch + self._moving(size, device.packing_elements)
        time = self._moving(size, device.packing_bits[letter])
        return device.launch + max(time, device.packing_bits_least[letter])

    def _decomposing(self, product: Product, operand: int, letter: str, scheme: str) -> float:
        """Microseconds of decomposing A (0) or B (1); complex elements of B become 2 x 2 real ones."""
        problem, compute = product.problem, product.compute
        size = footprint(problem, operand) * (product.a, product.b)[operand].itemsize
        parts = compute.parts if operand else 1
        time = self._moving((1 + parts) * size, self.device.decomposing[letter])
        if letter != "T":
            return time
        rows = max(footprint(problem, operand) // problem.k, 1)
        blocks = tiles(rows, decompose_mn_major(compute, scheme, parts).bm)
        return self.device.decomposing_mn_major + time / min(1.0, 2 * blocks / self.gpu.sms)

    def _moving(self, size: float, rate: float) -> float:
        """Microseconds of moving ``size`` bytes, at a rate in terabytes a second of the GPU that was measured."""
        return size / rate / self._memory / 1e6

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
        reading = (self._moving(size, speed[letter]) for size, letter in zip(terms.sizes, terms.layout, strict=True))
        writing = terms.writing / row.writing / (1.0 if terms.aligned_c else row.writing_unaligned or 1.0)
        return terms.before + together(row.overlap, multiplying, sum(reading) + writing, terms.cache)

    def _rate_of(self, row: KernelRates, access: str) -> float:
        """The fraction of its rate that a kernel reaches with an ``access``."""
        if access == "chunks":
            return 1.0
        variant = find_variant(row.variant)
        measured = row.words if access == "words" else row.elements
        if variant.tensor_cores or (measured and reads_in_place(variant)):
            return measured
        return self.device.single_elements

    def terms(self, variant_name: str, config: Config, product: Product, packs: tuple[str, ...], split: int) -> Terms:
        """What a kernel's time consists of. Arguments are those of ``microseconds``."""
        problem, compute, variant = product.problem, product.compute, find_variant(variant_name)
        device = self.device
        operands = self._operands(variant, config, product, packs)
        (a_bytes, b_bytes), c_bytes = operands.sizes, problem.m * problem.n * problem.products * compute.result.itemsize
        partitions, steps = split_k_partitions(split, operands.k, config.bk)
        blocks = tiles(tiles_of_c(config, problem) * problem.products * partitions, config.tiles_per_block)
        writing = self._moving(c_bytes, device.memory)
        asked = [a_bytes * tiles(problem.n, config.bn), b_bytes * tiles(problem.m, config.bm)]
        if variant.decomposes_to_bytes:  # each byte is read for every one that it is multiplied by
            asked = [size * pairs_of_bytes(compute) / compute.itemsize for size in asked]
        whole, part = (device.l2_tma, device.l2_tma_unaligned) if variant.tma else (device.l2, device.l2_unaligned)
        reading = sum(
            size / (whole if aligned else part) for size, aligned in zip(asked, operands.aligned, strict=True)
        )
        half = 0.5 if config.triangle else 1.0
        after, planes = 0.0, 1
        if variant.decomposes_to_residues:
            planes = residue_planes(config.moduli, compute.parts)
            written = planes * c_bytes / compute.itemsize
            rate = device.reconstructing
            after = self._moving(written, rate) + writing * device.memory / rate if rate else math.inf
            writing = self._moving(written, device.memory)
        if partitions > 1:
            after = device.reduction_launch + partitions / 32 * device.reduction_partitions
            after += self._moving(c_bytes * (partitions + 1), device.reduction)
        return Terms(
            blocks=tiles(planes * blocks, self.gpu.sms // config.cluster),
            flops=2 * config.bm * config.bn * config.tiles_per_block / config.cluster * self.gpu.sms / planes,
            steps=tiles(steps, config.bk) * config.bk,
            access=access(variant, packs, product),
            sizes=operands.sizes,
            layout=operands.layout,
            aligned=operands.aligned,
            writing=writing + self._moving(c_bytes * (partitions - 1), device.memory),
            aligned_c=max(problem.strides[4:]) * compute.result.itemsize % VECTOR_BYTES == 0,
            cache=half * reading / self._l2 / 1e6,
            before=operands.microseconds + device.launch,
            host=device.decomposing_call if variant.emulates else 0.0,
            after=after,
        )
