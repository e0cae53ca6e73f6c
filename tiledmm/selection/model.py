"""How long kernels take for a product: a model of a GPU, from what was measured on an H100.

What a launch costs, and how fast memory answers, is in the numbers below. ``tiledmm/selection/candidates.py`` has for
each kernel its rate where every SM has as many blocks as it can hold, how much of that an SM reaches with fewer, and
what a block's beginning and end cost. On another GPU the rates are in proportion to its data sheet's.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tiledmm.elements import PACKED_ELEMENTS, Element
from tiledmm.hardware.architectures import REFERENCE_GPUS, Gpu
from tiledmm.problem.operands import Product
from tiledmm.problem.strides import TRANSPOSED, Problem
from tiledmm.registry.config import Config
from tiledmm.registry.tensor_cores import decompose_mn_major
from tiledmm.registry.variant import Variant
from tiledmm.registry.variants import find_variant
from tiledmm.schedule.launches import partition_step, split_k_partitions, tiles, tiles_of_c
from tiledmm.schedule.schedule import is_short
from tiledmm.schedule.tensor_maps import can_be_mapped, has_coordinates
from tiledmm.selection.candidates import CANDIDATES, Candidate
from tiledmm.selection.choice import Choice, specialization_of, transposed_if_preferred

# What was measured on.
_H100 = REFERENCE_GPUS["sm_90"]

# Terabytes a second of an H100's memory, of its L2 cache, and of that where the copy engine asks.
_MEMORY, _L2, _L2_TMA = 2.75, 5.5, 11.0

# Microseconds: of a launch, and of what the second kernel of a product in slices takes besides.
_LAUNCH, _SECOND_LAUNCH = 2.2, 3.3

# Terabytes a second, read and written, at which operands are packed; and of its rate, what a kernel reaches that copies
# B one element at a time.
_PACKING, _NARROW = 2.4, 0.93

# Terabytes a second, read, at which narrow elements are packed to words; and microseconds that an operand takes at
# least whose elements become bits, along k (N), across it (T), or neither (G): a thread reads 32, one after the other.
_PACKING_WORDS, _PACKING_BITS = 0.7, {"N": 8.0, "T": 12.0, "G": 12.0}

# Microseconds of the other launches of a product whose operands are split, two that split and one that does nothing;
# and that the host takes to send for all of them, which a loop of such calls takes at least.
_SPLITTING, _SPLITTING_CALL = 10.0, 30.0

# Terabytes a second, read and written, at which rows of A and columns of B are split, by how they lie. Across k a block
# splits its lines from end to end: with few blocks an SM has no more than twice its share of the rate, and there are
# microseconds before the first and after the last.
_SPLITTING_RATE, _ACROSS = {"N": 2.6, "T": 1.95, "G": 2.0}, 4.0

# The same of operands that are split into bytes.
_SPLITTING_BYTES = 2.0

# Terabytes a second at which C's columns are written where these are not neighbours.
_SCATTERED = 0.4

# Terabytes a second at which it reads the slices' sums, and microseconds for 32 of an element's.
_SUMMING, _SLICES_IN_TURN = 4.0, 0.6

# Rows up to which kernels for few rows are considered.
_SKINNY_ROWS = 64

# Rows and columns up to which kernels for batches of small products are, and elements that such a batch has at least.
_SMALL, _MANY = 32, 1 << 14

#: Slices of K that are considered. Few numbers: a kernel is the same for all.
SPLIT_K_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

# Microseconds that a product has to take for its C to be cut into parts, how many kernels that is considered for, and
# which part of the time has to be left at most.
_WORTH_CUTTING, _CUT_KERNELS, _LEFT_AFTER_CUTTING = 100.0, 3, 0.98

# Blocks an SM that slices may make of a product's, where there are not more without.
_MOST_BLOCKS = 16

# Bytes that the sums of slices may take, and the pieces of operands that are split.
_MOST_WORKSPACE, _MOST_PIECES = 1 << 27, 1 << 33


@dataclass(frozen=True, slots=True)
class _Operands:
    """What a kernel reads.

    Attributes:
        sizes: Bytes of A and of B.
        lies: Of each, whether neighbours in memory are successive k (N), rows of A or columns of B (T), or neither (G).
        k: Elements along k, or words.
        microseconds: Until it is there: of packing or splitting, launches included.
    """

    sizes: tuple[float, float]
    lies: str
    k: int
    microseconds: float


class Model:
    """What ``auto`` expects of kernels on a GPU.

    Args:
        gpu: Its data sheet.
        candidates: What it chooses from.
    """

    def __init__(self, gpu: Gpu = _H100, candidates: Sequence[Candidate] = CANDIDATES) -> None:
        self.gpu = gpu
        self.candidates = candidates
        # How many times as fast as an H100: its memory, its L2 cache, and an SM's multiply-adds by type.
        self._memory = gpu.bandwidth / _H100.bandwidth
        self._l2 = gpu.sms * gpu.clock / (_H100.sms * _H100.clock)
        self._speed = {
            kind: gpu.arch.multiply_adds(kind) * gpu.clock / (_H100.arch.multiply_adds(kind) * _H100.clock)
            for kind in {name for candidate in CANDIDATES for name in candidate.peak}
        }
        # Pieces are multiplied by tensor cores, whatever the type that they are of.
        self._speed_of_pieces = gpu.arch.half_lanes * gpu.clock / (_H100.arch.half_lanes * _H100.clock)
        self._fastest = functools.lru_cache(maxsize=256)(self._fastest_in_one)

    def takes(self, variant: str) -> bool:
        """Whether it chooses from kernels of a variant."""
        return any(each.variant == variant for each in self.candidates)

    def kernels_for(self, compute: Element) -> Iterator[Candidate]:
        """What it chooses from for a type."""
        for each in self.candidates:
            variant = find_variant(each.variant)
            own = variant.computes_in(compute)
            if variant.multiplies(own) and variant.runs_on(self.gpu.arch.capability, own):
                yield each

    def rank(self, product: Product) -> Iterator[Choice]:
        """Every kernel to consider for a product, each with the packing and the slices that suit it best.

        And the best of them once more, for a part of C that suits it better, with the fastest kernels for the other
        parts.
        """
        ranked = sorted(self._in_one(product), key=lambda pair: _time(pair[1]))
        yield from (choice for _, choice in ranked)
        problem = product.problem
        if not problem.outer and not problem.is_empty and _time(ranked[0][1]) > _WORTH_CUTTING:
            limit = _LEFT_AFTER_CUTTING * _time(ranked[0][1])
            for candidate, choice in ranked[:_CUT_KERNELS]:
                cuts = (self._in_several(candidate, choice.product, *cut, limit) for cut in self._cuts(choice))
                if found := [each for each in cuts if each]:
                    yield min(found, key=_time)

    def best(self, product: Product) -> Choice:
        """The kernel that is expected to take least, or the kernels."""
        return min(self.rank(product), key=_time)

    def with_others(self, product: Product, cut: tuple[int, int]) -> tuple[Product, tuple[Choice, ...]]:
        """The first rows and columns of C, and the fastest kernels for the other parts."""
        first, *others = _parts(product, *cut)
        return first, tuple(map(self._fastest, others))

    def _in_one(self, product: Product) -> Iterator[tuple[Candidate, Choice]]:
        """Every kernel that is considered for all of C."""
        for each in self.kernels_for(product.compute):
            variant = find_variant(each.variant)
            transposed = transposed_if_preferred(variant, product)
            if variant.is_limited and not has_coordinates(product.problem):
                continue
            if variant.skinny and transposed.problem.m > _SKINNY_ROWS:
                continue
            if variant.small_products and not _is_small_batch(product.problem):
                continue
            choice = self._at_best(each, transposed)
            if choice:
                yield each, choice

    def _at_best(self, candidate: Candidate, wanted: Product) -> Choice | None:
        """A kernel with the packing and the slices that suit it best; None if it is not for such products."""
        product = wanted.computed_in(find_variant(candidate.variant).computes_in(wanted.compute))
        config = _config(candidate.variant, candidate.tile, product.compute)
        if product.symmetric and find_variant(candidate.variant).has_triangle(config):
            config = replace(config, triangle=1)
        ways = ((packs, split) for packs in _packings(candidate, product) for split in self._splits(config, product))
        times = {(packs, split): self._expected(candidate, config, product, packs, split) for packs, split in ways}
        if not times:
            return None
        packs, split = best = min(times, key=times.__getitem__)
        chosen = config.changed({"split_k": split, **dict.fromkeys(packs, 1)})
        return Choice(wanted, specialization_of(candidate.variant, chosen, product), times[best])

    def _fastest_in_one(self, product: Product) -> Choice:
        return min((choice for _, choice in self._in_one(product)), key=_time)

    def _cuts(self, choice: Choice) -> Iterator[tuple[int, int]]:
        """Rows and columns that a kernel's part may have: whole tiles, or as many as keep all SMs busy to the end."""
        problem, config = choice.product.problem, choice.specialization.config
        m, n = problem.m // config.bm * config.bm, problem.n // config.bn * config.bn
        down, across = tiles(problem.m, config.bm), tiles(problem.n, config.bn)
        busy = down * across * problem.products // self.gpu.sms * self.gpu.sms
        rows, cols = busy // (across * problem.products) * config.bm, busy // (down * problem.products) * config.bn
        for cut in sorted({(m, problem.n), (problem.m, n), (m, n), (rows, problem.n), (problem.m, cols)}):
            if 0 < cut[0] <= problem.m and 0 < cut[1] <= problem.n and cut != (problem.m, problem.n):
                yield cut

    def _in_several(self, candidate: Candidate, product: Product, m: int, n: int, limit: float) -> Choice | None:
        """A kernel for m rows and n columns of C, the fastest for the rest; None if that takes more than ``limit``."""
        first, *others = _parts(product, m, n)
        choice = self._at_best(candidate, first)
        if choice is None or _time(choice) + len(others) * _LAUNCH >= limit:
            return None
        rest = tuple(map(self._fastest, others))
        time = _time(choice) + sum(map(_time, rest))
        return replace(choice, microseconds=time, others=rest) if time < limit else None

    def _splits(self, config: Config, product: Product) -> Iterator[int]:
        """Slices that are worth a thought."""
        problem = product.problem
        yield 1
        if problem.outer:
            return
        sums = problem.m * problem.n * problem.products * product.compute.itemsize
        blocks = tiles_of_c(config, problem) * problem.products
        most = min(
            problem.k // (2 * max(config.bk, 16)),
            _MOST_WORKSPACE // max(sums, 1),
            tiles(_MOST_BLOCKS * self.gpu.sms, max(blocks, 1)),
        )
        yield from itertools.takewhile(lambda split: split <= most, SPLIT_K_FACTORS[1:])

    def _operands(self, variant: Variant, config: Config, product: Product, packs: tuple[str, ...]) -> _Operands:
        """What a kernel reads, once operands are packed or split."""
        problem, compute = product.problem, product.compute
        a, b = (_footprint(problem, operand) * each.itemsize for operand, each in enumerate((product.a, product.b)))
        lies = problem.layout[0] + problem.layout[1].translate(TRANSPOSED)
        if "pack_elements" in packs:
            words, packing = tiles(problem.k, PACKED_ELEMENTS[compute.dtype_name].per_packed), 0.0
            for size, letter in zip((a, b), lies, strict=True):
                least = _PACKING_BITS[letter] if compute.dtype_name == "bool" else 0.0
                packing += _LAUNCH + max(self._passing(size, _PACKING_WORDS), least)
            part = 4 * words / max(problem.k * compute.itemsize, 1)
            return _Operands((a * part, b * part), "TT", words, packing)
        if packs:
            packed = a * ("pack_a" in packs) + b * ("pack_b" in packs)
            packed_b = variant.packed_b(compute).translate(TRANSPOSED)
            lies = ("N" if "pack_a" in packs else lies[0]) + (packed_b if "pack_b" in packs else lies[1])
            return _Operands((a, b), lies, problem.k, len(packs) * _LAUNCH + self._passing(2 * packed, _PACKING))
        if variant.decomposes_to_bytes:
            return _Operands((a, b), lies, problem.k, 2 * _LAUNCH + self._passing(2 * (a + b), _SPLITTING_BYTES))
        if variant.decomposes:
            splitting = sum(self._splitting(product, operand, lies[operand], config.scheme) for operand in (0, 1))
            return _Operands((a, b * compute.parts), lies, problem.k, _SPLITTING + splitting)
        return _Operands((a, b), lies, problem.k, 0.0)

    def _splitting(self, product: Product, operand: int, letter: str, scheme: str) -> float:
        """Microseconds in which A (0) or B (1) is split; complex numbers of B as two by two real ones."""
        problem, compute = product.problem, product.compute
        size = _footprint(problem, operand) * (product.a, product.b)[operand].itemsize
        parts = compute.parts if operand else 1
        time = self._passing((1 + parts) * size, _SPLITTING_RATE[letter])
        if letter != "T":
            return time
        lines = max(_footprint(problem, operand) // problem.k, 1)
        blocks = tiles(lines, decompose_mn_major(compute, scheme, parts).bm)
        return _ACROSS + time / min(1.0, 2 * blocks / self.gpu.sms)

    def _passing(self, size: float, rate: float) -> float:
        """Microseconds in which so many bytes pass, at an H100's terabytes a second."""
        return size / rate / self._memory / 1e6

    def _expected(
        self, candidate: Candidate, config: Config, product: Product, packs: tuple[str, ...], split: int
    ) -> float:
        """Microseconds: of the SM that has most blocks or of the memory, and of the launches around it."""
        problem, compute, variant = product.problem, product.compute, find_variant(candidate.variant)
        operands = self._operands(variant, config, product, packs)
        like = "int32" if "pack_elements" in packs else _behaves_like(compute)
        rate = candidate.peak[like] * (self._speed_of_pieces if variant.decomposes else self._speed[like])
        if variant.global_reads == "vectors" and not packs and not _has_wide_rows(problem, compute):
            rate *= _NARROW
        if operands.lies[1] == "N":
            rate *= candidate.transposed_b_rate
        (a_bytes, b_bytes), c_bytes = operands.sizes, problem.m * problem.n * problem.products * compute.itemsize
        slices, steps = split_k_partitions(split, operands.k, partition_step(variant, config))
        blocks = tiles(tiles_of_c(config, problem) * problem.products * slices, config.tiles_per_block)
        full, rest = divmod(tiles(blocks, self.gpu.sms // config.cluster), len(candidate.rate_by_resident_blocks) + 1)
        rounds = full * (len(candidate.rate_by_resident_blocks) + 1) + (
            rest / candidate.rate_by_resident_blocks[rest - 1] if rest else 0
        )
        flops = 2 * config.bm * config.bn * (steps + candidate.overhead_k) * config.tiles_per_block
        working = rounds * flops / config.cluster * _H100.sms / rate
        speed = {
            "N": candidate.bandwidth_k_major,
            "T": candidate.bandwidth_mn_major,
            "G": min(candidate.bandwidth_mn_major, candidate.bandwidth_k_major),
        }
        # wgmma writes columns as fast as rows where it computes C transposed, of tf32.
        together = problem.strides[5] == 1 or (variant.warpgroup and problem.strides[4] == 1)
        writing = _MEMORY if together else _SCATTERED
        moving = a_bytes / speed[operands.lies[0]] + b_bytes / speed[operands.lies[1]] + c_bytes / writing
        moving += c_bytes * (slices - 1) / _MEMORY
        asked = a_bytes * tiles(problem.n, config.bn) + b_bytes * tiles(problem.m, config.bm)
        half = 0.5 if config.triangle else 1.0
        cache = _L2_TMA if variant.tma else _L2
        time = operands.microseconds + _LAUNCH
        time += max(working, moving / self._memory, half * asked / cache / self._l2) / 1e6
        if variant.decomposes:
            time = max(time, _SPLITTING_CALL + time / 100)  # of those that wait for the host, the fastest still
        if slices > 1:
            time += _SECOND_LAUNCH + self._passing(c_bytes * (slices + 1), _SUMMING) + slices / 32 * _SLICES_IN_TURN
        return time


def candidates(splits: bool) -> list[Candidate]:
    """What ``auto`` chooses from, with or without kernels that split operands."""
    return [each for each in CANDIDATES if splits or not find_variant(each.variant).decomposes]


#: The model of an H100; and of one without kernels that split operands.
H100 = Model()
H100_IEEE = Model(candidates=candidates(splits=False))


def _time(choice: Choice) -> float:
    return choice.microseconds or 0.0


def _parts(product: Product, m: int, n: int) -> list[Product]:
    """The first m rows and n columns of a product's C, the rest of these rows, and the other rows."""
    problem = product.problem
    parts = [product.part(range(m), range(n))]
    if n < problem.n:
        parts.append(product.part(range(m), range(n, problem.n)))
    if m < problem.m:
        parts.append(product.part(range(m, problem.m), range(problem.n)))
    return parts


def _is_small_batch(problem: Problem) -> bool:
    """Whether a product is many small ones."""
    elements = problem.m * problem.n * problem.products
    return problem.products > 1 and max(problem.m, problem.n) <= _SMALL and elements >= _MANY


@functools.lru_cache(maxsize=1024)
def _config(variant: str, tile: int, compute: Element) -> Config:
    return find_variant(variant).config(tile, compute)


def _packings(candidate: Candidate, product: Product) -> Iterator[tuple[str, ...]]:
    """What may be packed for a kernel, as ``Config`` names it."""
    problem, compute, variant = product.problem, product.compute, find_variant(candidate.variant)
    if variant.packs_elements and "int32" in candidate.peak and compute.dtype_name in PACKED_ELEMENTS:
        yield ("pack_elements",)
    if _behaves_like(compute) not in candidate.peak:
        return
    if variant.global_reads == "K-major":
        if problem.layout[1] == "T":
            yield () if problem.layout[0] == "N" else ("pack_a",)
    elif variant.global_reads == "rows of B":
        if problem.m <= candidate.tile and _has_wide_rows(problem, compute) and problem.n * compute.itemsize % 16 == 0:
            yield ()
    elif variant.decomposes_to_bytes:
        if (_footprint(problem, 0) + _footprint(problem, 1)) * compute.itemsize <= _MOST_PIECES:
            yield ()
    elif variant.decomposes:
        elements = _footprint(problem, 0) + compute.parts * _footprint(problem, 1)
        if not is_short(problem, compute) and elements * compute.itemsize <= _MOST_PIECES:
            yield ()
    elif variant.tensor_cores:
        in_place = (  # copied as they lie, 16 bytes at a time
            stored == compute.stored
            and can_be_mapped(problem, i, compute)
            and variant.reads_fast(i, problem.layout[i], compute)
            for i, stored in enumerate((product.a, product.b))
        )
        yield tuple(name for name, ready in zip(("pack_a", "pack_b"), in_place, strict=True) if not ready)
    elif variant.global_reads == "vectors" and not _has_wide_rows(problem, compute):
        yield ("pack_b",)
        if candidate.tile < 256:  # which takes too long over single elements
            yield ()
    else:
        yield ()


def _footprint(problem: Problem, operand: int) -> int:
    """Elements of A (0) or B (1), each of a batch that is not broadcast."""
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    products = 1
    for dimension in (*problem.outer, *problem.batch):
        products *= dimension.size if (dimension.a, dimension.b)[operand] else 1
    return rows * cols * products


def _behaves_like(compute: Element) -> str:
    """The type in CANDIDATES whose kernels take as long."""
    if compute.dtype_name in ("float32", "tf32", "float64", "complex64", "complex128"):
        return compute.dtype_name
    return {1: "int8", 2: "float16", 4: "int32", 8: "int64"}[compute.itemsize]


def _has_wide_rows(problem: Problem, compute: Element) -> bool:
    """Whether rows of B can be copied 16 bytes at a time: tiles of 256 columns take too long over single elements."""
    return problem.layout[1] == "N" and problem.strides[2] * compute.itemsize % 16 == 0
