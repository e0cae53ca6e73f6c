"""Copies of A and B in scratch memory, packed or decomposed, that auxiliary kernels write before a product."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiledmm.elements import Element
from tiledmm.kernels.config import Config
from tiledmm.kernels.launches import Launch, Scratch, in_launches, problem_args, tiles, tiles_in_all
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import TensorMap, map_of_limbs
from tiledmm.problem.strides import TRANSPOSED, BatchDimension, Problem

#: Alignment of the rows of a copy in bytes: a cache line.
ROW_ALIGNMENT = 128


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy of A or B in scratch memory, packed or decomposed, in which broadcast matrices are stored once.

    Attributes:
        operand: 0 for A, 1 for B.
        launches: The launches that write the copy, usually one.
        memory: Scratch memory of shape ``(matrices, rows, elements per row)``, or ``(planes, matrices, rows, elements
            per row)`` if the copy has several planes.
        contiguous: Number of elements per row of the copy, without padding.
    """

    operand: int
    launches: tuple[Launch, ...]
    memory: Scratch
    contiguous: int

    @property
    def rows(self) -> int:
        """Number of rows of each matrix in the copy."""
        return self.memory.shape[-2]

    @property
    def matrices(self) -> int:
        """Number of matrices per plane."""
        return self.memory.shape[-3]

    @property
    def planes(self) -> int:
        """Number of planes, such as one per limb; 1 for a packed copy."""
        return math.prod(self.memory.shape[:-3])

    @property
    def plane(self) -> int:
        """Stride from one plane to the next, in elements."""
        return self.matrices * self.rows * self.memory.pitch

    def in_place_of(self, problem: Problem, layout: str, mapped: bool = False) -> Problem:
        """Return the problem with this copy in place of the operand that was copied.

        Args:
            problem: The problem whose operand was copied.
            layout: One letter per operand. This operand's letter is N if rows of the copy are rows of the matrix, T
                if they are its columns.
            mapped: Whether a tensor map addresses the copy. Batch strides then count matrices instead of elements.
        """
        i, pitch = self.operand, self.memory.pitch
        a, b, *others = problem.begins
        strides, letters = list(problem.strides), list(problem.layout)
        strides[2 * i : 2 * i + 2] = (0, 0) if mapped else (pitch, 1) if layout[i] == "N" else (1, pitch)
        letters[i] = layout[i]
        _, steps = stored_once(problem, i, 1 if mapped else self.rows * pitch)
        pairs = zip(problem.batch, steps, strict=True)
        batch = (replace(each, b=step) if i else replace(each, a=step) for each, step in pairs)
        return replace(
            problem,
            strides=tuple(strides), batch=tuple(batch),
            layout="".join(letters), begins=(a, 0, *others) if i else (0, b, *others),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PreparedOperands:
    """Operands in the format that a kernel reads, and the launches that bring them into it.

    Attributes:
        problem: The problem with the strides of the prepared operands.
        names: Names of the arrays that hold A and B: ``"A"``, ``"B"``, or names of scratch memory.
        launches: The launches before the kernel.
        scratch: The scratch memory that these launches write.
        maps: Tensor maps of A and B for a kernel that reads by TMA; else empty.
        copies: Copies of A and B if they are decomposed; else empty.
        scan: Offsets of both operands' scans in their scratch memory, in bytes; empty if nothing is scanned.
    """

    problem: Problem
    names: tuple[str, str] = ("A", "B")
    launches: tuple[Launch, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    copies: tuple[Copy, ...] = ()
    scan: tuple[int, ...] = ()


def stored_once(problem: Problem, operand: int, size: int) -> tuple[list[int], list[int]]:
    """Return the sizes and strides of the batch dimensions of an operand's copy, which stores broadcast matrices once.

    Args:
        problem: The problem whose operand is copied.
        operand: 0 for A, 1 for B.
        size: Number of elements per matrix of the copy.

    Returns:
        The size of each batch dimension, which is 1 where the operand broadcasts; and its stride in elements, which
        is 0 there.
    """
    sizes = [each.size if (each.a, each.b)[operand] else 1 for each in problem.batch]
    return sizes, [size * math.prod(sizes[i + 1 :]) if each > 1 else 0 for i, each in enumerate(sizes)]


def copy_by(
    writer: KernelSpec,
    problem: Problem,
    operand: int,
    what: str,
    sizes: tuple[int, int, int],
    steps: tuple[int, int],
    matrix: tuple[int, int, int],
    transposed: bool = False,
    row_alignment: int = ROW_ALIGNMENT,
) -> Copy:
    """Return the copy of A (0) or B (1) that an auxiliary kernel writes to scratch memory, with its launches.

    Args:
        writer: The auxiliary kernel.
        problem: The product's problem.
        operand: 0 for A, 1 for B.
        what: First part of the memory's name, such as ``"limbs of"``.
        sizes: m, n and k of the auxiliary kernel.
        steps: Strides with which the auxiliary kernel reads the operand, in elements: from row to row, and along a
            row.
        matrix: Number of rows that it writes, number of contiguous elements per row, and this number with padding.
        transposed: Whether the rows that it writes are columns of its C.
        row_alignment: Bytes of which the distance between rows of the copy is a multiple; 1 for no gaps.
    """
    height, contiguous, filled = matrix
    step = max(1, row_alignment // writer.c.itemsize)
    pitch = tiles(contiguous, step) * step
    once, strides = stored_once(problem, operand, height * pitch)
    rows = zip(once, strides, problem.batch, strict=True)
    batch = tuple(BatchDimension(size, (each.a, each.b)[operand], 0, stride) for size, stride, each in rows)
    # If n is greater than 1, the auxiliary kernel reads the stride between columns from B.
    strides_of_both = *steps, 0, steps[1] if sizes[1] > 1 else 0
    copied = Problem(*sizes, (*strides_of_both, *((1, pitch) if transposed else (pitch, 1))), batch, writer.layout, ())
    planes = (writer.limbs,) if writer.limbs > 1 else ()
    memory = Scratch(f"{what} {'AB'[operand]}", (*planes, math.prod(once), height, filled), pitch, writer.c)
    launches = []
    for part in in_launches(writer.config, copied):
        kernel_args = problem_args(writer.config, part, None, math.prod(once) * height * pitch)
        kernel_args = np.append(kernel_args, 0)  # Problem.overlaps
        begin = problem.begins[operand] + part.begins[0] + part.begins[1]
        begins = begin * writer.a.itemsize, part.begins[2] * writer.c.itemsize
        names = "AB"[operand], memory.name
        launches.append(Launch(writer, tiles_in_all(writer.config, part), kernel_args, names, begins))
    return Copy(operand, tuple(launches), memory, contiguous)


def both_copies(copy_of: Callable[[int], Copy], shared: bool) -> tuple[Copy, Copy]:
    """Return the copies of A and B.

    Args:
        copy_of: Function that returns the copy of A (0) or B (1).
        shared: Whether B is the transpose of A, so that the copy of A is also that of B. The second copy then has no
            launches.
    """
    first = copy_of(0)
    return first, replace(first, operand=1, launches=()) if shared else copy_of(1)


def with_copies(kernel: KernelSpec, problem: Problem, both: Sequence[Copy], box: Config) -> PreparedOperands:
    """Return ``PreparedOperands`` for a kernel that reads copies of both operands, by tensor maps or by strides.

    Args:
        kernel: The kernel that reads the copies.
        problem: The problem whose operands were copied.
        both: The copies of A and B.
        box: Config that determines the boxes that TMA loads, counted in elements of the copies.
    """
    by_tma, maps = kernel.variant.hopper.tma, []
    for copy in both:
        problem = copy.in_place_of(problem, kernel.layout, mapped=by_tma)
        if by_tma:
            sizes = copy.planes, copy.matrices, copy.rows, copy.contiguous
            maps.append(map_of_limbs(copy.operand, box, kernel.a, kernel.layout, sizes, copy.memory.pitch))
    names, launches = [copy.memory.name for copy in both], [each for copy in both for each in copy.launches]
    scratch = tuple(dict.fromkeys(copy.memory for copy in both))  # once, if it is of both
    return PreparedOperands(
        problem, (names[0], names[1]), tuple(launches), scratch, maps=tuple(maps), copies=tuple(both)
    )


def k_major_letter(spec: KernelSpec, operand: int) -> str:
    """Return the layout letter of A (0), or of B's transpose (1), so that rows run along K."""
    letter = spec.layout[operand]
    return letter.translate(TRANSPOSED) if operand else letter


def k_major_rows(problem: Problem, operand: int) -> tuple[int, tuple[int, int]]:
    """Return the number of rows of A (0) or of B's transpose (1), and the operand's strides in elements.

    The first stride is from row to row, the second along K.
    """
    row_a, col_a, row_b, col_b, *_ = problem.strides
    return (problem.n, (col_b, row_b)) if operand else (problem.m, (row_a, col_a))


def whole_vectors(count: int, element: Element) -> int:
    """Round a number of elements up so that they fill whole vectors of 16 bytes."""
    step = max(16 // element.itemsize, 1)
    return tiles(count, step) * step
