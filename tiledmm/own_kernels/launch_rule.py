"""How a kernel is launched at given sizes: as its user says, as the file's host code does, or by a guess."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.argument_text import Said, number, three
from tiledmm.own_kernels.chosen_kernel import Chosen
from tiledmm.own_kernels.roles import SIZES, Roles
from tiledmm.simulator.build.program.expressions import Value
from tiledmm.simulator.build.program.launch_site import LaunchSite
from tiledmm.simulator.build.program.launches import HostCode, Overrides
from tiledmm.simulator.build.program.program import Program


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
class HostLaunch:
    """A launch in the file's host code.

    Attributes:
        host: The host code.
        site: The launch.
        roles: Roles of the kernel's parameters; None if it is no product.
        place: File and line.
        fixed: Values of the host's variables that replace those of the text.
    """

    host: HostCode
    site: LaunchSite
    roles: Roles | None
    place: str
    fixed: Overrides = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where the rule comes from, in a few words."""
        return f"as launched at {self.place}"

    def overrides(self, sizes: Mapping[str, int]) -> Overrides:
        """Return the values of the host's variables at which the kernel gets these sizes."""
        found = dict(self.fixed)
        for at, names in (self.roles.sizes if self.roles else {}).items():
            if at < len(self.site.arguments):
                roots = self.host.roots(self.site.arguments[at], self.site.at)
                found |= {root: sizes[names[0]] for root in roots if names[0] in sizes}
        return found

    def with_numbers(self, value: int) -> HostLaunch:
        """Return the launch with another value of the host's variables that are larger."""
        fixed: dict[tuple[int, str], Value] = dict.fromkeys(self.host.large_literals(self.site, value), value)
        for part in self.site.arguments:
            own = self.host.value(part, self.site.at)
            if isinstance(own, int) and own > value:
                fixed |= dict.fromkeys(self.host.roots(part, self.site.at), value)
        return replace(self, fixed=fixed)

    @property
    def is_free(self) -> bool:
        """True if the sizes that the kernel gets are variables of the host, which may have other values."""
        parts = [self.site.arguments[at] for at in (self.roles.sizes if self.roles else {})]
        return all(self.host.roots(part, self.site.at) for part in parts)

    def own_sizes(self) -> dict[str, int]:
        """Return the sizes that the host passes, as far as the text says."""
        found: dict[str, int] = {}
        for at, names in (self.roles.sizes if self.roles else {}).items():
            value = self.host.value(self.site.arguments[at], self.site.at)
            found |= {name: int(value) for name in names if isinstance(value, (int, float))}
        return found

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch at given sizes."""
        overrides = self.overrides(sizes)
        grid = self._three(self.site.grid, "grid", overrides, sizes)
        block = self._three(self.site.block, "block", overrides, sizes)
        shared = self.host.value(self.site.shared, self.site.at, overrides) if self.site.shared[1] else 0
        return Geometry(grid, block, int(shared) if isinstance(shared, (int, float)) else 0)

    def work(self) -> int:
        """Return the number of threads, or of bytes of an array by four, whichever is more, as far as the text says."""
        geometry = self.geometry({})
        sizes = [self.bytes_of(at, {}) or 0 for at in range(len(self.site.arguments))]
        return max(math.prod(geometry.grid) * math.prod(geometry.block), *(size // 4 for size in sizes), 0)

    def bytes_of(self, at: int, sizes: Mapping[str, int], itemsize: int = 0) -> int | None:
        """Return the bytes that the host allocates for an argument; None if the text does not say.

        Args:
            at: Number of the argument.
            sizes: Sizes that the kernel gets.
            itemsize: Bytes of an element, for ``sizeof`` of a type of the program; 0 if they are not known.
        """
        self.host.unknown = lambda name: (itemsize or None) if name.startswith("sizeof ") else None
        found = self.host.bytes_of(self.site.arguments[at], self.site.at, self.overrides(sizes))
        self.host.unknown = lambda name: None
        return found

    def _three(
        self, part: tuple[int, int], what: str, overrides: Overrides, sizes: Mapping[str, int]
    ) -> tuple[int, int, int]:
        found = self.host.value(part, self.site.at, overrides)
        if found is None:  # a variable that the host reads from somewhere, such as M
            square = len(set(sizes.values())) == 1
            self.host.unknown = lambda name: sizes.get(name.upper()) or (sizes.get("M") if square else None)
            found = self.host.value(part, self.site.at, overrides)
            self.host.unknown = lambda name: None
        if isinstance(found, (int, float)):
            found = int(found), 1, 1
        if found is None:
            text = self.host.text(part)
            raise ConfigError(
                f"{self.place} launches with {what} {text}, whose value the file does not say: say --{what}"
            )
        return found


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


def rule_of(said: Said, chosen: Chosen, program: Program, roles: Roles | None, text: str) -> LaunchRule:
    """Return how a kernel is launched.

    Raises:
        ConfigError: If nobody says it, and it cannot be guessed.
    """
    host = None
    if chosen.site is not None:
        line = program.preprocessed.text.count("\n", 0, program.tokens[chosen.site.at].begin) + 1
        place = program.preprocessed.places.location(line)
        host = HostLaunch(program.host, chosen.site, roles, place)
    if said.grid and said.block:
        return GivenLaunch(said.grid, said.block, said.shared or "0")
    guessed = guess(text) if roles else None
    if said.block and roles:
        parts = [part for part in re.split(r"[,x]", said.block) if part.strip()]
        grid = "(M*N+{0}-1)/({0})" if len(parts) == 1 else "(N+{0}-1)/({0}),(M+{1}-1)/({1})"
        return GivenLaunch(
            grid.format(*parts),
            said.block.replace("x", ","),
            said.shared or "0",
            "blocks as given, one thread per element of C",
        )
    if said.grid or said.block:
        missing = "block" if said.grid else "grid"
        if host is None:
            raise ConfigError(f"--{'grid' if said.grid else 'block'} needs --{missing} beside it")
    if host is not None:
        return host
    if guessed is not None:
        return guessed
    raise ConfigError(
        f"{chosen.declaration.location}: the file has no launch of {chosen.name}: say --grid and --block, such as "
        "--grid '(N+15)/16,(M+15)/16' --block 16,16"
    )


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
