"""From a name to the rung and the tile that compute a product."""

from __future__ import annotations

from tiledmm.codegen import Specialization
from tiledmm.operands import Product
from tiledmm.variants import VARIANTS, Config, Variant, find_variant

AUTO = "auto"

#: What ``auto`` runs: the rung that is fastest at every size, type and layout measured (docs/selection.md).
AUTO_VARIANT = VARIANTS["double_buffered"]

# Blocks that keep every SM of a large GPU busy. With fewer, smaller tiles spread the work further.
_BUSY_BLOCKS = 132


def select(name: str, tile: int | None, product: Product) -> Specialization:
    """The kernel for a product.

    Args:
        name: A variant, or ``"auto"``.
        tile: A tile of that variant, or None: ``auto`` then chooses by size, a named variant takes its default.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant or tile.
    """
    if name == AUTO:
        variant = AUTO_VARIANT
        tile = _best_tile(product, variant) if tile is None else tile
    else:
        variant = find_variant(name)
    config: Config = variant.config(tile, product.compute)
    return Specialization(variant, config, product.a, product.b, product.compute, product.c, product.problem.layout)


def _best_tile(product: Product, variant: Variant) -> int:
    """The largest tile with which there are enough blocks; the smallest where there are never enough."""
    problem = product.problem
    for tile in sorted(variant.tiles, reverse=True):
        blocks = -(-problem.m // tile) * -(-problem.n // tile) * problem.products
        if blocks >= _BUSY_BLOCKS:
            return tile
    return min(variant.tiles)
