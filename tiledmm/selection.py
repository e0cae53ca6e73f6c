"""From a name to the rung and the numbers that compute a product: what was asked for, or by a model of the time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tiledmm.codegen import Specialization
from tiledmm.elements import WORDS, Element
from tiledmm.errors import ConfigError
from tiledmm.geometry import slices_in, tiles, tiles_of_c
from tiledmm.ladder import Config, find_variant
from tiledmm.operands import Product
from tiledmm.problem import TRANSPOSED, Problem
from tiledmm.tuned import Entry, Table, describe_product

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that ``auto`` may choose.

    Attributes:
        variant, tile: Its name.
        few: Of its rate, what an SM reaches that has one block of it, two and so on: all of it with one more.
        start: Steps of k that as much time passes in as in the beginning and the end of a block.
        rates: Where every SM is full, its trillions of floating-point operations a second on an H100, by type.
        across_k: Terabytes a second at which it reads an operand whose neighbours in memory are not successive k.
        along_k: The same where they are.
    """

    variant: str
    tile: int
    few: tuple[float, ...]
    start: int
    rates: dict[str, float]
    across_k: float = 2.75
    along_k: float = 2.75

    @property
    def name(self) -> tuple[str, int]:
        """Variant and tile."""
        return self.variant, self.tile


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel for a product, and what the model makes of it.

    Attributes:
        product: The product as the kernel computes it: as it is, or transposed; or a part of it.
        specialization: The kernel.
        microseconds: What the model expects on an H100, of all parts; None for a kernel that was asked for by name.
        others: Of a product whose C is cut into parts, what computes the others.
    """

    product: Product
    specialization: Specialization
    microseconds: float | None = None
    others: tuple[Choice, ...] = ()

    @property
    def parts(self) -> tuple[Choice, ...]:
        """All that is computed, this first."""
        return self, *self.others

    @property
    def cut(self) -> tuple[int, int] | None:
        """Rows and columns of the first part; None if there are no others."""
        return (self.product.problem.m, self.product.problem.n) if self.others else None

    def __str__(self) -> str:
        if not self.others:
            return str(self.specialization)
        return "; ".join(f"{_part_of_c(each.product)}: {each.specialization}" for each in self.parts)


def _part_of_c(product: Product) -> str:
    m, n = product.problem.m, product.problem.n
    return f"{n} x {m} of C" if product.swapped else f"{m} x {n} of C"


# SMs of an H100.
_SMS = 132

# Terabytes a second of its memory and of its L2 cache.
_MEMORY, _L2 = 2.75, 5.5

# Microseconds: of a launch, and of what the second kernel of a product in slices takes besides.
_LAUNCH, _SECOND_LAUNCH = 2.2, 3.3

# Terabytes a second, read and written, at which operands are packed; and of its rate, what a kernel reaches that copies
# B one element at a time.
_PACKING, _NARROW = 2.4, 0.93

# Terabytes a second, read, at which narrow elements are packed to words.
_PACKING_WORDS = 0.7

# Of its rate, what a thin kernel reaches where it has to transpose B; and terabytes a second at which C's columns are
# written where these are not neighbours.
_THIN_ALONG_K, _SCATTERED = 0.85, 0.4

# Terabytes a second at which it reads the slices' sums, and microseconds for 32 of an element's.
_SUMMING, _SLICES_IN_TURN = 4.0, 0.6

# Rows up to which kernels for few rows are considered.
_FEW_ROWS = 64

# Rows and columns up to which kernels for batches of small products are, and elements that such a batch has at least.
_SMALL, _MANY = 32, 1 << 14

#: Slices of K that are considered. Few numbers: a kernel is the same for all.
SPLITS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

# Microseconds that a product has to take for its C to be cut into parts, how many kernels that is considered for, and
# which part of the time has to be left at most.
_WORTH_CUTTING, _CUT_KERNELS, _LEFT_AFTER_CUTTING = 40.0, 3, 0.98

# Blocks that slices may make of a product's, where there are not more without.
_MOST_BLOCKS = 16 * _SMS

# Bytes that the sums of slices may take.
_MOST_WORKSPACE = 1 << 27

# Of blocks of one warp.
_ONE_WARP = (0.12, 0.24, 0.35, 0.45, 0.53, 0.6, 0.67, 0.74, 0.8, 0.84, 0.88, 0.91, 0.94, 0.96, 0.98)

# Of blocks of four warps, with tiles of their own.
_SMALL_BLOCKS = (0.3, 0.55, 0.75, 0.9)

# From `python -m benchmarks.selection`. Types that behave alike have one name.
CANDIDATES = (
    Candidate("double_buffered", 16, (0.7, 0.9, 1, 1, 1, 1, 1), 60, {
        "float32": 8.2, "int32": 8.2, "float16": 7.5, "int8": 7.4,
    }),
    Candidate("double_buffered", 16, (0.7, 0.9, 1, 1, 1, 1, 1), 20, {
        "float64": 4.7, "complex64": 4.5, "int64": 4.6, "complex128": 2.4,
    }),
    Candidate("double_buffered", 32, (0.95,), 16, {"complex128": 4.5}),
    Candidate("double_buffered", 64, (0.66, 0.86), 32, {"int64": 6.9}),
    Candidate("tiled", 64, (0.66, 0.86), 24, {"float16": 27.1, "int8": 25.5}, along_k=1.0),
    Candidate("warp_tiled", 32, _ONE_WARP, 24, {
        "float32": 35.5, "int32": 29.0, "float16": 15, "int8": 15, "float64": 19.5, "complex64": 11.5,
        "complex128": 5.9,
    }, along_k=1.3),
    Candidate("warp_tiled", 64, (0.66, 0.86, 1, 1), 22, {"float32": 39.5, "int32": 29.0}),
    Candidate("warp_tiled", 64, (0.77, 0.95), 16, {"float64": 21.5, "complex64": 11.8}),
    Candidate("warp_tiled", 64, (), 16, {"complex128": 5.8}),
    Candidate("warp_tiled", 64, (0.45, 0.7, 0.9), 16, {"float16": 30.5, "int8": 26.5}),
    Candidate("warp_tiled", 128, (0.86,), 32, {"float32": 47.3, "float16": 37.0}),
    Candidate("warp_tiled", 128, (), 24, {"float64": 23.5, "complex64": 12.2, "complex128": 6.1}),
    Candidate("warp_tiled", 256, (), 40, {"float32": 50.2, "int32": 30.1}),
    Candidate("thin", 8, (0.3, 0.55, 0.75, 0.9), 32, {
        "float32": 21, "int32": 18, "float16": 8, "int8": 9, "float64": 13, "complex64": 6, "int64": 4.5,
        "complex128": 3.5,
    }, across_k=2.6, along_k=1.5),
    Candidate("thin", 16, (0.5, 0.8, 1, 1), 32, {
        "float32": 34, "int32": 25, "float16": 13, "int8": 14, "float64": 17, "complex64": 8.3, "int64": 5.9,
        "complex128": 4.8,
    }, across_k=2.7, along_k=1.65),
    Candidate("thin", 32, (0.6, 0.85), 32, {
        "float32": 39, "int32": 26, "float16": 19, "int8": 18, "float64": 19, "complex64": 11, "int64": 5.7,
        "complex128": 5.7,
    }, across_k=2.7, along_k=1.6),
    Candidate("thin", 64, (0.5, 0.8, 0.95), 24, {"float32": 41, "int32": 26}, across_k=2.6, along_k=2.2),
    Candidate("dot_products", 1, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 5, "int32": 5, "float16": 0.9, "int8": 0.9, "float64": 1.9, "complex64": 1.9, "int64": 1.8,
        "complex128": 1.0,
    }, along_k=2.75),
    Candidate("dot_products", 2, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 10, "int32": 10, "float64": 2.9, "complex64": 2.3, "int64": 2.3,
        "complex128": 1.0,
    }, along_k=2.75),
    Candidate("dot_products", 4, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 12.5, "int32": 13, "float64": 4.9, "complex64": 4.3, "int64": 4.0,
        "complex128": 2.1,
    }, along_k=2.6),
    Candidate("dot_products", 8, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 12, "int32": 12, "float64": 6.3, "complex64": 5.1, "int64": 4.3,
        "complex128": 2.0,
    }, along_k=2.5),
    Candidate("dot_products", 16, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 17.3, "int32": 17.3, "float64": 7.7, "complex64": 7.1, "int64": 6.4,
        "complex128": 2.9,
    }, along_k=2.2),
    # Not measured yet: estimates, at most about half of what issuing 4 instructions a cycle and SM allows.
    Candidate("tiny", 4, _SMALL_BLOCKS, 12, {
        "float32": 5, "int32": 4, "float16": 4, "int8": 4, "float64": 2.5, "complex64": 2, "int64": 2,
        "complex128": 1.2,
    }, across_k=2.2, along_k=2.2),
    Candidate("tiny", 8, _SMALL_BLOCKS, 16, {
        "float32": 12, "int32": 9, "float16": 10, "int8": 8, "float64": 6, "complex64": 4.5, "int64": 4,
        "complex128": 2,
    }, across_k=2.2, along_k=2.2),
    Candidate("tiny", 16, (0.4, 0.7, 0.9), 16, {
        "float32": 16, "int32": 12, "float16": 14, "int8": 13, "float64": 9, "complex64": 6, "int64": 5,
        "complex128": 3,
    }, across_k=2.2, along_k=2.2),
)  # fmt: skip

#: What ``auto`` chooses from, as (variant, tile).
AUTO_KERNELS = tuple(dict.fromkeys(candidate.name for candidate in CANDIDATES))


def select(
    name: str,
    tile: int | None,
    product: Product,
    config: Mapping[str, int] | None = None,
    table: Table | None = None,
) -> Choice:
    """The kernel for a product.

    Args:
        name: A variant, or ``"auto"``.
        tile: A tile of that variant. None: ``auto`` chooses by size, a named variant takes its default.
        product: What is to be computed.
        config: Numbers to have instead of the tile's own, for a variant that is named.
        table: What was measured on the device: ``auto`` takes what is in it, and else what the model says.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant, tile or number.
    """
    if name == AUTO and tile is None:
        if config is not None:
            raise ConfigError('config= gives the numbers of one kernel: name it with variant=, which is "auto" here')
        entry = (table or {}).get(describe_product(product))
        return _measured(entry, product) if entry else min(rank(product), key=lambda each: each.microseconds or 0.0)
    variant = find_variant("double_buffered" if name == AUTO else name)
    if variant.few_rows and product.problem.n < product.problem.m:
        product = product.transposed()
    numbers = variant.config(tile, product.compute, config)
    if numbers.triangle and not product.symmetric:
        raise ConfigError("triangle is for a @ a.T or a.T @ a, of one array: C is symmetric")
    return Choice(product, _specialization(variant.name, numbers, product))


def _measured(entry: Entry, product: Product) -> Choice:
    """What the table has for a product."""
    seen = product.transposed() if entry.turned else product
    first, *others = _parts(seen, *entry.cut) if entry.cut else (seen,)
    config = find_variant(entry.variant).config(None, seen.compute, entry.numbers)
    spec = _specialization(entry.variant, config, seen)
    return Choice(first, spec, entry.microseconds, tuple(map(_fastest, others)))


def rank(product: Product) -> Iterator[Choice]:
    """Every kernel that ``auto`` considers for a product, each with the packing and the slices that suit it best.

    And the best of them once more, for a part of C that suits it better, with the fastest kernels for the other parts.
    """
    ranked = sorted(_in_one(product), key=lambda pair: _time(pair[1]))
    yield from (choice for _, choice in ranked)
    problem = product.problem
    if not problem.outer and not problem.is_empty and _time(ranked[0][1]) > _WORTH_CUTTING:
        limit = _LEFT_AFTER_CUTTING * _time(ranked[0][1])
        for candidate, choice in ranked[:_CUT_KERNELS]:
            cuts = (_in_several(candidate, choice.product, *cut, limit) for cut in _cuts(choice))
            if found := [each for each in cuts if each]:
                yield min(found, key=_time)


def _time(choice: Choice) -> float:
    return choice.microseconds or 0.0


def _in_one(product: Product) -> Iterator[tuple[Candidate, Choice]]:
    """Every kernel that is considered for all of C."""
    turned = product.transposed() if product.problem.n < product.problem.m else product
    for each in CANDIDATES:
        few_rows = find_variant(each.variant).few_rows
        if few_rows and turned.problem.m > _FEW_ROWS:
            continue
        if each.variant == "tiny" and not _is_small_batch(product.problem):
            continue
        choice = _at_best(each, turned if few_rows else product)
        if choice:
            yield each, choice


def _at_best(candidate: Candidate, product: Product) -> Choice | None:
    """A kernel with the packing and the slices that suit it best; None if it is not for such products."""
    config = _config(candidate.variant, candidate.tile, product.compute)
    if product.symmetric and config.wm and config.bm == config.bn:
        config = replace(config, triangle=1)
    ways = ((packs, split) for packs in _packings(candidate, product) for split in _splits(config, product))
    times = {(packs, split): _expected(candidate, config, product, packs, split) for packs, split in ways}
    if not times:
        return None
    packs, split = best = min(times, key=times.__getitem__)
    chosen = replace(config, split_k=split, **dict.fromkeys(packs, 1))
    return Choice(product, _specialization(candidate.variant, chosen, product), times[best])


@functools.lru_cache(maxsize=256)
def _fastest(product: Product) -> Choice:
    """The kernel for all of C that is expected to take least."""
    return min((choice for _, choice in _in_one(product)), key=_time)


def _cuts(choice: Choice) -> Iterator[tuple[int, int]]:
    """Rows and columns that a kernel's part may have: whole tiles only, or as many as keep all SMs busy to the end."""
    problem, config = choice.product.problem, choice.specialization.config
    m, n = problem.m // config.bm * config.bm, problem.n // config.bn * config.bn
    down, across = tiles(problem.m, config.bm), tiles(problem.n, config.bn)
    busy = down * across * problem.products // _SMS * _SMS
    rows, cols = busy // (across * problem.products) * config.bm, busy // (down * problem.products) * config.bn
    for cut in sorted({(m, problem.n), (problem.m, n), (m, n), (rows, problem.n), (problem.m, cols)}):
        if 0 < cut[0] <= problem.m and 0 < cut[1] <= problem.n and cut != (problem.m, problem.n):
            yield cut


def _in_several(candidate: Candidate, product: Product, m: int, n: int, limit: float) -> Choice | None:
    """A kernel for m rows and n columns of C, and the fastest for the rest; None if that takes more than ``limit``."""
    first, *others = _parts(product, m, n)
    choice = _at_best(candidate, first)
    if choice is None or _time(choice) + len(others) * _LAUNCH >= limit:
        return None
    rest = tuple(_fastest(each) for each in others)
    time = _time(choice) + sum(map(_time, rest))
    return replace(choice, microseconds=time, others=rest) if time < limit else None


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
    problem, compute = product.problem, product.compute
    if candidate.variant == "warp_tiled" and "int32" in candidate.rates and compute.dtype_name in WORDS:
        yield ("pack_words",)
    if _behaves_like(compute) not in candidate.rates:
        return
    if candidate.variant == "dot_products":  # its lanes read along k
        if problem.layout[1] == "T":
            yield () if problem.layout[0] == "N" else ("pack_a",)
    elif candidate.variant == "warp_tiled" and not _has_wide_rows(problem, compute):
        yield ("pack_b",)
        if candidate.tile < 256:  # which takes too long over single elements
            yield ()
    else:
        yield ()


def _splits(config: Config, product: Product) -> Iterator[int]:
    """Slices that are worth a thought."""
    problem = product.problem
    yield 1
    sums = problem.m * problem.n * problem.products * product.compute.itemsize
    blocks = tiles_of_c(config, problem) * problem.products
    most = min(
        problem.k // (2 * max(config.bk, 16)), _MOST_WORKSPACE // max(sums, 1), tiles(_MOST_BLOCKS, max(blocks, 1))
    )
    if not problem.outer:
        yield from itertools.takewhile(lambda split: split <= most, SPLITS[1:])


def _specialization(name: str, config: Config, product: Product) -> Specialization:
    variant = find_variant(name)
    return Specialization(variant, config, product.a, product.b, product.compute, product.c, product.problem.layout)


def _expected(candidate: Candidate, config: Config, product: Product, packs: tuple[str, ...], split: int) -> float:
    """Microseconds on an H100: of the SM that has most blocks or of the memory, and of the launches around it."""
    problem, compute = product.problem, product.compute
    rate, k = candidate.rates["int32" if "pack_words" in packs else _behaves_like(compute)], problem.k
    letters = problem.layout
    a_bytes, b_bytes = _footprint(problem, 0) * product.a.itemsize, _footprint(problem, 1) * product.b.itemsize
    c_bytes = problem.m * problem.n * problem.products * compute.itemsize
    time = _LAUNCH
    if "pack_words" in packs:
        time += 2 * _LAUNCH + (a_bytes + b_bytes) / (_PACKING_WORDS * 1e6)
        k, letters = tiles(k, WORDS[compute.dtype_name].per_word), "TN"
    elif "pack_b" in packs:
        time += _LAUNCH + 2 * b_bytes / (_PACKING * 1e6)
        letters = f"{letters[0]}N"
    elif "pack_a" in packs:
        time += _LAUNCH + 2 * a_bytes / (_PACKING * 1e6)
        letters = f"N{letters[1]}"
    elif candidate.variant == "warp_tiled" and not _has_wide_rows(problem, compute):
        rate *= _NARROW
    elif candidate.variant == "thin" and candidate.tile < 64 and letters[1] == "T":
        rate *= _THIN_ALONG_K
    slices, steps = slices_in(split, k)
    every = tiles_of_c(config, problem) * problem.products * slices
    blocks = tiles(every, config.tiles_per_block)
    full, rest = divmod(tiles(blocks, _SMS), len(candidate.few) + 1)
    rounds = full * (len(candidate.few) + 1) + (rest / candidate.few[rest - 1] if rest else 0)
    flops = 2 * config.bm * config.bn * (steps + candidate.start) * config.tiles_per_block
    working = rounds * flops * _SMS / rate
    speed = {"N": candidate.along_k, "T": candidate.across_k, "G": min(candidate.across_k, candidate.along_k)}
    writing = _MEMORY if problem.strides[5] == 1 else _SCATTERED
    moving = a_bytes / speed[letters[0]] + b_bytes / speed[letters[1].translate(TRANSPOSED)] + c_bytes / writing
    moving += c_bytes * (slices - 1) / _MEMORY
    asked = a_bytes * tiles(problem.n, config.bn) + b_bytes * tiles(problem.m, config.bm)
    half = 0.5 if config.triangle else 1.0
    time += max(working, moving, half * asked / _L2) / 1e6
    if slices > 1:
        time += _SECOND_LAUNCH + c_bytes * (slices + 1) / (_SUMMING * 1e6) + slices / 32 * _SLICES_IN_TURN
    return time


def _footprint(problem: Problem, operand: int) -> int:
    """Elements of A (0) or B (1), each of a batch that is not broadcast."""
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    products = 1
    for dimension in (*problem.outer, *problem.batch):
        products *= dimension.size if (dimension.a, dimension.b)[operand] else 1
    return rows * cols * products


def _behaves_like(compute: Element) -> str:
    """The type in CANDIDATES whose kernels take as long."""
    if compute.dtype_name in ("float32", "float64", "complex64", "complex128"):
        return compute.dtype_name
    return {1: "int8", 2: "float16", 4: "int32", 8: "int64"}[compute.itemsize]


def _has_wide_rows(problem: Problem, compute: Element) -> bool:
    """Whether rows of B can be copied 16 bytes at a time: tiles of 256 columns take too long over single elements."""
    return problem.layout[1] == "N" and problem.strides[2] * compute.itemsize % 16 == 0
