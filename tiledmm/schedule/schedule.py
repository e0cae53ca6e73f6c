"""What is launched for a product, and in which order.

One launch as a rule. Before it an operand may be packed (``pack_a``, ``pack_b``): copied to rows that are fast to read;
or both are split into what tensor cores multiply. And K may be cut into slices (``split_k``): blocks sum a slice each,
and a last launch adds the slices up, in the same order every time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tiledmm.codegen.rendering import Specialization
from tiledmm.elements import ELEMENTS, WORDS, Element
from tiledmm.errors import ShapeError
from tiledmm.problem.strides import BatchDimension, Problem
from tiledmm.registry.tensor_cores import in_real_numbers
from tiledmm.registry.variants import SUM_SLICES, find_variant
from tiledmm.schedule.auxiliary import (
    Copy,
    packed,
    packed_words,
    packing,
    packing_words,
    split,
    split_bytes,
    splitting,
    splitting_bytes,
)
from tiledmm.schedule.launches import (
    MOST_TILES,
    Launch,
    Schedule,
    Scratch,
    in_launches,
    problem_words,
    products,
    slice_step,
    slices_in,
    tiles,
    tiles_in_all,
)  # fmt: skip
from tiledmm.schedule.tensor_maps import TensorMap, has_coordinates, map_of, map_of_pieces

#: Name of the memory for what is found of operands that are split, and what its bytes are before.
FINDINGS, UNFOUND = "findings", 0x7F

#: Terms of a sum below which nothing is split: float32 sums of so few are as good, or better. Of complex numbers, each
#: step of k is two.
SHORTEST_SPLIT = 256

#: Bytes of Findings before the exponents (``cuda_src/findings.cuh``).
FINDINGS_HEAD = 12


def schedule(specialization: Specialization, problem: Problem) -> Schedule:
    """The launches of a product. ``problem``'s outer dimensions are left to the caller.

    Raises:
        ShapeError: If there are too many tiles: 1.4e14, or 2^31 for a kernel that splits, or has boxes copied.
    """
    if specialization.variant.in_bytes:
        return _in_bytes(specialization, problem)
    if specialization.variant.splits:
        return _splitting(specialization, problem)
    return _schedule(specialization, problem)


def _schedule(
    specialization: Specialization,
    problem: Problem,
    maps: tuple[TensorMap, ...] = (),
    operands: tuple[str, str] = ("A", "B"),
) -> Schedule:
    """The launches of a product whose operands are read in place or packed; or have been split, and have maps."""
    config, kernel = specialization.config, specialization.kernel
    before, scratch, sources, problem = _packing_both(specialization, problem, operands)
    names, after = [*sources, "C"], []
    if config.pack_words:
        copies = [packed_words(specialization, problem, operand) for operand in range(2)]
        before, scratch = [each for copy in copies for each in copy.launches], [copy.memory for copy in copies]
        names[:2] = [memory.name for memory in scratch]
        for copy in copies:
            problem = copy.in_place_of(problem, kernel.layout)
        problem = replace(problem, k=copies[0].lines)
    cut = slices_in(config.split_k, problem.k, slice_step(specialization.variant, config))
    slices, _ = cut
    countable = has_coordinates(problem) and tiles_in_all(config, problem, slices) <= MOST_TILES
    if specialization.variant.is_limited and not countable:  # its maps and findings are of all of the product
        raise ShapeError(
            f"{specialization.variant.name!r} counts to 2^31 - 1: elements in each direction, and tiles; "
            "'warp_tiled' takes any size"
        )
    into, sums = problem, 0
    if slices > 1:
        kernel, adding = in_slices(specialization, slices)
        # Rows begin at multiples of what is read at a time.
        pitch = tiles(problem.n, adding.config.tn) * adding.config.tn
        memory = Scratch("sums", (slices, products(problem), problem.m, problem.n), pitch, adding.a)
        sums = problem.m * pitch * products(problem)
        from_sums = replace(problem, strides=(pitch, 1, *problem.strides[2:]))
        into_c = 0, problem.begins[2] * adding.c.itemsize
        blocks, words = tiles(sums, adding.config.bn), problem_words(config, from_sums, cut, sums)
        after.append(Launch(adding, blocks, words, (memory.name, "C"), into_c))
        scratch.append(memory)
        names[2] = memory.name
        into = replace(
            problem,
            strides=(*problem.strides[:4], pitch, 1), batch=_one_after_the_other(problem, pitch),
            begins=(*problem.begins[:2], 0),
        )  # fmt: skip
    types = kernel.a, kernel.b, kernel.c
    if specialization.variant.target and not maps:
        maps = map_of(into, 0, config, kernel.compute), map_of(into, 1, config, kernel.compute)
    multiplying = []
    for part in in_launches(config, into, slices):
        begins = tuple(begin * each.itemsize for begin, each in zip(part.begins, types, strict=True))
        blocks = tiles(tiles_in_all(config, part, slices), config.tiles_per_block)
        words = problem_words(config, part, cut, sums)
        multiplying.append(Launch(kernel, blocks, words, tuple(names), begins, maps))
    return Schedule((*before, *multiplying, *after), tuple(scratch))


def _splitting(specialization: Specialization, problem: Problem) -> Schedule:
    """Splits both operands into pieces and multiplies these; or, if the data is not for that, the operands themselves.

    What the data is for is found as it is split. Both kernels are launched, and one of them does nothing.
    """
    if is_short(problem, specialization.compute):
        return _schedule(replace(unsplit(specialization), condition=""), problem)
    otherwise = _schedule(unsplit(specialization), problem)
    before, scratch, sources, problem = _packing_both(specialization, problem)
    copies = [split(specialization.packed, problem, operand) for operand in range(2)]
    begins, found = [], 0
    for rows, copy in zip((problem.m, problem.n), copies, strict=True):
        begins.append(found)
        found += FINDINGS_HEAD + 4 * rows * copy.matrices
        found += -found % 8
    findings = begins[0], begins[1]
    for source, begin, copy in zip(sources, begins, copies, strict=True):
        operands = source, copy.memory.name
        before += [replace(each, operands=operands, findings=(begin, begin)) for each in copy.launches]
    planned = _of_copies(specialization.packed, problem, copies)
    words = np.append(planned.multiplying.words, [copy.plane for copy in copies])
    multiplying = replace(planned.multiplying, findings=findings, words=words)
    launches = [multiplying if each is planned.multiplying else each for each in planned.launches]
    launches += [replace(each, findings=findings) for each in otherwise.launches]
    scratch += [*(copy.memory for copy in copies), Scratch(FINDINGS, (found,), found, ELEMENTS["uint8"])]
    return Schedule((*before, *launches), (*scratch, *planned.scratch))


def _in_bytes(specialization: Specialization, problem: Problem) -> Schedule:
    """Splits both operands, integers, into bytes, and multiplies these."""
    copies = [split_bytes(specialization, problem, operand) for operand in range(2)]
    planned = _of_copies(specialization, problem, copies)
    before, scratch = (each for copy in copies for each in copy.launches), (copy.memory for copy in copies)
    return Schedule((*before, *planned.launches), (*scratch, *planned.scratch))


def _of_copies(specialization: Specialization, problem: Problem, copies: Sequence[Copy]) -> Schedule:
    """The launches of a product whose operands have been split, found by maps or by strides."""
    kernel = specialization.kernel
    maps: list[TensorMap] = []
    for copy in copies:
        problem = copy.in_place_of(problem, kernel.layout, mapped=bool(kernel.variant.target))
        if kernel.variant.target:
            box = in_real_numbers(kernel.config, kernel.compute)
            sizes = (*copy.memory.shape[:3], copy.neighbours)
            maps.append(map_of_pieces(copy.operand, box, kernel.a, kernel.layout, sizes, copy.memory.pitch))
    return _schedule(specialization, problem, tuple(maps), (copies[0].memory.name, copies[1].memory.name))


def is_short(problem: Problem, compute: Element) -> bool:
    """Whether a product's sums have too few terms for operands to be split."""
    return problem.k * compute.parts < SHORTEST_SPLIT


def unsplit(specialization: Specialization) -> Specialization:
    """The kernel for operands that do not split."""
    variant = find_variant("warp_tiled")
    config = variant.config(min(variant.default_tile, specialization.config.bn), specialization.compute)
    return replace(specialization, variant=variant, config=config, condition="does not split")


def in_slices(specialization: Specialization, slices: int) -> tuple[Specialization, Specialization]:
    """The two kernels of a product whose K is cut into slices: what multiplies, and what adds up."""
    compute = specialization.compute
    # Wide enough that nothing is rounded before the last sum.
    partial = ELEMENTS["float32"] if compute.dtype_name in ("float16", "bfloat16") else compute.stored
    numbers = SUM_SLICES.configure(slices, partial)
    return (
        replace(specialization.kernel, c=partial),
        Specialization(SUM_SLICES, numbers, partial, partial, partial, specialization.c, "NN"),
    )


def _packing_both(
    specialization: Specialization, problem: Problem, operands: tuple[str, str] = ("A", "B")
) -> tuple[list[Launch], list[Scratch], list[str], Problem]:
    """Packs what is to be packed.

    Returns:
        The launches, the memory that they fill, what the operands are then, and the problem as it is with these.
    """
    before: list[Launch] = []
    scratch: list[Scratch] = []
    names = [*operands]
    layout = specialization.packed.layout
    for operand, packs in enumerate((specialization.config.pack_a, specialization.config.pack_b)):
        if packs:
            copy = packed(specialization, problem, operand)
            before += copy.launches
            scratch.append(copy.memory)
            names[operand] = copy.memory.name
            problem = copy.in_place_of(problem, layout)
    return before, scratch, names, problem


def _one_after_the_other(problem: Problem, pitch: int) -> tuple[BatchDimension, ...]:
    """The batch, where C's products follow each other, in rows so many elements apart."""
    rows, step = [], problem.m * pitch
    for dimension in reversed(problem.batch):
        rows.append(replace(dimension, c=step))
        step *= dimension.size
    return tuple(reversed(rows))


def companions(spec: Specialization, slices: Iterable[int] = (), by_auto: bool = False) -> set[Specialization]:
    """The kernels that products of a kernel are launched with: its own, and what may run before and after it.

    Args:
        spec: The kernel, of one layout.
        slices: Into how many K may be cut.
        by_auto: Whether ``auto`` takes it, which may pack operands, and compute half of a symmetric C.
    """
    found = {spec.kernel}
    if spec.variant.splits:
        other, packs = unsplit(spec), (spec.config.pack_a, spec.config.pack_b)
        found.update(packing(spec, operand) for operand in (0, 1) if packs[operand])
        found.update(splitting(spec.packed, operand, short) for operand in (0, 1) for short in (False, True))
        found.update((other.kernel, replace(other, condition="").kernel))  # the latter if K is short
    elif spec.variant.in_bytes:
        found.update(splitting_bytes(spec, operand) for operand in (0, 1))
    elif spec.variant.target:  # which packs what the copy engine cannot read
        found.update(spec.packing_unless(*in_place).kernel for in_place in itertools.product((True, False), repeat=2))
        found.update(packing(spec, operand) for operand in (0, 1))
    elif by_auto:
        found.update(packing(spec, operand) for operand in (0, 1))
    if by_auto and spec.variant.halves(spec.config):
        half = replace(spec, config=replace(spec.config, triangle=1))
        found.update((half.kernel, *(in_slices(half, count)[0] for count in slices)))
    if by_auto and spec.compute.dtype_name in WORDS and spec.variant.name == "warp_tiled":
        words = replace(spec, config=replace(spec.config, pack_words=1))
        found.update((words.kernel, *(each for count in slices for each in in_slices(words, count))))
        found.update(packing_words(spec, operand) for operand in (0, 1))
    found.update(each for count in slices for each in in_slices(spec, count))
    return found
