"""C in parts: where tiles extend past its edge, and where its operands are too large to be decomposed all at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from tiledmm.kernels.launches import tiles
from tiledmm.kernels.variant import Variant
from tiledmm.problem.product import Product

# Rows and columns of parts of a grid are multiples of this: whole tiles of every kernel that decomposes.
_GRID_TILE = 256

# Most parts of a grid: the host launches so many in milliseconds.
_MOST_PARTS = 1024


def strips(product: Product, m: int, n: int) -> list[Product]:
    """The first m rows and n columns of a product's C, the rest of these rows, and the other rows."""
    problem = product.problem
    parts = [product.part(range(m), range(n))]
    if n < problem.n:
        parts.append(product.part(range(m), range(n, problem.n)))
    if m < problem.m:
        parts.append(product.part(range(m, problem.m), range(problem.n)))
    return parts


def grids(variant: Variant, product: Product) -> Iterator[Iterator[Product]]:
    """C as a grid of parts whose decomposed operands are within limits; then one of less than half of that, and so on.

    The first part of a grid is the largest.
    """
    problem, compute, limit = product.problem, variant.computes_in(product.compute), variant.operands.most_bytes
    whole = (*(dimension.size for dimension in problem.batch), problem.m, problem.n)
    steps = (*(1 for _ in problem.batch), _GRID_TILE, _GRID_TILE)
    sizes = [*whole]

    def decomposed(halved: int | None = None) -> int:
        *batch, rows, cols = (range(size // 2 if i == halved else size) for i, size in enumerate(sizes))
        return variant.operands.prepared_bytes(problem.part(rows, cols, batch), compute)

    while left := [i for i, (size, step) in enumerate(zip(sizes, steps, strict=True)) if size > step]:
        i = min(left, key=decomposed)  # where smaller parts save most: of both operands, or of the larger one
        count = tiles(whole[i], sizes[i] - steps[i])
        sizes[i] = tiles(whole[i], count * steps[i]) * steps[i]
        if math.prod(map(tiles, whole, sizes)) > _MOST_PARTS:
            return
        if decomposed() <= limit:
            limit = decomposed() * 7 // 16  # not 8: operand scans are workspace, too
            ends = (
                [range(begin, min(begin + size, end)) for begin in range(0, end, size)]
                for size, end in zip(sizes, whole, strict=True)
            )
            yield (product.part(rows, cols, batch) for *batch, rows, cols in itertools.product(*ends))
