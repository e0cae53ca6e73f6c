"""What is launched for a product, and in which order.

One launch as a rule. Before it an operand may be packed (``pack_a``, ``pack_b``): copied to rows that are fast to read;
or both are split into what tensor cores multiply. And K may be cut into slices (``split_k``): blocks sum a slice each,
and a last launch adds the slices up, in the same order every time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tiledmm.codegen import Specialization
from tiledmm.elements import ELEMENTS, SCHEMES, WORDS, Element
from tiledmm.geometry import (
    Launch,
    Schedule,
    Scratch,
    grid_of,
    problem_words,
    products,
    slice_step,
    slices_in,
    tiles,
    tiles_of_c,
)  # fmt: skip
from tiledmm.ladder import PACK, PACK_WORDS, SPLIT, SPLIT_BYTES, SUM_SLICES, find_variant
from tiledmm.problem import TRANSPOSED, BatchDimension, Problem
from tiledmm.tensor_maps import TensorMap, map_of, map_of_pieces
from tiledmm.tilings import in_real_numbers, split_across_k, split_along_k

#: Rows of a packed operand begin at multiples of so many bytes.
PACKED_ALIGNMENT = 128

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
        ShapeError: If there are more blocks than a grid can hold, 1.4e14.
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
    before, scratch, packed, problem = _packing_both(specialization, problem, operands)
    names, after = [*packed, "C"], []
    if config.pack_words:
        for i in range(2):
            launch, memory = _packing_words(specialization, problem, i)
            before.append(launch)
            scratch.append(memory)
            names[i] = memory.name
        problem = _in_words(specialization, problem, scratch)
    cut = slices_in(config.split_k, problem.k, slice_step(specialization.variant, config))
    slices, _ = cut
    every = tiles_of_c(config, problem) * products(problem) * slices
    blocks = tiles(every, config.tiles_per_block)
    into, sums = problem, 0
    if slices > 1:
        kernel, adding = in_slices(specialization, slices)
        # Rows begin at multiples of what is read at a time.
        pitch = tiles(problem.n, adding.config.tn) * adding.config.tn
        memory = Scratch("sums", (slices, products(problem), problem.m, problem.n), pitch, adding.a)
        sums = problem.m * pitch * products(problem)
        from_sums = replace(problem, strides=(pitch, 1, *problem.strides[2:]))
        into_c = 0, problem.begins[2] * adding.c.itemsize
        grid = grid_of(tiles(sums, adding.config.bn))
        after.append(Launch(adding, grid, problem_words(config, from_sums, cut, sums), (memory.name, "C"), into_c))
        scratch.append(memory)
        names[2] = memory.name
        into = replace(
            problem,
            strides=(*problem.strides[:4], pitch, 1), batch=_one_after_the_other(problem, pitch),
            begins=(*problem.begins[:2], 0),
        )  # fmt: skip
    types = kernel.a, kernel.b, kernel.c
    begins = tuple(begin * each.itemsize for begin, each in zip(into.begins, types, strict=True))
    if specialization.variant.target and not maps:
        maps = map_of(into, 0, config, kernel.compute), map_of(into, 1, config, kernel.compute)
    multiplying = Launch(kernel, grid_of(blocks), problem_words(config, into, cut, sums), tuple(names), begins, maps)
    return Schedule((*before, multiplying, *after), tuple(scratch))


def _splitting(specialization: Specialization, problem: Problem) -> Schedule:
    """Splits both operands into pieces and multiplies these; or, if the data is not for that, the operands themselves.

    What the data is for is found as it is split. Both kernels are launched, and one of them does nothing.
    """
    if is_short(problem, specialization.compute):
        return _schedule(replace(unsplit(specialization), condition=""), problem)
    otherwise = _schedule(unsplit(specialization), problem)
    before, scratch, sources, problem = _packing_both(specialization, problem)
    specialization = specialization.packed
    kernel = specialization.kernel
    names, maps, found = [], [], 0
    strides = [0, 0, 0, 0, *problem.strides[4:]]
    pieces = replace(problem, layout=kernel.layout, begins=(0, 0, problem.begins[2]))
    begins, apart = [], []
    for i, side in enumerate("ab"):
        rows = (problem.m, problem.n)[i]
        launch, memory, neighbours = _split(specialization, problem, i, sources[i], found)
        before.append(launch)
        scratch.append(memory)
        names.append(memory.name)
        begins.append(found)
        _, matrices, lines, _ = memory.shape
        size = lines * memory.pitch
        apart.append(matrices * size)
        if kernel.variant.target:  # pieces are found by maps: A's and B's strides only say how many matrices further
            box, sizes = in_real_numbers(kernel.config, kernel.compute), (*memory.shape[:3], neighbours)
            maps.append(map_of_pieces(i, box, memory.element, kernel.layout, sizes, memory.pitch))
            size = 1
        else:
            strides[2 * i : 2 * i + 2] = (memory.pitch, 1) if kernel.layout[i] == "N" else (1, memory.pitch)
        _, steps = _once(problem, side, size)
        found += FINDINGS_HEAD + 4 * rows * matrices
        found += -found % 8
        batch = zip(steps, pieces.batch, strict=True)
        pieces = replace(pieces, batch=tuple(replace(dimension, **{side: step}) for step, dimension in batch))
    pieces = replace(pieces, strides=tuple(strides))
    scratch.append(Scratch(FINDINGS, (found,), found, ELEMENTS["uint8"]))
    findings = begins[0], begins[1]
    planned = _schedule(specialization, pieces, tuple(maps), (names[0], names[1]))
    words = np.append(planned.multiplying.words, apart)
    multiplying = replace(planned.multiplying, findings=findings, words=words)
    launches = [multiplying if each is planned.multiplying else each for each in planned.launches]
    launches += [replace(each, findings=findings) for each in otherwise.launches]
    return Schedule((*before, *launches), (*scratch, *planned.scratch))


def is_short(problem: Problem, compute: Element) -> bool:
    """Whether a product's sums have too few terms for operands to be split."""
    return problem.k * compute.parts < SHORTEST_SPLIT


def unsplit(specialization: Specialization) -> Specialization:
    """The kernel for operands that do not split."""
    variant = find_variant("warp_tiled")
    config = variant.config(min(variant.default_tile, specialization.config.bn), specialization.compute)
    return replace(specialization, variant=variant, config=config, condition="does not split")


def splitting(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that splits A (0) or B (1), which is to it the rows of B's transpose.

    A complex number is a row of two real ones of A, and a matrix of two by two of B: ``c.parts`` rows of pieces.
    """
    compute, scheme = specialization.compute, SCHEMES[specialization.config.scheme]
    piece = scheme.piece_of(compute) if operand else scheme.piece
    letter = specialization.layout[operand] if operand == 0 else specialization.layout[1].translate(TRANSPOSED)
    config = split_along_k(compute, scheme.name)
    if letter == "T":
        config = split_across_k(compute, scheme.name, piece.parts)
    stored = (specialization.a, specialization.b)[operand]
    return Specialization(SPLIT, config, stored, compute, compute, piece, f"{letter}N", "finds")


def _split(
    specialization: Specialization, problem: Problem, operand: int, source: str, findings: int
) -> tuple[Launch, Scratch, int]:
    """Splits A (0) or B (1), which is that or scratch memory of this name.

    Returns:
        The launch, the memory that it fills, and how many neighbours there are the operand's: zeros follow.
    """
    spec = splitting(specialization, operand)
    side, piece = "ab"[operand], spec.c
    rows = (problem.m, problem.n)[operand]
    row, col = problem.strides[:2] if operand == 0 else problem.strides[3:1:-1]
    across, along = rows * piece.parts, problem.k * spec.compute.parts
    lines, neighbours = (along, across) if spec.layout[0] == "T" else (across, along)
    step = PACKED_ALIGNMENT // piece.itemsize
    pitch = tiles(neighbours, step) * step
    sizes, strides = _once(problem, side, lines * pitch)
    matrices = math.prod(sizes)
    plane = matrices * lines * pitch
    steps = (1, pitch) if spec.layout[0] == "T" else (pitch, 1)
    copied = Problem(
        rows, 1, problem.k, (row, col, 0, 0, *steps), _copying(problem, side, sizes, strides), spec.layout, ()
    )
    words = problem_words(spec.config, copied, (1, problem.k), plane)
    # Threads write four neighbours at a time, and blocks all of their rows.
    width = max(spec.config.bm * piece.parts, spec.config.tn * spec.compute.parts)
    shape = spec.pieces, matrices, lines, tiles(neighbours, width) * width
    memory = Scratch(f"pieces of {'AB'[operand]}", shape, pitch, piece)
    begins = problem.begins[operand] * spec.a.itemsize, 0
    grid = grid_of(tiles(rows, spec.config.bm) * products(copied))
    launch = Launch(spec, grid, words, (source, memory.name), begins, findings=(findings, findings))
    return launch, memory, neighbours


def _in_bytes(specialization: Specialization, problem: Problem) -> Schedule:
    """Splits both operands, integers, into bytes, and multiplies these."""
    # Bytes are found by maps: A's and B's strides only say how many matrices further.
    strides = (0, 0, 0, 0, *problem.strides[4:])
    of_bytes = replace(problem, layout="NT", begins=(0, 0, problem.begins[2]), strides=strides)
    before, scratch, maps = [], [], []
    for i, side in enumerate("ab"):
        launch, memory, mapped = _split_bytes(specialization, problem, i)
        before.append(launch)
        scratch.append(memory)
        maps.append(mapped)
        _, in_matrices = _once(problem, side, 1)
        batch = zip(in_matrices, of_bytes.batch, strict=True)
        of_bytes = replace(of_bytes, batch=tuple(replace(dimension, **{side: step}) for step, dimension in batch))
    names = scratch[0].name, scratch[1].name
    planned = _schedule(specialization, of_bytes, (maps[0], maps[1]), names)
    return Schedule((*before, *planned.launches), (*scratch, *planned.scratch))


def splitting_bytes(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that splits A (0) or B (1), which is to it the rows of B's transpose, into bytes."""
    compute = specialization.compute
    letter = specialization.layout[operand] if operand == 0 else specialization.layout[1].translate(TRANSPOSED)
    stored = (specialization.a, specialization.b)[operand]
    config = SPLIT_BYTES.configure(0, compute)
    return Specialization(SPLIT_BYTES, config, stored, compute, compute, ELEMENTS["uint8"], f"{letter}N")


def _split_bytes(specialization: Specialization, problem: Problem, operand: int) -> tuple[Launch, Scratch, TensorMap]:
    """Splits A (0) or B (1) into bytes ``(bytes of an element, products, rows of A or columns of B, K)``.

    Returns:
        The launch, the memory that it fills, and how the copy engine finds the bytes there.
    """
    spec = splitting_bytes(specialization, operand)
    side, rows = "ab"[operand], (problem.m, problem.n)[operand]
    row, col = problem.strides[:2] if operand == 0 else problem.strides[3:1:-1]
    pitch = tiles(problem.k, PACKED_ALIGNMENT) * PACKED_ALIGNMENT
    sizes, strides = _once(problem, side, rows * pitch)
    matrices = math.prod(sizes)
    batch = _copying(problem, side, sizes, strides)
    copied = Problem(rows, problem.k, 1, (row, col, 0, 0, pitch, 1), batch, spec.layout, ())
    blocks = tiles(rows, spec.config.bm) * tiles(problem.k, spec.config.bn) * products(copied)
    memory = Scratch(f"bytes of {'AB'[operand]}", (spec.pieces, matrices, rows, problem.k), pitch, spec.c)
    words = problem_words(spec.config, copied, (1, 1), matrices * rows * pitch)
    begins = problem.begins[operand] * spec.a.itemsize, 0
    launch = Launch(spec, grid_of(blocks), words, ("AB"[operand], memory.name), begins)
    mapped = map_of_pieces(operand, specialization.config, spec.c, "NT", memory.shape, pitch)
    return launch, memory, mapped


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


def packing(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that packs A (0) or B (1), or B's transpose: into rows, of the type that the product is taken in."""
    compute = specialization.compute.stored
    stored = (specialization.a, specialization.b)[operand]
    letter = specialization.layout[operand]
    if operand and specialization.packed_b == "T":
        letter = letter.translate(TRANSPOSED)
    return Specialization(PACK, PACK.configure(0, compute), stored, compute, compute, compute, f"{letter}N")


def _packing_both(
    specialization: Specialization, problem: Problem, operands: tuple[str, str] = ("A", "B")
) -> tuple[list[Launch], list[Scratch], list[str], Problem]:
    """Packs what is to be packed.

    Returns:
        The launches, the memory that they fill, what the operands are then, and the problem as it is with these.
    """
    before, scratch, names = [], [], [*operands]
    for i, packs in enumerate((specialization.config.pack_a, specialization.config.pack_b)):
        if packs:
            launch, memory, problem = _packing(specialization, problem, i)
            before.append(launch)
            scratch.append(memory)
            names[i] = memory.name
    return before, scratch, names, problem


def _packing(specialization: Specialization, problem: Problem, operand: int) -> tuple[Launch, Scratch, Problem]:
    """Packs A (0) or B (1), or B's transpose.

    Returns:
        The launch, the memory that it fills, and the problem as it is with that operand.
    """
    spec = packing(specialization, operand)
    side = "ab"[operand]
    letter = "N" if operand == 0 else specialization.packed_b
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    if letter == "T":
        rows, cols, row, col = cols, rows, col, row
    step = PACKED_ALIGNMENT // spec.c.itemsize
    pitch = tiles(cols, step) * step
    sizes, strides = _once(problem, side, rows * pitch)
    batch = _copying(problem, side, sizes, strides)
    copied = Problem(rows, cols, 1, (row, col, 0, 0, pitch, 1), batch, spec.layout, ())
    blocks = tiles(rows, spec.config.bm) * tiles(cols, spec.config.bn) * products(copied)
    memory = Scratch(f"packed {'AB'[operand]}", (math.prod(sizes), rows, _whole_vectors(cols, spec.c)), pitch, spec.c)
    begins = problem.begins[operand] * spec.a.itemsize, 0
    launch = Launch(spec, grid_of(blocks), problem_words(spec.config, copied), ("AB"[operand], memory.name), begins)
    both = list(problem.strides)
    both[2 * operand : 2 * operand + 2] = (pitch, 1) if letter == "N" else (1, pitch)
    layout = f"{letter}{problem.layout[1]}" if operand == 0 else f"{problem.layout[0]}{letter}"
    batch = tuple(
        replace(dimension, **{side: stride}) for stride, dimension in zip(strides, problem.batch, strict=True)
    )
    a, b, c = problem.begins
    begins_now = (0, b, c) if operand == 0 else (a, 0, c)
    return launch, memory, replace(problem, strides=tuple(both), batch=batch, layout=layout, begins=begins_now)


def packing_words(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that packs A (0) or B (1) to words: of B, its transpose, whose rows run along k."""
    compute = specialization.compute
    words = WORDS[compute.dtype_name]
    stored = (specialization.a, specialization.b)[operand]
    letter = specialization.layout[operand] if operand == 0 else specialization.layout[1].translate(TRANSPOSED)
    return Specialization(
        PACK_WORDS, PACK_WORDS.configure(words.per_word, words), stored, compute, compute, words, f"{letter}N"
    )


def _packing_words(specialization: Specialization, problem: Problem, operand: int) -> tuple[Launch, Scratch]:
    """Packs A (0) or B (1) to words ``(products, words of k, rows of A or columns of B)``."""
    spec = packing_words(specialization, operand)
    across = (problem.m, problem.n)[operand]
    words = tiles(problem.k, spec.c.per_word)
    step = PACKED_ALIGNMENT // spec.c.itemsize
    pitch = tiles(across, step) * step
    sizes, strides = _once(problem, "ab"[operand], words * pitch)
    row, col = problem.strides[:2] if operand == 0 else problem.strides[3:1:-1]
    copied = Problem(
        across, words, problem.k, (row, col, 0, 0, 1, pitch),
        _copying(problem, "ab"[operand], sizes, strides), spec.layout, (),
    )  # fmt: skip
    blocks = tiles(across, spec.config.bm) * tiles(words, spec.config.bn) * products(copied)
    shape = math.prod(sizes), words, _whole_vectors(across, spec.c)
    memory = Scratch(f"words of {'AB'[operand]}", shape, pitch, spec.c)
    begins = problem.begins[operand] * spec.a.itemsize, 0
    told = problem_words(spec.config, copied)
    return Launch(spec, grid_of(blocks), told, ("AB"[operand], memory.name), begins), memory


def _in_words(specialization: Specialization, problem: Problem, scratch: Sequence[Scratch]) -> Problem:
    """The problem as the words have it."""
    a, b = scratch
    (_, words, _) = a.shape
    of_a, of_b = (_once(problem, side, words * each.pitch)[1] for side, each in zip("ab", scratch, strict=True))
    return replace(
        problem,
        k=words,
        strides=(1, a.pitch, b.pitch, 1, *problem.strides[4:]),
        batch=tuple(replace(dimension, a=i, b=j) for dimension, i, j in zip(problem.batch, of_a, of_b, strict=True)),
        layout="TN",
        begins=(0, 0, problem.begins[2]),
    )


def _once(problem: Problem, side: str, size: int) -> tuple[list[int], list[int]]:
    """Sizes and strides of a batch of matrices of so many elements, in which what is broadcast is once."""
    sizes = [dimension.size if getattr(dimension, side) else 1 for dimension in problem.batch]
    return sizes, [size * math.prod(sizes[i + 1 :]) if each > 1 else 0 for i, each in enumerate(sizes)]


def _copying(problem: Problem, side: str, sizes: list[int], strides: list[int]) -> tuple[BatchDimension, ...]:
    """The batch of a launch that copies an operand: A is read, C is written."""
    rows = zip(sizes, strides, problem.batch, strict=True)
    return tuple(BatchDimension(size, getattr(dimension, side), 0, stride) for size, stride, dimension in rows)


def _whole_vectors(count: int, element: Element) -> int:
    """So many elements and, up to a multiple of 16 bytes, the zeros that are packed behind them."""
    step = max(16 // element.itemsize, 1)
    return tiles(count, step) * step


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
        found.update(splitting(spec.packed, operand) for operand in (0, 1))
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
