"""Short tables of comparisons, in 90 columns, with sentences on what to see in them."""

from __future__ import annotations

from collections.abc import Iterator

from tiledmm.bench.results import BASELINE
from tiledmm.bench.simulated import (
    SHARED_NOTE,
    Simulated,
    findings_of,
    global_loads,
    notes_of,
    padding_effects,
    result_of,
)
from tiledmm.bench.sizes import Size
from tiledmm.hardware.architectures import find_target
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.keywords import AUTO
from tiledmm.report.cells import NONE, significant
from tiledmm.report.roofline import roofline
from tiledmm.report.tables import Table


def brief_comparison(full: Table) -> Table:
    """Return a comparison on a GPU with the columns that most readers look at: time, rate, cuBLAS, error."""
    wanted = ("<variant", "tile", "time (us)", "TFLOP/s", f"x {BASELINE}", "max error", "wrong elements", "<check")
    return full.with_columns([at for at, heading in enumerate(full.columns) if heading in wanted])


def brief_simulation(found: dict[str, list[Simulated]], size: Size, *, dtype: str, target: str) -> Table:
    """Return one row per kernel: whether it is right, what it costs, and a bound on its speed.

    Args:
        found: Results by layout, for the same kernels in the same order. Sectors and the bound are those of the first,
            bank conflicts those of the last.
        size, dtype: Sizes and computation type of the product.
        target: Target architecture.
    """
    layouts = list(found)
    first, last = layouts[0], layouts[-1]
    several = len(layouts) > 1
    rows = []
    for each in zip(*found.values(), strict=True):
        row = each[0]
        result = next((result_of(other) for other in each if not other.ok), result_of(row))
        wavefronts = [str(significant(other.wavefronts)) for other in each]
        rows.append(
            (
                row.variant_tile.label,
                result,
                significant(global_loads(row).sectors_per_request if row.report else None),
                NONE if set(wavefronts) == {NONE} else " / ".join(wavefronts),
                significant(each[-1].conflicts),
                _bound(row, size, dtype, first, target),
            )
        )
    gpu = REFERENCE_GPUS[find_target(target).name].name
    legend = (
        f"Sectors: per request to global memory{f', in {first}' if several else ''}. {SHARED_NOTE} Max TFLOP/s: upper "
        f"bound by the roofline model, for {gpu}."
    )
    every = [row for results in found.values() for row in results]
    return Table(
        title=f"Simulated  {size}  {dtype}  {', '.join(found)}",
        columns=(
            "<variant", "<result", "sectors", f"{' / '.join(found)} wavefronts" if several else "wavefronts",
            f"{last} conflicts" if several else "conflicts", "max TFLOP/s",
        ),
        rows=tuple(rows),
        notes=(legend, *notes_of(every)),
        bad=frozenset(at for results in found.values() for at, row in enumerate(results) if not row.ok),
        about={"target": target, **size._asdict(), "dtype": dtype},
        findings=findings_of(every),
    )  # fmt: skip


def _bound(row: Simulated, size: Size, dtype: str, layout: str, target: str) -> str:
    variant, tile = row.variant_tile
    if variant == AUTO:
        return NONE
    spec = kernel_spec(variant, tile=tile, dtype=dtype, layout=layout).kernel
    if spec.variant.plain:
        return NONE
    return significant(roofline(spec, REFERENCE_GPUS[find_target(target).name], *size).bound / 1e12)


def highlights(found: dict[str, list[Simulated]]) -> Iterator[str]:
    """Yield sentences about what a brief table shows: the worst coalescing, the best reuse, and gains of padding."""
    rows = [row for row in next(iter(found.values())) if row.report]
    if rows and (excess := _excess(worst := max(rows, key=_excess))) > 1.5:
        yield (
            f"Coalescing: {worst.variant_tile.label} loads {significant(excess)} times as many sectors of global "
            "memory as its bytes would fill."
        )
    if rows and (reuse := _reuse(best := max(rows, key=_reuse))) > 1.5:
        yield (
            f"Reuse: {best.variant_tile.label} uses each element that it loads from global memory in "
            f"{significant(reuse)} multiply-adds."
        )
    yield from padding_effects(found, gains_only=True)


def _excess(row: Simulated) -> float:
    """Return how many times the sectors a kernel loads that its bytes would fill."""
    loads = global_loads(row)
    return loads.sectors / max(loads.ideal_sectors, 1)


def _reuse(row: Simulated) -> float:
    return row.report.reuse if row.report else 0.0
