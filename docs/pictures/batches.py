"""Picture of what a block of ``tiny`` touches in a batch of small products, each computed by a group of threads."""

from __future__ import annotations

from docs.pictures import svg
from docs.pictures.traced import Touched, iteration
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator import trace

# Blocks that the batch is for; the first is followed.
_BLOCKS = 2

# Products in a line, and elements between them.
_LINE, _BETWEEN = 8, 3


def picture(variant: str, tile: int, *, lane: int = 9) -> str:
    """Draw products that are as large as a tile.

    Args:
        variant, tile: The kernel.
        lane: Lane of the block's second warp whose elements are highlighted.
    """
    kernel = kernel_spec(variant, tile=tile).kernel
    config = kernel.config
    m, n, k = config.bm, config.bn, config.bk
    products = _BLOCKS * config.tiles_per_block
    recorded = trace(variant, tile=tile, sizes=(m, n, k), products=products)
    done = iteration(recorded, kernel, 0, lane=lane)
    looks = {"block": done.block, "warp": done.warp, "thread": done.thread}
    scale = svg.WIDTH / (_LINE * (k + n + _BETWEEN) - _BETWEEN)

    def drawn(product: int) -> str:
        down, across = divmod(product, _LINE)
        x, y = across * (k + n + _BETWEEN) * scale, down * (k + m + _BETWEEN) * scale
        places = {"A": (0, k, m, k), "B": (k, 0, k, n), "C": (k, k, m, n)}
        parts = [
            _matrix(name, looks, product, (x + col * scale, y + row * scale), (rows, cols), scale)
            for name, (col, row, rows, cols) in places.items()
        ]
        return "\n".join(parts)

    own, group, tiles = len(done.thread.C), config.tile_threads, config.tiles_per_block
    by_warp = len({product for product, _, _ in done.warp.C})
    told = {
        "block": f"a block's {tiles} products",
        "warp": f"one warp's: {by_warp} of them",
        "thread": f"one thread's of {group}, with {own} elements of C",
    }
    bottom = products // _LINE * (k + m + _BETWEEN) * scale
    legend, end = svg.legend(told, bottom + 4)
    description = (
        f"{products} products of {m} by {k} and {k} by {n}: A left of C, B above it. A block computes {tiles} of them, "
        f"a warp {by_warp}, and a thread {own} elements of one C."
    )
    parts = [drawn(product) for product in range(products)]
    return svg.document(f"{recorded.symbol}: what its threads touch", description, end, [*parts, *legend])


def _matrix(
    name: str,
    looks: dict[str, Touched],
    product: int,
    at: tuple[float, float],
    shape: tuple[int, int],
    scale: float,
) -> str:
    letter = svg.text(name, shape[1] * scale / 2 - 7, shape[0] * scale / 2 + 7, "letter")
    layers = {look: {place[1:] for place in touched.of(name) if place[0] == product} for look, touched in looks.items()}
    return svg.matrix(name, shape, at, scale, layers, label="", inside=[letter] * (product == 0))
