"""Charts of comparisons, drawn with matplotlib for light and dark pages, as SVG and PNG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tiledmm.bench.chart_lines import (
    CPU,
    Point,
    crossover,
    intensity,
    is_for_any_matrices,
    rates,
    readable,
    speed_ups,
)
from tiledmm.bench.results import BASELINE, Comparison, Machine, Row
from tiledmm.hardware.architectures import architecture_of
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.kernels.variants import kernel_spec, kernel_variants
from tiledmm.problem.keywords import AUTO

#: Foreground and background color of a chart, by theme.
THEMES = {"light": ("#24292f", "#ffffff"), "dark": ("#e6edf3", "#0d1117")}

_SIZE = (9.0, 5.4)
_DOTS_PER_INCH = 110

# Colors of ``auto`` and of other libraries.
_AUTO = "#2f81f7"
_NOT_OURS = "#8b949e"


@contextmanager
def theme(name: str) -> Iterator[None]:
    """Return a context manager that sets the colors of charts, for a ``"light"`` or a ``"dark"`` page."""
    ink, paper = THEMES[name]
    settings: Any = {
        "figure.facecolor": paper, "axes.facecolor": paper, "savefig.facecolor": paper,
        "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink, "xtick.color": ink, "ytick.color": ink,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": ink, "grid.alpha": 0.12,
        "font.family": "sans-serif", "font.size": 10, "axes.titlesize": 12, "axes.titlelocation": "left",
        "axes.titleweight": "bold", "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "tiledmm",
    }  # fmt: skip
    with mpl.rc_context(settings):
        yield


def save(draw: Callable[[], Figure], path: Path) -> list[Path]:
    """Draw a chart in each theme, and write the files ``path-THEME.svg`` and ``path-THEME.png``.

    Args:
        draw: Function that draws the chart in the current theme.
        path: Beginning of the files' names.

    Returns:
        The paths of the files. Equal data give files of equal bytes.
    """
    written = []
    for name in THEMES:
        with theme(name):
            figure = draw()
            for suffix, metadata in ((".svg", {"Date": None, "Creator": "tiledmm"}), (".png", {"Software": "tiledmm"})):
                target = path.with_name(f"{path.name}-{name}{suffix}")
                target.parent.mkdir(parents=True, exist_ok=True)
                figure.savefig(target, dpi=_DOTS_PER_INCH, metadata=metadata)
                written.append(target)
    return written


def throughput(comparisons: Sequence[Comparison]) -> Figure:
    """Return a chart of TFLOP/s by the size of square products, with at most ``MOST_LINES`` lines; cuBLAS is dashed."""
    figure, axes = _axes(
        f"Throughput, {_types(comparisons)}", "size of square matrices", "TFLOP/s (2 n³ a product)", log_y=True
    )
    lines = readable(rates(comparisons))
    _draw(axes, {name: [(float(c.n), y) for c, y in line] for name, line in lines.items()})
    _sizes(axes, comparisons)
    return figure


def roofline(comparisons: Sequence[Comparison], gpu: Gpu) -> Figure:
    """Return a chart of TFLOP/s by the arithmetic intensity of square products, below the ceilings of a GPU.

    Args:
        comparisons: Results on square products of one type.
        gpu: GPU whose data sheet gives the ceilings: its memory bandwidth, and the peak rates of its units.
    """
    figure, axes = _axes(
        f"Roofline, {_types(comparisons)}, {gpu.name}", "FLOP for each byte that has to be moved", "TFLOP/s", log_y=True
    )
    lines = readable(rates(comparisons))
    _draw(axes, {name: [(intensity(c), y) for c, y in line] for name, line in lines.items()})
    left, right = min(map(intensity, comparisons)), max(map(intensity, comparisons))
    ceilings = _ceilings([name for name in lines if name not in (AUTO, BASELINE)], comparisons[0].dtype, gpu)
    for flops, what in ceilings.items():
        corner = flops / gpu.bandwidth
        axes.plot([corner, max(corner, right)], [flops / 1e12] * 2, color=_NOT_OURS, lw=1.2)
        axes.annotate(what, (corner, flops / 1e12), (4, 3), textcoords="offset points", fontsize=8)
    ends = [left, max(left, *(flops / gpu.bandwidth for flops in ceilings))]
    axes.plot(ends, [each * gpu.bandwidth / 1e12 for each in ends], color=_NOT_OURS, lw=1.2)
    axes.annotate(
        f"memory, {gpu.bandwidth / 1e12:.2f} TB/s", (left, left * gpu.bandwidth / 1e12), (4, 2),
        textcoords="offset points", fontsize=8, va="bottom",
    )  # fmt: skip
    return figure


def _ceilings(variants: Iterable[str], dtype: str, gpu: Gpu) -> dict[float, str]:
    """Return the peak rates in FLOP/s of the units with which variants multiply, each with the units' name."""
    found = {}
    for spec in (kernel_spec(name, dtype=dtype) for name in variants):
        units = "tensor cores" if spec.variant.tensor_cores else "multiply-adds of CUDA cores"
        if emulated := spec.variant.operands.unit(spec):
            units = f"{units}, {emulated}"
        found[spec.variant.unit_flops(spec.compute, gpu, scheme=spec.config.scheme)] = units
    return found


def percent_of_baseline(comparison: Comparison) -> Figure:
    """Return a bar chart of the speed of kernels in percent of the baseline's, with their TFLOP/s beside the bars.

    The bars are the CUDA-core variants for any matrices, each with its default tile, in ladder order, and ``auto``.
    """
    shown = {row.name: row.default_tile or None for row in kernel_variants() if is_for_any_matrices(row)} | {AUTO: None}
    rows = [row for row in comparison.rows if shown.get(row.variant, 0) == row.tile]
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=f"Speed in percent of cuBLAS, {comparison.dtype}, {comparison.size}")
    for place, row in enumerate(rows):
        if row.to_cupy is None or row.tflops is None:  # not measured
            continue
        axes.barh(place, 100 * row.to_cupy, 0.72, color=_colour(row.variant))
        label = f"{100 * row.to_cupy:.0f}%  ({row.tflops:.3g} TFLOP/s)"
        axes.annotate(
            label,
            (100 * row.to_cupy, place),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            bbox={"color": mpl.rcParams["axes.facecolor"], "pad": 0.5},
        )
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.invert_yaxis()
    axes.axvline(100, color=_NOT_OURS, lw=1.4, ls="--", zorder=0)
    axes.annotate(
        f"cuBLAS: {comparison.row(BASELINE).tflops:.3g} TFLOP/s", (100, 0), (5, 0), textcoords="offset points",
        va="center", fontsize=9, color=_NOT_OURS,
    )  # fmt: skip
    axes.set_xlim(0, 118 * max(row.to_cupy or 0 for row in rows))
    axes.xaxis.set_major_formatter("{x:g}%")
    axes.grid(False, axis="y")
    return figure


def _label(row: Row) -> str:
    """Return the name of a bar; that of ``auto`` names the variant that it ran, if the row's note does."""
    ran = (each.name for each in kernel_variants() if f"tiledmm_{each.name}_" in row.note)
    return f"{row.label} ({next(ran, '')})".removesuffix(" ()") if row.variant == AUTO else row.label


class Bar(NamedTuple):
    """One kernel's bar in a chart of tiles.

    Attributes:
        variant, tile: Variant and tile of the kernel.
        height: Height of the bar, in the unit of the chart.
        occupancy: Occupancy as a fraction; None if unknown.
    """

    variant: str
    tile: int
    height: float
    occupancy: float | None = None


def tile_study(title: str, bars: Sequence[Bar], what: str = "TFLOP/s") -> Figure:
    """Return a bar chart of kernels by tile, with variants side by side, and the occupancy above each bar.

    Args:
        title: Title of the chart.
        bars: Bars to draw.
        what: Label of the vertical axis.
    """
    figure, axes = _axes(title, "tile", what, log_x=False)
    names = list(dict.fromkeys(bar.variant for bar in bars))
    tiles = sorted({bar.tile for bar in bars})
    width = 0.8 / max(len(names), 1)
    above: Any = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center", "fontsize": 8}
    for bar in bars:
        place = tiles.index(bar.tile) + (names.index(bar.variant) - (len(names) - 1) / 2) * width
        axes.bar(place, bar.height, 0.92 * width, color=_colour(bar.variant), label=bar.variant)
        if bar.occupancy is not None:
            axes.annotate(f"{bar.occupancy:.0%}", (place, bar.height), **above)
    axes.set_xticks(range(len(tiles)), [str(tile) for tile in tiles])
    axes.grid(False, axis="x")
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(handles.values(), handles.keys(), loc="upper left", title="percent: occupancy", alignment="left")
    return figure


def speed_up(comparisons: Sequence[Comparison]) -> Figure:
    """Return a chart of the speedups of ``auto`` over other rivals by the size of square products.

    The size at which ``auto`` becomes faster than the CPU is marked.
    """
    title = f"How many times as fast auto is, {_types(comparisons)}"
    figure, axes = _axes(title, "size of square matrices", "times as fast as the named rival", log_y=True)
    lines = speed_ups(comparisons)
    colours = dict(zip(lines, ("#8957e5", "#1a7f37", "#54aeff", "#d29922", _NOT_OURS), strict=True))
    _draw(axes, lines, colours)
    axes.axhline(1, color=_NOT_OURS, lw=1)
    for name, line in lines.items():
        if name.startswith(CPU) and (found := crossover(line)):
            axes.plot(found, 1, "o", color=colours[name], ms=8, mfc="none")
            axes.annotate(f"n = {found:.0f}", (found, 1), (6, -14), textcoords="offset points", fontsize=9)
    _sizes(axes, comparisons)
    return figure


def gpu_of(machine: Machine) -> Gpu:
    """Return the reference GPU of the architecture of a machine. Its data sheet gives the ceilings of charts.

    If there is no data sheet for the compute capability, that of the newest older architecture is used.

    Raises:
        DeviceError: If the compute capability is less than 7.5.
    """
    major, _, minor = machine.compute_capability.partition(".")
    return REFERENCE_GPUS[architecture_of((int(major), int(minor))).name]


def _axes(title: str, x: str, y: str, *, log_x: bool = True, log_y: bool = False) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=x, ylabel=y)
    if log_x:
        axes.set_xscale("log", base=2)
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    return figure, axes


def _sizes(axes: Axes, comparisons: Sequence[Comparison]) -> None:
    sizes = sorted({c.n for c in comparisons})
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()


def _types(comparisons: Sequence[Comparison]) -> str:
    return ", ".join(dict.fromkeys(f"{c.dtype} {c.layout}" for c in comparisons))


def _draw(axes: Axes, lines: dict[str, list[Point]], colours: dict[str, str] | None = None) -> None:
    """Draw lines into a chart, each with its name at the right. Names are moved apart where they would overlap."""
    ends: list[tuple[Any, ...]] = []
    for name, line in lines.items():
        if not line:
            continue
        colour = (colours or {}).get(name) or _colour(name)
        dashed = name == BASELINE
        look: Any = {
            "lw": 2.2 if dashed or name == AUTO else 1.5,
            "ls": "--" if dashed else "-",
            "marker": "o",
            "ms": 3.5,
        }
        axes.plot(*zip(*line, strict=True), color=colour, **look)
        ends.append((line[-1][1], line[-1][0], name, colour))
    axes.margins(x=0.02)
    bottom, top = axes.get_ylim()
    height = math.log(top / bottom)
    ends.sort()
    for place, (y, x, name, colour) in zip(
        _apart([math.log(y / bottom) / height for y, *_ in ends]), ends, strict=True
    ):
        axes.annotate(
            name, (x, y), (1.03, place), xycoords="data", textcoords="axes fraction", color=colour, fontsize=9,
            va="center", arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.4, "lw": 0.8, "relpos": (0, 0.5)},
        )  # fmt: skip


def _apart(places: Sequence[float], distance: float = 0.04) -> list[float]:
    """Return ascending positions, moved so that they are at least ``distance`` apart and at most 1.

    Positions are fractions of the chart's height. Each is moved up as far as necessary, then down if it is above 1.
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + distance) if moved else place)
    limit = 1.0
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], limit)
        limit = moved[i] - distance
    return moved


def _colour(name: str) -> Any:
    """Return the color of the line of a variant, of ``auto``, or of another library.

    CUDA-core variants for any matrices run from cold to hot colors in ladder order; other variants from blue to green.
    """
    rows = kernel_variants()
    ladder = [row.name for row in rows if is_for_any_matrices(row)]
    if name in ladder:
        coldest = 0.1 if mpl.rcParams["text.color"] == THEMES["light"][0] else 0.3  # 0.1 is invisible on a dark page
        return mpl.colormaps["plasma"](coldest + (0.85 - coldest) * ladder.index(name) / (len(ladder) - 1))
    others = [row.name for row in rows if row.name not in ladder]
    if name in others:
        return mpl.colormaps["viridis"](0.4 + 0.45 * others.index(name) / (len(others) - 1))
    return _AUTO if name == AUTO else _NOT_OURS
