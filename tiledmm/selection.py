"""From a name to the rung and the tile that compute a product."""

from __future__ import annotations

from tiledmm.codegen import Specialization
from tiledmm.elements import Element
from tiledmm.ladder import find_variant
from tiledmm.operands import Product
from tiledmm.problem import Problem

AUTO = "auto"

#: What ``auto`` chooses from, as (variant, tile).
AUTO_KERNELS = (("double_buffered", 16), ("double_buffered", 32), ("double_buffered", 64), ("tiled", 64))

# Blocks from which on a tile of 64 beats smaller ones, which spread the work over more SMs but load more for it: from
# `python -m benchmarks.selection` on an H100 (132 SMs), docs/selection.md.
_ENOUGH_BLOCKS = 30
_ENOUGH_BLOCKS_OF_NARROW_TYPES = 64
_ENOUGH_BLOCKS_OF_16_BYTES = 256


def select(name: str, tile: int | None, product: Product) -> Specialization:
    """The kernel for a product.

    Args:
        name: A variant, or ``"auto"``.
        tile: A tile of that variant. None: ``auto`` chooses by size, a named variant takes its default.
        product: What is to be computed.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant or tile.
    """
    if name == AUTO:
        name, best = _fastest(product.problem, product.compute)
        name, tile = (name, best) if tile is None else ("double_buffered", tile)
    variant = find_variant(name)
    config = variant.config(tile, product.compute)
    return Specialization(variant, config, product.a, product.b, product.compute, product.c, product.problem.layout)


def _fastest(problem: Problem, compute: Element) -> tuple[str, int]:
    """The fastest of AUTO_KERNELS, by a rule read off measurements."""
    blocks = _tiles(problem.m, 64) * _tiles(problem.n, 64) * problem.products
    narrow = compute.itemsize < compute.sum_bytes
    if min(problem.m, problem.n) <= 32 or blocks < (_ENOUGH_BLOCKS_OF_NARROW_TYPES if narrow else _ENOUGH_BLOCKS):
        return "double_buffered", 16
    if compute.sum_bytes == 16 and blocks < _ENOUGH_BLOCKS_OF_16_BYTES:
        return "double_buffered", 32
    # With one step along K there is nothing to overlap; and elements that are widened on the way wait in registers,
    # which costs more than it hides.
    return ("tiled" if narrow or problem.k <= 16 else "double_buffered"), 64


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)
