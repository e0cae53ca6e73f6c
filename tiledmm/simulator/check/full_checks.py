"""Findings that need the kernel in other builds: for ``checks="full"``, and if a result is wrong."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.errors import CompilationError
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.check.finding_kinds import ENDLESS, UNSET, UNSET_ELEMENT
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.check.schedules import with_the_same_writer
from tiledmm.simulator.check.unset import VALUES, fillable_aggregates, filled_aggregates, filled_kernel
from tiledmm.simulator.execute.grid import Geometry, Outcome
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.settings import Settings

# Maximum number of structures and arrays of a kernel that are tried one by one.
_MOST_AGGREGATES = 16


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


class FullChecks:
    """A launch that can be run again with its kernel in other builds.

    Args:
        launch: The launch.
        findings: Factory of findings about its kernel.
        settings: Settings of its first run.
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
        guarded = self._run("guarded")
        known = {UNSET_ELEMENT, *ENDLESS, *(each.kind for each in found)}
        if outside := [each for each in guarded.findings if each.kind not in known]:
            return outside
        one = self._run("checked")
        for other in self._filled():
            if said := self._difference(one, other):
                named = self._findings.unset_variables() + guarded.elements
                return named or self._unset_in_memory() or [self._named(one, said)]
        return self._unset_in_memory() if wrong and not found else []

    def _filled(self) -> Iterator[_Shown]:
        """Yield findings and results of runs with other values in variables that may be read before they are set."""
        yield self._run("zeroed")
        for value in VALUES:
            if kernel := filled_kernel(self._launch.kernel, value):
                yield self._run("zeroed", kernel)

    def _named(self, one: _Shown, said: Finding) -> Finding:
        """Add to a finding the name of the structure or array that the result depends on, if it can be found.

        Args:
            one: Findings and results of the run in which no structure or array was given a value.
            said: A finding about a result that depends on an unset variable.

        Returns:
            The finding with the name, or ``said`` itself.
        """
        for aggregate in fillable_aggregates(self._launch.kernel)[:_MOST_AGGREGATES]:
            for value in VALUES:
                text = self._launch.kernel.text
                kernel = self._launch.kernel.edited(filled_aggregates(text, [aggregate], value))
                if kernel and self._difference(one, self._run("zeroed", kernel)):
                    return self._findings.depends_on(said, *aggregate)
        return said

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
            A finding about the first element of a result that differs; else about the first finding that only ``one``
            has; None if there is no difference.
        """
        geometry = Geometry(self._launch.grid, self._launch.block)
        for region, (mine, its) in enumerate(zip(one.results, other.results, strict=True)):
            different = np.flatnonzero(mine.reshape(-1) != its.reshape(-1))
            if len(different) == 0:
                continue
            different = different[~np.isin(different, self._noise[region])]
            if len(different) == 0:
                continue
            placed = self._launch.placed[region]
            first = np.unravel_index(int(different[0]) // placed.itemsize, placed.array.shape)
            strides = zip(first, placed.array.strides, strict=True)
            offset = sum(int(i) * stride for i, stride in strides) - placed.start
            said = f"{placed.name}[{', '.join(map(str, map(int, first)))}] depends on a variable that was not set"
            # An element that only one of them wrote.
            for shown in (other, one):
                if writer := shown.outcome.writer(shown.writes[region], offset // placed.granule):
                    return shown.of_kernel.wrong_result(UNSET, said, writer, geometry)
            return self._findings.wrong_result(UNSET, said, None, geometry)
        known = {(each.kind, each.line) for each in other.findings}
        for each in one.findings:
            if each.kind != UNSET_ELEMENT and (each.kind, each.line) not in known:
                return self._findings.depends(f"{each.kind}, which depends on a variable that was not set", each)
        return None

    def _run(self, build: str, kernel: NativeKernel | None = None, *, moved: bool = False) -> _Shown:
        """Run the launch again on one worker, and return its findings and results.

        Args:
            build: The build of the kernel, one of ``kernel_flags.BUILDS``.
            kernel: A kernel to run instead; None for the launch's own kernel in this build.
            moved: Whether addresses and clocks are to differ from those of other runs.
        """
        launch, kernel = self._launch, kernel or self._launch.kernel.rebuilt(build)
        settings = replace(self._settings.alone(build), clock_rate=3 if moved else 1)
        own = {name: raw.copy() for name, raw in self._state.items()} if self._state is not None else None
        outcome = launch.run(kernel, settings, own, self._before, writers=True, moved=moved)
        of_kernel = KernelFindings(kernel)
        return _Shown(
            of_kernel,
            outcome,
            of_kernel.of([outcome], launch.placed, launch.shared_bytes),
            [np.ascontiguousarray(each.result).view(np.uint8) for each in launch.placed],
            [each.writes if each.writable else np.zeros((0, 2), np.uint64) for each in launch.placed],
        )
