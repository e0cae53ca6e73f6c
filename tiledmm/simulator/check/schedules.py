"""Findings of a kernel's runs in other orders of its threads, for ``checks="full"``.

A kernel without atomics, volatile accesses, fences and named barriers is right in each order if it has no race, and the
first run finds races in any order; nor do sums by atomics depend on it. For the others an order can hide what is wrong:
a lock that does not wait is free whenever threads run one after the other. Such kernels run in several orders, in which
threads are preempted. Each has a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.translation.syntax import discards_sums
from tiledmm.simulator.check.expected import Tolerance, wrong_results
from tiledmm.simulator.check.finding_kinds import IF_USED, ORDER_OF_ELEMENTS, ORDER_OF_THREADS, RACES
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.execute.grid import Geometry, Outcome
from tiledmm.simulator.execute.interface import ORDER_SOME, VOLATILE
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.memory import Placed
from tiledmm.simulator.execute.settings import Settings

#: Name of the order in which threads are preempted.
PREEMPTIVE = "preemptive"

#: Seeds that are tried, for launches of up to ``MANY_STEPS`` accesses and for larger ones: one of each style but the
#: random one, and those with which all bugs in ``synchronized_kernels`` are found.
SEEDS, FEWER_SEEDS = (0, 2, 3), (0, 2)

#: Seeds that are tried until a race is found, for launches that are known to be wrong: two of each style.
SEEDS_OF_WRONG = range(8)
MANY_STEPS = 1 << 16


def may_differ(kernel: NativeKernel) -> bool:
    """Return whether a kernel that synchronizes and has no race may give other results in another order of threads.

    Sums by atomics, whose results nobody uses, are the same in each order.

    Args:
        kernel: The kernel.
    """
    calls = (ORDER_SOME | VOLATILE | {"tiledmm_active_mask"}) - {"tiledmm_atomic_access", "tiledmm_sync_warp"}
    return bool(calls & kernel.native.imports) or not discards_sums(kernel.text)


def preemptive(settings: Settings, seed: int) -> Settings:
    """Return settings of a run with the same checks in which threads are preempted.

    Args:
        settings: Settings of a run.
        seed: Seed of the order.
    """
    return replace(settings.alone("checked"), order=PREEMPTIVE, seed=seed)


def at_seed(found: Iterable[Finding], seed: int) -> list[Finding]:
    """Return findings that also say in which order of threads they were found.

    Args:
        found: The findings.
        seed: Seed of the order.
    """
    return [replace(each, message=f'{each.message} [threads="{PREEMPTIVE}", seed={seed}]', seed=seed) for each in found]


def with_the_same_writer(
    placed: Placed, differs: np.ndarray[Any, np.dtype[np.bool_]], writes: np.ndarray[Any, Any]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which elements of a region differ, or were written at a place in the code that wrote one that differs.

    What is computed from a clock, such as its remainder, may happen to be equal in two runs.

    Args:
        placed: The region.
        differs: Whether each element differs, in the order of the array's elements.
        writes: Records of the last write to each granule; empty if the region is read-only.
    """
    if not len(writes) or not differs.any():
        return differs
    of_granules = writes[:: placed.itemsize // placed.granule, 0]  # the first of each element
    sites = placed.of_elements(of_granules >> np.uint64(8) & np.uint64(0x3FFF)).reshape(-1)
    same: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(sites, sites[differs]) & (sites != 0)
    return differs | same


@dataclass(frozen=True, slots=True)
class Schedules:
    """A launch without errors that can be run again in other orders of its threads.

    Attributes:
        launch: The launch, whose arrays hold the results of its first run.
        findings: Factory of findings about its kernel.
        settings: Settings of its first run.
        state: Values of the variables outside of functions before the launch; None for their initial values in the
            source.
        before: Contents of the memory regions before the launch.
        wanted: The expected arrays, as ``expected_arrays`` returns them.
        tolerance: Tolerances of the comparison with them, and of runs with each other.
    """

    launch: Launch
    findings: KernelFindings
    settings: Settings
    state: ModuleState | None
    before: Sequence[np.ndarray[Any, Any]]
    wanted: Mapping[int, np.ndarray[Any, Any]]
    tolerance: Tolerance

    def races(self) -> list[Finding]:
        """Return the races of the first other order in which there are any; of a launch that is known to be wrong.

        An order can hide the race that makes a result wrong, or that has threads wait at different barriers.
        """
        for seed in SEEDS_OF_WRONG:
            outcome = self._run(preemptive(self.settings, seed))
            found = self.findings.of([outcome], self.launch.placed, self.launch.shared_bytes)
            if races := [each for each in found if each.kind in RACES]:
                return at_seed(races, seed)
        return []

    def found(self, steps: int) -> list[Finding]:
        """Run the launch in other orders, and return what is found in the first in which anything is.

        Args:
            steps: Number of accesses of the first run.

        Returns:
            Errors of the runtime, or wrong results. If nothing is expected, warnings about results that differ between
            orders, other than by the rounding of sums.
        """
        differing: list[Finding] = []
        for seed in SEEDS if steps <= MANY_STEPS else FEWER_SEEDS:
            outcome = self._run(preemptive(self.settings, seed))
            found = self.findings.of([outcome], self.launch.placed, self.launch.shared_bytes)
            errors = [each for each in found if not each.is_warning and each.kind not in IF_USED]
            if errors := [*errors, *self._wrong(outcome)]:
                return at_seed(errors, seed)
            if not self.wanted and not differing:
                differing = at_seed(self._differing(outcome), seed)
        return differing

    def _run(self, settings: Settings, *, moved: bool = False) -> Outcome:
        own = {name: raw.copy() for name, raw in self.state.items()} if self.state is not None else None
        kernel = self.launch.kernel.rebuilt("checked")
        return self.launch.run(kernel, settings, own, self.before, writers=True, moved=moved)

    def _wrong(self, outcome: Outcome) -> list[Finding]:
        """Return findings about the results of a run that differ from what is expected."""
        if not self.wanted:
            return []
        written = [each for each in self.launch.placed if each.writable]
        first = [each.array.copy() for each in written]
        try:
            for each in written:
                each.array[...] = each.result
            return list(wrong_results(self.launch, self.findings, outcome, self.wanted, self.tolerance))
        finally:
            for each, values in zip(written, first, strict=True):
                each.array[...] = values

    def _differing(self, outcome: Outcome) -> list[Finding]:
        """Return warnings about the results of a run that differ from those of threads that run one after the other.

        What differs between two runs in one order, because of clocks or addresses, is left out.
        """
        results = [each.result for each in self.launch.placed]
        writes = [each.writes if each.writable else np.zeros((0, 2), np.uint64) for each in self.launch.placed]
        if all(
            not len(self._unequal(mine, each.array)) for mine, each in zip(results, self.launch.placed, strict=True)
        ):
            return []  # as in the launch itself
        in_order = replace(self.settings.alone("checked"), order="forward")
        self._run(in_order)
        ones = [each.result for each in self.launch.placed]
        stamps = [each.writes if each.writable else np.zeros((0, 2), np.uint64) for each in self.launch.placed]
        self._run(replace(in_order, clock_rate=3), moved=True)
        others = [each.result for each in self.launch.placed]
        found = []
        for region, (mine, one, other) in enumerate(zip(results, ones, others, strict=True)):
            differs = np.zeros(one.shape, bool)
            differs[tuple(self._unequal(one, other).T)] = True
            mask = with_the_same_writer(self.launch.placed[region], differs.reshape(-1), stamps[region])
            noise = set(map(tuple, np.argwhere(mask.reshape(one.shape)).tolist()))
            different = [at for at in map(tuple, self._unequal(mine, one).tolist()) if at not in noise]
            if different:
                found.append(self._difference(region, different, mine, one, outcome, writes[region]))
        return found

    def _unequal(self, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if one.dtype.kind not in "biufc":
            return np.argwhere(one != other)
        return self.tolerance.wrong(one, other)

    def _difference(
        self,
        region: int,
        different: list[tuple[int, ...]],
        mine: np.ndarray[Any, Any],
        one: np.ndarray[Any, Any],
        outcome: Outcome,
        writes: np.ndarray[Any, Any],
    ) -> Finding:
        placed, first = self.launch.placed[region], different[0]
        where = f"{placed.name}[{', '.join(map(str, first))}]"
        permuted = mine.dtype.kind in "biuf" and not len(self._unequal(np.sort(mine, None), np.sort(one, None)))
        if permuted:
            kind, meaning = ORDER_OF_ELEMENTS, "the same elements in another order"
        else:
            kind, meaning = ORDER_OF_THREADS, "other values"
        said = (
            f"{len(different):,} of {mine.size:,} elements of {placed.name} depend on the order in which threads run "
            f"({meaning}): {where} is either {one[first]} or {mine[first]}"
        )
        offset = sum(int(i) * stride for i, stride in zip(first, placed.array.strides, strict=True)) - placed.start
        writer = outcome.writer(writes, offset // placed.granule)
        return self.findings.wrong_result(kind, said, writer, Geometry(self.launch.grid, self.launch.block))
