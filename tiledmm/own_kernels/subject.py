"""Subject of a check: one kernel of a program, and the options that its user states."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.accesses import Access, accesses_of
from tiledmm.own_kernels.argument_text import Said
from tiledmm.own_kernels.bounds import bound_of
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.chosen_kernel import Chosen, chosen_kernels
from tiledmm.own_kernels.compiled import compiled, resources_of
from tiledmm.own_kernels.expectation import Function
from tiledmm.own_kernels.explanations import why_slow
from tiledmm.own_kernels.host_launch import rule_of
from tiledmm.own_kernels.indices import Indices
from tiledmm.own_kernels.launch_rule import LaunchRule
from tiledmm.own_kernels.matrix_structures import of_members
from tiledmm.own_kernels.roles import Roles
from tiledmm.own_kernels.structures import Structure, structures_of
from tiledmm.own_kernels.trial import Trial
from tiledmm.simulator.api import compile_program
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.parameters import Parameter
from tiledmm.simulator.build.program.program import Program
from tiledmm.simulator.execute.settings import Settings

if TYPE_CHECKING:
    from tiledmm.compile.inspection import Resources


@dataclass(frozen=True)
class Subject:
    """A kernel to check.

    Attributes:
        program: The program.
        chosen: The kernel.
        said: Options that the user states.
        function: Function that computes the expected result; None for a product, or if nothing is compared.
        settings: Settings of the simulator.
        divides: Whether constants of the program that are sizes are multiples of the tile.
    """

    program: Program
    chosen: Chosen
    said: Said
    function: Function | None
    settings: Settings
    divides: bool = True

    @functools.cached_property
    def _resources(self) -> Future[tuple[Resources | None, str]]:
        """Future of the kernel's resources from NVRTC, which compiles while the simulator runs."""
        text, _, symbol = self.program.kernel_text(self.chosen.name)
        pool = ThreadPoolExecutor(1)
        future = pool.submit(resources_of, text, symbol, self.settings.target)
        pool.shutdown(wait=False)
        return future

    def start(self) -> None:
        """Begin to compile the kernel with NVRTC, in a thread."""
        if self.divides:  # otherwise this is the second half of a check
            _ = self._resources

    @functools.cached_property
    def written_kernel(self) -> NativeKernel:
        """Kernel as native code of this machine."""
        return compile_program(self.program, self.chosen.name, self.settings.built)

    @functools.cached_property
    def kernel(self) -> NativeKernel:
        """Kernel as native code; if matrices are structures, their members are parameters."""
        return of_members(self.written_kernel) or self.written_kernel

    @functools.cached_property
    def text(self) -> str:
        """Preprocessed text of the kernel and of the definitions that it names."""
        return self.program.device_text(self.chosen.declaration)

    @functools.cached_property
    def indices(self) -> Indices:
        """Accesses of its threads to its arrays."""
        members = self.parameters[len(self.kernel.parameters) :]
        return Indices(self.program, self.chosen, [each.name for each in members])

    @functools.cached_property
    def structures(self) -> list[Structure] | None:
        """Structures of integers among its parameters; None if there are other structures."""
        return structures_of(self.program, self.kernel.parameters)

    @functools.cached_property
    def parameters(self) -> list[Parameter]:
        """Parameters of the kernel, then the members of its structures."""
        own = self.kernel.parameters
        return [*own, *(member for each in self.structures or () for member in each.parameters(own[each.at]))]

    @property
    def signature(self) -> str:
        """Parameters, as they are written."""
        return ", ".join(f"{kind} {name}".strip() for kind, name in self.chosen.declaration.parameters)

    @property
    def quick(self) -> Settings:
        """Settings without full checks."""
        return replace(self.settings, checks=bool(self.settings.checks))

    def rule(self, roles: Roles | None) -> LaunchRule:
        """Return how the kernel is launched, by ``rule_of``."""
        # Roles are those of the members. The host code passes structures, and its text rarely determines their members.
        is_of_members = roles is not None and roles.last >= len(self.chosen.declaration.parameters)
        chosen = replace(self.chosen, site=None) if is_of_members else self.chosen
        return rule_of(self.said, chosen, self.program, roles)

    def error(self, said: str) -> ConfigError:
        """Return an error that names the kernel and its place."""
        return ConfigError(f"{self.chosen.declaration.location}: {self.chosen.name} {said}")

    @property
    def too_large(self) -> ConfigError:
        """Error for a kernel that takes too long at the sizes of its file."""
        return self.error(
            "takes minutes at the sizes of the file: pass smaller ones with --size, or with --define if they are "
            "constants"
        )

    def with_constants(self, values: Mapping[str, int], *, divides: bool) -> Subject:
        """Return the same kernel with other values of the program's constants, by name.

        Args:
            values: The values.
            divides: Whether they are multiples of the tile. Full checks use sizes that are not.
        """
        program = self.program.with_constants({name: str(value) for name, value in values.items()})
        chosen = next(each for each in chosen_kernels(program, self.chosen.name) if each.name == self.chosen.name)
        settings = self.quick if divides else self.settings
        return Subject(program, chosen, self.said, self.function, settings, divides)

    def report(
        self,
        rule: LaunchRule,
        trials: Sequence[Trial],
        notes: Sequence[str],
        itemsizes: tuple[int, int, int] | None = None,
    ) -> KernelReport:
        """Return the report of a kernel that was launched, with its costs.

        Args:
            rule: How it is launched.
            trials: Its launches.
            notes: Sentences on what the check assumed and found.
            itemsizes: Bytes per element of A, B and C; None if it is not a product.
        """
        first, target = trials[0], self.settings.target
        resources, found, unknown = None, None, ""
        accesses: tuple[Access, ...] = ()
        if self.divides:
            if first.ok:
                accesses = tuple(accesses_of(first.report))
            resources, unknown = self._resources.result()
            found = compiled(resources, first.geometry, self.kernel.target) if resources else None
        kind = {2: "float16", 4: "float32", 8: "float64"}.get(itemsizes[0], "float32") if itemsizes else ""
        bound = bound_of(first, kind, target) if kind and accesses else None
        advice = why_slow(first.report, resources, first.geometry.shared_bytes, kind) if accesses else ()
        return KernelReport(
            name=self.chosen.name,
            location=self.chosen.declaration.location,
            signature=self.signature,
            launch=rule.source,
            trials=tuple(trials),
            accesses=accesses,
            compiled=found,
            unknown=unknown,
            bound=bound,
            advice=advice,
            notes=tuple(notes),
        )

    def unchecked(self, missing: str) -> KernelReport:
        """Return the report of a kernel that is not checked, with what the check needs to know."""
        return KernelReport(self.chosen.name, self.chosen.declaration.location, self.signature, missing=missing)
