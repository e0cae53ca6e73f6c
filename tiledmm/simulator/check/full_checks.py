"""What a launch shows if its kernel is compiled in other ways: for ``checks="full"``, and where a result is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.errors import CompilationError
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.check.finding_kinds import ENDLESS, UNSET, UNSET_ELEMENT
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.check.unset import VALUES, fillable_aggregates, filled_aggregates, filled_kernel
from tiledmm.simulator.execute.grid import Geometry, Outcome
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.settings import Settings

# Structures and arrays of a kernel that are tried one by one.
_MOST_AGGREGATES = 16


@dataclass(frozen=True, slots=True)
class _Shown:
    """Findings and results of one run of a kernel.

    Attributes:
        of_kernel: Findings of the kernel, as it was compiled.
        outcome: Of the run.
        findings: Of the runtime.
        results: The bytes that the regions then had.
        writes: Who wrote their elements.
    """

    of_kernel: KernelFindings
    outcome: Outcome
    findings: list[Finding]
    results: list[np.ndarray[Any, np.dtype[np.uint8]]]
    writes: list[np.ndarray[Any, np.dtype[np.uint64]]]

    @property
    def elements(self) -> list[Finding]:
        """Elements of local memory that were read before they were set."""
        places = {(each.line, each.calls): each for each in self.findings if each.kind == UNSET_ELEMENT}
        return list(places.values())


class FullChecks:
    """A launch, to be run again with its kernel compiled in other ways.

    Args:
        launch: The launch.
        findings: Those of its kernel.
        settings: How it was run.
        state: What the variables outside of functions held before.
        before: What the memory regions held before.
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

    def findings(self, found: Sequence[Finding], *, wrong: bool) -> list[Finding]:
        """Return accesses beside a thread's variables, and variables that are not set.

        Args:
            found: Errors that the launch had; those of its results apart.
            wrong: Whether a result is wrong.
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
        """Run the kernel with other values in variables that may not be set."""
        yield self._run("zeroed")
        for value in VALUES:
            if kernel := filled_kernel(self._launch.kernel, value):
                yield self._run("zeroed", kernel)

    def _named(self, one: _Shown, said: Finding) -> Finding:
        """Return a finding with the structure or array that it depends on."""
        for aggregate in fillable_aggregates(self._launch.kernel)[:_MOST_AGGREGATES]:
            for value in VALUES:
                text = self._launch.kernel.text
                kernel = self._launch.kernel.edited(filled_aggregates(text, [aggregate], value))
                if kernel and self._difference(one, self._run("zeroed", kernel)):
                    return self._findings.depends_on(said, *aggregate)
        return said

    def _unset_in_memory(self) -> list[Finding]:
        """Return reads of unset memory in builds that keep structures in memory, if a result depends on them."""
        try:
            one, other = map(self._run, ("unoptimized", "unoptimized zeroed"))
        except CompilationError:  # asm statements, and what only optimizers fold
            return []
        return one.elements if self._difference(one, other) else []

    def _difference(self, one: _Shown, other: _Shown) -> Finding | None:
        """Return a finding for the first element, or finding, that changes with the values of unset variables."""
        geometry = Geometry(self._launch.grid, self._launch.block)
        for region, (mine, its) in enumerate(zip(one.results, other.results, strict=True)):
            different = np.flatnonzero(mine.reshape(-1) != its.reshape(-1))
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

    def _run(self, build: str, kernel: NativeKernel | None = None) -> _Shown:
        """Run the kernel once more, in another build, or run another kernel in its place."""
        launch, kernel = self._launch, kernel or self._launch.kernel.rebuilt(build)
        own = {name: raw.copy() for name, raw in self._state.items()} if self._state is not None else None
        outcome = launch.run(kernel, self._settings.alone(build), own, self._before, writers=True)
        of_kernel = KernelFindings(kernel)
        return _Shown(
            of_kernel,
            outcome,
            of_kernel.of([outcome], launch.placed, launch.shared_bytes),
            [np.ascontiguousarray(each.result).view(np.uint8) for each in launch.placed],
            [each.writes if each.writable else np.zeros((0, 2), np.uint64) for each in launch.placed],
        )
