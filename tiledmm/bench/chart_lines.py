"""Data of the charts: rates by size, the lines that a chart shows, and speedups of ``auto``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from tiledmm.bench.results import BASELINE, Comparison
from tiledmm.elements import compute_element
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import kernel_variants
from tiledmm.problem.keywords import AUTO

#: One point of a line: x and y.
Point = tuple[float, float]

#: Rates of a variant in TFLOP/s, each with its comparison.
Rates = list[tuple[Comparison, float]]

#: Maximum number of lines in a chart.
MOST_LINES = 6

#: Name of the row whose time includes copies of the operands from the host and of the result to the host.
WITH_COPIES = "auto, copies included"

#: Beginning of the name of the CPU's row.
CPU = "numpy"


def rates(comparisons: Iterable[Comparison]) -> dict[str, Rates]:
    """Return the rates of each variant and of the baseline in TFLOP/s, by name, in the order of the products' sizes.

    A variant's rate on a product is that of its fastest tile. Peers are left out.
    """
    lines: dict[str, Rates] = {}
    for each in sorted(comparisons, key=lambda c: c.n):
        best: dict[str, float] = {}
        for row in each.rows:
            if row.tflops and not row.peer:
                best[row.variant] = max(row.tflops, best.get(row.variant, 0.0))
        for name, found in best.items():
            lines.setdefault(name, []).append((each, found))
    return lines


def readable(lines: Mapping[str, Rates]) -> dict[str, Rates]:
    """Select the lines of a chart: all if there are at most ``MOST_LINES``, else at most six of them.

    These are ``auto``; the baseline; the slowest and the fastest CUDA-core variant for any matrices at the largest
    size; the one closest to the geometric mean of these two; and the fastest variant on tensor cores.
    """
    if len(lines) <= MOST_LINES:
        return dict(lines)
    last = {name: line[-1][1] for name, line in lines.items()}
    rows = [row for row in kernel_variants() if row.name in last]
    ladder = sorted((row.name for row in rows if is_for_any_matrices(row)), key=last.__getitem__)
    shown = {AUTO, BASELINE, *ladder[:1], *ladder[-1:]}
    if between := ladder[1:-1]:
        middle = math.sqrt(last[ladder[0]] * last[ladder[-1]])
        shown.add(min(between, key=lambda name: abs(math.log(last[name] / middle))))
    if on_tensor_cores := [row.name for row in rows if row.tensor_cores]:
        shown.add(max(on_tensor_cores, key=last.__getitem__))
    return {name: line for name, line in lines.items() if name in shown}


def is_for_any_matrices(row: Variant) -> bool:
    """Return whether a variant is one of the package's CUDA-core variants that are not made for special shapes."""
    return row.user is None and not row.tensor_cores and not row.is_for_few_shapes


def intensity(comparison: Comparison) -> float:
    """Return the arithmetic intensity of a square product, in FLOP per byte of its three matrices."""
    return 2 * comparison.n**3 / (3 * comparison.n**2 * compute_element(comparison.dtype).itemsize)


def speed_ups(comparisons: Sequence[Comparison]) -> dict[str, list[Point]]:
    """Return lines of the speedup of ``auto`` over other rivals, by the rival's name.

    The x of a point is the size of a square product, and the y is the rival's time divided by that of ``auto``. The
    rivals are the naive kernel, NumPy without and with copies between host and device, three nested loops in Python,
    and the baseline. A line is empty if the rival was not timed.
    """

    def over(name: str, mine: str = AUTO) -> list[Point]:
        times = [(each.n, _time(each, mine), _time(each, name)) for each in comparisons]
        return [(float(n), theirs / ours) for n, ours, theirs in times if ours and theirs]

    cpu = next(
        (row.variant for each in comparisons for row in each.rows if row.variant.startswith(CPU)),
        CPU,
    )
    return {
        "naive": over("naive"),
        cpu: over(CPU),
        f"{CPU}, with copies": over(CPU, WITH_COPIES),
        "triple loop": over("triple loop"),
        BASELINE: over(BASELINE),
    }


def crossover(line: Sequence[Point]) -> float | None:
    """Return the x at which a line first rises above 1, interpolated on logarithmic scales; None if it never does."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if y0 < 1 <= y1:
            part = math.log(1 / y0) / math.log(y1 / y0)
            return float(x0 * (x1 / x0) ** part)
    return None


def _time(comparison: Comparison, name: str) -> float | None:
    """Return the time in microseconds of the first rival whose name begins with ``name``; None if there is none."""
    return next((row.microseconds for row in comparison.rows if row.variant.startswith(name)), None)
