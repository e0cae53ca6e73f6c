"""The fit of one kernel's rates: those with which the cost model's times are closest to the measured times."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.hardware.device_rates import DeviceRates
from tiledmm.kernels.config import Config
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.selection.cost import Cost
from tiledmm.selection.rates import KernelRates
from tiledmm.tuning.search import distances, least, rounded

#: Numbers of resident blocks whose rates are fitted. Rates for numbers between them are interpolated.
KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

#: Parameters of a kernel in the order of the search, with their limits. Those of reading are limited by the memory's
#: rate.
LIMITS = {
    "tflops": (1e-3, 1e5),
    "overhead_k": (1.0, 5000.0),
    "mn_major": (0.02, 1.0),
    "k_major": (0.02, 1.0),
    "transposed_b": (0.3, 1.3),
    "words": (0.02, 1.0),
    "elements": (0.02, 1.0),
    "writing": (0.3, 2.0),
    "writing_unaligned": (0.3, 1.0),  # a lower limit would fit the latency of small products, and be wrong for others
    "overlap": (1.0, 20.0),
}

# First values of the search, for parameters without a known value.
_GUESS = {"transposed_b": 1.0, "words": 0.5, "elements": 0.5, "writing": 1.0, "writing_unaligned": 1.0, "overlap": 2.0}


# Least weight of a timing, and the factor by which a timing weighs more if it is longer than expected.
_LEAST_WEIGHT, _OPTIMISM = 0.02, 1.5


@dataclass(slots=True)
class Timing:
    """A product with which a kernel was timed, and its times.

    Attributes:
        config: Config of the kernel.
        product: Product as the kernel computes it.
        packs: Fields of ``LaunchConfig`` that pack operands.
        split: Number of split-K partitions.
        microseconds: Measured time, in microseconds.
        fastest: Time that the model expects of the fastest kernel for the same product, in microseconds.
    """

    config: Config
    product: Product
    packs: tuple[str, ...]
    split: int
    microseconds: float
    fastest: float = math.inf

    def expected(self, cost: Cost, row: KernelRates) -> float:
        """Return the device time in microseconds that the cost model expects, without host time.

        Args:
            cost: Cost model.
            row: Rates of the kernel.
        """
        return cost.on_device(row, self.config, self.product, self.packs, self.split)


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A kernel with its timings.

    Attributes:
        row: Kernel, with the rates from which the search begins.
        residents: Maximum number of blocks of the kernel that are resident on an SM at the same time.
        timings: Timings of the kernel.
    """

    row: KernelRates
    residents: int
    timings: tuple[Timing, ...]


def weight(measured: Any, expected: Any, fastest: Any) -> Any:
    """Return the weights of timings in the fit.

    A timing weighs more the nearer its measured or its expected time is to that of the fastest kernel. It weighs more
    if it is longer than expected, because then the model may select a kernel that is not the fastest.

    Args:
        measured: Measured times, in microseconds.
        expected: Times that the model expects.
        fastest: Times that the model expects of the fastest kernel for the same products.
    """
    near = np.clip(fastest / np.minimum(measured, expected), _LEAST_WEIGHT, 1.0)
    return near * np.where(expected < measured, _OPTIMISM, 1.0)


def fit_kernel(start: KernelRates, kernel: TimedKernel, cost: Cost, device: DeviceRates) -> KernelRates:
    """Return the rates of a kernel with which the cost model's times are closest to its timings.

    Args:
        start: Rates from which the search begins.
        kernel: Kernel with its timings.
        cost: Cost model.
        device: Rates of the device, which are unchanged.
    """
    knots = [knot for knot in KNOTS if knot < kernel.residents]
    expect = Expected(start.variant, kernel, knots, cost, device)
    measured = np.array([each.microseconds for each in kernel.timings])
    fastest = np.array([each.fastest for each in kernel.timings])

    def loss(values: np.ndarray, counted: np.ndarray) -> float:
        expected = expect(values)
        return float((weight(measured, expected, fastest) * counted) @ distances(np.log(expected / measured)))

    highest = 1.1 * device.memory
    limits = {**LIMITS, "mn_major": (0.02, highest), "k_major": (0.02, highest)}
    bounds = [*limits.values(), *[(0.02, 1.0)] * len(knots)]
    # A rate of 0 or infinity has not been fitted to any timing.
    known = {name: was if 0 < (was := float(getattr(start, name))) < math.inf else _GUESS[name] for name in LIMITS}
    guess = {**known, **_GUESS, "mn_major": device.memory, "k_major": device.memory}
    begins = [[*guess.values(), *(0.3 + 0.7 * knot / kernel.residents for knot in knots)]]
    if len(start.residents) == kernel.residents - 1:
        begins.append([*known.values(), *(start.residents[knot - 1] for knot in knots)])
    # The cost of unaligned operands is fitted last, so that it does not change what is expected of aligned ones.
    unaligned = expect.words | expect.elements
    of_aligned = functools.partial(loss, counted=~unaligned)
    # The search changes one parameter at a time and may end in different minima, so it begins twice, if possible also
    # where the last fit ended.
    values = min((least(of_aligned, np.clip(begin, *np.transpose(bounds)), bounds) for begin in begins), key=of_aligned)
    if unaligned.any():
        free = [name in ("words", "elements") for name in LIMITS] + [False] * len(knots)
        bounds = [limit if each else (value, value) for limit, each, value in zip(bounds, free, values, strict=True)]
        values = least(functools.partial(loss, counted=unaligned), values, bounds)
    found = dict(zip(LIMITS, map(rounded, values), strict=False))
    found["words"] *= float(expect.words.any())
    found["elements"] *= float(expect.elements.any())
    found["writing_unaligned"] *= float(not expect.aligned_c.all())
    fractions = _between(values[len(LIMITS) :], knots, kernel.residents)
    changed = {**found, "overhead_k": round(found["overhead_k"]), "residents": tuple(map(rounded, fractions))}
    return replace(start, **changed)  # type: ignore[arg-type]


class Expected:
    """The cost model of one kernel, for all of its timings at once. ``Cost.on_device`` is the same for one timing.

    Args:
        variant: Variant of the kernel.
        kernel: Kernel with its timings.
        knots: Numbers of resident blocks whose rates are parameters.
        cost: Cost model, which gives the terms of each product's cost.
        device: Rates of the device.
    """

    def __init__(
        self, variant: str, kernel: TimedKernel, knots: Sequence[int], cost: Cost, device: DeviceRates
    ) -> None:
        found = [cost.terms(variant, each.config, each.product, each.packs, each.split) for each in kernel.timings]
        self.knots, self.residents = knots, kernel.residents
        blocks, slots = np.array([(terms.blocks, terms.slots) for terms in found]).T
        self.rounds = blocks // (slots * self.residents) * self.residents
        left = blocks - self.rounds * slots
        self.rest, self.share = -(-left // slots), left / np.maximum(blocks, 1)
        self.flops = np.array([terms.flops for terms in found])
        self.steps = np.array([terms.steps for terms in found], float)
        in_place = find_variant(variant).reads_unaligned
        self.words = np.array([terms.access == "words" for terms in found])
        by_element = np.array([terms.access == "elements" for terms in found])
        self.elements = by_element & in_place
        self.single = np.where(by_element & (not in_place), device.single_elements, 1.0)
        self.k_major_b = np.array([terms.layout[1] == "N" for terms in found])
        sizes = np.array([terms.sizes for terms in found])
        letters = np.array([list(terms.layout) for terms in found])
        # Megabytes of operands, by layout: divided by TB/s, they are microseconds.
        self.by_layout = {letter: (sizes * (letters == letter)).sum(axis=1) / 1e6 for letter in "NTG"}
        self.writing = np.array([terms.writing for terms in found])
        self.aligned_c = np.array([terms.aligned_c for terms in found])
        self.cache = np.array([terms.cache for terms in found])
        self.before = np.array([terms.before for terms in found])
        self.after = np.array([terms.after for terms in found])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the times that the model expects for the products of all timings, in microseconds.

        Args:
            values: Parameters of the kernel: those of ``LIMITS``, then the rates at the knots.
        """
        own, others = np.split(values, [len(LIMITS)])
        tflops, overhead, mn_major, k_major, transposed, words, elements, writing, unaligned, overlap = own
        fractions = np.array([1.0, *_between(others, self.knots, self.residents), 1.0])
        rate = tflops * 1e6 * np.where(self.k_major_b, transposed, 1.0)
        fraction = self.single * np.where(self.words, words, 1.0) * np.where(self.elements, elements, 1.0)
        multiplying = self.flops * (self.steps / fraction + overhead) / rate
        reading = self.by_layout["N"] / k_major + self.by_layout["T"] / mn_major
        reading = reading + self.by_layout["G"] / min(k_major, mn_major)
        written = self.writing / writing / np.where(self.aligned_c, 1.0, unaligned)
        moving, rest = reading + written, np.where(self.rest > 0, self.rest / fractions[self.rest], 0.0)
        phases = (self.rounds, 1 - self.share), (rest, self.share)
        times = (
            _together(overlap, blocks * multiplying, share * moving, share * self.cache) for blocks, share in phases
        )
        return np.asarray(self.before + sum(times) + self.after)


def _together(overlap: float, *times: np.ndarray) -> np.ndarray:
    """Return the expected times of phases that overlap, as ``cost.together`` does, for many products at once.

    Args:
        overlap: Exponent: the larger it is, the closer the result is to the longest phase.
        *times: Time of each phase, with one element per product.
    """
    longest = np.maximum.reduce(times)
    divisor = np.where(longest > 0, longest, 1.0)
    return np.asarray(longest * sum((time / divisor) ** overlap for time in times) ** (1 / overlap))


def _between(fractions: np.ndarray, knots: Sequence[int], residents: int) -> list[float]:
    """Return the rates of a kernel with 1, 2, ... resident blocks per SM, up to one block fewer than the maximum.

    Rates are fractions of the rate with the maximum, are interpolated, and never decrease with more blocks.

    Args:
        fractions: Rates at the knots.
        knots: Numbers of resident blocks.
        residents: Maximum number of blocks that are resident on an SM at the same time.
    """
    if residents == 1:
        return []
    rising = np.minimum(np.maximum.accumulate(fractions), 1.0)
    return list(np.interp(np.arange(1, residents), [*knots, residents], [*rising, 1.0]))
