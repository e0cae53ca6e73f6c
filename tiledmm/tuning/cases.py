"""The products that kernels are timed with to calibrate the cost model, and what each kernel launches for them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiledmm.elements import compute_element
from tiledmm.errors import ConfigError
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.config import Config
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import Array
from tiledmm.problem.product import Product, resolve
from tiledmm.selection.choice import Choice, kernel_spec_of, transposed_if_preferred
from tiledmm.selection.model import packings
from tiledmm.selection.rates import KernelRates
from tiledmm.tuning.fit_kernel import KNOTS

# Number of random products, and their seed.
_RANDOM_PRODUCTS, _SEED = 12, 31

# Products with short K, which spend most of their time writing C. In the last two, rows of C are not aligned.
_SHORT = ((3000, 5000, 8), (1500, 12000, 20), (3001, 5003, 8), (1501, 12002, 20))

# Batch, rows and columns of C of products for kernels for short K.
_OUTER = (
    (1, 3000, 5000), (1, 1500, 12000), (1, 3001, 5003), (1, 1501, 12002), (1, 16001, 90), (1, 5000, 300),
    (1, 64, 20000), (1, 301, 70), (200, 500, 74), (150, 3, 10001),
)  # fmt: skip

# The same for kernels for a C of few columns.
_NARROW = (
    (1, 200003, 3), (1, 30001, 90), (150, 9001, 1), (40, 9001, 24), (16, 60001, 7), (64, 2999, 60), (3000, 301, 11),
)  # fmt: skip

# K-major products in which only the rows of C are not aligned. They separate the cost of reading from that of writing.
_UNALIGNED_C = ((3001, 5003, 16), (1501, 12002, 32), (2003, 3001, 512))
_SKINNY_UNALIGNED_C = ((4001, 64), (8194, 512))

# Products whose rows are not aligned: of odd and of even lengths.
_UNALIGNED = ((999, 1003, 1001), (1002, 1010, 998), (40, 4003, 4001), (34, 4010, 3998))

# Skinny products whose rows are not aligned. Some have many more rows than a tile.
_SKINNY_UNALIGNED = (
    (28, 169, 2231), (30, 170, 2230), (60, 4003, 4001), (58, 4010, 3998), (111, 319, 8193), (150, 1900, 3000),
)  # fmt: skip

# Columns and k of unaligned matrices, for kernels that multiply few vectors: odd sizes, and multiples of 4.
_MATRICES_UNALIGNED = ((4003, 4001), (4012, 3996), (1171, 7723), (164, 11076))

# Batch, columns and k of skinny products: many blocks with little work each.
_SKINNY_BATCHES = ((300, 346, 17), (100, 2000, 40), (1000, 100, 100))

# Columns and k of skinny products.
_SKINNY_MATRICES = (
    (512, 512), (1024, 8192), (4096, 4096), (16384, 1024), (200, 60000), (400, 48), (4000, 150), (48, 16000),
)  # fmt: skip

# Skinny products for tiled kernels.
_SKINNY = ((4, 4096, 4096), (48, 8192, 2048), (32, 1000, 8192), (64, 64, 32768))

# Rows, columns and k of x @ W.T with the weights W of a layer, for tensor cores that multiply 16 bits and less.
# Matrices of more than 100 MB show memory rates that smaller matrices do not reach. The first product is skinny.
_LAYERS = (
    (24, 9216, 7424), (64, 11264, 7168), (96, 9728, 5632), (128, 6912, 2560), (128, 13312, 9216), (256, 2560, 9216),
    (256, 8704, 3328), (256, 22016, 5120), (512, 3072, 6656), (512, 4608, 12288), (1024, 5632, 2560),
    (2048, 6144, 6144),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A product to time.

    Attributes:
        batch: Number of matrix products.
        m, n, k: Sizes of each: (m, k) @ (k, n).
        layout: Layout letters of A and B: N for contiguous rows, T for contiguous columns.
        split: Number of split-K partitions; 1 without split-K.
    """

    batch: int
    m: int
    n: int
    k: int
    layout: str = "NN"
    split: int = 1


def type_of(row: KernelRates) -> str:
    """Return the computation type with which a kernel of a table of rates is timed.

    It is the type of the row. If that is float16 and the variant multiplies only integers, it is int16, whose kernels
    take as long.
    """
    variant = find_variant(row.variant)
    return row.type if variant.multiplies(compute_element(row.type)) else {"float16": "int16"}[row.type]


def cases_of(row: KernelRates, gpu: Gpu, residents: int) -> list[Case]:
    """Return the products with which to time a kernel: some that show each of its rates, then random ones.

    Args:
        row: Kernel.
        gpu: GPU to time it on.
        residents: Maximum number of blocks of the kernel that are resident on an SM at the same time.
    """
    variant, compute = find_variant(row.variant), compute_element(type_of(row))
    config = variant.config(row.tile, compute)
    cases: list[Case] = []
    layers = _LAYERS if variant.tensor_cores and compute.itemsize <= 2 else ()
    if variant.reads.small_products:
        for size, count in itertools.product((row.tile // 2, row.tile, 2 * row.tile), (4096, 65536)):
            cases += [Case(count, size, size, size, layout) for layout in ("NN", "NT")]
        cases += [Case(16384, row.tile, row.tile, k) for k in (1, 64, 256)]
        cases += [Case(1000, row.tile, row.tile, 8192, layout) for layout in ("NN", "NT")]
        return cases
    if variant.reads.short_k:
        depths = sorted({1, row.tile // 2, row.tile})
        sizes = [size for size in _NARROW if size[2] <= config.bn] if variant.reads.narrow else _OUTER
        return [Case(count, m, n, k, layout) for count, m, n in sizes for k in depths for layout in ("NN", "TT")]
    if variant.reads.few_rows(config) or variant.reads.few_columns(config):
        layouts = {"K-major": ("NT",), "rows of B": ("NN",)}.get(variant.reads.from_global, ("NN", "NT"))
        for (n, k), layout in itertools.product(_SKINNY_MATRICES, layouts):
            for m in sorted({row.tile, max(row.tile * 3 // 4, 1), min(row.tile * 5 // 2, 64), 64 if n < 1000 else 1}):
                sides = (n, m) if variant.reads.few_columns(config) else (m, n)
                cases += [Case(1, m, n, k, layout, split) for split in _splits(config, gpu, residents, *sides, k)]
        for m, n, k in layers[:1]:
            sides = (n, m) if variant.reads.few_columns(config) else (m, n)
            cases += [Case(1, m, n, k, "NT", split) for split in _splits(config, gpu, residents, *sides, k)]
        for (count, n, k), layout in itertools.product(_SKINNY_BATCHES, layouts):
            cases += [Case(count, m, n, k, layout) for m in sorted({1, row.tile})]
        cases += [Case(1, row.tile, n, k, "NT") for n, k in _SKINNY_UNALIGNED_C if "NT" in layouts]
        unaligned = [(m, n, k) for n, k in _MATRICES_UNALIGNED for m in sorted({1, row.tile})]
        if variant.tensor_cores:
            unaligned = list(_SKINNY_UNALIGNED)
        for (m, n, k), layout in itertools.product(unaligned if variant.reads_unaligned else (), layouts):
            cases += [Case(1, m, n, k, layout, split) for split in _splits(config, gpu, residents, m, n, k)]
        return cases
    fastest = "NT" if variant.tensor_cores and compute.itemsize == 1 else "NN"
    sms = gpu.sms // config.cluster
    down = max(divisor for divisor in range(1, math.isqrt(sms) + 1) if sms % divisor == 0)
    for blocks in sorted({*(knot for knot in KNOTS if knot <= residents), residents, residents + 1, 4 * residents}):
        m, n = down * config.bm, sms // down * blocks * config.bn
        cases += [Case(1, m, n, k, fastest) for k in (64, 512, 2048)]
        if blocks in (residents, 4 * residents):
            cases += [Case(1, m, n, 1024, layout) for layout in ("NN", "NT") if layout != fastest]
    for (m, n, k), layout in itertools.product(_SKINNY, ("NN", "NT")):
        cases += [Case(1, m, n, k, layout, split) for split in _splits(config, gpu, residents, m, n, k)]
    for m, n, k in layers:
        cases += [Case(1, m, n, k, "NT", split) for split in _splits(config, gpu, residents, m, n, k)]
    cases += [Case(1, 4096, 4096, 4096, fastest), Case(1, 3000, 3000, 3000, fastest)]
    cases += [Case(1, m, n, k, fastest) for m, n, k in _SHORT]
    cases += [Case(1, m, n, k, "NT") for m, n, k in _UNALIGNED_C]
    batches = variant.operands.timed_batches
    cases += [Case(*numbers, layout) for numbers in batches for layout in ("NN", "NT")]
    if variant.reads_unaligned:
        for m, n, k in _UNALIGNED:
            cases += [Case(1, m, n, k, fastest, split) for split in _splits(config, gpu, residents, m, n, k)]
    generator = random.Random(_SEED)
    for number in range(_RANDOM_PRODUCTS):
        m, n = (int(2 ** generator.uniform(5, 11.5)) for _ in range(2))
        k = int(2 ** generator.uniform(5, 13))
        layout = generator.choice(("NN", "NT"))
        if number % 2:  # aligned rows
            n, k = n + -n % 16, k + -k % 16
        cases += [Case(1, m, n, k, layout, split) for split in _splits(config, gpu, residents, m, n, k)]
    return [case for case in dict.fromkeys(cases) if case.split == 1 or not config.moduli]


def _splits(config: Config, gpu: Gpu, residents: int, m: int, n: int, k: int) -> Iterator[int]:
    """Yield numbers of split-K partitions with which to time a product, in increasing order.

    They are 1, the number with which the blocks fill all SMs once, and half and three times that number, if these
    are at least 2. They are limited to 256, and to one partition per 64 elements of K.

    Args:
        config: Config of the kernel.
        gpu: GPU to time it on.
        residents: Maximum number of blocks of the kernel that are resident on an SM at the same time.
        m, n, k: Sizes of the product.
    """
    blocks = -(-m // config.bm) * -(-n // config.bn)
    fill = gpu.sms * residents / blocks
    yield from sorted({1, *(int(min(part * fill, k // 64, 256)) for part in (0.5, 1, 3) if part * fill >= 2)})


def product_of(case: Case, dtype: str) -> Product:
    """Return a case as a ``Product``, whose operands are descriptions of arrays.

    Args:
        case: Product to time.
        dtype: Computation type.
    """
    kind = compute_element(dtype).dtype
    a, b = _matrices(case, kind)
    return resolve(a, b).computed_in(compute_element(dtype))


def _matrices(case: Case, kind: Any) -> tuple[Array, Array]:
    found = []
    for (rows, cols), letter in zip(((case.m, case.k), (case.k, case.n)), case.layout, strict=True):
        array = Array.laid_out((rows, cols), kind, letter)
        if case.batch > 1:
            array = Array((case.batch, rows, cols), (rows * cols * kind.itemsize, *array.strides), kind)
        found.append(array)
    return found[0], found[1]


def choice_of(row: KernelRates, case: Case) -> tuple[Choice, tuple[str, ...]]:
    """Return the choice of a given kernel for a case, with as little packing of operands as the kernel permits.

    Args:
        row: Kernel.
        case: Product to time.

    Returns:
        The choice, and the fields of ``LaunchConfig`` that pack operands.

    Raises:
        ConfigError: If the kernel does not support such products.
    """
    variant = find_variant(row.variant)
    product = product_of(case, type_of(row))
    product = product.computed_in(variant.computes_in(product.compute))
    config = variant.config(row.tile, product.compute)
    product = transposed_if_preferred(variant, config, product)
    ways = [packs for packs in packings(row, product) if "pack_elements" not in packs]
    if not ways:
        raise ConfigError(f"variant {row.variant!r} does not support such a product")
    packs = ways[-1]  # without packing, where possible
    chosen = config.changed({"split_k": case.split, **dict.fromkeys(packs, 1)})
    return Choice(product, kernel_spec_of(row.variant, chosen, product)), packs


def named(variant_name: str, tile: int, dtype: str, case: Case, **launch: int) -> Choice:
    """Return the choice of a variant with a tile for a case.

    Args:
        variant_name, tile: Variant and tile.
        dtype: Computation type.
        case: Product to time.
        **launch: Fields of ``LaunchConfig`` that differ from their defaults, such as ``pack_b=1``.
    """
    product = product_of(case, dtype)
    config = find_variant(variant_name).config(tile, product.compute).changed({"split_k": case.split, **launch})
    return Choice(product, kernel_spec_of(variant_name, config, product))
