"""Every variant run on the simulator: right or wrong, and its memory traffic. Counts, no times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.bench.comparison_tables import product_about
from tiledmm.bench.reference import Verdict, judge, random_matrix, reference
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, multiplying
from tiledmm.compile.disassembly import nvdisasm
from tiledmm.compile.inspection import compile_for
from tiledmm.elements import Element, compute_element
from tiledmm.errors import CompilationError, ConfigError, MissingDependencyError
from tiledmm.registry.variants import find_variant
from tiledmm.report.cells import NONE, count, error_figure, significant
from tiledmm.report.tables import Table
from tiledmm.selection.select import AUTO, precision_of
from tiledmm.simulator import ProductReport, run

#: Simulated where none of the sizes asked for is small enough: one that tiles fit, and one that they do not.
SIZES = (Size(128, 128, 128), Size(61, 83, 47))

#: Multiply-adds of the largest product that is simulated: a second or two for each kernel.
MAX_MULTIPLY_ADDS = 256**3


@dataclass(frozen=True, slots=True)
class Simulated:
    """One kernel on one product.

    Attributes:
        variant_tile: The kernel.
        report: The simulator's report; None if it was not run.
        verdict: How far its result is off; None if it was not run.
        error: Why it does not compile, or empty.
    """

    variant_tile: VariantTile
    report: ProductReport | None
    verdict: Verdict | None
    error: str = ""

    @property
    def left_out(self) -> bool:
        """Whether it is for GPUs only."""
        return self.report is None and not self.error

    @property
    def ok(self) -> bool:
        """Whether the result is right and the simulator found nothing wrong; or no simulator runs such kernels."""
        return self.left_out or bool(self.report and self.report.ok and self.verdict and self.verdict.ok)


def sizes_to_simulate(sizes: Iterable[Size]) -> tuple[Size, ...]:
    """The sizes that are small enough to simulate, or ``SIZES`` if none is."""
    small = tuple(size for size in sizes if size.m * size.n * size.k <= MAX_MULTIPLY_ADDS)
    return small or SIZES


def simulate_all(
    variant_tiles: Iterable[VariantTile],
    size: Size,
    *,
    dtype: str,
    layout: str,
    target: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Simulated]:
    """Runs kernels on random operands.

    Args:
        variant_tiles: The kernels.
        size: The product.
        dtype, layout: Its type, and how A and B lie in memory.
        target: Target architecture.
        progress: Called now and then with a kernel's name, the blocks done and all blocks.

    Accesses are counted as the machine code has them, where there is what that takes (the extra ``inspect``).

    Raises:
        MissingDependencyError: If there is no C++ compiler.
    """
    sass = _can_disassemble()
    compute = compute_element(dtype)
    a, b = operands(size, compute, layout)
    expected = reference(a, b, compute)
    found = []
    for variant_tile in multiplying(variant_tiles, dtype):
        if variant_tile.variant != AUTO and not find_variant(variant_tile.variant).simulated:
            found.append(Simulated(variant_tile, None, None))
            continue
        tell = None if progress is None else (lambda done, of, name=variant_tile.label: progress(name, done, of))
        try:
            c, report = run(
                a, b, variant=variant_tile.variant, tile=variant_tile.tile, precision=precision_of(compute),
                target=target, sass=sass, progress=tell,
            )  # fmt: skip
        except (CompilationError, ConfigError) as error:
            found.append(Simulated(variant_tile, None, None, str(error)))
        else:
            found.append(Simulated(variant_tile, report, judge(c, expected)))
    return found


def operands(size: Size, compute: Element, layout: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Random matrices A and B, the same each time."""
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
    """A row a kernel: whether it is right, and its traffic for each multiply-add of a warp."""
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
            f"As the {f'machine code of {target}' if sass else 'source'} has it. Shared loads and wavefronts: for "
            "each multiply-add of a warp. Conflicts: excess wavefronts. FLOP/byte: by the bytes that are requested of "
            "global memory. Reuse: how often an element that was loaded is multiplied.",
            *notes,
        ),
        bad=frozenset(i for i, row in enumerate(rows) if not row.ok),
        about={"target": target, **product_about(size, dtype, layout)},
    )  # fmt: skip


def _cells(row: Simulated) -> tuple[str, ...]:
    head = (row.variant_tile.variant, count(row.variant_tile.tile))
    if row.report is None or row.verdict is None:
        return (*head, "on a GPU only" if row.left_out else "does not compile", *[NONE] * 8)
    report, traffic = row.report, row.report.sass or row.report.source
    result = "right" if row.ok else "WRONG" if not row.verdict.ok else f"{len(report.findings)} FINDINGS"
    loads = traffic.global_load + traffic.copy_load
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
