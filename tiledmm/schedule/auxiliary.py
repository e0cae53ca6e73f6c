"""Auxiliary kernels: they pack an operand to rows that are fast to read, or decompose it into limbs, in scratch memory.

For each: which kernel does it, its launches, and the problem with the new operand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS, SCHEMES, Element
from tiledmm.kernels.auxiliary_kernels import DECOMPOSE, DECOMPOSE_BYTES, PACK, PACK_ELEMENTS
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.split_variants import decompose_k_major, decompose_mn_major
from tiledmm.problem.strides import TRANSPOSED, BatchDimension, Problem
from tiledmm.schedule.launches import Launch, Scratch, in_launches, problem_args, tiles, tiles_in_all

#: Rows of a packed operand begin at multiples of so many bytes.
PACKED_ALIGNMENT = 128

#: Real numbers along K up to which a block of few threads decomposes a row as fast as one of many.
SHORT_ROW = 2048


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """A packed or decomposed operand: rows with a leading dimension; broadcast batches are stored once.

    Attributes:
        operand: A (0) or B (1).
        launches: The launches that write it, usually one.
        memory: ``(matrices, rows, contiguous)``, or several planes of that.
        contiguous: Elements of a row that are the operand's; padding may follow.
    """

    operand: int
    launches: tuple[Launch, ...]
    memory: Scratch
    contiguous: int

    @property
    def rows(self) -> int:
        """Rows of a matrix."""
        return self.memory.shape[-2]

    @property
    def matrices(self) -> int:
        """Matrices of a plane."""
        return self.memory.shape[-3]

    @property
    def plane(self) -> int:
        """Elements from one plane to the next."""
        return self.matrices * self.rows * self.memory.pitch

    def in_place_of(self, problem: Problem, layout: str, mapped: bool = False) -> Problem:
        """The problem with this operand in place of its own.

        Args:
            problem: The problem that it was made of.
            layout: Two letters; this operand's says whether its rows are the matrix's rows (N) or columns (T).
            mapped: Whether a tensor map addresses it: batch strides then count matrices.
        """
        i, pitch = self.operand, self.memory.pitch
        a, b, *others = problem.begins
        strides, letters = list(problem.strides), list(problem.layout)
        strides[2 * i : 2 * i + 2] = (0, 0) if mapped else (pitch, 1) if layout[i] == "N" else (1, pitch)
        letters[i] = layout[i]
        _, steps = _once(problem, i, 1 if mapped else self.rows * pitch)
        pairs = zip(problem.batch, steps, strict=True)
        batch = (replace(each, b=step) if i else replace(each, a=step) for each, step in pairs)
        return replace(
            problem,
            strides=tuple(strides), batch=tuple(batch),
            layout="".join(letters), begins=(a, 0, *others) if i else (0, b, *others),
        )  # fmt: skip


def packing(spec: KernelSpec, operand: int) -> KernelSpec:
    """The kernel that packs A (0) or B (1), or B's transpose, into rows of the computation type."""
    compute = spec.compute.stored
    stored = (spec.a, spec.b)[operand]
    letter = spec.layout[operand]
    if operand and spec.packed_b == "T":
        letter = letter.translate(TRANSPOSED)
    return KernelSpec(PACK, PACK.configure(0, compute), stored, compute, compute, compute, f"{letter}N")


def packed(spec: KernelSpec, problem: Problem, operand: int) -> PackedOperand:
    """Packs A (0) or B (1), or B's transpose."""
    writer = packing(spec, operand)
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    if operand and spec.packed_b == "T":
        rows, cols, row, col = cols, rows, col, row
    matrix = rows, cols, _whole_vectors(cols, writer.c)
    return written(writer, problem, operand, "packed", (rows, cols, 1), (row, col), matrix)


def packing_elements(spec: KernelSpec, operand: int) -> KernelSpec:
    """The kernel that packs several elements of A (0) or B (1) into one along K; it reads B transposed."""
    compute = spec.compute.stored
    into = PACKED_ELEMENTS[compute.dtype_name]
    config = PACK_ELEMENTS.configure(into.per_packed, into)
    stored, letter = (spec.a, spec.b)[operand], k_major_letter(spec, operand)
    return KernelSpec(PACK_ELEMENTS, config, stored, compute, compute, into, f"{letter}N")


def packed_elements(spec: KernelSpec, problem: Problem, operand: int) -> PackedOperand:
    """Packs A (0) or B (1) along K: ``(products, packed elements of k, rows of A or columns of B)``."""
    writer = packing_elements(spec, operand)
    rows, steps = k_major_rows(problem, operand)
    packed_k = tiles(problem.k, writer.c.per_packed)
    matrix = packed_k, rows, _whole_vectors(rows, writer.c)
    return written(
        writer, problem, operand, "packed elements of", (rows, packed_k, problem.k), steps, matrix, transposed=True
    )


def decomposing(spec: KernelSpec, operand: int, short: bool) -> KernelSpec:
    """The kernel that decomposes A (0) or B (1), which it reads transposed; ``short`` rows have another.

    A complex element is a row of two real numbers in A, and a 2 x 2 matrix in B: ``c.parts`` rows of limbs.
    """
    compute, scheme = spec.compute, SCHEMES[spec.config.scheme]
    limb = scheme.limb_of(compute) if operand else scheme.limb
    letter = k_major_letter(spec, operand)
    config = decompose_k_major(compute, scheme.name, short)
    if letter == "T":
        config = decompose_mn_major(compute, scheme.name, limb.parts)
    stored = (spec.a, spec.b)[operand]
    return KernelSpec(DECOMPOSE, config, stored, compute, compute, limb, f"{letter}N", "scan")


def decomposed(spec: KernelSpec, problem: Problem, operand: int) -> PackedOperand:
    """Decomposes A (0) or B (1) into limbs."""
    writer = decomposing(spec, operand, problem.k * spec.compute.parts <= SHORT_ROW)
    rows, steps = k_major_rows(problem, operand)
    across, along, transposed = rows * writer.c.parts, problem.k * writer.compute.parts, writer.layout[0] == "T"
    height, contiguous = (along, across) if transposed else (across, along)
    # A thread writes several elements at a time, a block all of its rows, and rows end with whole vectors.
    width = max(writer.config.bm * writer.c.parts, writer.config.tn * writer.compute.parts, 16 // writer.c.itemsize)
    filled = tiles(contiguous, width) * width
    return written(
        writer, problem, operand, "limbs of", (rows, 1, problem.k), steps, (height, contiguous, filled), transposed
    )


def decomposing_to_bytes(spec: KernelSpec, operand: int) -> KernelSpec:
    """The kernel that decomposes A (0) or B (1), which it reads transposed, into bytes."""
    compute, letter = spec.compute, k_major_letter(spec, operand)
    stored = (spec.a, spec.b)[operand]
    config = DECOMPOSE_BYTES.configure(0, compute)
    return KernelSpec(DECOMPOSE_BYTES, config, stored, compute, compute, ELEMENTS["uint8"], f"{letter}N")


def decomposed_to_bytes(spec: KernelSpec, problem: Problem, operand: int) -> PackedOperand:
    """Decomposes A (0) or B (1) into bytes: ``(bytes of an element, products, rows of A or columns of B, K)``."""
    writer = decomposing_to_bytes(spec, operand)
    rows, steps = k_major_rows(problem, operand)
    return written(writer, problem, operand, "bytes of", (rows, problem.k, 1), steps, (rows, problem.k, problem.k))


def written(
    spec: KernelSpec,
    problem: Problem,
    operand: int,
    what: str,
    sizes: tuple[int, int, int],
    steps: tuple[int, int],
    matrix: tuple[int, int, int],
    transposed: bool = False,
) -> PackedOperand:
    """A (0) or B (1) written to scratch memory by a kernel.

    Args:
        spec: The kernel.
        problem: The product's problem.
        operand: A (0) or B (1).
        what: First part of the memory's name.
        sizes: The kernel's m, n and k.
        steps: Strides of what it reads, in elements: from row to row, and along a row.
        matrix: Rows that it writes, their contiguous elements, and those including padding.
        transposed: Whether it writes these rows as columns.
    """
    height, contiguous, filled = matrix
    step = PACKED_ALIGNMENT // spec.c.itemsize
    pitch = tiles(contiguous, step) * step
    once, strides = _once(problem, operand, height * pitch)
    rows = zip(once, strides, problem.batch, strict=True)
    batch = tuple(BatchDimension(size, (each.a, each.b)[operand], 0, stride) for size, stride, each in rows)
    # Where the kernel has columns n, their stride is that of B.
    strides_of_both = *steps, 0, steps[1] if sizes[1] > 1 else 0
    copied = Problem(*sizes, (*strides_of_both, *((1, pitch) if transposed else (pitch, 1))), batch, spec.layout, ())
    planes = (spec.limbs,) if spec.limbs > 1 else ()
    memory = Scratch(f"{what} {'AB'[operand]}", (*planes, math.prod(once), height, filled), pitch, spec.c)
    launches = []
    for part in in_launches(spec.config, copied):
        kernel_args = problem_args(spec.config, part, None, math.prod(once) * height * pitch)
        kernel_args = np.append(kernel_args, 0)  # Problem.overlaps
        begin = problem.begins[operand] + part.begins[0] + part.begins[1]
        begins = begin * spec.a.itemsize, part.begins[2] * spec.c.itemsize
        names = "AB"[operand], memory.name
        launches.append(Launch(spec, tiles_in_all(spec.config, part), kernel_args, names, begins))
    return PackedOperand(operand, tuple(launches), memory, contiguous)


def k_major_letter(spec: KernelSpec, operand: int) -> str:
    """The layout letter of A (0) or of B's transpose (1)."""
    letter = spec.layout[operand]
    return letter.translate(TRANSPOSED) if operand else letter


def k_major_rows(problem: Problem, operand: int) -> tuple[int, tuple[int, int]]:
    """Rows of A (0) or of B's transpose (1), and their strides from row to row and along k."""
    row_a, col_a, row_b, col_b, *_ = problem.strides
    return (problem.n, (col_b, row_b)) if operand else (problem.m, (row_a, col_a))


def _once(problem: Problem, operand: int, size: int) -> tuple[list[int], list[int]]:
    """Sizes and strides of a batch of matrices of ``size`` elements; broadcast dimensions have size 1."""
    sizes = [each.size if (each.a, each.b)[operand] else 1 for each in problem.batch]
    return sizes, [size * math.prod(sizes[i + 1 :]) if each > 1 else 0 for i, each in enumerate(sizes)]


def one_after_the_other(problem: Problem, pitch: int) -> tuple[BatchDimension, ...]:
    """The batch with C's products one after the other, their rows ``pitch`` elements apart."""
    rows, step = [], problem.m * pitch
    for dimension in reversed(problem.batch):
        rows.append(replace(dimension, c=step))
        step *= dimension.size
    return tuple(reversed(rows))


def _whole_vectors(count: int, element: Element) -> int:
    """``count`` elements, rounded up to a multiple of 16 bytes."""
    step = max(16 // element.itemsize, 1)
    return tiles(count, step) * step
