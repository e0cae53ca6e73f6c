"""What is launched for a product, and in which order.

One launch as a rule. Before it an operand may be packed (``pack_a``, ``pack_b``): copied to rows that are fast to read;
or both are split into what tensor cores multiply. And K may be cut into slices (``split_k``): blocks sum a slice each,
and a last launch adds the slices up, in the same order every time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
from tiledmm.tensor_tilings import in_real_numbers, split_across_k, split_along_k

#: Rows of a packed operand begin at multiples of so many bytes.
PACKED_ALIGNMENT = 128

#: Name of the memory for what is found of operands that are split, and what its bytes are before.
FINDINGS, UNFOUND = "findings", 0x7F

#: Terms of a sum below which nothing is split: float32 sums of so few are as good, or better. Of complex numbers, each
#: step of k is two.
SHORTEST_SPLIT = 256

#: Real numbers along K that few threads split as fast as many, or faster.
SHORT_ROW = 2048

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
        copies = [_packing_words(specialization, problem, operand) for operand in range(2)]
        before, scratch = [copy.launch for copy in copies], [copy.memory for copy in copies]
        names[:2] = [memory.name for memory in scratch]
        for copy in copies:
            problem = copy.in_place_of(problem, kernel.layout)
        problem = replace(problem, k=copies[0].lines)
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
    copies = [_split(specialization.packed, problem, operand) for operand in range(2)]
    begins, found = [], 0
    for rows, copy in zip((problem.m, problem.n), copies, strict=True):
        begins.append(found)
        found += FINDINGS_HEAD + 4 * rows * copy.matrices
        found += -found % 8
    findings = begins[0], begins[1]
    for source, begin, copy in zip(sources, begins, copies, strict=True):
        before.append(replace(copy.launch, operands=(source, copy.memory.name), findings=(begin, begin)))
    planned = _of_copies(specialization.packed, problem, copies)
    words = np.append(planned.multiplying.words, [copy.plane for copy in copies])
    multiplying = replace(planned.multiplying, findings=findings, words=words)
    launches = [multiplying if each is planned.multiplying else each for each in planned.launches]
    launches += [replace(each, findings=findings) for each in otherwise.launches]
    scratch += [*(copy.memory for copy in copies), Scratch(FINDINGS, (found,), found, ELEMENTS["uint8"])]
    return Schedule((*before, *launches), (*scratch, *planned.scratch))


def _in_bytes(specialization: Specialization, problem: Problem) -> Schedule:
    """Splits both operands, integers, into bytes, and multiplies these."""
    copies = [_split_bytes(specialization, problem, operand) for operand in range(2)]
    planned = _of_copies(specialization, problem, copies)
    before, scratch = (copy.launch for copy in copies), (copy.memory for copy in copies)
    return Schedule((*before, *planned.launches), (*scratch, *planned.scratch))


def _of_copies(specialization: Specialization, problem: Problem, copies: Sequence[_Copy]) -> Schedule:
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


def splitting(specialization: Specialization, operand: int, short: bool = False) -> Specialization:
    """The kernel that splits A (0) or B (1), which is to it the rows of B's transpose; of short rows, another.

    A complex number is a row of two real ones of A, and a matrix of two by two of B: ``c.parts`` rows of pieces.
    """
    compute, scheme = specialization.compute, SCHEMES[specialization.config.scheme]
    piece = scheme.piece_of(compute) if operand else scheme.piece
    letter = _letter(specialization, operand)
    config = split_along_k(compute, scheme.name, short)
    if letter == "T":
        config = split_across_k(compute, scheme.name, piece.parts)
    stored = (specialization.a, specialization.b)[operand]
    return Specialization(SPLIT, config, stored, compute, compute, piece, f"{letter}N", "finds")


def _split(specialization: Specialization, problem: Problem, operand: int) -> _Copy:
    """Splits A (0) or B (1)."""
    spec = splitting(specialization, operand, problem.k * specialization.compute.parts <= SHORT_ROW)
    rows, steps = _rows(problem, operand)
    across, along, turned = rows * spec.c.parts, problem.k * spec.compute.parts, spec.layout[0] == "T"
    lines, neighbours = (along, across) if turned else (across, along)
    # Threads write four neighbours at a time, and blocks all of their rows.
    width = max(spec.config.bm * spec.c.parts, spec.config.tn * spec.compute.parts)
    filled = tiles(neighbours, width) * width
    return _copy(spec, problem, operand, "pieces of", (rows, 1, problem.k), steps, (lines, neighbours, filled), turned)


def splitting_bytes(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that splits A (0) or B (1), which is to it the rows of B's transpose, into bytes."""
    compute, letter = specialization.compute, _letter(specialization, operand)
    stored = (specialization.a, specialization.b)[operand]
    config = SPLIT_BYTES.configure(0, compute)
    return Specialization(SPLIT_BYTES, config, stored, compute, compute, ELEMENTS["uint8"], f"{letter}N")


def _split_bytes(specialization: Specialization, problem: Problem, operand: int) -> _Copy:
    """Splits A (0) or B (1) into bytes ``(bytes of an element, products, rows of A or columns of B, K)``."""
    spec = splitting_bytes(specialization, operand)
    rows, steps = _rows(problem, operand)
    return _copy(spec, problem, operand, "bytes of", (rows, problem.k, 1), steps, (rows, problem.k, problem.k))


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
    layout = specialization.packed.layout
    for operand, packs in enumerate((specialization.config.pack_a, specialization.config.pack_b)):
        if packs:
            copy = _packing(specialization, problem, operand)
            before.append(copy.launch)
            scratch.append(copy.memory)
            names[operand] = copy.memory.name
            problem = copy.in_place_of(problem, layout)
    return before, scratch, names, problem


def _packing(specialization: Specialization, problem: Problem, operand: int) -> _Copy:
    """Packs A (0) or B (1), or B's transpose."""
    spec = packing(specialization, operand)
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    if operand and specialization.packed_b == "T":
        rows, cols, row, col = cols, rows, col, row
    matrix = rows, cols, _whole_vectors(cols, spec.c)
    return _copy(spec, problem, operand, "packed", (rows, cols, 1), (row, col), matrix)


def packing_words(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that packs A (0) or B (1) to words: of B, its transpose, whose rows run along k."""
    compute = specialization.compute
    words = WORDS[compute.dtype_name]
    config = PACK_WORDS.configure(words.per_word, words)
    stored, letter = (specialization.a, specialization.b)[operand], _letter(specialization, operand)
    return Specialization(PACK_WORDS, config, stored, compute, compute, words, f"{letter}N")


def _packing_words(specialization: Specialization, problem: Problem, operand: int) -> _Copy:
    """Packs A (0) or B (1) to words ``(products, words of k, rows of A or columns of B)``."""
    spec = packing_words(specialization, operand)
    rows, steps = _rows(problem, operand)
    words = tiles(problem.k, spec.c.per_word)
    matrix = words, rows, _whole_vectors(rows, spec.c)
    return _copy(spec, problem, operand, "words of", (rows, words, problem.k), steps, matrix, turned=True)


@dataclass(frozen=True, slots=True)
class _Copy:
    """An operand in scratch memory: matrices of lines, each once that is broadcast.

    Attributes:
        operand: A (0) or B (1).
        launch: What copies it there.
        memory: ``(matrices, lines, neighbours)``, or so many planes of that.
        neighbours: The operand's own; others may be written behind them.
    """

    operand: int
    launch: Launch
    memory: Scratch
    neighbours: int

    @property
    def lines(self) -> int:
        """Lines of a matrix."""
        return self.memory.shape[-2]

    @property
    def matrices(self) -> int:
        """Matrices of a plane."""
        return self.memory.shape[-3]

    @property
    def plane(self) -> int:
        """Elements from one plane to the next."""
        return self.matrices * self.lines * self.memory.pitch

    def in_place_of(self, problem: Problem, layout: str, mapped: bool = False) -> Problem:
        """The problem with this for its operand.

        Args:
            problem: As it was copied.
            layout: Of two letters, of which this operand's says what its lines are: rows (N) or columns (T).
            mapped: Whether the operand is found by a map: strides only say how many matrices further.
        """
        i, pitch = self.operand, self.memory.pitch
        a, b, c = problem.begins
        strides, letters = list(problem.strides), list(problem.layout)
        strides[2 * i : 2 * i + 2] = (0, 0) if mapped else (pitch, 1) if layout[i] == "N" else (1, pitch)
        letters[i] = layout[i]
        _, steps = _once(problem, i, 1 if mapped else self.lines * pitch)
        batch = (replace(each, **{"ab"[i]: step}) for each, step in zip(problem.batch, steps, strict=True))
        return replace(
            problem,
            strides=tuple(strides), batch=tuple(batch),
            layout="".join(letters), begins=(a, 0, c) if i else (0, b, c),
        )  # fmt: skip


def _copy(
    spec: Specialization,
    problem: Problem,
    operand: int,
    what: str,
    sizes: tuple[int, int, int],
    steps: tuple[int, int],
    matrix: tuple[int, int, int],
    turned: bool = False,
) -> _Copy:
    """Has a kernel copy A (0) or B (1).

    Args:
        spec: The kernel.
        problem: Whose operand.
        operand: Which.
        what: The first part of the memory's name.
        sizes: m, n and k as the kernel is told.
        steps: Elements from one row to the next, and along a row, as it reads.
        matrix: Lines of what it writes, neighbours of each, and how many it fills.
        turned: Whether these lines are columns to it.
    """
    lines, neighbours, filled = matrix
    step = PACKED_ALIGNMENT // spec.c.itemsize
    pitch = tiles(neighbours, step) * step
    once, strides = _once(problem, operand, lines * pitch)
    rows = zip(once, strides, problem.batch, strict=True)
    batch = tuple(BatchDimension(size, (each.a, each.b)[operand], 0, stride) for size, stride, each in rows)
    copied = Problem(*sizes, (*steps, 0, 0, *((1, pitch) if turned else (pitch, 1))), batch, spec.layout, ())
    planes = (spec.pieces,) if spec.pieces > 1 else ()
    memory = Scratch(f"{what} {'AB'[operand]}", (*planes, math.prod(once), lines, filled), pitch, spec.c)
    blocks = tiles(sizes[0], spec.config.bm) * tiles(sizes[1], spec.config.bn) * products(copied)
    words = problem_words(spec.config, copied, slice_c=math.prod(once) * lines * pitch)
    begins = problem.begins[operand] * spec.a.itemsize, 0
    launch = Launch(spec, grid_of(blocks), words, ("AB"[operand], memory.name), begins)
    return _Copy(operand, launch, memory, neighbours)


def _letter(specialization: Specialization, operand: int) -> str:
    """How A (0) or B's transpose (1) lies."""
    letter = specialization.layout[operand]
    return letter.translate(TRANSPOSED) if operand else letter


def _rows(problem: Problem, operand: int) -> tuple[int, tuple[int, int]]:
    """Rows of A (0) or of B's transpose (1), and the steps from one to the next and along k."""
    row_a, col_a, row_b, col_b, *_ = problem.strides
    return (problem.n, (col_b, row_b)) if operand else (problem.m, (row_a, col_a))


def _once(problem: Problem, operand: int, size: int) -> tuple[list[int], list[int]]:
    """Sizes and strides of a batch of matrices of so many elements, in which what is broadcast is once."""
    sizes = [each.size if (each.a, each.b)[operand] else 1 for each in problem.batch]
    return sizes, [size * math.prod(sizes[i + 1 :]) if each > 1 else 0 for i, each in enumerate(sizes)]


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
