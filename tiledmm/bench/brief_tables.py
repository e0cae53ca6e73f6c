"""Short tables of comparisons, in 90 columns, with sentences on what to see in them."""

from __future__ import annotations

from collections.abc import Iterator

from tiledmm.bench.results import BASELINE
from tiledmm.bench.simulated import Simulated, global_loads, padding_pays, simulated_table
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
        found: Results by layout, for the same kernels in the same order. Sectors and wavefronts are those of the first,
            bank conflicts those of the last.
        size, dtype: Sizes and computation type of the product.
        target: Target architecture.
    """
    full = {
        layout: simulated_table(rows, size, dtype=dtype, layout=layout, target=target) for layout, rows in found.items()
    }
    first, last = next(iter(full)), next(reversed(full))
    rows = []
    for at, row in enumerate(found[first]):
        cells, others = (
            {head: table.rows[at][i] for i, head in enumerate(table.columns)} for table in (full[first], full[last])
        )
        wrong = next((table.rows[at][2] for table in full.values() if at in table.bad), cells["<result"])
        bound = _bound(row, size, dtype, first, target)
        shown = (cells["<variant"], cells["tile"], wrong, cells["sectors/request"], cells["wavefronts"])
        rows.append((*shown, others["conflicts"], bound))
    gpu = REFERENCE_GPUS[find_target(target).name].name
    legend = (
        "Sectors: per request to global memory. Wavefronts: of shared memory, per multiply-add of a warp. "
        f"Max TFLOP/s: a bound by the roofline, on {gpu}."
    )
    said = [note for table in full.values() for note in table.notes[1:]]
    return Table(
        title=f"Simulated  {size}  {dtype}  {', '.join(found)}",
        columns=("<variant", "tile", "<result", "sectors", "wavefronts", f"{last} conflicts", "max TFLOP/s"),
        rows=tuple(rows),
        notes=(legend, *dict.fromkeys(said), *_sentences(found)),
        bad=frozenset(at for table in full.values() for at in table.bad),
        about={"target": target, **size._asdict(), "dtype": dtype},
    )


def _bound(row: Simulated, size: Size, dtype: str, layout: str, target: str) -> str:
    variant, tile = row.variant_tile
    if variant == AUTO:
        return NONE
    spec = kernel_spec(variant, tile=tile, dtype=dtype, layout=layout).kernel
    if spec.variant.plain:
        return NONE
    return significant(roofline(spec, REFERENCE_GPUS[find_target(target).name], *size).bound / 1e12)


def _sentences(found: dict[str, list[Simulated]]) -> Iterator[str]:
    """Yield what to see: the worst coalescing, the best reuse, and where padding pays."""
    rows = [row for row in next(iter(found.values())) if row.report]
    if rows and (excess := _excess(worst := max(rows, key=_excess))) > 1.5:
        yield (
            f"Coalescing: {worst.variant_tile.label} loads {significant(excess)} times the sectors of global memory "
            "that its bytes fill."
        )
    if rows and (reuse := _reuse(best := max(rows, key=_reuse))) > 1.5:
        yield f"Reuse: {best.variant_tile.label} multiplies each element that it loads {significant(reuse)} times."
    yield from (each for each in padding_pays(found) if "padding pays" in each)


def _excess(row: Simulated) -> float:
    """Return how many times the sectors a kernel loads that its bytes would fill."""
    loads = global_loads(row)
    return loads.sectors / max(loads.ideal_sectors, 1)


def _reuse(row: Simulated) -> float:
    return row.report.reuse if row.report else 0.0
