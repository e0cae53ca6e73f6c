"""Tables and charts of all tile sizes of a variant: times or counts, resources and reuse, with or without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tiledmm.bench.comparison_tables import product_about
from tiledmm.bench.kernel_resources import Compiled
from tiledmm.bench.results import BASELINE, Comparison, Row
from tiledmm.bench.simulated import SHARED_NOTE, TOTALS, Simulated, barriers_of, findings_of, notes_of, result_of
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.errors import INSTALL, ConfigError, MissingDependencyError
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.spec import KernelSpec
from tiledmm.report.cells import NONE, count, percent, significant
from tiledmm.report.roofline import roofline
from tiledmm.report.tables import Table, sentence

_REUSE = (
    "Block: rows and columns of C that a block computes, and its step along K. Thread: rows and columns that a thread "
    "computes. Reuse: multiply-adds per element loaded from global memory"
)
_HEAD = ("tile", "<block", "<thread", "threads")


def measured_table(variant: str, found: Comparison, specs: Sequence[KernelSpec]) -> Table:
    """Return a table of a variant's tiles, with their times on this device.

    Args:
        variant: Name of the variant.
        found: Comparison with one row per tile.
        specs: Kernels of these tiles, in the same order.
    """
    rows = [row for row in found.rows if row.variant == variant]
    timed = [row for row in rows if row.microseconds is not None]
    best = min(timed, key=lambda row: row.microseconds or 0.0, default=None)
    return Table(
        title=f"Tiles of {variant}  {found.title}",
        columns=(
            *_HEAD, "time (us)", "TFLOP/s", "x the best", f"x {BASELINE}", "registers", "shared (B)", "occupancy",
            "reuse", "FLOP/byte", "<check",
        ),
        rows=tuple(_measured(row, best, spec, found.size) for row, spec in zip(rows, specs, strict=True)),
        notes=(f"{_REUSE}, by the model.", *(sentence(f"{row.label}: {row.note}") for row in rows if row.note)),
        bad=frozenset(i for i, row in enumerate(rows) if not row.ok),
        about={"variant": variant, **product_about(found.size, found.dtype, found.layout)},
    )  # fmt: skip


def _measured(row: Row, best: Row | None, spec: KernelSpec, size: Size) -> tuple[str, ...]:
    return (
        *_head(row.tile, spec),
        significant(row.microseconds),
        significant(row.tflops),
        significant(None if best is None else row.speed_over(best)),
        significant(row.to_cupy),
        count(row.registers),
        count(row.shared_bytes),
        percent(row.occupancy),
        *_memory(spec, size, None),
        "ok" if row.ok else "WRONG" if row.error is not None else NONE,
    )


def counted_table(
    variant: str,
    size: Size,
    found: Sequence[Simulated],
    kernels: Sequence[Compiled],
    dtype: str,
    layout: str,
    *,
    totals: bool = False,
) -> Table:
    """Return a table of a variant's tiles, with the simulator's counts, and their resources on a target.

    Args:
        variant: Name of the variant.
        size, dtype, layout: Sizes, computation type and layout of the product.
        found: Results of the simulator, one per tile, without counts if the simulator cannot run the variant.
        kernels: The same kernels, compiled for one target if there is a compiler.
        totals: Whether to append the columns ``TOTALS``.
    """
    target = kernels[0].target
    errors = [f"tile {row.variant_tile.tile}: {k.error}" for row, k in zip(found, kernels, strict=True) if k.error]
    return Table(
        title=f"Tiles of {variant}  {size}  {dtype}  {layout}  simulated as {target}, {REFERENCE_GPUS[target].name}",
        columns=(
            *_HEAD, "wavefronts", "conflicts", "barriers", "registers", "shared (B)", "occupancy", "<limited by",
            "reuse", "FLOP/byte", "<result", *(TOTALS if totals else ()),
        ),
        rows=tuple(
            (*_counted(row, kernel, size), *(row.totals() if totals else ()))
            for row, kernel in zip(found, kernels, strict=True)
        ),
        notes=(
            f"{_REUSE}. {SHARED_NOTE} Barriers: per block. These are counts, not times.",
            *notes_of(found),
            *errors,
        ),
        bad=frozenset(i for i, row in enumerate(found) if not (row.ok and kernels[i].ok)),
        about={"variant": variant, "target": target, **product_about(size, dtype, layout)},
        findings=findings_of(found),
    )  # fmt: skip


def _counted(row: Simulated, kernel: Compiled, size: Size) -> tuple[str, ...]:
    occupied = kernel.occupancy
    return (
        *_head(row.variant_tile.tile, kernel.spec),
        significant(row.wavefronts),
        significant(row.conflicts),
        barriers_of(row),
        count(kernel.resources.registers if kernel.resources else None),
        count(kernel.spec.shared_bytes),
        percent(occupied.fraction if occupied else None),
        occupied.limited_by if occupied else NONE,
        *_memory(kernel.spec, size, row),
        result_of(row),
    )


def _head(tile: int | None, spec: KernelSpec) -> tuple[str, ...]:
    config = spec.config
    block = f"{config.bm}x{config.bn}x{config.bk}"
    return count(tile), block, f"{config.tm}x{config.tn}", count(spec.threads)


def _memory(spec: KernelSpec, size: Size, counted: Simulated | None) -> tuple[str, str]:
    """Return two cells, for reuse and arithmetic intensity.

    They are the simulator's counts, or those of the roofline model if ``counted`` is None or has no report.
    """
    if counted and counted.report:
        return significant(counted.report.reuse), significant(counted.report.intensity)
    bounds = roofline(spec, REFERENCE_GPUS["sm_90"], *size)  # reuse and intensity do not depend on the GPU
    return significant(bounds.reuse), significant(bounds.intensity)


def check_chart(variant: str, tiles: Sequence[int], path: Path) -> None:
    """Check whether a chart of tiles can be drawn to a file, so that errors are raised before anything is measured.

    Args:
        variant: Name of the variant.
        tiles: Tiles to draw.
        path: File of the chart.

    Raises:
        MissingDependencyError: If matplotlib is not installed; the message has the command to install it.
        ConfigError: If the variant has no tiles, or matplotlib does not support the file's format.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise MissingDependencyError(f"charts need matplotlib; {INSTALL.format(extra='charts')} ({error})") from None
    if not tiles:
        raise ConfigError(f"{variant} has no tiles to draw")
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in formats:
        raise ConfigError(f"cannot draw {path}: unsupported format; use one of {', '.join(sorted(formats))}")


def draw(table: Table, path: Path) -> None:
    """Draw a table from ``measured_table`` or ``counted_table`` as a chart; the file's suffix selects the format."""
    from tiledmm.bench import charts

    rows = table.records()
    what = "TFLOP/s" if "TFLOP/s" in rows[0] else "reuse"
    bars = [
        charts.Bar(row["variant"], row["tile"], row[what], row["occupancy"])
        for row in rows
        if row["tile"] and row[what]
    ]
    with charts.theme("light"):
        figure = charts.tile_study(table.title, bars, what if what == "TFLOP/s" else "multiply-adds per loaded element")
        figure.savefig(path)


def variant_tiles_of(variant: str, tiles: Sequence[int]) -> list[VariantTile]:
    """Return a ``VariantTile`` of a variant for each given tile; if ``tiles`` is empty, one without a tile."""
    return [VariantTile(variant, tile) for tile in tiles] or [VariantTile(variant)]
