"""The fit of all rates to timings: the rates by which the cost model comes closest to the timings. It needs no GPU.

Rates of kernels and rates of the device are fitted in turn. A timing weighs more if the kernel is, or is expected to
be, near the fastest one: the time of a kernel that is never selected matters little.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiledmm.elements import compute_element
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.hardware.device_rates import DeviceRates
from tiledmm.kernels.operands.packed_rows import aligned_in_place
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.selection.cost import Cost
from tiledmm.selection.model import Model
from tiledmm.selection.rates import KernelRates, Rates
from tiledmm.tuning.fit_kernel import TimedKernel, Timing, fit_kernel, weight
from tiledmm.tuning.search import STEPS, distances, least, rounded

# Number of times that kernels and device are fitted in turn, and maximum number of timings in a fit of the device.
_PASSES, _MOST_TIMINGS = 3, 300

# Least microseconds of reading for a reliable rate of L2.
_STEADY = 20.0


def fit(gpu: Gpu, device: DeviceRates, kernels: Sequence[TimedKernel]) -> Rates:
    """Return the rates by which the cost model comes closest to the timings of kernels.

    Args:
        gpu: GPU that was measured.
        device: Rates of the device, from ``DeviceBench.device_rates``. The fit refines them.
        kernels: Kernels with their timings. The search begins with the rates of their rows.
    """
    rates = Rates(gpu, device, tuple(each.row for each in kernels))
    rates = replace(rates, device=_with_l2(gpu, rates, kernels))
    for _ in range(_PASSES):
        rates = _with_kernels(gpu, rates, kernels)
        _tell_fastest(gpu, rates, kernels)
        rates = replace(rates, device=_fit_device(gpu, rates, kernels))
    return _with_kernels(gpu, rates, kernels)


def _with_kernels(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> Rates:
    """Fit the rates of each kernel to its timings, and return the table. The rates of the device are unchanged."""
    cost, pairs = Cost(gpu, rates), zip(rates.rows, kernels, strict=True)
    return replace(rates, rows=tuple(fit_kernel(row, each, cost, rates.device) for row, each in pairs))


def errors(rates: Rates, kernels: Sequence[TimedKernel]) -> list[float]:
    """Return, for each kernel, the mean error of the times that the model expects, as a fraction.

    The error is the absolute logarithm of the ratio of expected to measured time. Timings are weighted as in the fit.
    """
    cost, found = Cost(rates.gpu, rates), []
    for row, kernel in zip(rates.rows, kernels, strict=True):
        ratios = [each.expected(cost, row) / each.microseconds for each in kernel.timings]
        weights = [_weight(cost, row, each) for each in kernel.timings]
        found.append(float(np.average(np.abs(np.log(ratios)), weights=weights)))
    return found


def _tell_fastest(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> None:
    """Set ``fastest`` of each timing: the time that the model expects of the fastest kernel for the same product.

    Args:
        gpu: GPU that was measured.
        rates: Rates by which the model expects times.
        kernels: Kernels whose timings are changed.
    """
    model = Model(gpu, rates)
    fastest: dict[tuple[object, ...], float] = {}
    for row, kernel in zip(rates.rows, kernels, strict=True):
        compute = compute_element(row.type) if find_variant(row.variant).multiplies(compute_element(row.type)) else None
        for each in kernel.timings:
            problem = each.product.problem
            key = row.type, compute is None, problem.m, problem.n, problem.k, problem.products, problem.layout
            if key not in fastest:
                fastest[key] = min(choice.microseconds or 0.0 for choice in model.alone(each.product))
            each.fastest = fastest[key]


def _weight(cost: Cost, row: KernelRates, timing: Timing) -> float:
    return float(weight(timing.microseconds, timing.expected(cost, row), timing.fastest))


def _with_l2(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> DeviceRates:
    """Return the rates of the device with new rates of L2: the highest rate at which any kernel has read operands.

    Unaligned operands are read more slowly, because the cache line in which a row begins is read for two rows. Their
    rate comes from products in which both operands are unaligned; that of TMA is fitted later. Kernels that decompose
    operands do not count: how much of their time the decomposition takes is not known precisely enough.
    """
    seen = dict.fromkeys(("l2", "l2_tma", "l2_unaligned", "l2_tma_unaligned"), 0.0)
    cost = Cost(gpu, replace(rates, device=_with(rates.device, seen, np.ones(4))))
    for kernel in kernels:
        variant = find_variant(kernel.row.variant)
        for each in kernel.timings if variant.operands.reads_elements else ():
            terms = cost.terms(variant.name, each.config, each.product, each.packs, each.split)
            reading = each.microseconds - terms.before - terms.after
            if reading > max(0.5 * each.microseconds, _STEADY) and len({*terms.aligned}) == 1:
                name = ("l2_tma" if variant.hopper.tma else "l2") + ("" if terms.aligned[0] else "_unaligned")
                seen[name] = max(seen[name], terms.cache / reading)
    found = {name: rate or rates.device.memory for name, rate in seen.items()}  # a GPU without TMA has no such timings
    for name in ("l2", "l2_tma"):
        found[f"{name}_unaligned"] = min(found[f"{name}_unaligned"], found[name])
    return _with(rates.device, found, np.array([*found.values()]))


def _depends_on(rates: tuple[str, ...], row: KernelRates, timing: Timing) -> bool:
    """Return whether a timing depends on the given rates: those at which the device decomposes its kernel's operands.

    Args:
        rates: Names of these rates.
        row: Kernel.
        timing: Timing of the kernel.
    """
    return find_variant(row.variant).operands.rates(timing.product.compute) == rates


def _reads_single_elements(row: KernelRates, timing: Timing) -> bool:
    variant = find_variant(row.variant)
    return not variant.tensor_cores and variant.operands.access(variant, timing.packs, timing.product) == "elements"


def _sums_in_cluster(row: KernelRates, timing: Timing) -> bool:
    hopper, compute = find_variant(row.variant).hopper, timing.product.compute
    return timing.split > 1 and hopper.in_cluster(timing.config, timing.split, compute).cluster_k > 1


def _reads_unaligned_by_tma(row: KernelRates, timing: Timing) -> bool:
    variant = find_variant(row.variant)
    if timing.microseconds < _STEADY or not (variant.hopper.tma and variant.operands.reads_elements):
        return False
    return not timing.packs and not any(aligned_in_place(timing.product))


def _device_rates() -> Iterator[tuple[tuple[str, ...], Callable[[KernelRates, Timing], bool]]]:
    """Yield the names of rates of the device that are fitted together, with a function for each group of names.

    The function returns whether a timing of a kernel depends on these rates.
    """
    formats = [(row.operands, compute_element(dtype)) for row in kernel_variants() for dtype, _ in row.types]
    for names in filter(None, dict.fromkeys(operands.rates(compute) for operands, compute in formats)):
        yield names, functools.partial(_depends_on, names)
    yield ("single_elements",), _reads_single_elements
    yield ("cluster_sum", "cluster_adding"), _sums_in_cluster
    yield ("packing", "packing_launch", "packing_second"), lambda row, timing: bool(timing.packs)
    yield ("l2_tma_unaligned",), _reads_unaligned_by_tma


def _fit_device(gpu: Gpu, rates: Rates, kernels: Sequence[TimedKernel]) -> DeviceRates:
    """Return the rates of the device, fitted a few at a time to the timings that depend on them."""
    device, cost = rates.device, Cost(gpu, rates)
    for names, depends in _device_rates():
        weighed = [
            (_weight(cost, row, each), row, each)
            for row, kernel in zip(rates.rows, kernels, strict=True)
            for each in kernel.timings
            if depends(row, each)
        ]
        weighed = sorted(weighed, key=lambda each: -each[0])[:_MOST_TIMINGS]
        if weighed:
            loss = functools.partial(_device_loss, gpu, replace(rates, device=device), names, weighed)
            first = np.array([max(_get(device, name), 0.1) for name in names])
            found = least(loss, first, [(0.05, 1e3)] * len(names), steps=STEPS[1:], rounds=3)
            device = _with(device, names, found)
    return device


def _device_loss(
    gpu: Gpu,
    rates: Rates,
    names: Sequence[str],
    weighed: Sequence[tuple[float, KernelRates, Timing]],
    values: np.ndarray,
) -> float:
    cost = Cost(gpu, replace(rates, device=_with(rates.device, names, values)))
    ratios = [each.expected(cost, row) / each.microseconds for _, row, each in weighed]
    return float(np.array([counts for counts, _, _ in weighed]) @ distances(np.log(ratios)))


def _get(device: DeviceRates, name: str) -> float:
    field, _, letter = name.partition(".")
    value = getattr(device, field)
    return float(value[letter] if letter else value)


def _with(device: DeviceRates, names: Iterable[str], values: np.ndarray) -> DeviceRates:
    changed: dict[str, Any] = {}
    for name, value in zip(names, map(float, values), strict=True):
        field, _, letter = name.partition(".")
        of_letters = changed.get(field, getattr(device, field)) if letter else {}
        changed[field] = {**of_letters, letter: rounded(value)} if letter else rounded(value)
    return replace(device, **changed)
