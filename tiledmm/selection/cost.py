"""How long a kernel takes for a product: a model of a GPU, from measurements on an H100.

Launch costs and memory rates are the constants below. ``candidates`` holds each kernel's rate with every SM full, the
fraction of it with fewer resident blocks, and the cost of a block's prologue and epilogue. For another GPU, rates are
scaled by its data sheet.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.elements import PACKED_ELEMENTS, Element
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.problem.operands import Product
from tiledmm.problem.strides import TRANSPOSED, Problem
from tiledmm.registry.config import Config
from tiledmm.registry.tensor_cores import decompose_mn_major
from tiledmm.registry.variant import Variant
from tiledmm.registry.variants import find_variant
from tiledmm.schedule.launches import partition_step, split_k_partitions, tiles, tiles_of_c
from tiledmm.selection.candidates import CANDIDATES, Candidate

#: The GPU of the measurements.
MEASURED_ON = REFERENCE_GPUS["sm_90"]

# Terabytes a second of an H100's memory, of its L2 cache, and of that for TMA loads.
_MEMORY, _L2, _L2_TMA = 2.75, 5.5, 11.0

# Microseconds of a launch, and of the split-K reduction besides its reads and writes.
LAUNCH, _REDUCTION_LAUNCH = 2.2, 3.3

# Terabytes a second, read and written, of packing; and the fraction of its rate of a kernel that loads B one element at
# a time.
_PACKING, _NARROW = 2.4, 0.93

# Terabytes a second, read, of packing narrow elements; and the least microseconds for an operand whose elements become
# bits, K-major (N), MN-major (T) or neither (G): a thread reads 32 elements, one after the other.
_PACKING_ELEMENTS, _PACKING_BITS = 0.7, {"N": 8.0, "T": 12.0, "G": 12.0}

# Microseconds of the other launches of a product of decomposed operands, two that decompose and one that returns at
# once; and the host time of all of them, the least that a loop of such calls takes.
_DECOMPOSING, _DECOMPOSING_CALL = 10.0, 30.0

# Terabytes a second, read and written, of decomposing an operand, by its layout. MN-major, a block decomposes rows from
# end to end: few blocks reach at most twice their SMs' share of the rate, and there is a prologue and epilogue.
_DECOMPOSING_RATE, _DECOMPOSING_MN_MAJOR = {"N": 2.6, "T": 1.95, "G": 2.0}, 4.0

# The same of decomposing into bytes.
_DECOMPOSING_BYTES = 2.0

# Terabytes a second of writes to a C whose rows are not contiguous.
_SCATTERED = 0.4

# Terabytes a second of the split-K reduction's reads, and microseconds for 32 partial sums of an element.
_REDUCTION, _PARTITIONS_IN_TURN = 4.0, 0.6


@dataclass(frozen=True, slots=True)
class _Operands:
    """The operands as a kernel reads them.

    Attributes:
        sizes: Bytes of A and of B.
        layout: A letter each: N K-major, T MN-major, G neither.
        k: Elements along k, packed ones where they are packed.
        microseconds: Time of packing or decomposition, launches included.
    """

    sizes: tuple[float, float]
    layout: str
    k: int
    microseconds: float


class Cost:
    """The cost model of a GPU.

    Args:
        gpu: Its data sheet.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        # Ratios to the H100: of memory and L2 bandwidth, of an SM's multiply-adds by type, and of tensor cores.
        self._memory = gpu.bandwidth / MEASURED_ON.bandwidth
        self._l2 = gpu.sms * gpu.clock / (MEASURED_ON.sms * MEASURED_ON.clock)
        self._speed = {
            kind: gpu.arch.multiply_adds(kind) * gpu.clock / (MEASURED_ON.arch.multiply_adds(kind) * MEASURED_ON.clock)
            for kind in {name for candidate in CANDIDATES for name in candidate.peak}
        }
        self._tensor_speed = gpu.arch.half_lanes * gpu.clock / (MEASURED_ON.arch.half_lanes * MEASURED_ON.clock)

    def _operands(self, variant: Variant, config: Config, product: Product, packs: tuple[str, ...]) -> _Operands:
        """The operands of a kernel, packed or decomposed."""
        problem, compute = product.problem, product.compute
        a, b = (footprint(problem, operand) * each.itemsize for operand, each in enumerate((product.a, product.b)))
        layout = problem.layout[0] + problem.layout[1].translate(TRANSPOSED)
        if "pack_elements" in packs:
            packed_k, packing = tiles(problem.k, PACKED_ELEMENTS[compute.dtype_name].per_packed), 0.0
            for size, letter in zip((a, b), layout, strict=True):
                least = _PACKING_BITS[letter] if compute.dtype_name == "bool" else 0.0
                packing += LAUNCH + max(self._moving(size, _PACKING_ELEMENTS), least)
            part = 4 * packed_k / max(problem.k * compute.itemsize, 1)
            return _Operands((a * part, b * part), "TT", packed_k, packing)
        if packs:
            packed = a * ("pack_a" in packs) + b * ("pack_b" in packs)
            packed_b = variant.packed_b(compute).translate(TRANSPOSED)
            layout = ("N" if "pack_a" in packs else layout[0]) + (packed_b if "pack_b" in packs else layout[1])
            return _Operands((a, b), layout, problem.k, len(packs) * LAUNCH + self._moving(2 * packed, _PACKING))
        if variant.decomposes_to_bytes:
            return _Operands((a, b), layout, problem.k, 2 * LAUNCH + self._moving(2 * (a + b), _DECOMPOSING_BYTES))
        if variant.decomposes:
            decomposing = sum(self._decomposing(product, operand, layout[operand], config.scheme) for operand in (0, 1))
            return _Operands((a, b * compute.parts), layout, problem.k, _DECOMPOSING + decomposing)
        return _Operands((a, b), layout, problem.k, 0.0)

    def _decomposing(self, product: Product, operand: int, letter: str, scheme: str) -> float:
        """Microseconds of decomposing A (0) or B (1); complex elements of B become 2 x 2 real ones."""
        problem, compute = product.problem, product.compute
        size = footprint(problem, operand) * (product.a, product.b)[operand].itemsize
        parts = compute.parts if operand else 1
        time = self._moving((1 + parts) * size, _DECOMPOSING_RATE[letter])
        if letter != "T":
            return time
        rows = max(footprint(problem, operand) // problem.k, 1)
        blocks = tiles(rows, decompose_mn_major(compute, scheme, parts).bm)
        return _DECOMPOSING_MN_MAJOR + time / min(1.0, 2 * blocks / self.gpu.sms)

    def _moving(self, size: float, rate: float) -> float:
        """Microseconds of moving ``size`` bytes, at an H100's rate in terabytes a second."""
        return size / rate / self._memory / 1e6

    def microseconds(
        self, candidate: Candidate, config: Config, product: Product, packs: tuple[str, ...], split: int
    ) -> float:
        """The time of a product: of the busiest SM, memory or L2, whichever is longest, and of the launches.

        Args:
            candidate, config: The kernel.
            product: The product.
            packs: The fields of ``LaunchConfig`` that pack operands.
            split: Most split-K partitions.
        """
        problem, compute, variant = product.problem, product.compute, find_variant(candidate.variant)
        operands = self._operands(variant, config, product, packs)
        like = "int32" if "pack_elements" in packs else rate_type(compute)
        rate = candidate.peak[like] * (self._tensor_speed if variant.decomposes else self._speed[like])
        if variant.global_reads == "vectors" and not packs and not has_wide_rows(problem, compute):
            rate *= _NARROW
        if operands.layout[1] == "N":
            rate *= candidate.transposed_b_rate
        (a_bytes, b_bytes), c_bytes = operands.sizes, problem.m * problem.n * problem.products * compute.itemsize
        partitions, steps = split_k_partitions(split, operands.k, partition_step(variant, config))
        blocks = tiles(tiles_of_c(config, problem) * problem.products * partitions, config.tiles_per_block)
        resident = candidate.rate_by_resident_blocks
        full, rest = divmod(tiles(blocks, self.gpu.sms // config.cluster), len(resident) + 1)
        rounds = full * (len(resident) + 1) + (rest / resident[rest - 1] if rest else 0)
        flops = 2 * config.bm * config.bn * (steps + candidate.overhead_k) * config.tiles_per_block
        working = rounds * flops / config.cluster * MEASURED_ON.sms / rate
        speed = {
            "N": candidate.bandwidth_k_major,
            "T": candidate.bandwidth_mn_major,
            "G": min(candidate.bandwidth_mn_major, candidate.bandwidth_k_major),
        }
        # wgmma's epilogue writes a transposed C of tf32 as fast.
        contiguous = problem.strides[5] == 1 or (variant.warpgroup and problem.strides[4] == 1)
        writing = _MEMORY if contiguous else _SCATTERED
        moving = a_bytes / speed[operands.layout[0]] + b_bytes / speed[operands.layout[1]] + c_bytes / writing
        moving += c_bytes * (partitions - 1) / _MEMORY
        asked = a_bytes * tiles(problem.n, config.bn) + b_bytes * tiles(problem.m, config.bm)
        half = 0.5 if config.triangle else 1.0
        cache = _L2_TMA if variant.tma else _L2
        time = operands.microseconds + LAUNCH
        time += max(working, moving / self._memory, half * asked / cache / self._l2) / 1e6
        if variant.decomposes:
            # Kernels that wait for the host keep their order.
            time = max(time, _DECOMPOSING_CALL + time / 100)
        if partitions > 1:
            time += _REDUCTION_LAUNCH + partitions / 32 * _PARTITIONS_IN_TURN
            time += self._moving(c_bytes * (partitions + 1), _REDUCTION)
        return time


def footprint(problem: Problem, operand: int) -> int:
    """Elements of A (0) or B (1), broadcast batches counted once."""
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    products = 1
    for dimension in (*problem.outer, *problem.batch):
        products *= dimension.size if (dimension.a, dimension.b)[operand] else 1
    return rows * cols * products


def rate_type(compute: Element) -> str:
    """The type in ``CANDIDATES`` whose kernels take as long."""
    if compute.dtype_name in ("float32", "tf32", "float64", "complex64", "complex128"):
        return compute.dtype_name
    return {1: "int8", 2: "float16", 4: "int32", 8: "int64"}[compute.itemsize]


def has_wide_rows(problem: Problem, compute: Element) -> bool:
    """Whether rows of B are aligned for 16-byte loads."""
    return problem.layout[1] == "N" and problem.strides[2] * compute.itemsize % 16 == 0
