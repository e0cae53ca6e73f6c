"""The launches of a product by residues (Ozaki scheme II).

Both operands are decomposed, residues are multiplied modulo each modulus, and C is reconstructed from them.

C's residues are workspace. Where those of all of C would take too much of it, rows of C are computed part by part, and
each part's residues replace those of the part before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiledmm.elements import ELEMENTS
from tiledmm.errors import ShapeError
from tiledmm.kernels.auxiliary_kernels import DECOMPOSE_RESIDUES, RECONSTRUCT
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.split_variants import decompose_residues
from tiledmm.problem.strides import Problem
from tiledmm.schedule.auxiliary import (
    PACKED_ALIGNMENT,
    PackedOperand,
    k_major_letter,
    k_major_rows,
    one_after_the_other,
    written,
)
from tiledmm.schedule.launches import (
    LONGEST_PARTITION,
    MOST_TILES,
    Launch,
    Schedule,
    Scratch,
    problem_args,
    products,
    tiles,
    tiles_in_all,
)
from tiledmm.schedule.tensor_maps import TensorMap, has_coordinates, map_of_limbs

#: Most bytes of C's residues, unless those of one row of tiles take more.
MOST_RESIDUES_OF_C = 1 << 30

# Columns of C whose residues are written together: in the order in which lanes have them.
_GROUP = 64

# Residues in each row of an operand are written up to a multiple: kernels copy whole chunks of 16 bytes.
_CHUNK = 16


def decomposing_to_residues(spec: KernelSpec, operand: int) -> KernelSpec:
    """The kernel that decomposes A (0) or B (1), which it reads transposed, into residues."""
    compute, letter = spec.compute, k_major_letter(spec, operand)
    stored = (spec.a, spec.b)[operand]
    config = decompose_residues(letter, spec.config.moduli)
    return KernelSpec(DECOMPOSE_RESIDUES, config, stored, compute, compute, ELEMENTS["uint8"], f"{letter}N", "scan")


def reconstructing(spec: KernelSpec) -> KernelSpec:
    """The kernel that writes C."""
    compute, byte = spec.compute, ELEMENTS["uint8"]
    config = RECONSTRUCT.configure(spec.config.moduli, compute)
    return KernelSpec(RECONSTRUCT, config, byte, byte, compute, spec.c, "NN", "if decomposed", spec.epilogue)


def decomposed_to_residues(spec: KernelSpec, problem: Problem, operand: int) -> PackedOperand:
    """Decomposes A (0) or B (1) into residues: ``(moduli, products, rows of A or columns of B, K)``."""
    writer = decomposing_to_residues(spec, operand)
    rows, steps = k_major_rows(problem, operand)
    matrix = rows, problem.k, tiles(problem.k, _CHUNK) * _CHUNK
    return written(writer, problem, operand, "residues of", (rows, 1, problem.k), steps, matrix)


def by_residues(spec: KernelSpec, problem: Problem, both: Sequence[PackedOperand], scan: tuple[int, int]) -> Schedule:
    """The launches that multiply decomposed operands, and write C if the operand scan allows it.

    Args:
        spec: The kernel, and ``problem`` the product's problem.
        problem: As said.
        both: The decomposed operands.
        scan: Byte offsets of their scans.

    Raises:
        ShapeError: If TMA, or the tiles' numbers, do not count to the product's sizes.
    """
    kernel, reconstruct = spec.kernel, reconstructing(spec)
    config, planes = kernel.config, both[0].memory.shape[0]
    countable = has_coordinates(problem) and planes * tiles_in_all(config, problem) <= MOST_TILES
    if not countable or problem.k > LONGEST_PARTITION:
        raise ShapeError(
            f"{spec.variant.name!r} counts to 2^31 - 1: elements in each direction, and tiles for all "
            "moduli; K to 2^29; 'warp_tiled' takes any size"
        )
    pitch = tiles(problem.n, PACKED_ALIGNMENT) * PACKED_ALIGNMENT
    rows = _rows_in_part(problem, config.bm, planes * products(problem) * pitch)
    mapped = strided = problem  # strides that count matrices, as operand scans have them; and those of residues
    for copy in both:
        mapped = copy.in_place_of(mapped, kernel.layout, mapped=True)
        strided = mapped if kernel.variant.tma else copy.in_place_of(strided, kernel.layout)
    columns = tiles(problem.n, _GROUP) * _GROUP
    memory = Scratch("residues of C", (planes, products(problem), rows, columns), pitch, kernel.c)
    plane = products(problem) * rows * pitch
    launches = []
    for row0 in range(0, problem.m, rows):
        m = min(rows, problem.m - row0)
        begins = problem.part(range(row0, row0 + m), range(problem.n)).begins[3:]
        part = replace(mapped, m=m, begins=(*mapped.begins[:3], *begins))
        into = replace(strided, m=part.m, strides=(*strided.strides[:4], pitch, 1))
        into = replace(into, batch=one_after_the_other(into, pitch))
        maps = _maps_of(both, kernel, part.m) if kernel.variant.tma else ()
        others = [plane, pitch, problem.m, row0, *(copy.plane for copy in both)]
        kernel_args = np.append(problem_args(config, into, None, 0), others)
        kernel_args[5] *= planes  # Problem.tiles
        names = (both[0].memory.name, both[1].memory.name, memory.name)
        in_a = row0 * both[0].memory.pitch
        blocks = int(kernel_args[5])
        launches.append(Launch(kernel, blocks, kernel_args, names, (in_a, 0, 0), maps, scan))
        in_c = (problem.begins[2] + row0 * problem.strides[4]) * reconstruct.c.itemsize
        kernel_args = np.append(problem_args(reconstruct.config, part, None, 0, reconstruct.epilogue), others)
        blocks = tiles_in_all(reconstruct.config, part)
        launches.append(Launch(reconstruct, blocks, kernel_args, (memory.name, "C"), (0, in_c), (), scan))
    return Schedule(tuple(launches), (memory,))


def _maps_of(both: Sequence[PackedOperand], kernel: KernelSpec, rows: int) -> tuple[TensorMap, TensorMap]:
    """The tensor maps of decomposed operands, of so many rows of A."""
    of_a, of_b = (
        map_of_limbs(
            copy.operand, kernel.config, kernel.a, kernel.layout, (*copy.memory.shape[:3], copy.contiguous),
            copy.memory.pitch,
        )
        for copy in both
    )  # fmt: skip
    return replace(of_a, sizes=(of_a.sizes[0], rows, *of_a.sizes[2:])), of_b


def _rows_in_part(problem: Problem, tile: int, row_bytes: int) -> int:
    """Rows of C whose residues are in memory at a time: all, or whole tiles in parts of the same size."""
    most = max(MOST_RESIDUES_OF_C // max(row_bytes, 1) // tile, 1) * tile
    parts = tiles(problem.m, most)
    return tiles(tiles(problem.m, parts), tile) * tile if parts > 1 else max(problem.m, 1)
