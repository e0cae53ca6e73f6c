"""Rules by which a kernel is launched at given sizes: as its user states, or by a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tiledmm.kernels.plain import SIZES
from tiledmm.own_kernels.argument_text import number, three
from tiledmm.own_kernels.roles import Roles

# A size that usual tiles divide.
_SIZE = 3840


@dataclass(frozen=True, slots=True)
class Geometry:
    """Geometry of a launch.

    Attributes:
        grid, block: Number of blocks, and of threads per block, along x, y and z.
        shared_bytes: Dynamic shared memory per block, in bytes.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


class LaunchRule(Protocol):
    """Rule by which a kernel is launched.

    Attributes:
        source: Source of the rule, in a few words.
    """

    @property
    def source(self) -> str:
        """Source of the rule, in a few words."""

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch at given sizes.

        Raises:
            ConfigError: If grid or block are unknown at these sizes.
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
class ElementLaunch:
    """A launch of one thread per element of an array.

    Attributes:
        elements: Number of elements.
        threads: Threads per block.
        source: Text which states that the launch is a guess.
    """

    elements: int
    threads: int = 256
    source: str = "a guess, as are the arguments (--grid, --block and --args override it)"

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch, which depends on no sizes."""
        return Geometry((-(-self.elements // self.threads), 1, 1), (self.threads, 1, 1))


@dataclass(frozen=True, slots=True)
class FixedLaunch:
    """A launch that depends on no sizes.

    Attributes:
        fixed: Grid and block.
        source: Text which states that the launch is a guess.
    """

    fixed: Geometry
    source: str = "a guess, as are the arguments (--grid, --block and --args override it)"

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch, which is the same at all sizes."""
        return self.fixed


def tile_of(rule: LaunchRule, roles: Roles) -> tuple[int, int]:
    """Return the rows and columns of C per block, from the growth of the grid with the sizes; 1 if it does not grow."""
    base = dict.fromkeys(SIZES, _SIZE)
    grid = rule.geometry(base).grid
    found = []
    for size in ("M", "N"):
        names = SIZES if roles.square else roles.equal_to(size)
        more = rule.geometry(base | dict.fromkeys(names, 2 * _SIZE)).grid
        grown = [after - before for before, after in zip(grid, more, strict=True) if after > before]
        if grown and min(grown) > _SIZE:  # blocks along one axis count tiles along both rows and columns
            smaller = (rule.geometry(base | dict.fromkeys(names, _SIZE - rows)).grid for rows in range(1, 1024))
            found.append(next((rows for rows, each in enumerate(smaller, 1) if each != grid), 1))
        else:
            found.append(max(1, _SIZE // min(grown)) if grown else 1)
    return found[0], found[1]


def rounds_up(rule: LaunchRule, roles: Roles, tile: Sequence[int]) -> bool:
    """Return whether the grid covers sizes that are not multiples of the tile."""
    sizes = {"M": 2 * tile[0], "N": 2 * tile[1], "K": 64}
    if roles.square:
        sizes = dict.fromkeys(SIZES, max(tile) * 2)
    larger = {name: size + 1 if name != "K" or roles.square else size for name, size in sizes.items()}
    return max(tile) == 1 or rule.geometry(larger).grid != rule.geometry(sizes).grid
