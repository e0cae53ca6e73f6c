"""Usual launches of a product whose file says none, from what the kernel's text does with its indices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tiledmm.own_kernels.launch_rule import Geometry

# Threads per block of kernels that count their threads along x only.
_THREADS = (256, 128, 64, 512, 1024)

# An array of a thread, as kernels have whose threads compute several elements of C.
_LOCAL_ARRAY = re.compile(r"\b(?:float|double|int|half|__half|T)\s+\w+\s*\[")

# The first thread of a block along an axis, and a thread's index: blockIdx.x * blockDim.x + threadIdx.x, in any order.
_FIRST = r"(?:blockIdx\s*\.\s*{0}\s*\*\s*blockDim\s*\.\s*{0}|blockDim\s*\.\s*{0}\s*\*\s*blockIdx\s*\.\s*{0})"
_INDEX = rf"(?:{_FIRST}\s*\+\s*threadIdx\s*\.\s*{{0}}|threadIdx\s*\.\s*{{0}}\s*\+\s*{_FIRST})"


@dataclass(frozen=True, slots=True)
class GuessedLaunch:
    """A launch that the kernel's text suggests: blocks that each compute a tile of C, or threads along x only.

    Attributes:
        block: Number of threads per block along x and y.
        tile: Columns and rows of C per block; None for threads that count the elements of C along x.
        lanes: Threads per element of C, without a tile.
        rows_along_x: Whether x counts the rows of C.
        depth: Blocks along z, for kernels that divide their work among any number.
        fewer: Factor by which there are fewer blocks, for kernels whose threads compute several elements in a loop.
        evident: Whether the text says this launch by itself, so that a wrong result is the kernel's fault.
        source: That it is a guess.
    """

    block: tuple[int, int]
    tile: tuple[int, int] | None = None
    lanes: int = 1
    rows_along_x: bool = False
    depth: int = 1
    fewer: int = 1
    evident: bool = False
    source: str = "a guess: --grid and --block say otherwise"

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch at given sizes."""
        block = (*self.block, 1)
        if self.tile is None:
            blocks = -(-sizes["M"] * sizes["N"] * self.lanes // self.block[0])
            return Geometry((-(-blocks // self.fewer), 1, self.depth), block)
        across, down = ("M", "N") if self.rows_along_x else ("N", "M")
        columns, rows = self.tile
        return Geometry((-(-sizes[across] // columns), -(-sizes[down] // rows), self.depth), block)


def counts_elements(text: str) -> bool:
    """Return whether a kernel's threads count elements along x over all blocks.

    Args:
        text: The kernel's text, preprocessed.
    """
    return re.search(_INDEX.format("x"), text) is not None


def guesses(text: str) -> list[GuessedLaunch]:
    """Return usual launches of a kernel, likeliest first; none if its text suggests none.

    Args:
        text: The kernel's text, preprocessed, with numbers in place of constants.
    """
    depth = 2 if re.search(r"gridDim\s*\.\s*z", text) else 1
    found = [replace(each, depth=depth) for each in _guesses(text)]
    turned = [replace(each, rows_along_x=True) for each in found if each.tile]
    return [*found, *turned]


def _guesses(text: str) -> Iterator[GuessedLaunch]:
    by_rows = bool(re.search(r"threadIdx\s*\.\s*y|thread_index\s*\(", text))
    uses_block = "blockDim" in text
    tiles = {int(a) for a, b in _shared_arrays(text) if int(b) - int(a) in (0, 1)}
    factors = {axis: _factors(text, axis) for axis in "xy"}
    sides = tiles | factors["x"] | factors["y"]
    if not re.search(r"Idx\s*\.\s*[yz]|_index\s*\(", text):
        if uses_block and not tiles:
            yield from _along_x(text)
    elif by_rows and len(sides) == 1 and 4 <= max(sides) <= 32:
        side = max(sides)
        own = re.sub(r"__shared__[^;]*;", "", text)
        evident = all(re.search(_INDEX.format(axis), text) for axis in "xy")
        evident = evident or not (uses_block or _LOCAL_ARRAY.search(own))
        for x, y in ((side, side), (side // 2, side // 2), (side // 4, side // 4), (side, side // 4)):
            yield GuessedLaunch((x, y), (side, side), evident=evident)
    elif by_rows and uses_block and not sides:
        columns, rows = (_elements_per_thread(text, axis) for axis in "xy")
        for x, y in ((16, 16), (32, 8), (8, 8), (32, 32)):
            tile = x * (columns or 1), y * (rows or 1)
            yield GuessedLaunch((x, y), tile, evident=bool(columns and rows))
    elif not by_rows and len(factors["x"]) == len(factors["y"]) == 1:
        for threads in _THREADS:
            yield GuessedLaunch((threads, 1), (max(factors["x"]), max(factors["y"])))


def _along_x(text: str) -> Iterator[GuessedLaunch]:
    """Yield launches of a kernel that counts blocks and threads along x only."""
    if re.search(r"gridDim\s*\.\s*x\s*\)?\s*\*\s*blockDim|blockDim\s*\.\s*x\s*\)?\s*\*\s*gridDim", text):
        yield GuessedLaunch((256, 1), fewer=3, evident=True)  # a loop over the grid must be right with any grid
        return
    index = _INDEX.format("x")
    if re.search(rf"\(\s*{index}\s*\)\s*(?:/\s*32\b|>>\s*5\b|/\s*warpSize)", text):
        yield GuessedLaunch((128, 1), lanes=32, evident=True)
    yield GuessedLaunch((256, 1), evident=bool(re.search(index, text)))


def _elements_per_thread(text: str, axis: str) -> int | None:
    """Return the number that a thread's index along an axis is multiplied by; None if the text has no such index."""
    index, first = _INDEX.format(axis), _FIRST.format(axis)
    found = re.search(rf"\(\s*{index}\s*\)\s*\*\s*(\d+)|(\d+)\s*\*\s*\(\s*{index}|{first}\s*\*\s*(\d+)", text)
    if found:
        return int(next(each for each in found.groups() if each))
    return 1 if re.search(index, text) else None


def _shared_arrays(text: str) -> list[tuple[str, str]]:
    """Return the last two extents of the arrays in shared memory."""
    arrays = re.findall(r"__shared__[^;]*;", text)
    return [each for array in arrays for each in re.findall(r"\[\s*(\d+)\s*\]\s*\[\s*(\d+)\s*(?:\+\s*1\s*)?\]", array)]


def _factors(text: str, axis: str) -> set[int]:
    """Return the numbers that a block's index is multiplied by."""
    index = rf"(?:blockIdx|group_index\s*\(\s*\))\s*\.\s*{axis}"
    found = re.findall(rf"{index}\s*\)?\s*\*\s*(\d+)|(\d+)\s*\*\s*{index}", text)
    return {int(before or after) for before, after in found}
