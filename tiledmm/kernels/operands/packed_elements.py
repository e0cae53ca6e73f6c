"""Packed elements: four 8-bit integers or 32 booleans along K in a 32-bit element, which one instruction multiplies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiledmm.elements import PACKED_ELEMENTS, Element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import Config, LaunchConfig
from tiledmm.kernels.launches import tiles
from tiledmm.kernels.operands.copies import Copy, PreparedOperands, copy_by, k_major_letter, k_major_rows, whole_vectors
from tiledmm.kernels.operands.operands import OperandCost, Operands, bytes_of
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variant import Variant, block_of_tiles
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem

#: The kernel that packs elements. Its tile is the number of elements per packed element.
PACK_ELEMENTS = Variant(
    name="pack_elements",
    template="pack_elements.cu.j2",
    summary="packs narrow elements along K",
    waits="last",
    configure=lambda tile, element: Config(bm=32, bn=32, bk=tile, tm=4),
    block=block_of_tiles,
    shared_bytes=lambda config, element, layout: 4 * config.bn * (config.bm + 1),
)


class PackedElements(Operands):
    """Operands whose narrow elements are packed along K into 32-bit elements.

    Their shape is ``(packed elements along K, rows of A or columns of B)``.
    """

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that multiplies packed elements, with their type and layout."""
        into = PACKED_ELEMENTS[spec.compute.multiplied]
        return replace(spec.alone(), a=into, b=into, compute=spec.compute.packed or into, layout="TN")

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return the packed elements of both operands as ``PreparedOperands``, with the launches that pack them.

        K of its problem counts packed elements.
        """
        layout = self.kernel(spec).layout
        both = [_copy_of(spec, problem, operand) for operand in range(2)]
        for copy in both:
            problem = copy.in_place_of(problem, layout)
        problem = replace(problem, k=both[0].rows)
        names, scratch = tuple(copy.memory.name for copy in both), tuple(copy.memory for copy in both)
        return PreparedOperands(
            problem, (names[0], names[1]), tuple(each for copy in both for each in copy.launches), scratch
        )

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield the specifications of the kernel that multiplies and of the kernels that pack elements."""
        yield spec.kernel
        yield from (pack_elements_spec(spec, operand) for operand in range(2))

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of packing the elements of operands that are not prepared, and of reading packed elements."""
        problem, compute = product.problem, product.compute
        sizes, layout = bytes_of(product), problem.k_major_layout
        packed_k = tiles(problem.k, PACKED_ELEMENTS[compute.multiplied].per_packed)
        before = sum(_pack_time(sizes[i], layout[i], compute, times) for i in product.each_time())
        fraction = 4 * packed_k / max(problem.k * compute.itemsize, 1)
        return OperandCost((sizes[0] * fraction, sizes[1] * fraction), "TT", (True, True), packed_k, before)


def pack_elements_spec(spec: KernelSpec, operand: int) -> KernelSpec:
    """Return the specification of the kernel that packs the elements of A (0) or B (1) along K.

    The kernel reads B transposed.
    """
    compute = spec.compute.stored
    into = PACKED_ELEMENTS[compute.dtype_name]
    config = PACK_ELEMENTS.configure(into.per_packed, into)
    stored, letter = (spec.a, spec.b)[operand], k_major_letter(spec, operand)
    return KernelSpec(PACK_ELEMENTS, config, stored, compute, compute, into, f"{letter}N")


def _copy_of(spec: KernelSpec, problem: Problem, operand: int) -> Copy:
    writer = pack_elements_spec(spec, operand)
    rows, steps = k_major_rows(problem, operand)
    packed_k = tiles(problem.k, writer.c.per_packed)
    sizes, matrix = (rows, packed_k, problem.k), (packed_k, rows, whole_vectors(rows, writer.c))
    return copy_by(writer, problem, operand, "packed elements of", sizes, steps, matrix, transposed=True)


def _pack_time(size: float, letter: str, compute: Element, times: DeviceTimes) -> float:
    """Return the time of packing the elements of an operand along K, in microseconds.

    Args:
        size: Size of the operand in bytes.
        letter: N if the operand is K-major, T if it is MN-major, G for neither.
        compute: Computation type.
        times: Times of moving data on the device.
    """
    device = times.rates
    if compute.multiplied != "bool":
        return device.launch + times.moving(size, device.packing_elements)
    time = times.moving(size, device.packing_bits[letter])
    return device.launch + max(time, device.packing_bits_least[letter])
