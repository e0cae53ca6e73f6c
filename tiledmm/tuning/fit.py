"""From timings of kernels to the rates by which the cost model would have expected them. Needs no GPU.

Rates of kernels and of the device are found in turn. A timing counts the more, the nearer the kernel comes, or
is expected to come, to the fastest: how long a kernel takes that nobody would take matters little.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.elements import compute_element
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.problem.operands import Product
from tiledmm.registry.config import Config
from tiledmm.registry.variants import find_variant
from tiledmm.selection.cost import Cost, access
from tiledmm.selection.model import Model
from tiledmm.selection.rates import DeviceRates, KernelRates, Rates

#: Numbers of resident blocks whose rates are fitted; those between are interpolated.
KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

# The search: factors by which a parameter is changed, the smallest last, and most rounds with each.
_STEPS, _ROUNDS = (2.0, 1.4, 1.15, 1.05, 1.015), 12

# How often kernels and device are fitted in turn; and most timings that the device is fitted to at a time.
_PASSES, _MOST_TIMINGS = 3, 300

# Microseconds of reading from which on a rate of L2 is steady.
_STEADY = 20.0

# The least that a timing counts; and an error that is small.
_LEAST_WEIGHT, _SMALL_ERROR = 0.02, 0.05


@dataclass(slots=True)
class Timing:
    """A product that a kernel was timed with.

    Attributes:
        config, packs, split: Its config, the fields of ``LaunchConfig`` that pack operands, and split-K partitions.
        product: The product as the kernel computes it.
        microseconds: What it took.
        weight: How much that counts.
    """

    config: Config
    product: Product
    packs: tuple[str, ...]
    split: int
    microseconds: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A kernel, the most blocks of it that are resident on an SM, and its timings."""

    row: KernelRates
    residents: int
    timings: tuple[Timing, ...]


def fit(gpu: Gpu, device: DeviceRates, kernels: Sequence[TimedKernel]) -> Rates:
    """The rates that explain timings best.

    Args:
        gpu: The GPU that they are of.
        device: Its own rates as they were measured by themselves, which are refined.
        kernels: The kernels. Their rows' rates are where the search begins.
    """
    rates = Rates(gpu, device, tuple(each.row for each in kernels))
    rates = replace(rates, device=_with_l2(gpu, rates, kernels))
    for _ in range(_PASSES):
        rates = _with_kernels(gpu, rates, kernels)
        _weigh(gpu, rates, kernels)
        rates = replace(rates, device=_fit_device(gpu, rates, kernels))
    return _with_kernels(gpu, rates, kernels)


def _with_kernels(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> Rates:
    """The same rates of the device, and of each kernel those that explain its timings best."""
    cost, pairs = Cost(gpu, rates), zip(rates.rows, kernels, strict=True)
    return replace(rates, rows=tuple(fit_kernel(row, each, cost, rates.device) for row, each in pairs))


def errors(rates: Rates, kernels: Sequence[TimedKernel]) -> list[float]:
    """For each kernel the mean error of what is expected of it, as a fraction, by the timings' weights."""
    cost, found = Cost(rates.gpu, rates), []
    for row, kernel in zip(rates.rows, kernels, strict=True):
        ratios = [_expected(cost, row, each) / each.microseconds for each in kernel.timings]
        weights = [each.weight for each in kernel.timings]
        found.append(float(np.average(np.abs(np.log(ratios)), weights=weights)))
    return found


def fit_kernel(start: KernelRates, kernel: TimedKernel, cost: Cost, device: DeviceRates) -> KernelRates:
    """The rates of a kernel that explain its timings best."""
    knots = [knot for knot in KNOTS if knot < kernel.residents]
    expect = _Expected(start.variant, kernel, knots, cost, device)
    weights = np.array([each.weight for each in kernel.timings])
    measured = np.log([each.microseconds for each in kernel.timings])

    def loss(values: np.ndarray, counted: np.ndarray) -> float:
        return float((weights * counted) @ _distances(np.log(expect(values)) - measured))

    fastest = 1.1 * device.memory
    searched: dict[str, tuple[float, tuple[float, float]]] = {  # where the search begins, and its limits
        "tflops": (start.tflops, (1e-3, 1e5)),
        "overhead_k": (max(float(start.overhead_k), 1.0), (1.0, 5000.0)),
        "mn_major": (device.memory, (0.02, fastest)),
        "k_major": (device.memory, (0.02, fastest)),
        "transposed_b": (1.0, (0.3, 1.3)),
        "words": (0.5, (0.02, 1.0)),
        "elements": (0.5, (0.02, 1.0)),
        "writing": (1.0, (0.3, 2.0)),
    }
    first = [begin for begin, _ in searched.values()] + [min(0.3 + 0.7 * k / kernel.residents, 1.0) for k in knots]
    limits = [limit for _, limit in searched.values()] + [(0.02, 1.0)] * len(knots)
    # What it costs to read unaligned operands is found last: that must not change what is expected of aligned ones.
    unaligned = expect.words | expect.elements
    values = _least(functools.partial(loss, counted=~unaligned), np.array(first), limits)
    if unaligned.any():
        last = [name in ("words", "elements") for name in searched] + [False] * len(knots)
        limits = [limit if free else (value, value) for limit, free, value in zip(limits, last, values, strict=True)]
        values = _least(functools.partial(loss, counted=unaligned), values, limits)
    found = dict(zip(searched, map(_rounded, values), strict=False))
    found["words"] *= float(expect.words.any())
    found["elements"] *= float(expect.elements.any())
    fractions = _between(values[len(searched) :], knots, kernel.residents)
    changed = {**found, "overhead_k": round(found["overhead_k"]), "residents": tuple(map(_rounded, fractions))}
    return replace(start, **changed)  # type: ignore[arg-type]


class _Expected:
    """The cost model of one kernel, for all its timings at a time; ``Cost.microseconds`` says the same of one."""

    def __init__(
        self, variant: str, kernel: TimedKernel, knots: Sequence[int], cost: Cost, device: DeviceRates
    ) -> None:
        found = [cost.terms(variant, each.config, each.product, each.packs, each.split) for each in kernel.timings]
        self.knots, self.residents = knots, kernel.residents
        blocks = np.array([terms.blocks for terms in found])
        self.full, self.rest = blocks // self.residents * self.residents, blocks % self.residents
        self.flops = np.array([terms.flops for terms in found])
        self.steps = np.array([terms.steps for terms in found], float)
        tensor_cores = find_variant(variant).tensor_cores
        self.words = np.array([terms.access == "words" for terms in found])
        by_element = np.array([terms.access == "elements" for terms in found])
        self.elements = by_element & tensor_cores
        self.single = np.where(by_element & (not tensor_cores), device.single_elements, 1.0)
        self.k_major_b = np.array([terms.layout[1] == "N" for terms in found])
        sizes = np.array([terms.sizes for terms in found])
        letters = np.array([list(terms.layout) for terms in found])
        # Bytes of operands by layout, in units that terabytes a second make microseconds of.
        self.by_layout = {letter: (sizes * (letters == letter)).sum(axis=1) / 1e6 for letter in "NTG"}
        self.writing = np.array([terms.writing for terms in found])
        self.cache = np.array([terms.cache for terms in found])
        self.before = np.array([terms.before for terms in found])
        self.after = np.array([terms.after for terms in found])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        tflops, overhead, mn_major, k_major, transposed, words, elements, writing = values[:8]
        fractions = np.array([1.0, *_between(values[8:], self.knots, self.residents)])
        rounds = self.full + np.where(self.rest > 0, self.rest / fractions[self.rest], 0.0)
        rate = tflops * 1e6 * np.where(self.k_major_b, transposed, 1.0)
        part = self.single * np.where(self.words, words, 1.0) * np.where(self.elements, elements, 1.0)
        multiplying = rounds * self.flops * (self.steps / part + overhead) / rate
        reading = self.by_layout["N"] / k_major + self.by_layout["T"] / mn_major
        reading = reading + self.by_layout["G"] / min(k_major, mn_major)
        longest = np.maximum(np.maximum(multiplying, reading + self.writing / writing), self.cache)
        return np.asarray(self.before + longest + self.after)


def _weigh(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> None:
    """Sets the weights: how near each timing, or what is expected of it, comes to the fastest of its product."""
    model, cost = Model(gpu, rates), Cost(gpu, rates)
    fastest: dict[tuple[object, ...], float] = {}
    for row, kernel in zip(rates.rows, kernels, strict=True):
        compute = compute_element(row.type) if find_variant(row.variant).multiplies(compute_element(row.type)) else None
        for each in kernel.timings:
            problem = each.product.problem
            key = row.type, compute is None, problem.m, problem.n, problem.k, problem.products, problem.layout
            if key not in fastest:
                fastest[key] = min(choice.microseconds or 0.0 for choice in model.alone(each.product))
            least = min(each.microseconds, _expected(cost, row, each))
            each.weight = min(max(fastest[key] / least, _LEAST_WEIGHT), 1.0)


def _with_l2(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> DeviceRates:
    """The device's rates with those of L2: the highest at which blocks of any kernel were seen to read operands.

    A cache line that a row begins within is read for two rows, so unaligned operands are read more slowly. Their rate
    is that of products of which both are.
    """
    seen = dict.fromkeys(("l2", "l2_tma", "l2_unaligned", "l2_tma_unaligned"), 0.0)
    cost = Cost(gpu, replace(rates, device=_with(rates.device, seen, np.ones(4))))
    for kernel in kernels:
        variant = find_variant(kernel.row.variant)
        for each in kernel.timings:
            terms = cost.terms(variant.name, each.config, each.product, each.packs, each.split)
            reading = each.microseconds - terms.before - terms.after
            if reading > max(0.5 * each.microseconds, _STEADY) and len({*terms.aligned}) == 1:
                name = ("l2_tma" if variant.tma else "l2") + ("" if terms.aligned[0] else "_unaligned")
                seen[name] = max(seen[name], terms.cache / reading)
    found = {name: rate or rates.device.memory for name, rate in seen.items()}  # a GPU without TMA has no such timings
    for name in ("l2", "l2_tma"):
        found[f"{name}_unaligned"] = min(found[f"{name}_unaligned"], found[name])
    return _with(rates.device, found, np.array([*found.values()]))


def _decomposes(row: KernelRates, timing: Timing) -> bool:
    return find_variant(row.variant).decomposes


def _decomposes_to_bytes(size: int, row: KernelRates, timing: Timing) -> bool:
    return find_variant(row.variant).decomposes_to_bytes and timing.product.compute.itemsize == size


def _reads_single_elements(row: KernelRates, timing: Timing) -> bool:
    variant = find_variant(row.variant)
    return not variant.tensor_cores and access(variant, timing.packs, timing.product) == "elements"


# The device's rates that are refined together, and by which timings.
_DEVICE: tuple[tuple[tuple[str, ...], Callable[[KernelRates, Timing], bool]], ...] = (
    (("decomposing_launches", "decomposing.N", "decomposing.T", "decomposing_mn_major"), _decomposes),
    *(((f"decomposing_bytes.{size}",), functools.partial(_decomposes_to_bytes, size)) for size in (2, 4, 8)),
    (("single_elements",), _reads_single_elements),
    (("packing", "packing_launch"), lambda row, timing: bool(timing.packs)),
)


def _fit_device(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> DeviceRates:
    """The device's rates, refined a few at a time by the timings that depend on them."""
    device = rates.device
    for names, depends in _DEVICE:
        pairs = [
            (row, each)
            for row, kernel in zip(rates.rows, kernels, strict=True)
            for each in kernel.timings
            if depends(row, each) and each.weight > _LEAST_WEIGHT
        ]
        pairs = sorted(pairs, key=lambda pair: -pair[1].weight)[:_MOST_TIMINGS]
        if pairs:
            loss = functools.partial(_device_loss, gpu, replace(rates, device=device), names, pairs)
            first = np.array([max(_get(device, name), 0.1) for name in names])
            found = _least(loss, first, [(0.05, 1e3)] * len(names), steps=_STEPS[1:], rounds=3)
            device = _with(device, names, found)
    return device


def _device_loss(
    gpu: Gpu, rates: Rates, names: Sequence[str], pairs: Sequence[tuple[KernelRates, Timing]], values: np.ndarray
) -> float:
    cost = Cost(gpu, replace(rates, device=_with(rates.device, names, values)))
    ratios = [_expected(cost, row, each) / each.microseconds for row, each in pairs]
    return float(np.array([each.weight for _, each in pairs]) @ _distances(np.log(ratios)))


def _get(device: DeviceRates, name: str) -> float:
    field, _, letter = name.partition(".")
    value = getattr(device, field)
    return float(value[letter] if letter else value)


def _with(device: DeviceRates, names: Iterable[str], values: np.ndarray) -> DeviceRates:
    changed: dict[str, Any] = {}
    for name, value in zip(names, map(float, values), strict=True):
        field, _, letter = name.partition(".")
        of_letters = changed.get(field, getattr(device, field)) if letter else {}
        changed[field] = {**of_letters, letter: _rounded(value)} if letter else _rounded(value)
    return replace(device, **changed)


def _expected(cost: Cost, row: KernelRates, timing: Timing) -> float:
    """Device microseconds: the host's, which the model knows too, are not in a timing."""
    return cost.on_device(row, timing.config, timing.product, timing.packs, timing.split)


def _between(fractions: np.ndarray, knots: Sequence[int], residents: int) -> list[float]:
    """Rates with 1, 2, ... resident blocks, one fewer than the most: fractions, none less than with fewer blocks."""
    if residents == 1:
        return []
    rising = np.minimum(np.maximum.accumulate(fractions), 1.0)
    return list(np.interp(np.arange(1, residents), [*knots, residents], [*rising, 1.0]))


def _least(
    loss: Callable[[np.ndarray], float],
    first: np.ndarray,
    limits: Sequence[tuple[float, float]],
    steps: Sequence[float] = _STEPS,
    rounds: int = _ROUNDS,
) -> np.ndarray:
    """The parameters of the least loss that changing one at a time finds."""
    values, least = np.array(first), loss(first)
    for step in steps:
        for _ in range(rounds):
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


def _distances(logarithms: np.ndarray) -> np.ndarray:
    """Errors as they count: a large one in proportion, so that no odd timing decides; a small one by its square."""
    return np.asarray(np.sqrt(logarithms**2 + _SMALL_ERROR**2) - _SMALL_ERROR)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
