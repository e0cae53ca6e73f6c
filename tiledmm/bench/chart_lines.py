"""What charts show: rates by size, which few lines a picture has, and how many times as fast ``auto`` is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from tiledmm.bench.results import BASELINE, Comparison
from tiledmm.elements import compute_element
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import kernel_variants
from tiledmm.problem.keywords import AUTO

#: One point of a line: where, and how high.
Point = tuple[float, float]

#: A variant's TFLOP/s, comparison by comparison.
Rates = list[tuple[Comparison, float]]

#: The lines that a picture has at most.
MOST_LINES = 6

#: The row of a call whose operands come from the host, and whose result goes back there.
WITH_COPIES = "auto, copies included"

#: What the name of the CPU's row begins with.
CPU = "numpy"


def rates(comparisons: Iterable[Comparison]) -> dict[str, Rates]:
    """TFLOP/s of each variant and of the baseline, size by size, the best of its tiles."""
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
    """The lines of a picture: all, or of more than ``MOST_LINES`` those that say most.

    These are ``auto`` and the baseline; of the CUDA-core variants for any matrices the slowest and the fastest at the
    largest size, and the one whose rate is nearest to halfway between theirs, as a ratio; and the fastest on tensor
    cores.
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
    """Whether it is a CUDA-core variant of the package without a special case in mind."""
    return row.user is None and not row.tensor_cores and not row.is_for_few_shapes


def intensity(comparison: Comparison) -> float:
    """Operations for each byte of a square product that has to be moved."""
    return 2 * comparison.n**3 / (3 * comparison.n**2 * compute_element(comparison.dtype).itemsize)


def speed_ups(comparisons: Sequence[Comparison]) -> dict[str, list[Point]]:
    """How many times as fast ``auto`` is as the naive kernel, the CPU and the baseline, by size."""

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
    """The place where a line first crosses 1 from below, on logarithmic scales; None if it does not."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if y0 < 1 <= y1:
            part = math.log(1 / y0) / math.log(y1 / y0)
            return float(x0 * (x1 / x0) ** part)
    return None


def _time(comparison: Comparison, name: str) -> float | None:
    """Microseconds of the first row of a name that begins so."""
    return next((row.microseconds for row in comparison.rows if row.variant.startswith(name)), None)
