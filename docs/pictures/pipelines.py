"""Timelines of copies and products of tiles: with one, two, three or four stages, and with a barrier per stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docs.pictures.svg import WIDTH, document, legend, text

#: Units of time that a copy takes, from its request until the tile is in shared memory; that lie between two requests;
#: and that the product of a tile takes. They are no GPU's: what matters is that a copy takes longer than a product, and
#: that several copies can be under way.
_COPY, _REQUEST, _MULTIPLY = 5, 1, 3

_TILES = 6

# px: to the first bar, a line of a timeline, a bar on it, above the lines of one and below them.
_LEFT, _LINE, _BAR, _ABOVE, _BELOW = 66, 17, 14, 14, 26


@dataclass(frozen=True, slots=True)
class _Work:
    """Begin and end of a tile's copy or product, in units of time."""

    tile: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Way:
    """A way to copy and multiply tiles.

    Attributes:
        name: Name in the picture.
        rungs: Kernels that work this way with their default tiles.
        stages: Number of tiles that fit in shared memory.
        by_stage: Whether each stage has its own barriers, instead of those of the block.
    """

    name: str
    rungs: str
    stages: int
    by_stage: bool = False

    def works(self) -> tuple[list[_Work], list[_Work]]:
        """Return the times of each tile's copy and product."""
        copies: list[_Work] = []
        products: list[_Work] = []
        for tile in range(_TILES):
            begin = max(self._free(tile, products), copies[-1].begin + _REQUEST if copies else 0)
            copies.append(_Work(tile, begin, begin + _COPY))
            begin = max(copies[-1].end, products[-1].end if products else 0)
            products.append(_Work(tile, begin, begin + _MULTIPLY))
        return copies, products

    def _free(self, tile: int, products: list[_Work]) -> int:
        """Return the time from which a tile may be requested, when a barrier has shown that its place is free."""
        if self.stages == 1 or self.by_stage:
            return products[tile - self.stages].end if tile >= self.stages else 0
        ahead = self.stages - 1  # the barrier before a product says that the product before it has ended
        return products[tile - ahead].begin if tile >= ahead else 0


WAYS = (
    Way("one buffer", "tiled, register_tiled", 1),
    Way("two buffers", "double_buffered", 2),
    Way("three stages", "warp_tiled, tensor_core", 3),
    Way("four stages, each with its own barriers", "wgmma", 4, by_stage=True),
)


def picture() -> str:
    """Draw a timeline for each way, all to the same scale."""
    last = max(_end(way) for way in WAYS)
    unit = (WIDTH - _LEFT) / last
    parts: list[str] = []
    y = 0.0
    for way in WAYS:
        parts += _timeline(way, y, unit)
        y += _ABOVE + (way.stages + 1) * _LINE + _BELOW
    told = {
        "half": "a copy, until it arrives",
        "warp": "a product",
        "inside": "a barrier of the whole block",
        "thread": "a barrier of one stage",
    }
    drawn, bottom = legend(told, y - 10)
    lasts = "; ".join(f"{way.name}: {_end(way)} units of time" for way in WAYS)
    description = f"{_TILES} tiles: a copy takes {_COPY} units of time, and a product {_MULTIPLY}. {lasts}"
    return document("Copies and products of tiles, by the number of stages", description, bottom + 6, [*parts, *drawn])


def _end(way: Way) -> int:
    return way.works()[1][-1].end


def _timeline(way: Way, top: float, unit: float) -> Iterator[str]:
    copies, products = way.works()
    yield f'<text x="0" y="{top}" style="font-weight: 600">{way.name}</text>'
    yield f'<text x="{WIDTH}" y="{top}" text-anchor="end">{way.rungs}: {_end(way)} units of time</text>'
    first = top + _ABOVE - 4
    below = first + way.stages * _LINE
    for stage in range(way.stages):
        yield text("copy" if stage == 0 else "", 0, first + stage * _LINE + 11)
    yield text("multiply", 0, below + 11)
    for work in copies:
        yield from _bar(work, "half C", first + work.tile % way.stages * _LINE, unit)
    for work in products:
        yield from _bar(work, "warp C", below, unit)
    for at, row in _barriers(way, copies, products):
        look, y = ("thread", first + row * _LINE) if way.by_stage else ("inside", first)
        height = _BAR if way.by_stage else below + _BAR - first
        yield f'<rect class="{look}" x="{_LEFT + at * unit - 1:.1f}" y="{y:g}" width="2" height="{height:g}"/>'


def _bar(work: _Work, look: str, y: float, unit: float) -> Iterator[str]:
    x, width = _LEFT + work.begin * unit, (work.end - work.begin) * unit - 1
    yield f'<rect class="{look}" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{_BAR}"/>'
    yield f'<text class="inside" x="{x + width / 2:.1f}" y="{y + 11:g}">{work.tile}</text>'


def _barriers(way: Way, copies: list[_Work], products: list[_Work]) -> Iterator[tuple[int, int]]:
    """Yield the time and stage of each barrier: until a tile has arrived, and until its place is free again."""
    for copy, product in zip(copies, products, strict=True):
        stage = copy.tile % way.stages
        yield product.begin, stage
        if way.stages == 1 or way.by_stage:
            yield product.end, stage
