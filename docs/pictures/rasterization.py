"""Picture of the tiles of C that are computed at the same time, by their order: row by row, or in groups."""

from __future__ import annotations

from docs.pictures.svg import WIDTH, document, text
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import kernel_spec

#: The kernel that is drawn, in its default tile, and the size of its square matrices.
VARIANT, SIZE = "warp_tiled", 4096

# px: between two panels, and above the tiles of one.
_BETWEEN, _ABOVE = 40, 50


def order(rows: int, cols: int, group: int) -> list[tuple[int, int]]:
    """Return row and column of the tiles in the order of the blocks: along rows within groups of ``group`` columns."""
    return [
        (row, col)
        for first in range(0, cols, group)
        for row in range(rows)
        for col in range(first, min(first + group, cols))
    ]


def read(tiles: list[tuple[int, int]], bm: int, bn: int) -> tuple[int, int]:
    """Return how many rows of A and columns of B some tiles need."""
    return bm * len({row for row, _ in tiles}), bn * len({col for _, col in tiles})


def picture() -> str:
    """Draw C's tiles in both orders, with those of the first blocks filled."""
    config, gpu = kernel_spec(VARIANT).config, REFERENCE_GPUS["sm_90"]
    rows, cols, together = SIZE // config.bm, SIZE // config.bn, gpu.sms
    width = (WIDTH - _BETWEEN) / 2
    across, down = width / cols, width / cols * config.bm / config.bn
    parts: list[str] = []
    told = []
    ways = {"row by row": cols, f"groups of {config.launch.group} columns of tiles": config.launch.group}
    for number, (name, group) in enumerate(ways.items()):
        first = order(rows, cols, group)[:together]
        of_a, of_b = read(first, config.bm, config.bn)
        said = f"{of_a:,} rows of A, {of_b:,} columns of B"
        told.append(f"{name}: {said}, {of_a + of_b:,} together")
        parts.append(f'<g class="C" transform="translate({number * (width + _BETWEEN):.1f} 0)">')
        parts.append(f'<text x="0" y="4" style="font-weight: 600">{name}</text>')
        parts.append(text(said, 0, 22))
        parts.append(text(f"{of_a + of_b:,} together", 0, 38))
        parts.append(f'<rect class="ground" y="{_ABOVE}" width="{width:.2f}" height="{rows * down:.2f}"/>')
        for place, (row, col) in enumerate(first):
            x, y = col * across, _ABOVE + row * down
            parts.append(
                f'<rect class="half" x="{x:.2f}" y="{y:.2f}" width="{across - 1:.2f}" height="{down - 1:.2f}"/>'
            )
            if place % 10 == 0:
                parts.append(text(place, x + across / 2, y + down / 2 + 3, "small"))
        parts.append("</g>")
    bottom = _ABOVE + rows * down
    description = f"Tiles of C that {together} blocks compute at the same time, and what they read. {'; '.join(told)}"
    return document(f"The order of {VARIANT}'s tiles", description, bottom + 4, parts)
