"""Packed rows: operands copied to rows of the computation type that begin at cache lines, in scratch memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tiledmm.elements import Element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import Config, LaunchConfig
from tiledmm.kernels.launches import (
    Copy,
    Launch,
    Ready,
    Scratch,
    in_launches,
    problem_args,
    stored_once,
    tiles,
    tiles_in_all,
)
from tiledmm.kernels.operands.operands import OperandCost, Operands
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import map_of_limbs, maps_of
from tiledmm.kernels.variant import Variant, block_of_tiles
from tiledmm.problem.product import Product
from tiledmm.problem.strides import TRANSPOSED, BatchDimension, Problem

#: Alignment of the rows of a packed operand in bytes: a cache line.
ROW_ALIGNMENT = 128


def _pack_config(tile: int, element: Element) -> Config:
    """Return the config of the packing kernel, whose threads copy at least 4 bytes at a time."""
    tn = max(1, 4 // element.itemsize)
    size = 32 if tn == 1 else 64
    return Config(bm=size, bn=size, tm=size * size // (tn * 256), tn=tn)


PACK = Variant(
    name="pack",
    template="pack.cu.j2",
    summary="packs an operand into aligned rows",
    waits="last",
    configure=_pack_config,
    block=block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * (config.bn + 1) * element.sum_bytes,
)


class PackedRows(Operands):
    """Operands of which one or both are packed, as ``pack_a`` and ``pack_b`` say. The other one is read in place."""

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that reads the packed rows."""
        return after_packing(spec).alone()

    def prepare(self, spec: KernelSpec, problem: Problem) -> Ready:
        """Return the launches that pack one operand or both."""
        ready = pack_operands(spec, problem)
        return replace(ready, maps=maps_of(spec, ready.problem))

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of packing, and of reading whole cache lines of a packed operand."""
        problem, compute, device = product.problem, product.compute, times.rates
        packs = launch.pack_a, launch.pack_b
        sizes = bytes_of(product)
        letters = problem.k_major_layout
        packed_b_letter = variant.operands.packed_b_letter(variant, compute).translate(TRANSPOSED)
        letter_a, letter_b = ("N" if packs[0] else letters[0]), (packed_b_letter if packs[1] else letters[1])
        left, right = aligned_in_place(product)
        before = device.packing_launch + (sum(packs) - 1) * device.packing_second
        before += times.moving(2 * (sizes[0] * packs[0] + sizes[1] * packs[1]), device.packing)
        aligned = left or bool(packs[0]), right or bool(packs[1])
        return OperandCost(sizes, letter_a + letter_b, aligned, problem.k, before)


def after_packing(spec: KernelSpec) -> KernelSpec:
    """Return the specification that applies after packing.

    Its ``pack_a`` and ``pack_b`` are 0, and packed operands have the computation type and contiguous rows.
    """
    launch, compute = spec.config.launch, spec.compute
    packed_b_letter = spec.variant.operands.packed_b_letter(spec.variant, compute)
    return replace(
        spec,
        config=spec.config.changed({"pack_a": 0, "pack_b": 0}),
        a=compute.stored if launch.pack_a else spec.a,
        b=compute.stored if launch.pack_b else spec.b,
        layout=("N" if launch.pack_a else spec.layout[0]) + (packed_b_letter if launch.pack_b else spec.layout[1]),
    )


def with_packing(spec: KernelSpec, a_in_place: bool, b_in_place: bool) -> KernelSpec:
    """Return the specification with packing of A and B unless they can be read in place. Packing already set stays."""
    launch = spec.config.launch
    pack_a, pack_b = launch.pack_a or int(not a_in_place), launch.pack_b or int(not b_in_place)
    return replace(spec, config=spec.config.changed({"pack_a": pack_a, "pack_b": pack_b}))


def pack_spec(spec: KernelSpec, operand: int) -> KernelSpec:
    """Return the kernel that packs A (0) or B (1) into rows of the computation type; it may transpose B."""
    compute = spec.compute.stored
    stored, letter = (spec.a, spec.b)[operand], spec.layout[operand]
    if _packs_transposed(spec, operand):
        letter = letter.translate(TRANSPOSED)
    return KernelSpec(PACK, PACK.configure(0, compute), stored, compute, compute, compute, f"{letter}N")


def pack_specs(spec: KernelSpec) -> Iterator[KernelSpec]:
    """Return an iterator over the kernels that pack A and B."""
    return (pack_spec(spec, operand) for operand in range(2))


def pack_operands(spec: KernelSpec, problem: Problem) -> Ready:
    """Return the launches that pack the operands that ``pack_a`` and ``pack_b`` select."""
    launches: list[Launch] = []
    scratch: list[Scratch] = []
    names = ["A", "B"]
    layout = after_packing(spec).layout
    for operand, packs in enumerate((spec.config.launch.pack_a, spec.config.launch.pack_b)):
        if packs:
            copy = _copy_of(spec, problem, operand)
            launches += copy.launches
            scratch.append(copy.memory)
            names[operand] = copy.memory.name
            problem = copy.in_place_of(problem, layout)
    return Ready(problem, (names[0], names[1]), tuple(launches), tuple(scratch))


def _packs_transposed(spec: KernelSpec, operand: int) -> bool:
    return operand == 1 and spec.variant.operands.packed_b_letter(spec.variant, spec.compute) == "T"


def _copy_of(spec: KernelSpec, problem: Problem, operand: int) -> Copy:
    writer = pack_spec(spec, operand)
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    if _packs_transposed(spec, operand):
        rows, cols, row, col = cols, rows, col, row
    matrix = rows, cols, whole_vectors(cols, writer.c)
    return copy_by(writer, problem, operand, "packed", (rows, cols, 1), (row, col), matrix)


def copy_by(
    writer: KernelSpec,
    problem: Problem,
    operand: int,
    what: str,
    sizes: tuple[int, int, int],
    steps: tuple[int, int],
    matrix: tuple[int, int, int],
    transposed: bool = False,
) -> Copy:
    """Return the copy of A (0) or B (1) that an auxiliary kernel writes to scratch memory.

    Args:
        writer: The auxiliary kernel.
        problem: The product's problem.
        operand: 0 for A, 1 for B.
        what: First part of the memory's name, such as ``"limbs of"``.
        sizes: m, n and k of the auxiliary kernel.
        steps: Strides with which it reads the operand, in elements: from row to row, and along a row.
        matrix: Number of rows that it writes, of their contiguous elements, and of these with padding.
        transposed: Whether the rows that it writes are columns of its C.
    """
    height, contiguous, filled = matrix
    step = ROW_ALIGNMENT // writer.c.itemsize
    pitch = tiles(contiguous, step) * step
    once, strides = stored_once(problem, operand, height * pitch)
    rows = zip(once, strides, problem.batch, strict=True)
    batch = tuple(BatchDimension(size, (each.a, each.b)[operand], 0, stride) for size, stride, each in rows)
    # A kernel with more than one column n reads the stride between them from B.
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


def with_copies(kernel: KernelSpec, problem: Problem, both: Sequence[Copy], box: Config) -> Ready:
    """Return the copies of both operands, ready for a kernel that reads them by tensor maps or by strides.

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
            sizes = (*copy.memory.shape[:3], copy.contiguous)
            maps.append(map_of_limbs(copy.operand, box, kernel.a, kernel.layout, sizes, copy.memory.pitch))
    names, launches = [copy.memory.name for copy in both], [each for copy in both for each in copy.launches]
    scratch = tuple(copy.memory for copy in both)
    return Ready(problem, (names[0], names[1]), tuple(launches), scratch, maps=tuple(maps), copies=tuple(both))


def k_major_letter(spec: KernelSpec, operand: int) -> str:
    """Return the layout letter of A (0) or of B's transpose (1), whose rows run along K."""
    letter = spec.layout[operand]
    return letter.translate(TRANSPOSED) if operand else letter


def k_major_rows(problem: Problem, operand: int) -> tuple[int, tuple[int, int]]:
    """Return the number of rows of A (0) or of B's transpose (1), and their strides from row to row and along K."""
    row_a, col_a, row_b, col_b, *_ = problem.strides
    return (problem.n, (col_b, row_b)) if operand else (problem.m, (row_a, col_a))


def whole_vectors(count: int, element: Element) -> int:
    """Return a number of elements, rounded up to a multiple of 16 bytes."""
    step = max(16 // element.itemsize, 1)
    return tiles(count, step) * step


def bytes_of(product: Product) -> tuple[int, int]:
    """Return the bytes of A and of B in memory, with broadcast matrices counted once."""
    problem = product.problem
    return problem.elements(0) * product.a.itemsize, problem.elements(1) * product.b.itemsize


def aligned_in_place(product: Product) -> tuple[bool, bool]:
    """Return whether rows of A, and those of B, begin at cache lines without packing."""
    strides = product.problem.strides
    left, right = max(strides[:2]) * product.a.itemsize, max(strides[2:4]) * product.b.itemsize
    return left % ROW_ALIGNMENT == 0, right % ROW_ALIGNMENT == 0
