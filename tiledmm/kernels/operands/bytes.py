"""Bytes: 16- to 64-bit integers, decomposed into their bytes, which 8-bit tensor cores multiply pair by pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiledmm.elements import ELEMENTS, Element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import WORD_BYTES, Config, LaunchConfig
from tiledmm.kernels.launches import tiles
from tiledmm.kernels.operands.copies import (
    Copy,
    PreparedOperands,
    both_copies,
    copy_by,
    k_major_letter,
    k_major_rows,
    with_copies,
)
from tiledmm.kernels.operands.operands import OperandCost, Operands, bytes_of
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variant import Variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem

_BYTE = ELEMENTS["uint8"]


class Bytes(Operands):
    """Operands decomposed into planes of bytes.

    Their shape is ``(bytes per element, products, rows of A or columns of B, K)``.
    """

    reads_elements = False
    most_bytes = 1 << 33

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that multiplies bytes: its operands are uint8 and K-major."""
        return replace(spec.alone(), a=_BYTE, b=_BYTE, layout="NT")

    def limbs(self, config: Config, compute: Element) -> int:
        """Return the number of planes of bytes, which is the number of bytes per element."""
        return compute.itemsize

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return the bytes of both operands as ``PreparedOperands``, with the launches that decompose the operands."""
        kernel = spec.kernel
        both = both_copies(lambda operand: _copy_of(spec, problem, operand), bool(spec.config.triangle))
        return with_copies(kernel, problem, both, kernel.config)

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield the specifications of the kernel that multiplies and of the kernels that decompose A and B."""
        yield spec.kernel
        yield from (decompose_bytes_spec(spec, operand) for operand in range(2))

    def prepared_bytes(self, problem: Problem, compute: Element) -> int:
        """Return the size of both decomposed operands in bytes, which is that of elements of the computation type."""
        return (problem.elements(0) + problem.elements(1)) * compute.itemsize

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of decomposing operands that are not prepared into bytes, and of reading the bytes.

        The kernel reads each byte once per product of bytes in which it is a factor.
        """
        problem, compute, device = product.problem, product.compute, times.rates
        sizes, layout = bytes_of(product), problem.k_major_layout
        rate = device.decomposing_bytes[str(compute.itemsize)]
        each_time = [sizes[operand] for operand in product.each_time(shared=bool(config.triangle))]
        before = len(each_time) * device.launch + times.moving(2 * sum(each_time), rate)
        reads = _pairs(compute) / compute.itemsize
        return OperandCost(sizes, layout, (True, True), problem.k, before, reads=reads)

    def rates(self, compute: Element) -> tuple[str, ...]:
        """Return a tuple with the name of one rate: that of decomposing integers of this size into bytes.

        It is a field of ``DeviceRates``.
        """
        return (f"decomposing_bytes.{compute.itemsize}",)

    def multiplied(self, compute: Element, scheme: str = "") -> tuple[int, int]:
        """Return the size of a byte, 1, and the number of products of bytes per product of two elements.

        Products of bytes that cannot change the result modulo the type's range are left out.
        """
        return 1, _pairs(compute)

    def unit(self, spec: KernelSpec) -> str:
        """Return the number of products of bytes per product of two elements, as text."""
        return f"{_pairs(spec.compute)} products of bytes for one"

    def fragment(self, spec: KernelSpec) -> tuple[int, int]:
        """Return the number of columns of a warp's tile, and the bytes that are read from shared memory per element.

        One byte is read for each product of bytes.
        """
        return spec.config.wn, _pairs(spec.compute)


#: The kernel that decomposes integers.
DECOMPOSE_BYTES = Variant(
    name="decompose_bytes",
    template="decompose_bytes.cu.j2",
    summary="decomposes integers into bytes",
    waits="last",
    writes=Bytes(),
    configure=lambda tile, element: Config(bm=32, bn=128, lanes=256),
    block=lambda config: (config.lanes, 1),
    shared_bytes=lambda config, element, layout: config.bn * (config.bm + 1) * element.sum_bytes,
)


def decompose_bytes_spec(spec: KernelSpec, operand: int) -> KernelSpec:
    """Return the specification of the kernel that decomposes A (0) or B (1) into bytes. It reads B transposed."""
    compute, letter = spec.compute, k_major_letter(spec, operand)
    stored = (spec.a, spec.b)[operand]
    config = DECOMPOSE_BYTES.configure(0, compute)
    return KernelSpec(DECOMPOSE_BYTES, config, stored, compute, compute, _BYTE, f"{letter}N")


def _copy_of(spec: KernelSpec, problem: Problem, operand: int) -> Copy:
    writer = decompose_bytes_spec(spec, operand)
    rows, steps = k_major_rows(problem, operand)
    filled = tiles(problem.k, WORD_BYTES) * WORD_BYTES  # it writes four bytes at a time
    sizes, matrix = (rows, problem.k, 1), (rows, problem.k, filled)
    return copy_by(writer, problem, operand, "bytes of", sizes, steps, matrix)


def _pairs(compute: Element) -> int:
    """Return the number of products of bytes that are computed per product of two integers.

    Products of bytes that cannot change the result modulo the type's range are left out.
    """
    return compute.itemsize * (compute.itemsize + 1) // 2
