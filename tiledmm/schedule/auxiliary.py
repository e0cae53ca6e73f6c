"""Operands in scratch memory: packed to rows that are fast to read, or split into what tensor cores multiply.

For each kind of copy the kernel that makes it, and what it makes of a problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tiledmm.codegen.rendering import Specialization
from tiledmm.elements import ELEMENTS, SCHEMES, WORDS, Element
from tiledmm.problem.strides import TRANSPOSED, BatchDimension, Problem
from tiledmm.registry.tensor_cores import split_across_k, split_along_k
from tiledmm.registry.variants import PACK, PACK_WORDS, SPLIT, SPLIT_BYTES
from tiledmm.schedule.launches import Launch, Scratch, in_launches, problem_words, tiles, tiles_in_all

#: Rows of a packed operand begin at multiples of so many bytes.
PACKED_ALIGNMENT = 128

#: Real numbers along K that few threads split as fast as many, or faster.
SHORT_ROW = 2048


@dataclass(frozen=True, slots=True)
class Copy:
    """An operand in scratch memory: matrices of lines, each once that is broadcast.

    Attributes:
        operand: A (0) or B (1).
        launches: What copies it there: one as a rule.
        memory: ``(matrices, lines, neighbours)``, or so many planes of that.
        neighbours: The operand's own; others may be written behind them.
    """

    operand: int
    launches: tuple[Launch, ...]
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


def packing(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that packs A (0) or B (1), or B's transpose: into rows, of the type that the product is taken in."""
    compute = specialization.compute.stored
    stored = (specialization.a, specialization.b)[operand]
    letter = specialization.layout[operand]
    if operand and specialization.packed_b == "T":
        letter = letter.translate(TRANSPOSED)
    return Specialization(PACK, PACK.configure(0, compute), stored, compute, compute, compute, f"{letter}N")


def packed(specialization: Specialization, problem: Problem, operand: int) -> Copy:
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


def packed_words(specialization: Specialization, problem: Problem, operand: int) -> Copy:
    """Packs A (0) or B (1) to words ``(products, words of k, rows of A or columns of B)``."""
    spec = packing_words(specialization, operand)
    rows, steps = _rows(problem, operand)
    words = tiles(problem.k, spec.c.per_word)
    matrix = words, rows, _whole_vectors(rows, spec.c)
    return _copy(spec, problem, operand, "words of", (rows, words, problem.k), steps, matrix, turned=True)


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


def split(specialization: Specialization, problem: Problem, operand: int) -> Copy:
    """Splits A (0) or B (1)."""
    spec = splitting(specialization, operand, problem.k * specialization.compute.parts <= SHORT_ROW)
    rows, steps = _rows(problem, operand)
    across, along, turned = rows * spec.c.parts, problem.k * spec.compute.parts, spec.layout[0] == "T"
    lines, neighbours = (along, across) if turned else (across, along)
    # Threads write several neighbours at a time, blocks all of their rows, and lines end with whole vectors.
    width = max(spec.config.bm * spec.c.parts, spec.config.tn * spec.compute.parts, 16 // spec.c.itemsize)
    filled = tiles(neighbours, width) * width
    return _copy(spec, problem, operand, "pieces of", (rows, 1, problem.k), steps, (lines, neighbours, filled), turned)


def splitting_bytes(specialization: Specialization, operand: int) -> Specialization:
    """The kernel that splits A (0) or B (1), which is to it the rows of B's transpose, into bytes."""
    compute, letter = specialization.compute, _letter(specialization, operand)
    stored = (specialization.a, specialization.b)[operand]
    config = SPLIT_BYTES.configure(0, compute)
    return Specialization(SPLIT_BYTES, config, stored, compute, compute, ELEMENTS["uint8"], f"{letter}N")


def split_bytes(specialization: Specialization, problem: Problem, operand: int) -> Copy:
    """Splits A (0) or B (1) into bytes ``(bytes of an element, products, rows of A or columns of B, K)``."""
    spec = splitting_bytes(specialization, operand)
    rows, steps = _rows(problem, operand)
    return _copy(spec, problem, operand, "bytes of", (rows, problem.k, 1), steps, (rows, problem.k, problem.k))


def _copy(
    spec: Specialization,
    problem: Problem,
    operand: int,
    what: str,
    sizes: tuple[int, int, int],
    steps: tuple[int, int],
    matrix: tuple[int, int, int],
    turned: bool = False,
) -> Copy:
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
    # Where the operand's columns are n, a part of these is what B's would be.
    strides_of_both = *steps, 0, steps[1] if sizes[1] > 1 else 0
    copied = Problem(*sizes, (*strides_of_both, *((1, pitch) if turned else (pitch, 1))), batch, spec.layout, ())
    planes = (spec.pieces,) if spec.pieces > 1 else ()
    memory = Scratch(f"{what} {'AB'[operand]}", (*planes, math.prod(once), lines, filled), pitch, spec.c)
    launches = []
    for part in in_launches(spec.config, copied):
        words = problem_words(spec.config, part, slice_c=math.prod(once) * lines * pitch)
        begin = problem.begins[operand] + part.begins[0] + part.begins[1]
        begins = begin * spec.a.itemsize, part.begins[2] * spec.c.itemsize
        names = "AB"[operand], memory.name
        launches.append(Launch(spec, tiles_in_all(spec.config, part), words, names, begins))
    return Copy(operand, tuple(launches), memory, neighbours)


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
