"""How a kernel is launched at given sizes: as its user says, or by a guess."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tiledmm.own_kernels.argument_text import number, three
from tiledmm.own_kernels.roles import SIZES, Roles


@dataclass(frozen=True, slots=True)
class Geometry:
    """A launch without its arguments.

    Attributes:
        grid, block: Number of blocks, and of threads per block, along x, y and z.
        shared_bytes: Dynamic shared memory per block.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


class LaunchRule(Protocol):
    """How a kernel is launched.

    Attributes:
        source: Where the rule comes from, in a few words.
    """

    @property
    def source(self) -> str:
        """Where the rule comes from, in a few words."""

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch at given sizes.

        Raises:
            ConfigError: If grid or block are not known at these sizes.
        """


@dataclass(frozen=True, slots=True)
class GivenLaunch:
    """A launch that the user states by expressions of sizes."""

    grid: str
    block: str
    shared: str = "0"
    source: str = "as given"

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch at given sizes."""
        return Geometry(three(self.grid, sizes), three(self.block, sizes), int(number(self.shared, sizes)))


@dataclass(frozen=True, slots=True)
class GuessedLaunch:
    """A launch of one thread per element of C, in blocks that the kernel's text suggests.

    Attributes:
        block: Number of threads per block along x and y.
        rows_along_x: Whether x counts the rows of C.
        source: That it is a guess.
    """

    block: tuple[int, int]
    rows_along_x: bool = False
    source: str = "a guess: --grid and --block say otherwise"

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch at given sizes."""
        x, y = self.block
        if y == 1:
            return Geometry((-(-sizes["M"] * sizes["N"] // x), 1, 1), (x, 1, 1))
        across, down = ("M", "N") if self.rows_along_x else ("N", "M")
        return Geometry((-(-sizes[across] // x), -(-sizes[down] // y), 1), (x, y, 1))


@dataclass(frozen=True, slots=True)
class ElementLaunch:
    """A launch of one thread per element of an array, in blocks of 256."""

    elements: int
    source: str = "a guess, as are the arguments: --grid, --block and --args say otherwise"

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch, which depends on no sizes."""
        return Geometry((-(-self.elements // 256), 1, 1), (256, 1, 1))


def guess(text: str) -> GuessedLaunch | None:
    """Return the usual launch of a kernel with one thread per element; None if its text suggests no such launch.

    Args:
        text: The kernel's text, preprocessed.
    """
    plain = bool(re.search(r"\bthreadIdx\s*\.\s*y", text)) and bool(re.search(r"\bblockIdx\s*\.\s*y", text))
    tiles = {
        int(a)
        for a, b in re.findall(r"__shared__[^;]*?\[\s*(\d+)\s*\]\s*\[\s*(\d+)\s*(?:\+\s*1\s*)?\]", text)
        if int(b) - int(a) in (0, 1)
    }
    uses_block = "blockDim" in text
    factors = {int(each) for each in re.findall(r"blockIdx\s*\.\s*[xy]\s*\*\s*(\d+)", text)}
    if plain and len(tiles | factors) == 1:
        tile = next(iter(tiles | factors))
        return GuessedLaunch((tile, tile)) if 4 <= tile <= 32 else None
    if plain and uses_block and not tiles and not factors:
        return GuessedLaunch((16, 16))
    if not re.search(r"Idx\s*\.\s*[yz]", text) and uses_block and not tiles:
        return GuessedLaunch((256, 1))
    return None


def tile_of(rule: LaunchRule, roles: Roles) -> tuple[int, int]:
    """Return the rows and columns of C per block, from how the grid grows with the sizes; 1 where it does not."""
    base = dict.fromkeys(SIZES, 3840)
    grid = rule.geometry(base).grid
    found = []
    for size in ("M", "N"):
        if roles.square:
            more = rule.geometry(dict.fromkeys(SIZES, 7680)).grid
        elif size in roles.named:
            more = rule.geometry(base | {size: 7680}).grid
        else:
            found.append(1)
            continue
        grown = [after - before for before, after in zip(grid, more, strict=True) if after > before]
        found.append(max(1, 3840 // min(grown)) if grown else 1)
    return found[0], found[1]


def rounds_up(rule: LaunchRule, roles: Roles, tile: Sequence[int]) -> bool:
    """Return whether the grid covers sizes that are no multiples of the tile."""
    sizes = {"M": 2 * tile[0], "N": 2 * tile[1], "K": 64}
    if roles.square:
        sizes = dict.fromkeys(SIZES, max(tile) * 2)
    larger = {name: size + 1 if name != "K" or roles.square else size for name, size in sizes.items()}
    return max(tile) == 1 or rule.geometry(larger).grid != rule.geometry(sizes).grid
