"""Pictures of eight rows of a tile in shared memory, by bank: unpadded, padded by 4 and by 16 bytes, and swizzled."""

from __future__ import annotations

from dataclasses import dataclass

from docs.pictures.svg import document, text
from tiledmm.hardware.banks import wavefronts

_ROWS, _WORDS, _CHUNK, _BANKS = 8, 32, 4, 32

#: The chunk of each row that eight lanes read: by an ldmatrix, say.
_READ = 2

# px: a word's width and height, between two panels, above the words of one and below them.
_WIDTH, _HEIGHT, _BETWEEN, _ABOVE, _BELOW = 8, 14, 44, 22, 54


@dataclass(frozen=True, slots=True)
class Tile:
    """A placement of rows of 32 words in shared memory.

    Attributes:
        name: Name in the picture.
        pitch: Words from one row to the next.
        swizzled: Whether the chunks of a row are permuted: chunk ``c`` of row ``r`` is stored at chunk ``c XOR r``.
    """

    name: str
    pitch: int
    swizzled: bool = False

    def column(self, row: int, col: int) -> int:
        """Return the column at which a word is stored."""
        return (col // _CHUNK ^ row) * _CHUNK + col % _CHUNK if self.swizzled else col

    def told(self) -> str:
        """Return how many wavefronts eight lanes take to read 4 or 16 bytes each from a column of rows."""
        counts = []
        for width in (4, 16):
            addresses = [4 * (self.pitch * row + self.column(row, _READ * _CHUNK)) for row in range(_ROWS)]
            aligned = not any(address % width for address in addresses)
            counts.append(str(wavefronts(addresses, width)) if aligned else "misaligned")
        narrow, wide = counts
        return f"4 bytes: {narrow} wavefront{'s' * (narrow != '1')}; 16: {wide}"

    def formula(self) -> str:
        """Return the formula for a word's index in shared memory."""
        col = f"{_CHUNK} (chunk XOR row) + col % {_CHUNK}" if self.swizzled else "col"
        return f"{self.pitch} row + {col}"


TILES = (
    Tile("no padding", _WORDS),
    Tile("padded by one word", _WORDS + 1),
    Tile("padded by 16 bytes", _WORDS + _CHUNK),
    Tile("swizzled", _WORDS, swizzled=True),
)


def picture() -> str:
    """Draw a panel per placement: words colored by bank, with bars that mark what eight lanes read."""
    parts: list[str] = []
    across, down = _WORDS * _WIDTH + _BETWEEN, _ABOVE + _ROWS * _HEIGHT + _BELOW
    for number, tile in enumerate(TILES):
        place = f"translate({number % 2 * across} {number // 2 * down})"
        parts += [f'<g transform="{place}">', *_panel(tile), "</g>"]
    told = "; ".join(f"{tile.name}: {tile.told()}" for tile in TILES)
    description = (
        "Each word has the color of its bank. The words of one column that eight lanes read, each from its own row, "
        f"are marked. Wavefronts of these reads: {told}"
    )
    return document("Eight rows of 32 words, by bank", description, 2 * down - _BELOW / 2, parts)


def _panel(tile: Tile) -> list[str]:
    places = [(row, at) for row in range(_ROWS) for at in range(_WORDS)]
    drawn = [f'<text x="0" y="0" style="font-weight: 600">{tile.name}</text>', text(tile.formula(), 0, 15)]
    for bank in range(_BANKS):
        words = ((row, at) for row, at in places if (tile.pitch * row + at) % _BANKS == bank)
        outline = "".join(f"M{at * _WIDTH} {_top(row)}h{_WIDTH}v{_HEIGHT}h-{_WIDTH}z" for row, at in words)
        drawn.append(f'<path fill="hsl({bank * 360 // _BANKS} 65% 58%)" d="{outline}"/>')
    for row in range(_ROWS):
        x, y = tile.column(row, _READ * _CHUNK) * _WIDTH, _top(row) + _HEIGHT / 2 - 2
        drawn.append(f'<rect class="on" x="{x}" y="{y:g}" width="{_CHUNK * _WIDTH}" height="4"/>')
    return [*drawn, text(tile.told(), 0, _top(_ROWS) + 16)]


def _top(row: int) -> int:
    return _ABOVE + row * _HEIGHT
