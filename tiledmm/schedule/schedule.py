"""The schedule of one product: its launches, in order.

Most products are one launch. Before it, operands may be prepared as their format requires: packed, or decomposed into
limbs, bytes or residues. After it, a reduction adds the partial sums of split-K. If the format cannot represent all
values, a kernel with another format is launched, too, and the operand scan decides which of the two kernels computes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiledmm.errors import ShapeError
from tiledmm.kernels.launches import (
    MOST_TILES,
    Launch,
    Schedule,
    in_launches,
    problem_args,
    products,
    split_k_partitions,
    tiles,
    tiles_in_all,
)
from tiledmm.kernels.operands.copies import PreparedOperands
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.split_k import split_k_specs, with_reduction
from tiledmm.kernels.tensor_maps import can_be_mapped, has_coordinates
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.strides import Problem
from tiledmm.schedule.forms import divide

# Largest tile for operands that cannot be decomposed. These are rare. The next larger tile is 5% faster, but takes
# twice as long to compile, which the first call has to wait for.
_MOST_UNDECOMPOSED = 128


@dataclass(frozen=True, slots=True)
class Fallback:
    """Kernel that computes a product whose operands' values cannot be decomposed.

    Attributes:
        spec: The kernel.
        is_transposed: Whether it computes the product in the form C^T = B^T A^T.
    """

    spec: KernelSpec
    is_transposed: bool = False


def schedule(
    spec: KernelSpec, problem: Problem, prepared: tuple[bool, bool] = (False, False), aligned: bool = True
) -> Schedule:
    """Return the ``Schedule`` of a product: its launches in order, and their scratch memory.

    If ``problem`` has outer dimensions, the caller repeats the launches for each of their steps.

    Args:
        spec: The kernel.
        problem: The product's problem.
        prepared: Whether A, and B, are prepared operands. The launches that prepare them are in ``Schedule.forms``,
            unless ``problem`` has outer dimensions.
        aligned: Whether the addresses of A and B are multiples of 16 bytes, so that a fallback may read them by TMA.

    Raises:
        ShapeError: If there are too many tiles: more than 1.4e14, or more than 2^31 - 1 for a kernel that decomposes
            operands or uses TMA.
    """
    operands, fallback = spec.operands, _fallback(spec, problem, aligned)
    if fallback is not None and operands.is_short(problem, spec.compute):
        return _products_in_place(replace(fallback, spec=replace(fallback.spec, condition="")), problem)
    ready = operands.prepare(spec, problem)
    multiplying = operands.products(spec, problem, ready) or _products(spec, ready)
    left, forms = (ready, ()) if problem.outer else divide(ready, prepared)
    launches, scratch = [*left.launches, *multiplying.launches], (*left.scratch, *multiplying.scratch)
    if fallback is not None:
        launches += _products_in_place(fallback, problem, ready.scan).launches
    return Schedule(tuple(_overlapping(launches)), scratch, forms)


def fallbacks(spec: KernelSpec) -> list[Fallback]:
    """Return the kernels that may compute a product whose operands' values cannot be decomposed, the fastest first.

    The last one reads arrays of any strides at any address. The list is empty for a kernel that computes with all
    values.
    """
    found = []
    for variant in map(find_variant, spec.variant.operands.otherwise):
        if not variant.multiplies(spec.compute):
            continue
        tile = max(each for each in variant.tiles if each <= min(_MOST_UNDECOMPOSED, spec.config.bn))
        config = replace(variant.config(tile, spec.compute), triangle=spec.config.triangle)
        other = replace(spec, variant=variant, config=config, condition="unless decomposed")
        for form in (Fallback(other), Fallback(other.transposed(), is_transposed=True)):
            if _reads_in_place(form.spec, *(letter != "G" for letter in form.spec.layout)):
                found.append(form)
                break
    return found


def _fallback(spec: KernelSpec, problem: Problem, aligned: bool) -> Fallback | None:
    """Return the fastest kernel that computes a product whose operands cannot be decomposed, and reads them in place.

    Return None for a kernel that computes with all values.
    """
    for each in fallbacks(spec):
        form = problem.transposed() if each.is_transposed else problem
        mapped = (aligned and can_be_mapped(form, i, x) for i, x in enumerate((each.spec.a, each.spec.b)))
        if _reads_in_place(each.spec, *mapped):
            return each
    return None


def _reads_in_place(spec: KernelSpec, a_mapped: bool, b_mapped: bool) -> bool:
    """Return whether a kernel reads both operands where they are.

    Args:
        spec: The kernel, which packs nothing that it can read in place.
        a_mapped, b_mapped: Whether TMA can read A and B where they are.
    """
    launch = spec.with_packing_for_tma(a_mapped, b_mapped).config.launch
    return not (launch.pack_a or launch.pack_b)


def required_kernels(spec: KernelSpec, split_k: Iterable[int] = (), by_auto: bool = False) -> set[KernelSpec]:
    """Return the specifications of all kernels that products with a given kernel may launch.

    They are the kernel itself and its auxiliary kernels.

    Args:
        spec: The kernel, for one layout.
        split_k: Split-K factors with which the kernel may run.
        by_auto: Whether ``auto`` chooses the kernel. It may also pack operands, and compute only a triangle of a
            symmetric C.
    """
    found = set(spec.variant.operands.kernels(spec, by_auto))
    for other in fallbacks(spec):
        found.add(other.spec.kernel)
        if spec.variant.operands.shortest:
            found.add(replace(other.spec, condition="").kernel)
    for each in _split_specs(spec, by_auto):
        found.update(kernel for count in split_k for kernel in split_k_specs(each, count) if kernel)
    if by_auto and not spec.config.triangle and spec.variant.has_triangle(spec.config):
        found |= required_kernels(replace(spec, config=replace(spec.config, triangle=1)), split_k, by_auto)
    return found


def _split_specs(spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
    """Yield the kernels whose K may be divided: the given kernel, and its variant that multiplies packed elements."""
    yield spec
    of_elements = replace(spec, config=spec.config.changed({"pack_elements": 1}))
    if by_auto and spec.variant.reads.packs_elements and spec.compute.packed:
        yield of_elements


def _overlapping(launches: Sequence[Launch]) -> Iterator[Launch]:
    """Yield the launches, with a flag set in each launch that the next one may overlap.

    The flag is the kernel argument ``Problem.overlaps``. Two launches may overlap if the second reads nothing that
    the first writes.
    """
    for each, following in itertools.zip_longest(launches, launches[1:]):
        if each.spec.waits == "last" and following is not None and following.is_independent:
            yield replace(each, kernel_args=np.append(each.kernel_args[:-1], 1))
        else:
            yield each


def _products(spec: KernelSpec, ready: PreparedOperands) -> Schedule:
    """Return the ``Schedule`` of the kernel that multiplies prepared operands, with a split-K reduction if needed.

    Raises:
        ShapeError: If there are too many tiles.
    """
    config, kernel, problem = spec.config, spec.kernel, ready.problem
    split = split_k_partitions(config.launch.split_k, problem.k, config.bk)
    partitions, _ = split
    countable = has_coordinates(problem) and tiles_in_all(config, problem, partitions) <= MOST_TILES
    if spec.variant.is_limited and not countable:  # its tensor maps and operand scan span the whole product
        raise ShapeError(
            f"variant {spec.variant.name!r} supports at most 2^31 - 1 elements per dimension and 2^31 - 1 tiles; "
            "'warp_tiled' supports any size"
        )
    launches, scratch, into, sums, name = [], [], problem, 0, "C"
    if partitions > 1:
        kernel, reduction = split_k_specs(spec, partitions)
        if reduction is None:  # each cluster divides K itself
            partitions, split = 1, (1, problem.k)
        else:
            into, memory, last = with_reduction(spec, reduction, problem, split)
            launches, scratch, name = [last], [memory], memory.name
            sums = problem.m * memory.pitch * products(problem)
    types, multiplying = (kernel.a, kernel.b, kernel.c), []
    for part in in_launches(config, into, partitions):
        begins = tuple(begin * each.itemsize for begin, each in zip(part.begins[:3], types, strict=True))
        blocks = tiles(tiles_in_all(config, part, partitions), config.tiles_per_block)
        kernel_args = problem_args(config, part, split, sums, kernel.epilogue)
        multiplying.append(Launch(kernel, blocks, kernel_args, (*ready.names, name), begins, ready.maps))
    return Schedule(tuple(_scanned(each, ready) for each in (*multiplying, *launches)), tuple(scratch))


def _products_in_place(fallback: Fallback, problem: Problem, scan: tuple[int, ...] = ()) -> Schedule:
    """Return the ``Schedule`` of a kernel that multiplies operands which cannot be decomposed.

    Args:
        fallback: The kernel.
        problem: The product's problem, not transposed.
        scan: Offsets of the operand scans of A and B; empty if the kernel computes whatever the values.
    """
    if fallback.is_transposed:
        problem = problem.transposed()
    ready = replace(fallback.spec.operands.prepare(fallback.spec, problem), scan=scan)
    if fallback.is_transposed:
        ready = replace(ready, names=ready.names[::-1], scan=scan[::-1])
    return _products(fallback.spec, ready)


def _scanned(launch: Launch, ready: PreparedOperands) -> Launch:
    """Return a launch with arguments for the operand scan, if the scan decides whether the kernel computes.

    The arguments are the addresses of the scans and the strides between planes.
    """
    if not launch.spec.condition:
        return launch
    planes = np.array([copy.plane for copy in ready.copies], np.int64)
    return replace(launch, kernel_args=np.append(launch.kernel_args, planes), scan=ready.scan)
