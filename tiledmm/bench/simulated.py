"""Runs of variants on the simulator: correctness and memory traffic. They give counts, not times."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
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
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.keywords import AUTO
from tiledmm.report.cells import NONE, count, error_figure, significant, value_of
from tiledmm.report.tables import Table
from tiledmm.simulator import ProductReport, run
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
    found = []
    chosen = multiplying(variant_tiles, dtype, size)
    for i, variant_tile in enumerate(chosen):
        if variant_tile.variant != AUTO and not find_variant(variant_tile.variant).simulated:
            found.append(Simulated(variant_tile, None, None))
            continue
        tell = None
        if progress is not None:
            tell = functools.partial(_tell_all, progress, variant_tile.label, i, len(chosen))
        job = functools.partial(_run_one, variant_tile, compute, a, b, expected, target, sass, tell)
        user = variant_tile.variant == AUTO or find_variant(variant_tile.variant).user  # whose text may be another one
        key = (*variant_tile, size, dtype, layout, target, sass, version(compiler()))
        found.append(job() if user else kept(key, job))
    return found


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


def _tell_all(progress: Callable[[str, int, int], None], name: str, i: int, kernels: int, done: int, of: int) -> None:
    """Report the progress of simulating several kernels, when one of them has finished some of its steps.

    Args:
        progress: Function that is called with the kernel's name, the finished steps of all kernels and the number of
            all steps. Each kernel counts as ``of`` steps.
        name: Name of the kernel.
        i: Number of kernels that are finished.
        kernels: Number of all kernels.
        done, of: Finished steps of this kernel, and number of its steps.
    """
    progress(name, i * of + done, kernels * of)


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


def simulated_table(rows: list[Simulated], size: Size, *, dtype: str, layout: str, target: str) -> Table:
    """Return a table with one row per kernel: its result, and its memory traffic per multiply-add of a warp."""
    sass = any(row.report and row.report.sass for row in rows)
    notes = [f"{row.variant_tile.label}: {row.error}" for row in rows if row.error]
    notes += [finding.message for row in rows if row.report for finding in row.report.findings]
    return Table(
        title=f"Simulated  {size}  {dtype}  {layout}",
        columns=(
            "<variant", "tile", "<result", "max error", "sectors/request", "shared loads", "wavefronts", "conflicts",
            "FLOP/byte", "reuse", "barriers",
        ),
        rows=tuple(_cells(row) for row in rows),
        notes=(
            f"Counted for {f'{target} machine code' if sass else 'the source'}. Shared loads and wavefronts: per "
            "multiply-add of a warp. Conflicts: excess wavefronts. FLOP/byte: by the bytes that are requested from "
            "global memory. Reuse: how often an element that was loaded is multiplied. Barriers: those of all blocks.",
            *(["On a GPU only: the simulator has neither wgmma nor TMA."] if any(row.left_out for row in rows) else ()),
            *notes,
        ),
        bad=frozenset(i for i, row in enumerate(rows) if not row.ok),
        about={"target": target, **product_about(size, dtype, layout)},
    )  # fmt: skip


def layouts_table(found: dict[str, list[Simulated]], size: Size, *, dtype: str, target: str) -> Table:
    """Return a table of shared-memory traffic with one row per kernel and the layouts side by side.

    Args:
        found: Results by layout, for the same kernels in the same order.
        size, dtype: Sizes and computation type of the product.
        target: Target architecture.
    """
    rows = [each for each in zip(*found.values(), strict=True) if not all(row.left_out for row in each)]
    notes = [f"{row.variant_tile.label}: {row.error}" for each in rows for row in each if row.error]
    notes += [finding.message for each in rows for row in each if row.report for finding in row.report.findings]
    return Table(
        title=f"Layouts side by side, simulated  {size}  {dtype}",
        columns=(
            "<variant", "tile",
            *(f"{'<' if name == 'result' else ''}{layout} {name}" for layout in found for name in _OF_A_LAYOUT),
        ),
        rows=tuple((*_head(each[0]), *(cell for row in each for cell in _shared_cells(row))) for each in rows),
        notes=(*padding_pays(found), *dict.fromkeys(notes)),
        bad=frozenset(i for i, each in enumerate(rows) if not all(row.ok for row in each)),
        about={"target": target, **size._asdict(), "dtype": dtype},
    )  # fmt: skip


_OF_A_LAYOUT = ("result", "wavefronts", "conflicts")


def _shared_cells(row: Simulated) -> tuple[str, ...]:
    """Return three cells for a kernel's result in one layout: correctness, wavefronts and bank conflicts."""
    _, _, result, _, _, _, wavefronts, conflicts, *_ = _cells(row)
    return result, wavefronts, conflicts


def padding_pays(found: dict[str, list[Simulated]]) -> Iterator[str]:
    """Yield sentences that state whether padding pays: one per layout and pair of kernels that differ only in padding.

    Args:
        found: Results by layout.
    """
    for layout, rows in found.items():
        for plain, padded in itertools.product(rows, rows):
            if plain.report and padded.report and _differ_in_padding(plain.variant_tile, padded.variant_tile):
                before, after = _shared_cells(plain)[1:], _shared_cells(padded)[1:]
                gain = value_of(before[0]) / value_of(after[0])
                verdict = "pays" if gain > 1.01 else "costs" if gain < 0.99 else "changes nothing"
                yield (
                    f"{layout}: padding {verdict}. {padded.variant_tile.label} takes {after[0]} wavefronts for each "
                    f"multiply-add of a warp and {plain.variant_tile.label} takes {before[0]}, with {after[1]} and "
                    f"{before[1]} bank conflicts."
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
    head = _head(row)
    if row.report is None or row.verdict is None:
        return (*head, "on a GPU only" if row.left_out else "does not compile", *[NONE] * 8)
    report, traffic = row.report, row.report.sass or row.report.source
    result = "right" if row.ok else "WRONG" if not row.verdict.ok else f"{len(report.findings)} FINDINGS"
    loads = global_loads(row)
    shared = traffic.shared_load
    of_a_warp = report.multiply_adds / 32
    wavefronts = shared.wavefronts + traffic.shared_store.wavefronts
    conflicts = shared.bank_conflicts + traffic.shared_store.bank_conflicts
    staged = bool(shared.requests)
    return (
        *head,
        result,
        error_figure(row.verdict.error),
        significant(loads.sectors_per_request),
        significant(shared.requests / of_a_warp) if staged else NONE,
        significant(wavefronts / of_a_warp) if staged else NONE,
        count(conflicts) if staged else NONE,
        significant(report.intensity),
        significant(report.reuse),
        count(report.barriers),
    )
