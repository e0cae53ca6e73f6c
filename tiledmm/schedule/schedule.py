"""The launches of a product, in order.

Usually one. Before it an operand may be packed (``pack_a``, ``pack_b``): copied to rows that are fast to read; or both
operands are decomposed into limbs that tensor cores multiply. With split-K (``split_k``) blocks sum one partition of K
each, and a last launch, the split-K reduction, adds the partial sums, always in the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS, Element, partial_sums
from tiledmm.errors import ShapeError
from tiledmm.kernels.auxiliary_kernels import SPLIT_K_REDUCTION
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.split_variants import in_real_numbers
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.strides import Problem
from tiledmm.schedule.auxiliary import (
    PackedOperand,
    decomposed,
    decomposed_to_bytes,
    decomposing,
    decomposing_to_bytes,
    one_after_the_other,
    packed,
    packed_elements,
    packing,
    packing_elements,
)
from tiledmm.schedule.launches import (
    MOST_TILES,
    Launch,
    Schedule,
    Scratch,
    in_launches,
    problem_args,
    products,
    split_k_partitions,
    tiles,
    tiles_in_all,
)  # fmt: skip
from tiledmm.schedule.residues import by_residues, decomposed_to_residues, decomposing_to_residues, reconstructing
from tiledmm.schedule.tensor_maps import TensorMap, has_coordinates, map_of, map_of_limbs

#: Name of the scratch memory that holds the operand scan, and what its bytes are before.
SCAN, SCAN_INIT = "operand scan", 0x7F

#: Fewest terms of a sum for which operands are decomposed: shorter float32 sums are as accurate. A complex k is two.
SHORTEST_DECOMPOSED = 256

# Largest tile for operands that cannot be decomposed, which are rare: the next one is 5% faster, but takes twice as
# long to compile, and the first call waits for it.
_MOST_UNDECOMPOSED = 128

#: Bytes of a scan before the exponents of rows (``cuda_src/operand_scan.cuh``).
SCAN_HEAD = 12


def schedule(spec: KernelSpec, problem: Problem) -> Schedule:
    """The launches of a product. ``problem``'s outer dimensions are left to the caller.

    Raises:
        ShapeError: If there are too many tiles: 1.4e14, or 2^31 for a kernel that decomposes operands or uses TMA.
    """
    if spec.variant.decomposes_to_bytes:
        planned = _decomposed_to_bytes(spec, problem)
    elif spec.variant.decomposes_to_residues:
        planned = _decomposed_to_residues(spec, problem)
    elif spec.variant.decomposes:
        planned = _decomposed(spec, problem)
    else:
        planned = _schedule(spec, problem)
    return replace(planned, launches=tuple(_overlapping(planned.launches)))


def _overlapping(launches: Sequence[Launch]) -> Iterator[Launch]:
    """The launches, with ``Problem.overlaps`` of those before one that reads nothing of theirs."""
    for each, following in itertools.zip_longest(launches, launches[1:]):
        if each.spec.waits == "last" and following is not None and following.is_independent:
            yield replace(each, kernel_args=np.append(each.kernel_args[:-1], 1))
        else:
            yield each


def _schedule(
    spec: KernelSpec,
    problem: Problem,
    maps: tuple[TensorMap, ...] = (),
    operands: tuple[str, str] = ("A", "B"),
) -> Schedule:
    """The launches of a product whose operands are read in place, or packed; or are decomposed already (``maps``)."""
    config, kernel = spec.config, spec.kernel
    before, scratch, sources, problem = _packing_both(spec, problem, operands)
    names, after = [*sources, "C"], []
    if config.launch.pack_elements:
        both = [packed_elements(spec, problem, operand) for operand in range(2)]
        before, scratch = [each for copy in both for each in copy.launches], [copy.memory for copy in both]
        names[:2] = [memory.name for memory in scratch]
        for copy in both:
            problem = copy.in_place_of(problem, kernel.layout)
        problem = replace(problem, k=both[0].rows)
    split = split_k_partitions(config.launch.split_k, problem.k, config.bk)
    partitions, _ = split
    countable = has_coordinates(problem) and tiles_in_all(config, problem, partitions) <= MOST_TILES
    if spec.variant.is_limited and not countable:  # its tensor maps and operand scan span the whole product
        raise ShapeError(
            f"{spec.variant.name!r} counts to 2^31 - 1: elements in each direction, and tiles; "
            "'warp_tiled' takes any size"
        )
    into, sums = problem, 0
    if partitions > 1:
        kernel, adding = with_split_k(spec, partitions)
        # Rows begin at multiples of what is read at a time.
        pitch = tiles(problem.n, adding.config.tn) * adding.config.tn
        memory = Scratch("partial sums", (partitions, products(problem), problem.m, problem.n), pitch, adding.a)
        sums = problem.m * pitch * products(problem)
        from_sums = replace(problem, strides=(pitch, 1, *problem.strides[2:]))
        into_c = 0, problem.begins[2] * adding.c.itemsize
        blocks, kernel_args = (
            tiles(sums, adding.config.bn),
            problem_args(config, from_sums, split, sums, adding.epilogue),
        )
        after.append(Launch(adding, blocks, kernel_args, (memory.name, "C"), into_c))
        scratch.append(memory)
        names[2] = memory.name
        into = replace(
            problem,
            strides=(*problem.strides[:4], pitch, 1), batch=one_after_the_other(problem, pitch),
            begins=(*problem.begins[:2], 0, *problem.begins[3:]),
        )  # fmt: skip
    types = kernel.a, kernel.b, kernel.c
    if spec.variant.tma and not maps:
        maps = map_of(into, 0, config, kernel.compute), map_of(into, 1, config, kernel.compute)
    multiplying = []
    for part in in_launches(config, into, partitions):
        begins = tuple(begin * each.itemsize for begin, each in zip(part.begins[:3], types, strict=True))
        blocks = tiles(tiles_in_all(config, part, partitions), config.tiles_per_block)
        kernel_args = problem_args(config, part, split, sums, kernel.epilogue)
        multiplying.append(Launch(kernel, blocks, kernel_args, tuple(names), begins, maps))
    return Schedule((*before, *multiplying, *after), tuple(scratch))


def _decomposed(spec: KernelSpec, problem: Problem) -> Schedule:
    """Decomposes both operands into limbs and multiplies these; or the operands as they are, if their values need that.

    Decomposition scans the values. Both kernels are launched, and one of them returns at once.
    """
    if is_short(problem, spec.compute):
        return _schedule(replace(not_decomposed(spec), condition=""), problem)
    otherwise = _schedule(not_decomposed(spec), problem)
    before, scratch, sources, problem = _packing_both(spec, problem)
    both = [decomposed(spec.packed, problem, operand) for operand in range(2)]
    scan, memory = _scan_of(problem, both)
    for source, copy in zip(sources, both, strict=True):
        operands = source, copy.memory.name
        before += [replace(each, operands=operands) for each in _scanning(copy, scan)]
    planned = _of_decomposed(spec.packed, problem, both)
    planes = [copy.plane for copy in both]
    launches = [
        replace(each, scan=scan, kernel_args=np.append(each.kernel_args, planes)) if each.spec.condition else each
        for each in planned.launches
    ]
    launches += [replace(each, scan=scan) for each in otherwise.launches]
    scratch += [*(copy.memory for copy in both), memory]
    return Schedule((*before, *launches), (*scratch, *planned.scratch))


def _decomposed_to_residues(spec: KernelSpec, problem: Problem) -> Schedule:
    """Decomposes both operands into residues, multiplies these and reconstructs C; or multiplies the operands.

    As with limbs, decomposition scans the values, and kernels of one of both return at once.
    """
    both = [decomposed_to_residues(spec, problem, operand) for operand in range(2)]
    scan, memory = _scan_of(problem, both)
    before = [each for copy in both for each in _scanning(copy, scan)]
    planned = by_residues(spec, problem, both, scan)
    otherwise = _schedule(not_decomposed(spec), problem)
    launches = [replace(each, scan=scan) for each in otherwise.launches]
    scratch = [*(copy.memory for copy in both), memory]
    return Schedule((*before, *planned.launches, *launches), (*scratch, *planned.scratch))


def _scan_of(problem: Problem, both: Sequence[PackedOperand]) -> tuple[tuple[int, int], Scratch]:
    """Byte offsets of the scans of A and B, and the memory that holds both."""
    begins, size = [], 0
    for rows, copy in zip((problem.m, problem.n), both, strict=True):
        begins.append(size)
        size += SCAN_HEAD + 4 * rows * copy.matrices
        size += -size % 8
    return (begins[0], begins[1]), Scratch(SCAN, (size,), size, ELEMENTS["uint8"])


def _scanning(copy: PackedOperand, scan: tuple[int, int]) -> Iterator[Launch]:
    """The launches that decompose an operand, with its scan."""
    begin = scan[copy.operand]
    return (replace(each, scan=(begin, begin)) for each in copy.launches)


def _decomposed_to_bytes(spec: KernelSpec, problem: Problem) -> Schedule:
    """Decomposes both operands, integers, into bytes, and multiplies these."""
    both = [decomposed_to_bytes(spec, problem, operand) for operand in range(2)]
    planned = _of_decomposed(spec, problem, both)
    before, scratch = (each for copy in both for each in copy.launches), (copy.memory for copy in both)
    return Schedule((*before, *planned.launches), (*scratch, *planned.scratch))


def _of_decomposed(spec: KernelSpec, problem: Problem, both: Sequence[PackedOperand]) -> Schedule:
    """The launches of a product of decomposed operands, read by tensor maps or by strides."""
    kernel = spec.kernel
    maps: list[TensorMap] = []
    for copy in both:
        problem = copy.in_place_of(problem, kernel.layout, mapped=kernel.variant.tma)
        if kernel.variant.tma:
            box = in_real_numbers(kernel.config, kernel.compute)
            sizes = (*copy.memory.shape[:3], copy.contiguous)
            maps.append(map_of_limbs(copy.operand, box, kernel.a, kernel.layout, sizes, copy.memory.pitch))
    return _schedule(spec, problem, tuple(maps), (both[0].memory.name, both[1].memory.name))


def is_short(problem: Problem, compute: Element) -> bool:
    """Whether a product's sums have too few terms for operands to be decomposed."""
    return problem.k * compute.parts < SHORTEST_DECOMPOSED


def not_decomposed(spec: KernelSpec) -> KernelSpec:
    """The kernel for operands whose values cannot be decomposed."""
    variant = find_variant(spec.variant.undecomposed)
    tile = min(_MOST_UNDECOMPOSED, spec.config.bn)
    config = variant.config(tile, spec.compute)
    return replace(spec, variant=variant, config=config, condition="unless decomposed")


def with_split_k(spec: KernelSpec, partitions: int) -> tuple[KernelSpec, KernelSpec]:
    """The two kernels of a split-K product: the one that multiplies, and the split-K reduction."""
    compute, partial, reduced = partial_sums(spec.compute)
    config, epilogue = SPLIT_K_REDUCTION.configure(partitions, partial), spec.epilogue
    kernel = replace(spec, compute=compute).kernel
    # An epilogue may read what another kernel has written to C: of two kernels only one writes.
    condition = kernel.condition if epilogue else ""
    return (
        replace(kernel, c=partial, epilogue=None),
        KernelSpec(SPLIT_K_REDUCTION, config, partial, partial, reduced, spec.c, "NN", condition, epilogue),
    )


def _packing_both(
    spec: KernelSpec, problem: Problem, operands: tuple[str, str] = ("A", "B")
) -> tuple[list[Launch], list[Scratch], list[str], Problem]:
    """Packs the operands that ``pack_a`` and ``pack_b`` name.

    Returns:
        The launches, the scratch memory, the names of both operands, and the problem with their new strides.
    """
    before: list[Launch] = []
    scratch: list[Scratch] = []
    names = [*operands]
    layout = spec.packed.layout
    for operand, packs in enumerate((spec.config.launch.pack_a, spec.config.launch.pack_b)):
        if packs:
            copy = packed(spec, problem, operand)
            before += copy.launches
            scratch.append(copy.memory)
            names[operand] = copy.memory.name
            problem = copy.in_place_of(problem, layout)
    return before, scratch, names, problem


def required_kernels(spec: KernelSpec, split_k: Iterable[int] = (), by_auto: bool = False) -> set[KernelSpec]:
    """All kernels that products of a kernel may launch: itself, and its auxiliary kernels.

    Args:
        spec: The kernel, of one layout.
        split_k: Split-K factors that it may run with.
        by_auto: Whether ``auto`` takes it: that may pack operands, and compute a triangle of a symmetric C.
    """
    found = {spec.kernel}
    if spec.variant.decomposes:
        other, packs = not_decomposed(spec), (spec.config.launch.pack_a, spec.config.launch.pack_b)
        found.update(packing(spec, operand) for operand in (0, 1) if packs[operand])
        found.update(decomposing(spec.packed, operand, short) for operand in (0, 1) for short in (False, True))
        found.update((other.kernel, replace(other, condition="").kernel))  # the latter if K is short
    elif spec.variant.decomposes_to_residues:
        found.update(decomposing_to_residues(spec, operand) for operand in (0, 1))
        found.update((reconstructing(spec), not_decomposed(spec).kernel))
    elif spec.variant.decomposes_to_bytes:
        found.update(decomposing_to_bytes(spec, operand) for operand in (0, 1))
    elif spec.variant.tma:  # which packs what TMA cannot read
        found.update(spec.packing_unless(*in_place).kernel for in_place in itertools.product((True, False), repeat=2))
        found.update(packing(spec, operand) for operand in (0, 1))
    elif by_auto:
        found.update(packing(spec, operand) for operand in (0, 1))
    if by_auto and spec.variant.has_triangle(spec.config):
        half = replace(spec, config=replace(spec.config, triangle=1))
        found.update((half.kernel, *(with_split_k(half, count)[0] for count in split_k)))
    if by_auto and spec.compute.multiplied in PACKED_ELEMENTS and spec.variant.packs_elements:
        with_packed = replace(spec, config=spec.config.changed({"pack_elements": 1}))
        found.update((with_packed.kernel, *(each for count in split_k for each in with_split_k(with_packed, count))))
        found.update(packing_elements(spec, operand) for operand in (0, 1))
    found.update(each for count in split_k for each in with_split_k(spec, count))
    return found
