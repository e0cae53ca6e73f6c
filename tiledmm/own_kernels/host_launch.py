"""Launches in the file's host code, and the choice of the rule by which a kernel is launched."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.argument_text import Said
from tiledmm.own_kernels.chosen_kernel import Chosen
from tiledmm.own_kernels.launch_rule import Geometry, GivenLaunch, LaunchRule
from tiledmm.own_kernels.roles import BATCH, Roles
from tiledmm.simulator.build.program.expressions import Value
from tiledmm.simulator.build.program.launch_site import LaunchSite
from tiledmm.simulator.build.program.launches import HostCode, Overrides
from tiledmm.simulator.build.program.program import Program

# Words in the names of host functions that write device memory.
_WRITES = re.compile(r"mem(?:set|cpy)|zero|fill|calloc|managed|init|clear|reset|generate|rand|cublas", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch in the file's host code.

    Attributes:
        host: The host code.
        site: The launch.
        roles: Roles of the kernel's parameters; None if it is not a product.
        place: File and line of the launch.
        fixed: Values of the host's variables that replace those of the text.
        otherwise: Value of variables that the text does not determine, such as command-line arguments; 0 for none.
    """

    host: HostCode
    site: LaunchSite
    roles: Roles | None
    place: str
    fixed: Overrides = field(default_factory=dict)
    otherwise: int = 0

    @property
    def source(self) -> str:
        """Source of the rule in a few words: the launch's file and line."""
        return f"as launched at {self.place}"

    def overrides(self, sizes: Mapping[str, int]) -> Overrides:
        """Return the values of the host's variables with which the kernel is launched at these sizes."""
        found = dict(self.fixed)
        for at, names in (self.roles.sizes if self.roles else {}).items():
            if at < len(self.site.arguments):
                roots = self.host.roots(self.site.arguments[at], self.site.at)
                found |= {root: sizes[names[0]] for root in roots if names[0] in sizes}
        if self.roles and self.roles.batch is not None:
            found |= dict.fromkeys(self.host.roots(self.site.arguments[self.roles.batch], self.site.at), BATCH)
        return found

    def same_sizes(self) -> list[list[int]]:
        """Return groups of size parameters whose argument is one variable: ``mm<<<...>>>(a, b, c, n, n, n)``."""
        groups: dict[tuple[int, str], list[int]] = {}
        for at in self.roles.sizes if self.roles else ():
            roots = self.host.roots(self.site.arguments[at], self.site.at) if at < len(self.site.arguments) else []
            if roots:
                groups.setdefault(roots[0], []).append(at)
        return [group for group in groups.values() if len(group) > 1]

    def leaves_unset(self, at: int) -> bool:
        """Return whether the file allocates the array of an argument, but nothing in it could write the array."""
        own = self.host.text(self.site.arguments[at])
        others = (part for site in self.host.launches if site != self.site for part in site.arguments)
        return (
            self.bytes_of(at, {}) is not None
            and not self.host.has_name(_WRITES)
            and own not in map(self.host.text, others)
        )

    def with_numbers(self, value: int) -> HostLaunch:
        """Return the launch with a given value for each of the host's variables that is larger."""
        fixed: dict[tuple[int, str], Value] = dict.fromkeys(self.host.large_literals(self.site, value), value)
        for part in self.site.arguments:
            own = self.host.value(part, self.site.at)
            if isinstance(own, int) and own > value:
                fixed |= dict.fromkeys(self.host.roots(part, self.site.at), value)
        return replace(self, fixed=fixed)

    @property
    def is_free(self) -> bool:
        """True if the sizes are variables of the host code, which may have other values."""
        parts = [self.site.arguments[at] for at in (self.roles.sizes if self.roles else {})]
        return all(self.host.roots(part, self.site.at) for part in parts)

    def own_sizes(self) -> dict[str, int]:
        """Return the sizes that the host passes, as far as the text determines them."""
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
        """Return the number of threads, or of 4-byte words in the largest array, whichever is larger."""
        geometry = self.geometry({})
        sizes = [self.bytes_of(at, {}) or 0 for at in range(len(self.site.arguments))]
        return max(math.prod(geometry.grid) * math.prod(geometry.block), *(size // 4 for size in sizes), 0)

    def bytes_of(self, at: int, sizes: Mapping[str, int], itemsize: int = 0) -> int | None:
        """Return the bytes that the host allocates for an argument; None if the text does not determine it.

        Args:
            at: Number of the argument.
            sizes: Sizes that are passed to the kernel.
            itemsize: Bytes of an element, for ``sizeof`` of a type of the program; 0 if they are unknown.
        """
        with self._knowing({}, itemsize):
            return self.host.bytes_of(self.site.arguments[at], self.site.at, self.overrides(sizes))

    def number(self, at: int, sizes: Mapping[str, int] | None = None) -> int | float | None:
        """Return the number that the host passes for an argument at given sizes; None if the text does not tell."""
        with self._knowing(sizes or {}):
            found = self.host.value(self.site.arguments[at], self.site.at, self.overrides(sizes or {}))
        return found if isinstance(found, (int, float)) else None

    @contextlib.contextmanager
    def _knowing(self, sizes: Mapping[str, int], itemsize: int = 0) -> Iterator[None]:
        """Return a context manager in which variables that the text does not determine have values.

        Args:
            sizes: Values of variables named M, N and K; of all variables if the three are equal.
            itemsize: ``sizeof`` of a type of the program; 0 if it is unknown.
        """
        square = sizes["M"] if len(set(sizes.values())) == 1 else 0

        def unknown(name: str) -> Value:
            if name.startswith("sizeof "):
                return itemsize or None
            return sizes.get(name.upper()) or square or (self.otherwise if name.isidentifier() else 0) or None

        self.host.unknown = unknown
        try:
            yield
        finally:
            self.host.unknown = lambda name: None

    def _three(
        self, part: tuple[int, int], what: str, overrides: Overrides, sizes: Mapping[str, int]
    ) -> tuple[int, int, int]:
        with self._knowing(sizes):
            found = self.host.value(part, self.site.at, overrides)
        if isinstance(found, (int, float)):
            found = int(found), 1, 1
        if found is None:
            text = self.host.text(part)
            raise ConfigError(
                f"{self.place} launches the kernel with {what} {text}, whose value is not in the file: pass --{what}"
            )
        return found


def rule_of(said: Said, chosen: Chosen, program: Program, roles: Roles | None) -> LaunchRule:
    """Return how a kernel is launched.

    Raises:
        ConfigError: If neither the user nor the file states it.
    """
    host = None
    if chosen.site is not None:
        line = program.preprocessed.text.count("\n", 0, program.tokens[chosen.site.at].begin) + 1
        place = program.preprocessed.places.location(line)
        host = HostLaunch(program.host, chosen.site, roles, place)
    if said.grid and said.block:
        return GivenLaunch(said.grid, said.block, said.shared or "0")
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
            raise ConfigError(f"--{'grid' if said.grid else 'block'} needs --{missing}, too")
    if host is not None:
        return host
    raise ConfigError(
        f"{chosen.declaration.location}: the file has no launch of {chosen.name}: pass --grid and --block, such as "
        "--grid '(N+15)/16,(M+15)/16' --block 16,16"
    )
