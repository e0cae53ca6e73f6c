"""Runs of variants on the simulator: correctness and memory traffic. They give counts, not times."""

from __future__ import annotations

import functools
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.bench.comparison_tables import product_about
from tiledmm.bench.kept import kept
from tiledmm.bench.reference import Reference, Verdict, judge, random_matrix, reference
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, multiplying
from tiledmm.compile.disassembly import nvdisasm
from tiledmm.compile.inspection import compile_for
from tiledmm.elements import Element, compute_element
from tiledmm.errors import CompilationError, ConfigError, MissingDependencyError
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.keywords import AUTO
from tiledmm.report.cells import NONE, Figure, count, error_figure, significant
from tiledmm.report.tables import Table
from tiledmm.simulator import Finding, ProductReport, SharedTraffic, run
from tiledmm.simulator.build.cxx import compiler, version
from tiledmm.simulator.report.traffic import GlobalTraffic


@dataclass(frozen=True, slots=True)
class Simulated:
    """Result of simulating one kernel on one product.

    Attributes:
        variant_tile: Variant and tile of the kernel.
        report: Report of the simulator; None if the kernel did not run.
        verdict: Error of the result; None if the kernel did not run.
        error: Reason why the kernel does not compile; else empty.
    """

    variant_tile: VariantTile
    report: ProductReport | None
    verdict: Verdict | None
    error: str = ""

    @property
    def left_out(self) -> bool:
        """Whether the kernel was not simulated because the simulator cannot run it."""
        return self.report is None and not self.error

    @property
    def ok(self) -> bool:
        """Whether the result is right and the simulator has no findings, or the simulator cannot run this kernel."""
        return self.left_out or bool(self.report and self.report.ok and self.verdict and self.verdict.ok)

    @property
    def shared(self) -> SharedTraffic | None:
        """Loads from shared memory and stores to it; None if the kernel did not run or loads nothing from there."""
        if self.report is None:
            return None
        traffic = self.report.sass or self.report.source
        stores = traffic.shared_store + traffic.copy_store
        return traffic.shared_load + stores if traffic.shared_load.requests else None

    @property
    def wavefronts(self) -> float | None:
        """Wavefronts of ``shared`` per multiply-add of a warp; None without ``shared``."""
        return None if self.shared is None else self.per_multiply_add(self.shared.wavefronts)

    @property
    def conflicts(self) -> float | None:
        """Wavefronts that bank conflicts add, per multiply-add of a warp; None without ``shared``."""
        return None if self.shared is None else self.per_multiply_add(self.shared.bank_conflicts)

    @property
    def barriers(self) -> float | None:
        """Barriers per block, on average; None if the kernel did not run."""
        return None if self.report is None else self.report.barriers / max(math.prod(self.report.grid), 1)

    def per_multiply_add(self, number: int) -> float:
        """Divide a count of a kernel that ran by its multiply-adds of warps, 32 elements in each."""
        assert self.report is not None
        return number / (self.report.multiply_adds / WARP_SIZE)

    def totals(self) -> tuple[Figure, Figure]:
        """Return two cells: the bank conflicts and the barriers of all blocks together."""
        conflicts = None if self.shared is None else self.shared.bank_conflicts
        return count(conflicts), count(None if self.report is None else self.report.barriers)


#: Sentence that explains the columns of wavefronts and conflicts.
SHARED_NOTE = (
    "Wavefronts: those of shared memory. Conflicts: the wavefronts that bank conflicts add. Both are per multiply-add "
    "of a warp."
)

#: Headings of ``Simulated.totals``, which only JSON and CSV have.
TOTALS = ("total conflicts", "total barriers")

#: Result of a kernel that the simulator cannot run.
GPU_ONLY = "GPU only"


def simulate_all(
    variant_tiles: Iterable[VariantTile],
    size: Size,
    *,
    dtype: str,
    layout: str,
    target: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Simulated]:
    """Run kernels on the simulator with random operands, and return one result per kernel.

    Memory accesses are those of the machine code if the extra ``inspect`` is installed, else those of the source.

    Args:
        variant_tiles: Variants and tiles of the kernels. Those that do not multiply the type are left out.
        size: Sizes of the product.
        dtype, layout: Computation type, and layout of A and B.
        target: Target architecture.
        progress: Function that is called repeatedly with a kernel's name, the finished steps of all kernels, and the
            number of all steps.

    Raises:
        MissingDependencyError: If there is no C++ compiler.
    """
    sass = _can_disassemble()
    compute = compute_element(dtype)
    a, b = operands(size, compute, layout)
    expected = reference(a, b, compute)
    chosen = multiplying(variant_tiles, dtype, size)
    tell = _Progress(progress, len(chosen))

    def simulate(variant_tile: VariantTile) -> Simulated:
        if variant_tile.variant != AUTO and not find_variant(variant_tile.variant).simulated:
            return Simulated(variant_tile, None, None)
        steps = tell.of(variant_tile.label)
        job = functools.partial(_run_one, variant_tile, compute, a, b, expected, target, sass, steps)
        user = variant_tile.variant == AUTO or find_variant(variant_tile.variant).user  # whose text may be another one
        return job() if user else kept((*variant_tile, size, dtype, layout, target, sass, version(compiler())), job)

    # Most of the time goes into compilation, for the CPU and for the target, each on one core.
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(simulate, chosen))
    finally:
        pool.shutdown(cancel_futures=True)


def _run_one(
    variant_tile: VariantTile,
    compute: Element,
    a: np.ndarray[Any, Any],
    b: np.ndarray[Any, Any],
    expected: Reference,
    target: str,
    sass: bool,
    tell: Callable[[int, int], None] | None,
) -> Simulated:
    """Run one kernel on the simulator, and judge its result."""
    try:
        c, report = run(
            a, b, variant=variant_tile.variant, tile=variant_tile.tile, dtype=dtype_of(compute),
            precision=precision_of(compute), target=target, sass=sass, progress=tell, prints=False,
        )  # fmt: skip
    except (CompilationError, ConfigError) as error:
        return Simulated(variant_tile, None, None, str(error))
    return Simulated(variant_tile, report, judge(c, expected))


class _Progress:
    """Progress of simulating several kernels at the same time.

    Args:
        report: Function that is called with a kernel's name, the finished steps of all kernels and the number of all
            steps; None for none. Each kernel counts as as many steps as it says.
        kernels: Number of all kernels.
    """

    def __init__(self, report: Callable[[str, int, int], None] | None, kernels: int) -> None:
        self._report, self._kernels = report, kernels
        self._parts: dict[str, float] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Callable[[int, int], None] | None:
        """Return the function that a kernel calls with its finished steps and the number of its steps."""
        return None if self._report is None else functools.partial(self._add, name)

    def _add(self, name: str, done: int, of: int) -> None:
        assert self._report is not None
        with self._lock:
            self._parts[name] = done / of
            self._report(name, round(of * sum(self._parts.values())), of * self._kernels)


def operands(size: Size, compute: Element, layout: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return random matrices A and B in host memory. They are the same in each call.

    Args:
        size: Sizes of the product.
        compute: Computation type.
        layout: Letters of A and B: N for contiguous rows, T for contiguous columns, G for neither.
    """
    rng = np.random.default_rng(0)
    a = random_matrix(rng, size.m, size.k, compute.dtype, size.k)
    b = random_matrix(rng, size.k, size.n, compute.dtype, size.k)
    return _lay_out(a, layout[0]), _lay_out(b, layout[1])


def _can_disassemble() -> bool:
    try:
        nvdisasm()
        compile_for('extern "C" __global__ void nothing() {}', "nothing", "sm_90")
    except MissingDependencyError:
        return False
    return True


def _lay_out(matrix: np.ndarray[Any, Any], letter: str) -> np.ndarray[Any, Any]:
    if letter == "G":  # every other element of a larger matrix
        return np.repeat(np.repeat(matrix, 2, 0), 2, 1)[::2, ::2]
    return np.asfortranarray(matrix) if letter == "T" else matrix


def simulated_table(
    rows: list[Simulated], size: Size, *, dtype: str, layout: str, target: str, totals: bool = False
) -> Table:
    """Return a table with one row per kernel: its result, and its memory traffic per multiply-add of a warp.

    Args:
        rows: Results of the kernels.
        size, dtype, layout: Sizes, computation type and layout of the product.
        target: Target architecture.
        totals: Whether to append the columns ``TOTALS``.
    """
    sass = any(row.report and row.report.sass for row in rows)
    return Table(
        title=f"Simulated  {size}  {dtype}  {layout}",
        columns=(
            "<variant", "tile", "<result", "max error", "sectors/request", "shared loads", "wavefronts", "conflicts",
            "FLOP/byte", "reuse", "barriers", *(TOTALS if totals else ()),
        ),
        rows=tuple((*_cells(row), *(row.totals() if totals else ())) for row in rows),
        notes=(
            f"Counted for {f'{target} machine code' if sass else 'the source'}. Shared loads: per multiply-add of a "
            f"warp. {SHARED_NOTE} FLOP/byte: operations per byte that threads request from global memory. Reuse: "
            "multiply-adds per element loaded from global memory. Barriers: per block.",
            *notes_of(rows),
        ),
        bad=frozenset(i for i, row in enumerate(rows) if not row.ok),
        about={"target": target, **product_about(size, dtype, layout)},
        findings=findings_of(rows),
    )  # fmt: skip


def notes_of(rows: Iterable[Simulated]) -> Iterator[str]:
    """Yield notes on the kernels among ``rows`` that did not run, with the reason."""
    every = list(rows)
    if any(row.left_out for row in every):
        yield f"{GPU_ONLY}: cupy.matmul, which the simulator cannot run."
    yield from dict.fromkeys(f"{row.variant_tile.label}: {row.error}" for row in every if row.error)


def findings_of(rows: Iterable[Simulated]) -> tuple[Finding, ...]:
    """Return the findings of all kernels."""
    return tuple(found for row in rows if row.report for found in row.report.findings)


def layouts_table(
    found: dict[str, list[Simulated]], size: Size, *, dtype: str, target: str, totals: bool = False
) -> Table:
    """Return a table of shared-memory traffic with one row per kernel and the layouts side by side.

    Args:
        found: Results by layout, for the same kernels in the same order.
        size, dtype: Sizes and computation type of the product.
        target: Target architecture.
        totals: Whether to append the total of bank conflicts in each layout.
    """
    rows = [each for each in zip(*found.values(), strict=True) if not all(row.left_out for row in each)]
    every = [row for each in rows for row in each]
    counts = ("wavefronts", "conflicts", *(TOTALS[:1] if totals else ()))
    return Table(
        title=f"Layouts side by side, simulated  {size}  {dtype}",
        columns=(
            "<variant", "tile",
            *(name for layout in found for name in (f"<{layout} result", *(f"{layout} {each}" for each in counts))),
        ),
        rows=tuple((*_head(each[0]), *(cell for row in each for cell in _shared_cells(row, totals))) for each in rows),
        notes=(*padding_effects(found), *notes_of(every)),
        bad=frozenset(i for i, each in enumerate(rows) if not all(row.ok for row in each)),
        about={"target": target, **size._asdict(), "dtype": dtype},
        findings=findings_of(every),
    )  # fmt: skip


def _shared_cells(row: Simulated, totals: bool) -> tuple[str, ...]:
    """Return cells for a kernel's result in one layout: correctness, wavefronts, and bank conflicts."""
    return result_of(row), *map(significant, (row.wavefronts, row.conflicts)), *(row.totals()[:1] if totals else ())


def padding_effects(found: dict[str, list[Simulated]], *, gains_only: bool = False) -> Iterator[str]:
    """Yield sentences about the effect of padding: one per layout and pair of kernels that differ only in padding.

    Args:
        found: Results by layout.
        gains_only: Whether to leave out pairs of which the padded kernel needs no fewer wavefronts.
    """
    for layout, rows in found.items():
        for plain, padded in itertools.product(rows, rows):
            if not (plain.shared and padded.shared and _differ_in_padding(plain.variant_tile, padded.variant_tile)):
                continue
            before, after = significant(plain.wavefronts), significant(padded.wavefronts)
            gain = before.value / after.value
            removed = plain.shared.bank_conflicts - padded.shared.bank_conflicts
            if gain > 1.01:
                effect = f"padding removes {removed:,} bank conflicts"
            elif gains_only:
                continue
            else:
                effect = "padding costs wavefronts" if gain < 0.99 else "padding changes nothing"
            yield (
                f"{layout}: {effect}. {padded.variant_tile.label} needs {after} wavefronts per multiply-add of a warp, "
                f"{plain.variant_tile.label} needs {before}."
            )


def _differ_in_padding(plain: VariantTile, padded: VariantTile) -> bool:
    if AUTO in (plain.variant, padded.variant) or plain.tile != padded.tile:
        return False
    rows = [find_variant(each.variant) for each in (plain, padded)]
    if rows[0].template != rows[1].template:
        return False
    configs = [kernel_spec(each.variant, tile=each.tile).kernel.config for each in (plain, padded)]
    return configs[0] != configs[1] and configs[0] == replace(configs[1], pad=0)


def _head(row: Simulated) -> tuple[str, str]:
    return row.variant_tile.variant, count(row.variant_tile.tile)


def global_loads(row: Simulated) -> GlobalTraffic:
    """Return the loads from global memory of a kernel that ran, to registers and to shared memory."""
    assert row.report is not None
    traffic = row.report.sass or row.report.source
    return traffic.global_load + traffic.copy_load


def _cells(row: Simulated) -> tuple[str, ...]:
    head = (*_head(row), result_of(row))
    if row.report is None or row.verdict is None:
        return (*head, *[NONE] * 8)
    report, traffic = row.report, row.report.sass or row.report.source
    loads = traffic.shared_load.requests
    return (
        *head,
        error_figure(row.verdict.error),
        significant(global_loads(row).sectors_per_request),
        significant(row.per_multiply_add(loads) if loads else None),
        significant(row.wavefronts),
        significant(row.conflicts),
        significant(report.intensity),
        significant(report.reuse),
        barriers_of(row),
    )


def barriers_of(row: Simulated) -> Figure:
    """Return a cell with the barriers per block: a whole number unless blocks differ."""
    number = row.barriers
    return count(int(number)) if number is not None and number == int(number) else significant(number)


def result_of(row: Simulated) -> str:
    """Return a cell with the result of a kernel in a word or two."""
    if row.report is None or row.verdict is None:
        return GPU_ONLY if row.left_out else "does not compile"
    if row.ok:
        return "right"
    found = len(row.report.findings)
    return f"{found} FINDING{'S' if found > 1 else ''}" if row.verdict.ok else "WRONG"
