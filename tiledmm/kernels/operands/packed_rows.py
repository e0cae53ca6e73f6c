"""Packed rows: operands copied to rows of the computation type that begin at cache lines, in scratch memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiledmm.elements import Element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import Config, LaunchConfig
from tiledmm.kernels.launches import Launch, Scratch
from tiledmm.kernels.operands.copies import (
    ROW_ALIGNMENT,
    Copy,
    PreparedOperands,
    both_copies,
    copy_by,
    whole_vectors,
)
from tiledmm.kernels.operands.operands import OperandCost, Operands, bytes_of
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import maps_of
from tiledmm.kernels.variant import Variant, block_of_tiles
from tiledmm.problem.product import Product
from tiledmm.problem.strides import TRANSPOSED, Problem


def _pack_config(tile: int, element: Element) -> Config:
    """Return the config of the kernel that packs operands. Its threads copy at least 4 bytes at a time."""
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
    """Operands of which one or both are packed, as ``pack_a`` and ``pack_b`` say.

    The other operand is read in place.
    """

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that multiplies, with the type and layout of packed operands."""
        return after_packing(spec).alone()

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return ``PreparedOperands`` of which one or both are packed, with the launches that pack them."""
        ready = pack_operands(spec, problem)
        return replace(ready, maps=maps_of(spec, ready.problem))

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of packing operands that are not prepared, and of reading packed rows.

        Packed rows begin at cache lines.
        """
        problem, compute, device = product.problem, product.compute, times.rates
        packs = launch.pack_a, launch.pack_b
        sizes = bytes_of(product)
        letters = problem.k_major_layout
        packed_b_letter = variant.operands.packed_b_letter(variant, compute).translate(TRANSPOSED)
        letter_a, letter_b = ("N" if packs[0] else letters[0]), (packed_b_letter if packs[1] else letters[1])
        left, right = aligned_in_place(product)
        shared = _is_shared(config, launch, packed_b_letter == "N")
        each_time = [sizes[operand] for operand in product.each_time(shared=shared) if packs[operand]]
        before = device.packing_launch + (len(each_time) - 1) * device.packing_second if each_time else 0.0
        before += times.moving(2 * sum(each_time), device.packing)
        aligned = left or bool(packs[0]), right or bool(packs[1])
        return OperandCost(sizes, letter_a + letter_b, aligned, problem.k, before)


def after_packing(spec: KernelSpec) -> KernelSpec:
    """Return the specification of a kernel with its operands already packed.

    Its ``pack_a`` and ``pack_b`` are 0, and packed operands have the computation type and aligned rows. Rows of a
    packed B are contiguous along K if the variant needs that.
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
    """Return the specification with packing of A unless ``a_in_place``, and of B unless ``b_in_place``.

    Operands that the specification packs already remain packed.
    """
    launch = spec.config.launch
    pack_a, pack_b = launch.pack_a or int(not a_in_place), launch.pack_b or int(not b_in_place)
    return replace(spec, config=spec.config.changed({"pack_a": pack_a, "pack_b": pack_b}))


def pack_spec(spec: KernelSpec, operand: int) -> KernelSpec:
    """Return the specification of the kernel that packs A (0) or B (1) into aligned rows of the computation type.

    It transposes B if the kernel that multiplies needs a K-major B.
    """
    compute = spec.compute.stored
    stored, letter = (spec.a, spec.b)[operand], spec.layout[operand]
    if _packs_transposed(spec, operand):
        letter = letter.translate(TRANSPOSED)
    return KernelSpec(PACK, PACK.configure(0, compute), stored, compute, compute, compute, f"{letter}N")


def pack_specs(spec: KernelSpec) -> Iterator[KernelSpec]:
    """Return an iterator over the specifications of the kernels that pack A and B."""
    return (pack_spec(spec, operand) for operand in range(2))


def pack_operands(spec: KernelSpec, problem: Problem) -> PreparedOperands:
    """Return ``PreparedOperands``, with launches that pack the operands selected by ``pack_a`` and ``pack_b``."""
    launches: list[Launch] = []
    scratch: list[Scratch] = []
    names = ["A", "B"]
    layout, source = after_packing(spec).layout, problem
    packs = [operand for operand in range(2) if (spec.config.launch.pack_a, spec.config.launch.pack_b)[operand]]
    if _is_shared(spec.config, spec.config.launch, _packs_transposed(spec, 1)):
        copies: Sequence[Copy] = both_copies(lambda operand: _copy_of(spec, source, operand), shared=True)
    else:
        copies = [_copy_of(spec, source, operand) for operand in packs]
    for copy in copies:
        launches += copy.launches
        if copy.launches:
            scratch.append(copy.memory)
        names[copy.operand] = copy.memory.name
        problem = copy.in_place_of(problem, layout)
    return PreparedOperands(problem, (names[0], names[1]), tuple(launches), tuple(scratch))


def _packs_transposed(spec: KernelSpec, operand: int) -> bool:
    return operand == 1 and spec.variant.operands.packed_b_letter(spec.variant, spec.compute) == "T"


def _is_shared(config: Config, launch: LaunchConfig, transposes_b: bool) -> bool:
    """Return whether the packed rows of A are also those of B: if B is the transpose of A, and is transposed."""
    return bool(config.triangle and launch.pack_a and launch.pack_b and transposes_b)


def _copy_of(spec: KernelSpec, problem: Problem, operand: int) -> Copy:
    writer = pack_spec(spec, operand)
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    if _packs_transposed(spec, operand):
        rows, cols, row, col = cols, rows, col, row
    matrix = rows, cols, whole_vectors(cols, writer.c)
    return copy_by(writer, problem, operand, "packed", (rows, cols, 1), (row, col), matrix)


def aligned_in_place(product: Product) -> tuple[bool, bool]:
    """Return whether the rows (or contiguous columns) of A, and those of B, begin at cache lines without packing."""
    strides = product.problem.strides
    left, right = max(strides[:2]) * product.a.itemsize, max(strides[2:4]) * product.b.itemsize
    return left % ROW_ALIGNMENT == 0, right % ROW_ALIGNMENT == 0
