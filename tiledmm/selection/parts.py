"""Parts of C: strips beside whole tiles or waves, and grids of parts whose operands can be decomposed at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from tiledmm.kernels.launches import tiles
from tiledmm.kernels.variant import Variant
from tiledmm.problem.product import Product

# Rows and columns of a grid's parts are multiples of this number: whole tiles of every kernel that decomposes.
_GRID_TILE = 256

# Maximum number of parts per grid. The host launches this many in milliseconds.
_MOST_PARTS = 1024


def strips(product: Product, m: int, n: int) -> list[Product]:
    """Divide C into its first m rows and n columns, the rest of these rows, and the other rows.

    Returns:
        The products of the parts that are not empty, beginning with the first m rows and n columns.
    """
    problem = product.problem
    parts = [product.part(range(m), range(n))]
    if n < problem.n:
        parts.append(product.part(range(m), range(n, problem.n)))
    if m < problem.m:
        parts.append(product.part(range(m, problem.m), range(problem.n)))
    return parts


def grids(variant: Variant, product: Product) -> Iterator[Iterator[Product]]:
    """Yield divisions of C into a grid of parts, whose operands are small enough to be decomposed part by part.

    The operands of a part need less than half as much memory as in the division before. The first part of a grid is
    the largest. The parts of a symmetric C are divided at the same rows and columns. A part below the diagonal is
    followed by the one above it, which is computed transposed: from the same elements, in the same order.
    """
    problem, compute, limit = product.problem, variant.computes_in(product.compute), variant.operands.most_bytes
    whole = (*(dimension.size for dimension in problem.batch), problem.m, problem.n)
    steps = (*(1 for _ in problem.batch), _GRID_TILE, _GRID_TILE)
    sizes = [*whole]
    *singles, rows_of_c, cols_of_c = range(len(sizes))
    together = [(rows_of_c, cols_of_c)] if product.symmetric else [(rows_of_c,), (cols_of_c,)]
    halves = [*((i,) for i in singles), *together]  # the dimensions that are halved at once

    def decomposed(halved: tuple[int, ...] = ()) -> int:
        *batch, rows, cols = (range(size // 2 if i in halved else size) for i, size in enumerate(sizes))
        return variant.operands.prepared_bytes(problem.part(rows, cols, batch), compute)

    while left := [each for each in halves if sizes[each[0]] > steps[each[0]]]:
        for i in min(left, key=decomposed):  # where halving saves most
            count = tiles(whole[i], sizes[i] - steps[i])
            sizes[i] = tiles(whole[i], count * steps[i]) * steps[i]
        if math.prod(map(tiles, whole, sizes)) > _MOST_PARTS:
            return
        if decomposed() <= limit:
            limit = decomposed() * 7 // 16  # less than half, because operand scans need memory, too
            ends = (
                [range(begin, min(begin + size, end)) for begin in range(0, end, size)]
                for size, end in zip(sizes, whole, strict=True)
            )
            yield _in_order(product, itertools.product(*ends))


def _in_order(product: Product, grid: Iterable[tuple[range, ...]]) -> Iterator[Product]:
    """Yield the parts of a grid. Of a symmetric C, yield each part below the diagonal, and then the one above it."""
    for *batch, rows, cols in grid:
        if not product.symmetric or cols.start <= rows.start:
            yield product.part(rows, cols, batch)
        if product.symmetric and cols.start < rows.start:
            yield product.part(cols, rows, batch).transposed()
