"""The check of one kernel: what its parameters are, how it is launched, whether it is right, and what it costs."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from tiledmm.errors import CompilationError, ConfigError
from tiledmm.own_kernels.accesses import Access, accesses_of
from tiledmm.own_kernels.argument_text import Said
from tiledmm.own_kernels.arguments import check_structures, given_arguments, host_arguments, roles_of_arguments
from tiledmm.own_kernels.check_report import ONLY_MULTIPLES, KernelReport
from tiledmm.own_kernels.chosen_kernel import Chosen, chosen_kernels
from tiledmm.own_kernels.expectation import Function, Layout, Product
from tiledmm.own_kernels.launch_rule import (
    GivenLaunch,
    GuessedLaunch,
    HostLaunch,
    LaunchRule,
    rounds_up,
    rule_of,
    tile_of,
)
from tiledmm.own_kernels.resources import bound_of, compiled
from tiledmm.own_kernels.roles import SIZES, Roles, roles_of
from tiledmm.own_kernels.sizes import (
    MOST_WORK,
    SizesError,
    complete,
    constants_of,
    granularity,
    sizes_to_try,
    smaller,
    work_of,
)
from tiledmm.own_kernels.trial import Trial, find_layout, try_launch, try_product
from tiledmm.simulator.api import compile_program
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.parameters import Parameter
from tiledmm.simulator.build.program.program import Program
from tiledmm.simulator.execute.settings import Settings

#: Elements and threads that a check of a kernel that is no product has at most, and that it has otherwise.
MOST_ELEMENTS = 1 << 18
FEW_ELEMENTS = 4096


class KernelCheck:
    """The check of one kernel.

    Args:
        program: The program.
        chosen: The kernel.
        said: What the user says about it.
        function: What it should compute; None for a product, or nothing.
        settings: Settings of the simulator.
    """

    def __init__(
        self, program: Program, chosen: Chosen, said: Said, function: Function | None, settings: Settings
    ) -> None:
        self._program, self._chosen, self._said, self._settings = program, chosen, said, settings
        if function is None and said.expect not in ("", "matmul"):
            function = Function.of(said.expect)
        self._function = function
        self._notes: list[str] = []
        self._divides = True

    def report(self) -> KernelReport:
        """Run the kernel, and return the report."""
        kernel = compile_program(self._program, self._chosen.name, self._settings.built)
        parameters = kernel.parameters
        text = self._program.device_text(self._chosen.declaration)
        possible = self._possible_roles(parameters, text)
        if self._said.expect == "matmul" and not possible:
            raise ConfigError(
                f"{self._chosen.declaration.location}: {self._chosen.name} has no parameters A, B, C and sizes: say "
                "--args 'A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K' in the kernel's order"
            )
        if not possible or self._function is not None:
            return self._of_any(kernel, rule_of(self._said, self._chosen, self._program, None, text))
        launches = [(roles, rule_of(self._said, self._chosen, self._program, roles, text)) for roles in possible]
        launches += [
            (roles, replace(rule, rows_along_x=True)) for roles, rule in launches if isinstance(rule, GuessedLaunch)
        ]
        try:
            roles, rule = self._likeliest(kernel, launches)
            if roles != launches[0][0]:
                sizes = {kernel.parameters[at].name: names[0] for at, names in sorted(roles.sizes.items())}
                self._notes.append(f"A is (M, K) and B is (K, N): {', '.join(sizes)} are {', '.join(sizes.values())}.")
            return self._of_product(kernel, rule, roles)
        except SizesError:
            return self._of_any(kernel, launches[0][1])

    def _possible_roles(self, parameters: Sequence[Parameter], text: str) -> list[Roles]:
        """Return the roles that the parameters may have, likeliest first; none if the kernel looks like no product."""
        if said := self._said.arguments:
            roles = roles_of_arguments(said, parameters)
            return [] if roles is None else [roles]
        return roles_of(self._chosen.name, parameters, has_loop=_has_loop(text))

    def _likeliest(
        self, kernel: NativeKernel, launches: Sequence[tuple[Roles, LaunchRule]]
    ) -> tuple[Roles, LaunchRule]:
        """Return the roles and the launch with which the kernel is right; the first ones if it is right with none."""
        for roles, rule in launches if len(launches) > 1 else ():
            product = Product.of(roles, kernel.parameters)
            with contextlib.suppress(ConfigError):
                sizes = self._said.sizes or sizes_to_try(rule, roles)[0][0]
                sizes = complete(sizes, rule, product)
                quick = replace(self._settings, checks=True, counts=False)
                if (
                    work_of(sizes) <= MOST_WORK
                    and try_product(kernel, product, sizes, rule.geometry(sizes), quick, divides=True).right
                ):
                    return roles, rule
        return launches[0]

    def _of_product(self, kernel: NativeKernel, rule: LaunchRule, roles: Roles) -> KernelReport:
        product = Product.of(roles, kernel.parameters)
        given = self._said.sizes
        step = granularity(self._program.device_text(self._chosen.declaration))
        tries = [(given, True)] if given else sizes_to_try(rule, roles, step)
        completed = [(complete(sizes, rule, product), divides) for sizes, divides in tries]
        if len(completed) > 1 and completed[0][0] == completed[1][0]:
            completed = [(completed[0][0], self._divides)]  # constants of the file
            if self._divides and not self._program.is_changed:
                return self._at_other_constants(list(completed[0][0].values()))
        if not given and work_of(completed[0][0]) > MOST_WORK:
            raise ConfigError(self._too_large())
        trials: list[Trial] = []
        for sizes, divides in completed:
            last = (sizes, divides) == completed[-1]
            settings = self._settings if last else replace(self._settings, checks=bool(self._settings.checks))
            layout = next((each.layout for each in trials if each.right), None)
            trials.append(
                try_product(kernel, product, sizes, rule.geometry(sizes), settings, divides=divides, layout=layout)
            )
            if not trials[-1].ok:
                break
        self._note(rule, roles, kernel, trials)
        if step > 1 and len(trials) > 1:
            what = "fragments of tensor cores" if step == 16 else "vectors"
            self._notes.append(f"The kernel accesses {what}, so all sizes are multiples of {step} here.")
        itemsizes = (product.types[0].itemsize, product.types[1].itemsize, product.types[2].itemsize)
        first = trials[0]
        operands = product.arguments(first.sizes, first.layout or Layout(), zero=first.adds)
        return self._finish(kernel, rule, trials, operands, itemsizes)

    def _note(self, rule: LaunchRule, roles: Roles, kernel: NativeKernel, trials: list[Trial]) -> None:
        """Add notes on what the check assumed and saw."""
        if not trials[0].right and not roles.square and isinstance(rule, (HostLaunch, GivenLaunch)):
            square = dict.fromkeys(SIZES, math.lcm(*tile_of(rule, roles), 32))
            product, quick = Product.of(roles, kernel.parameters), replace(self._settings, checks=True, counts=False)
            if roles.named == set(SIZES) and find_layout(kernel, product, square, rule.geometry(square), quick):
                self._notes.append(
                    "The result is right where M = N = K: the kernel or its grid takes one size for another, as a grid "
                    "whose x and y are exchanged does."
                )
        if not trials[0].ok and isinstance(rule, GuessedLaunch):
            self._notes.append("The launch is a guess: if it is another, say it by --grid and --block.")
        if not trials[-1].ok and not trials[-1].divides:
            text = self._program.device_text(self._chosen.declaration)
            guarded = _has_guards(text, [kernel.parameters[at].name for at in roles.sizes])
            # One thread per element without a guard, on a grid that rounds up, is a mistake; whole tiles are a choice.
            meant = "__shared__" in text or isinstance(rule, GuessedLaunch)
            if (not guarded and meant) or not rounds_up(rule, roles, tile_of(rule, roles)):
                self._notes.append(ONLY_MULTIPLES)
        if any(each.adds for each in trials):
            self._notes.append("The kernel adds to C, which must be zero before the launch.")

    def _at_other_constants(self, used: Sequence[int]) -> KernelReport:
        """Check the kernel with other values of the constants that are its sizes: multiples of the tile, then others.

        Args:
            used: The sizes that follow from the constants.
        """
        constants = self._program.constants
        names = constants_of(self._program, used)
        if not names and max(used) > 512:
            raise ConfigError(self._too_large())
        whole = {name: smaller(constants[name]) for name in names}
        report = self._with(whole, divides=True).report()
        changed = [
            f"{name} is {whole[name]} here, not {constants[name]:,}" for name in names if whole[name] != constants[name]
        ]
        if changed:
            report = replace(report, notes=(f"So that the check takes seconds, {', '.join(changed)}.", *report.notes))
        if not report.ok or not names:
            return report
        odd = {name: (size - 27 if size > 64 else size - 5) + at for at, (name, size) in enumerate(whole.items())}
        try:
            other = self._with(odd, divides=False).report()
        except (ConfigError, CompilationError):
            return report  # other sizes do not fit the tile, by the file's own words
        notes = dict.fromkeys([*report.notes, *other.notes])
        if not other.trials[0].ok and not _covers(report.trials[0], other.trials[0]):
            notes[ONLY_MULTIPLES] = None
        return replace(report, trials=(*report.trials, *other.trials), notes=tuple(notes))

    def _with(self, values: Mapping[str, int], *, divides: bool) -> KernelCheck:
        """Return the check of the same kernel with other values of the program's constants."""
        program = self._program.with_constants({name: str(value) for name, value in values.items()})
        chosen = next(each for each in chosen_kernels(program, self._chosen.name) if each.name == self._chosen.name)
        settings = replace(self._settings, checks=bool(self._settings.checks)) if divides else self._settings
        again = KernelCheck(program, chosen, self._said, self._function, settings)
        again._divides = divides
        return again

    def _too_large(self) -> str:
        return (
            f"{self._chosen.declaration.location}: {self._chosen.name} takes minutes at the sizes of the file: say "
            "smaller ones by --size, or by --define if they are constants"
        )

    def _of_any(self, kernel: NativeKernel, rule: LaunchRule) -> KernelReport:
        """Check a kernel that is no product by one launch, with given arguments or those of the host code."""
        sizes = self._said.sizes or {"M": 48, "N": 80, "K": 64}
        if self._said.args:
            arguments = given_arguments(self._said.arguments, kernel.parameters, sizes)
        elif isinstance(rule, HostLaunch):
            check_structures(kernel.parameters)
            if rule.work() > MOST_ELEMENTS:
                return self._of_fewer(kernel, rule)
            arguments = host_arguments(rule, kernel.parameters)
        else:
            wanted = ", ".join(f"{each.type} {each.name}" for each in kernel.parameters)
            raise ConfigError(
                f"{self._chosen.declaration.location}: what are the arguments of {self._chosen.name}({wanted})? Say "
                "them, as in --args 'x:f32[1000], 1000'"
            )
        geometry = rule.geometry(sizes if self._said.args else {})
        kept = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        trial = try_launch(kernel, arguments, geometry, self._settings, self._function, {})
        if self._function is None:
            self._notes.append("Nothing says what the kernel should compute: --expect matmul or FILE.py:function does.")
        if not trial.report.ok and not self._said.args:
            self._notes.append("Its arrays hold random integers from -3 to 3: what takes them for indices may miss.")
        return self._finish(kernel, rule, [trial], kept, None)

    def _of_fewer(self, kernel: NativeKernel, rule: HostLaunch) -> KernelReport:
        """Check a kernel with fewer elements than its host code has: smaller variables, or smaller constants."""
        for number in (FEW_ELEMENTS, FEW_ELEMENTS >> 4, FEW_ELEMENTS >> 6):
            fewer = rule.with_numbers(number)
            if fewer.work() <= MOST_ELEMENTS:
                self._notes.append(
                    f"So that the check takes seconds, large numbers of the host code are {number:,} here."
                )
                return self._of_any(kernel, fewer)
        constants = {} if self._program.is_changed else self._program.constants
        names = [name for name, value in constants.items() if value > FEW_ELEMENTS]
        if not names:
            raise ConfigError(self._too_large())
        report = self._with(dict.fromkeys(names, FEW_ELEMENTS), divides=True).report()
        changed = f"So that the check takes seconds, {' and '.join(names)} is {FEW_ELEMENTS:,} here."
        return replace(report, notes=(changed, *report.notes))

    def _finish(
        self,
        kernel: NativeKernel,
        rule: LaunchRule,
        trials: list[Trial],
        arguments: list[Any],
        itemsizes: tuple[int, int, int] | None,
    ) -> KernelReport:
        first, target = trials[0], self._settings.target
        found, unknown = None, ""
        accesses: tuple[Access, ...] = ()
        if first.divides:  # else this is the second half of a check
            with ThreadPoolExecutor(1) as pool:
                resources = pool.submit(compiled, kernel, first, target)
                if first.ok:
                    accesses = accesses_of(kernel, arguments, first.geometry, first.report, self._settings)
                found, unknown = resources.result()
        bound = bound_of(first, accesses, itemsizes, target) if itemsizes and accesses else None
        declaration = self._chosen.declaration
        return KernelReport(
            name=self._chosen.name,
            location=declaration.location,
            signature=", ".join(f"{kind} {name}".strip() for kind, name in declaration.parameters),
            launch=rule.source,
            trials=tuple(trials),
            accesses=accesses,
            compiled=found,
            unknown=unknown,
            bound=bound,
            notes=tuple(self._notes),
        )


def unchecked(chosen: Chosen, missing: str) -> KernelReport:
    """Return the report of a kernel that was not checked, with what the check needs to know."""
    declaration = chosen.declaration
    signature = ", ".join(f"{kind} {name}".strip() for kind, name in declaration.parameters)
    return KernelReport(chosen.name, declaration.location, signature, missing=missing)


def _covers(whole: Trial, other: Trial) -> bool:
    """Return whether the grid of a launch covers sizes that the tile does not divide.

    Args:
        whole: A launch at sizes that the tile divides.
        other: The launch at other sizes.
    """
    for axis, size in zip(range(2), ("N", "M"), strict=True):
        blocks = whole.geometry.grid[axis]
        if blocks > 1 and other.geometry.grid[axis] * whole.sizes[size] // blocks < other.sizes[size]:
            return False
    return True


def _has_loop(text: str) -> bool:
    return re.search(r"\b(?:for|while)\b|mma_sync|\bmma\b", text) is not None


def _has_guards(text: str, sizes: Sequence[str]) -> bool:
    """Return whether a kernel compares anything with the sizes outside of the heads of loops.

    Args:
        text: The kernel's text.
        sizes: Names of the parameters that are sizes; empty if the sizes are constants.
    """
    names = "|".join(map(re.escape, sizes)) or r"\d+"
    plain = re.sub(r"\b(?:for|while)\s*\((?:[^()]|\([^()]*\))*\)", " ", text)
    compared = rf"(?:<=?|>=)\s*\(?\s*(?:{names})\b|>\s*(?:{names})\b|\b(?:{names})\b\s*\)?\s*[<>]"
    return re.search(compared, plain) is not None
