"""From timings of kernels to the rates by which the cost model would have expected them. Needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiledmm.selection.cost import Work
from tiledmm.selection.rates import DeviceRates, KernelRates

#: Numbers of resident blocks whose rates are fitted; those between are interpolated.
KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

# The search: factors by which a parameter is changed, the smallest last, and most rounds with each.
_STEPS, _ROUNDS = (2.0, 1.4, 1.15, 1.05, 1.015), 12


@dataclass(frozen=True, slots=True)
class Timing:
    """One product that was timed: what a kernel had to do, and its microseconds; and those of the fastest kernel."""

    work: Work
    microseconds: float
    fastest: float


def fit_kernel(
    start: KernelRates, timings: Sequence[Timing], residents: int, device: DeviceRates
) -> tuple[KernelRates, float]:
    """The rates of a kernel that explain its timings best.

    Args:
        start: The kernel, with rates to begin with.
        timings: Its timings, on the GPU whose rates are wanted.
        residents: Most blocks that are resident on an SM.
        device: The device's own rates.

    Returns:
        The kernel's rates; and the median error of a timing, as a fraction.
    """
    knots = [knot for knot in KNOTS if knot < residents]
    expect = _Expected(timings, knots, residents, device)
    # The more a timing is worth, the nearer the kernel came to the fastest one.
    weights = np.array([max(min(each.fastest / each.microseconds, 1.0), 0.02) for each in timings])
    measured = np.log([each.microseconds for each in timings])

    def loss(values: np.ndarray) -> float:
        return float(weights @ np.abs(np.log(expect(values)) - measured))

    first = [start.tflops, max(float(start.overhead_k), 1.0), device.memory, device.memory, 1.0]
    first += [min(0.3 + 0.7 * knot / residents, 1.0) for knot in knots]
    limits = [(1e-3, 1e5), (1.0, 5000.0), (0.02, 1.1 * device.memory), (0.02, 1.1 * device.memory), (0.3, 1.3)]
    limits += [(0.02, 1.0)] * len(knots)
    found = _least(loss, np.array(first), limits)
    errors = np.abs(np.expm1(np.log(expect(found)) - measured))
    tflops, overhead, mn_major, k_major, transposed, *fractions = map(float, found)
    rates = replace(
        start,
        tflops=_rounded(tflops),
        residents=tuple(_rounded(each) for each in _between(np.array(fractions), knots, residents)),
        overhead_k=round(overhead),
        mn_major=_rounded(mn_major),
        k_major=_rounded(k_major),
        transposed_b=_rounded(transposed),
    )
    return rates, float(np.median(errors))


class _Expected:
    """The cost model of one kernel, for all its timings at a time; ``Cost.microseconds`` says the same of one."""

    def __init__(self, timings: Sequence[Timing], knots: Sequence[int], residents: int, device: DeviceRates) -> None:
        works = [each.work for each in timings]
        self.knots, self.residents = knots, residents
        blocks = np.array([work.blocks for work in works])
        self.full, self.rest = blocks // residents * residents, blocks % residents
        self.flops = np.array([work.flops for work in works])
        self.steps = np.array([work.steps for work in works], float)
        self.single = np.where([work.single_elements for work in works], device.single_elements, 1.0)
        self.k_major_b = np.array([work.layout[1] == "N" for work in works])
        sizes = np.array([work.sizes for work in works])
        letters = np.array([list(work.layout) for work in works])
        # Bytes of operands by layout, in units that terabytes a second make microseconds of.
        self.by_layout = {letter: (sizes * (letters == letter)).sum(axis=1) / 1e6 for letter in "NTG"}
        self.writing = np.array([work.writing for work in works])
        self.cache = np.array([work.cache for work in works])
        self.before = np.array([work.before for work in works])
        self.after = np.array([work.after for work in works])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        tflops, overhead, mn_major, k_major, transposed = values[:5]
        fractions = np.array([1.0, *_between(values[5:], self.knots, self.residents)])
        rounds = self.full + np.where(self.rest > 0, self.rest / fractions[self.rest], 0.0)
        rate = tflops * 1e6 * self.single * np.where(self.k_major_b, transposed, 1.0)
        multiplying = rounds * self.flops * (self.steps + overhead) / rate
        reading = self.by_layout["N"] / k_major + self.by_layout["T"] / mn_major
        reading = reading + self.by_layout["G"] / min(k_major, mn_major)
        return self.before + np.maximum(np.maximum(multiplying, reading + self.writing), self.cache) + self.after


def _between(fractions: np.ndarray, knots: Sequence[int], residents: int) -> list[float]:
    """Rates with 1, 2, ... resident blocks, one fewer than the most: fractions, none less than with fewer blocks."""
    if residents == 1:
        return []
    rising = np.minimum(np.maximum.accumulate(fractions), 1.0)
    return list(np.interp(np.arange(1, residents), [*knots, residents], [*rising, 1.0]))


def _least(loss: Callable[[np.ndarray], float], first: np.ndarray, limits: Sequence[tuple[float, float]]) -> np.ndarray:
    """The parameters of the least loss that changing one at a time finds."""
    values, least = first.copy(), loss(first)
    for step in _STEPS:
        for _ in range(_ROUNDS):
            before = least
            for i, (low, high) in enumerate(limits):
                for factor in (step, 1 / step):
                    tried = values.copy()
                    tried[i] = min(max(values[i] * factor, low), high)
                    if (found := loss(tried)) < least:
                        values, least = tried, found
            if least > before * 0.999:
                break
    return values


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
