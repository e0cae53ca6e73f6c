"""Findings that need the kernel in other builds: for ``checks="full"``, and if a result is wrong."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.errors import CompilationError
from tiledmm.simulator.build.debug.variables import LocalVariable
from tiledmm.simulator.build.kernel_flags import PATTERN
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.check.finding_kinds import (
    ENDLESS,
    FAULT,
    KINDS,
    MISALIGNED,
    NOT_RETURNED,
    OUTSIDE,
    SHUFFLE_OUTSIDE,
    SHUFFLE_UNDEFINED,
    TIMED,
    UNSET,
    UNSET_ELEMENT,
    WARNINGS,
)
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.check.schedules import with_the_same_writer
from tiledmm.simulator.check.unset import VALUES, filled_kernel, unset_variables
from tiledmm.simulator.execute.clusters import whole_clusters
from tiledmm.simulator.execute.grid import Geometry, Outcome
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.execute.workers import cores

# Maximum number of variables of a kernel that are tried one by one.
_MOST_VARIABLES = 16

# What other builds may cost if only a result is wrong: blocks, the part of the launch's accesses that these made, and
# the number of accesses that costs nothing to speak of.
_MOST_BLOCKS = 4
_PART = 16
_LITTLE_WORK = 1 << 18

# Another value of an unset variable may be a number of iterations: a thread may make this many times the accesses of
# the first run, and some more.
_MORE_STEPS, _FEW_STEPS = 64, 1 << 16

# What each byte of an undefined value is, instead of NaN: zero, a great number, and the negative of one. A maximum, a
# minimum or a condition may take no notice of the others.
_UNDEFINED = (0, 0x7B, 0xFB)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Findings and results of one run of a kernel.

    Attributes:
        of_kernel: Factory of findings about the kernel that ran.
        outcome: Outcome of the run.
        findings: Findings of the runtime.
        results: For each memory region, its bytes after the run.
        writes: For each memory region, records of the last write to each element; empty if the region is read-only.
    """

    of_kernel: KernelFindings
    outcome: Outcome
    findings: list[Finding]
    results: list[np.ndarray[Any, np.dtype[np.uint8]]]
    writes: list[np.ndarray[Any, np.dtype[np.uint64]]]

    @property
    def elements(self) -> list[Finding]:
        """Findings about elements of local arrays that were read before they were set, one for each source line."""
        places = {(each.line, each.calls): each for each in self.findings if each.kind == UNSET_ELEMENT}
        return list(places.values())


def blocks_again(launch: Launch, outcome: Outcome, found: Sequence[Finding], *, whole: bool) -> tuple[int, ...]:
    """Return the numbers of the blocks that are worth another run in several builds if full checks were not asked for.

    Args:
        launch: The launch.
        outcome: Outcome of its first run.
        found: Findings about blocks whose results are wrong.
        whole: Whether blocks run only together, as in a cooperative launch.

    Returns:
        The blocks, a small part of all or of little work; empty if there are none.
    """
    some = tuple(sorted({block_number(launch, each) for each in found}))[:_MOST_BLOCKS]
    some = whole_clusters(some, launch.grid, launch.cluster) or ()
    work = outcome.steps if whole else outcome.steps * len(some) // max(outcome.blocks, 1)
    return some if work <= max(outcome.steps // _PART, _LITTLE_WORK) else ()


def block_number(launch: Launch, found: Finding) -> int:
    """Return the number of the block that a finding is about."""
    x, y, _ = launch.grid
    return found.block[0] + x * (found.block[1] + y * found.block[2])


def _identity(found: Finding) -> tuple[str, int, str]:
    """Return what findings of two runs have in common; of accesses outside of all arrays, also where they are."""
    where = re.sub("0x[0-9a-f]+", "", found.message) if found.kind in OUTSIDE else ""
    return found.kind, found.line, where


class FullChecks:
    """A launch that can be run again with its kernel in other builds.

    Args:
        launch: The launch.
        findings: Factory of findings about its kernel.
        settings: Settings of its first run; ``chosen`` are the blocks to run again.
        state: Values of the variables outside of functions before the launch; None for their initial values in the
            source.
        before: Contents of the memory regions before the launch.
    """

    def __init__(
        self,
        launch: Launch,
        findings: KernelFindings,
        settings: Settings,
        state: ModuleState | None,
        before: Sequence[np.ndarray[Any, Any]],
    ) -> None:
        self._launch, self._findings, self._settings = launch, findings, settings
        self._state, self._before = state, before
        self._max_steps = settings.max_steps

    @functools.cached_property
    def _noise(self) -> list[np.ndarray[Any, np.dtype[np.intp]]]:
        """For each memory region, the bytes that differ between two runs of one build with other clocks and addresses.

        They depend on these, and not on unset variables.
        """
        one = self._run("checked")
        other = self._run("checked", moved=True)
        noise = []
        for placed, mine, its, writes in zip(self._launch.placed, one.results, other.results, one.writes, strict=True):
            size = placed.itemsize
            differs = (mine.reshape(-1, size) != its.reshape(-1, size)).any(axis=1)
            elements = np.flatnonzero(with_the_same_writer(placed, differs, writes))
            noise.append((elements[:, np.newaxis] * size + np.arange(size)).reshape(-1))
        return noise

    def findings(self, found: Sequence[Finding], *, wrong: bool) -> list[Finding]:
        """Run the kernel again in other builds, and return the findings that only these builds give.

        Args:
            found: Findings of the launch, without those about wrong results.
            wrong: Whether a result is wrong.

        Returns:
            Accesses outside of a thread's variables. If there are none, the uses of variables that were read before
            they were set, if results or findings depend on their values. Empty for a kernel that does not end.
        """
        if any(each.kind in ENDLESS for each in found):
            return []
        kernel = self._launch.kernel
        unset = unset_variables(kernel)
        ends = [each for each in found if each.kind == NOT_RETURNED]
        in_parts = any(each.has_parts for each in kernel.local_variables)
        if self._settings.checks != "full" and not unset and not ends and not in_parts:
            return []
        self._compile([
            lambda: kernel.rebuilt("guarded"),
            lambda: (filled_kernel(kernel, unset, "Zeros") or kernel).rebuilt("zeroed"),
            *((lambda value=value: filled_kernel(kernel, unset, value)) for value in ("Ones", "Great") if unset),
        ])  # fmt: skip
        guarded = self._run("guarded")
        known = {UNSET_ELEMENT, NOT_RETURNED, *ENDLESS, *WARNINGS, *(each.kind for each in found)}
        if MISALIGNED in known:  # which this build leaves to the CPU
            known.add(FAULT)
        if outside := [each for each in guarded.findings if each.kind not in known]:
            return outside
        one = self._run("checked")
        self._max_steps = min(self._settings.max_steps or 1 << 62, _MORE_STEPS * one.outcome.most_steps + _FEW_STEPS)
        for other in self._filled(unset):
            if said := self._difference(one, other):
                return self._named(said, one, guarded, unset, ends)
        return self._unset_in_memory() if unset or (wrong and not found) else []

    def reads_of_unwritten(self, found: Sequence[Finding]) -> list[Finding]:
        """Return findings about reads of elements that nobody has written, if a result depends on these elements.

        Args:
            found: The findings.
        """
        one = self._run("checked")
        used = {
            placed.name
            for placed in self._launch.placed
            for value in (VALUES["Zeros"], VALUES["Great"])
            if self._difference(one, self._run("checked", unwritten_fill={placed.name: value}))
        }
        return [each for each in found if any(f" of global array {name} (" in each.message for name in used)]

    def undefined_shuffles(self, outcome: Outcome) -> list[Finding]:
        """Return the shuffles of undefined values on which a result depends, as errors.

        Args:
            outcome: Outcome of the first run.
        """
        shuffles = [each for each in outcome.findings if KINDS[each.kind] == SHUFFLE_UNDEFINED]
        one = self._run("checked")
        used = [
            each
            for each in shuffles
            if any(self._difference(one, self._run("checked", undefined=(each.pc, fill))) for fill in _UNDEFINED)
        ]
        found = self._findings.of([replace(outcome, findings=used)], self._launch.placed, self._launch.shared_bytes)
        return [
            replace(
                each,
                kind=SHUFFLE_OUTSIDE,
                message=each.message.replace(SHUFFLE_UNDEFINED, SHUFFLE_OUTSIDE) + "; a result depends on the value",
            )
            for each in found
            if each.kind == SHUFFLE_UNDEFINED
        ]

    def _compile(self, builds: Sequence[Callable[[], object]]) -> None:
        """Compile builds of the kernel at the same time, so that they are in the cache when they are needed."""
        with ThreadPoolExecutor(cores()) as pool:
            for each in [pool.submit(build) for build in builds]:
                each.result()

    def _filled(self, variables: Sequence[LocalVariable]) -> Iterator[_Shown]:
        """Yield findings and results of runs with other values in variables and shared memory that are not set."""
        for value, byte in VALUES.items():
            build, kernel = "checked" if byte else "zeroed", filled_kernel(self._launch.kernel, variables, value)
            if kernel or not byte:
                kernel = (kernel or self._launch.kernel).rebuilt(build)
                yield self._run(build, kernel, shared_fill=byte)

    def _named(
        self, said: Finding, one: _Shown, guarded: _Shown, variables: Sequence[LocalVariable], ends: list[Finding]
    ) -> list[Finding]:
        """Return findings that name what a result depends on.

        Args:
            said: A finding about a result that depends on what was not set.
            one: Findings and results of the first run.
            guarded: Those of the run that sees reads of a thread's arrays.
            variables: Variables that are declared without a value.
            ends: Findings about functions that ended without returning a value.

        Returns:
            The lines where unset variables are read, as far as a compiler or the guarded run knows them; else the line
            of the result, with the names of the variables where these are known.
        """
        depends = [each for each in variables[:_MOST_VARIABLES] if self._depends_on(each, one)]
        warned = self._findings.unset_variables({each.name: each.declared for each in depends})
        elements = guarded.elements
        if len(depends) == 1 and elements:  # all of them are parts of this variable
            elements = [] if warned else [self._findings.depends_on(elements[0], depends[0].name, depends[0].declared)]
        if read := [*warned, *elements, *ends]:
            return read
        if len(depends) == 1:
            said = next(iter(self._unset_in_memory()), said)
        if depends:
            return [self._findings.depends_on(said, each.name, each.declared) for each in depends]
        if self._difference(one, self._run("checked", shared_fill=0)):
            return [self._findings.depends_on_shared(said)]
        return self._unset_in_memory() or [said]

    def _depends_on(self, variable: LocalVariable, one: _Shown) -> bool:
        """Return whether a result depends on one variable that is declared without a value."""
        kernels = (filled_kernel(self._launch.kernel, [variable], value) for value in VALUES)
        return any(self._difference(one, self._run("checked", kernel)) for kernel in kernels if kernel)

    def _unset_in_memory(self) -> list[Finding]:
        """Run the kernel in builds that keep structures in memory, and return its reads of memory that was not set.

        Returns:
            The findings. Empty if no result depends on such memory, or if the kernel does not compile without
            optimization.
        """
        try:
            one, other = map(self._run, ("unoptimized", "unoptimized zeroed"))
        except CompilationError:  # asm statements, and what only optimizers fold
            return []
        return one.elements if self._difference(one, other) else []

    def _difference(self, one: _Shown, other: _Shown) -> Finding | None:
        """Compare two runs whose unset variables held different values.

        Returns:
            A finding about the first element of a result that differs; else about the first finding that only one of
            them has; None if there is no difference.
        """
        geometry = Geometry(self._launch.grid, self._launch.block)
        for region, (mine, its) in enumerate(zip(one.results, other.results, strict=True)):
            placed = self._launch.placed[region]
            different = np.flatnonzero(mine.reshape(-1) != its.reshape(-1))
            if len(different) and placed.unwritten is not None:  # what nobody wrote is no result
                different = np.array([at for at in different if self._is_written(region, int(at), one, other)])
            if len(different) == 0:
                continue
            different = different[~np.isin(different, self._noise[region])]
            if len(different) == 0:
                continue
            first = np.unravel_index(int(different[0]) // placed.itemsize, placed.array.shape)
            strides = zip(first, placed.array.strides, strict=True)
            offset = sum(int(i) * stride for i, stride in strides) - placed.start
            said = f"{placed.name}[{', '.join(map(str, map(int, first)))}] depends on a variable that was not set"
            # An element that only one of them wrote.
            for shown in (other, one):
                if writer := shown.outcome.writer(shown.writes[region], offset // placed.granule):
                    return shown.of_kernel.wrong_result(UNSET, said, writer, geometry)
            return self._findings.wrong_result(UNSET, said, None, geometry)
        here, there = ({_identity(each): each for each in run.findings} for run in (one, other))
        for identity in [each for each in (*here, *there) if (each in here) != (each in there)]:
            found = here.get(identity) or there[identity]
            if found.kind not in (UNSET_ELEMENT, NOT_RETURNED, *TIMED):
                return self._findings.depends(f"{found.kind}, which depends on a variable that was not set", found)
        return None

    def _is_written(self, region: int, at: int, one: _Shown, other: _Shown) -> bool:
        """Return whether somebody wrote a byte of a result, before the launch or in one of two runs."""
        placed = self._launch.placed[region]
        first = np.unravel_index(at // placed.itemsize, placed.array.shape)
        element = sum(int(i) * stride for i, stride in zip(first, placed.array.strides, strict=True)) - placed.start
        element //= placed.granule
        unwritten = placed.unwritten is not None and placed.unwritten[element]
        return not unwritten or any(
            shown.outcome.writer(shown.writes[region], element) is not None for shown in (one, other)
        )

    def _run(
        self,
        build: str,
        kernel: NativeKernel | None = None,
        *,
        shared_fill: int = PATTERN,
        unwritten_fill: Mapping[str, int] | None = None,
        undefined: tuple[int, int] | None = None,
        moved: bool = False,
    ) -> _Shown:
        """Run the launch again on one worker, and return its findings and results.

        Args:
            build: The build of the kernel, one of ``kernel_flags.BUILDS``.
            kernel: A kernel to run instead; None for the launch's own kernel in this build.
            shared_fill: What each byte of shared memory is when a block begins.
            unwritten_fill: Value of each byte of elements that nobody has written, by the array's name; None for
                what is there.
            undefined: As in ``Settings``.
            moved: Whether addresses and clocks are to differ from those of other runs.
        """
        launch, kernel = self._launch, kernel or self._launch.kernel.rebuilt(build)
        settings = replace(
            self._settings.alone(build),
            clock_rate=3 if moved else 1,
            shared_fill=shared_fill,
            undefined=undefined,
            max_steps=self._max_steps,
        )
        own = {name: raw.copy() for name, raw in self._state.items()} if self._state is not None else None
        outcome = launch.run(
            kernel, settings, own, self._before, writers=True, unwritten_fill=unwritten_fill, moved=moved
        )
        of_kernel = KernelFindings(kernel)
        return _Shown(
            of_kernel,
            outcome,
            of_kernel.of([outcome], launch.placed, launch.shared_bytes),
            [np.ascontiguousarray(each.result).view(np.uint8) for each in launch.placed],
            [each.writes if each.writable else np.zeros((0, 2), np.uint64) for each in launch.placed],
        )
