"""Operands in place: the kernel reads arrays of any strides where they are, or packed if its config says so."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tiledmm.elements import PACKED_ELEMENTS, Element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import VECTOR_BYTES, WORD_BYTES, Config, LaunchConfig
from tiledmm.kernels.operands.copies import PreparedOperands
from tiledmm.kernels.operands.operands import OperandCost, Operands, bytes_of
from tiledmm.kernels.operands.packed_elements import PackedElements
from tiledmm.kernels.operands.packed_rows import PackedRows, aligned_in_place, pack_specs, with_packing
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import can_be_mapped, maps_of
from tiledmm.kernels.variant import Variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem

_PACKED_ROWS, _PACKED_ELEMENTS = PackedRows(), PackedElements()


class InPlace(Operands):
    """Arrays that are read where they are.

    ``pack_a``, ``pack_b`` and ``pack_elements`` of a launch config replace this format.
    """

    def format_by(self, launch: LaunchConfig) -> Operands:
        """Return the format in which operands are read after the packing that a launch config asks for.

        It is this format if the launch config asks for no packing.
        """
        if launch.pack_elements:
            return _PACKED_ELEMENTS
        return _PACKED_ROWS if launch.pack_a or launch.pack_b else self

    def for_tma(self, spec: KernelSpec, a_in_place: bool, b_in_place: bool) -> KernelSpec:
        """Return the specification with packing of the operands that a TMA kernel cannot read where they are.

        An operand is packed if TMA cannot read it, if it has another type than the computation type, or if tensor
        cores cannot read its layout.

        Args:
            spec: The kernel.
            a_in_place, b_in_place: Whether TMA can address A and B where they are.
        """
        stored, reads_fast = spec.compute.stored, spec.variant.reads_fast
        return with_packing(
            spec,
            a_in_place and spec.a == stored and reads_fast(0, spec.layout[0], spec.compute),
            b_in_place and spec.b == stored and reads_fast(1, spec.layout[1], spec.compute),
        )

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return ``PreparedOperands`` that are the arrays themselves, without launches.

        For a kernel that reads by TMA, they have tensor maps.
        """
        return PreparedOperands(problem, maps=maps_of(spec, problem))

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield all kernels that products with operands in place may launch, so that they can be compiled in advance.

        They are the kernel that reads arrays where they are, the kernels that pack operands, and those that read
        packed operands.

        Args:
            spec: The kernel that multiplies, for one layout.
            by_auto: Whether ``auto`` chooses the kernel. It may then pack operands that the kernel can also read in
                place.
        """
        yield spec.kernel
        if spec.variant.hopper.tma:
            yield from (spec.with_packing_for_tma(*each).kernel for each in itertools.product((True, False), repeat=2))
        if spec.variant.hopper.tma or by_auto:
            yield from pack_specs(spec)
        if by_auto and spec.compute.multiplied in PACKED_ELEMENTS and spec.variant.reads.packs_elements:
            of_elements = replace(spec, config=spec.config.changed({"pack_elements": 1}))
            yield from of_elements.operands.kernels(of_elements, by_auto)

    def packings(self, variant: Variant, tile: int, product: Product) -> Iterator[tuple[str, ...]]:
        """Yield the packings among which ``auto`` may choose for a product; nothing if the kernel is unsuitable for it.

        A packing is a tuple of the ``LaunchConfig`` fields to set to 1, such as ``("pack_b",)``; empty to pack
        nothing.
        """
        problem, compute = product.problem, product.compute
        if variant.reads.from_global == "K-major":
            if problem.layout[1] == "T":
                yield () if problem.layout[0] == "N" else ("pack_a",)
        elif variant.reads.from_global == "rows of B":
            if problem.m <= tile and problem.layout[1] == "N":
                yield ()
        elif variant.tensor_cores:
            in_place = (  # whether A and B can be loaded in place, 16 bytes at a time
                stored == compute.stored
                and can_be_mapped(problem, i, compute)
                and variant.reads_fast(i, problem.layout[i], compute)
                for i, stored in enumerate((product.a, product.b))
            )
            packs = tuple(name for name, ready in zip(("pack_a", "pack_b"), in_place, strict=True) if not ready)
            yield packs
            if packs and variant.reads_unaligned:
                yield ()
        elif variant.reads.from_global == "vectors" and not _has_wide_rows(problem, compute):
            yield ("pack_b",)
            yield ()
        else:
            yield ()

    def access(self, variant: Variant, packs: Iterable[str], product: Product) -> str:
        """Return the width of the kernel's accesses to the operands: the narrower of those to A and to B.

        Returns:
            ``"chunks"`` for 16 bytes, ``"words"`` for 4 or 8 bytes, or ``"elements"`` for single elements.
        """
        problem, compute = product.problem, product.compute
        if not variant.reads_unaligned or "pack_elements" in packs:
            return "chunks"
        aligned = [VECTOR_BYTES]
        for operand, (name, stored) in enumerate(zip(("pack_a", "pack_b"), (product.a, product.b), strict=True)):
            if name not in packs and not _always_by_elements(variant, operand, stored, product):
                strides = problem.strides[2 * operand : 2 * operand + 2]
                same = stored == compute.stored and variant.reads_fast(operand, problem.layout[operand], compute)
                contiguous = problem.layout[operand] != "G"
                aligned.append(math.gcd(max(strides) * compute.itemsize, VECTOR_BYTES) if same and contiguous else 1)
        word = max(WORD_BYTES, min(compute.itemsize, VECTOR_BYTES))
        return "chunks" if min(aligned) == VECTOR_BYTES else "words" if min(aligned) >= word else "elements"

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of reading both operands where they are, which need no preparation."""
        problem = product.problem
        return OperandCost(bytes_of(product), problem.k_major_layout, aligned_in_place(product), problem.k, 0.0)


IN_PLACE = InPlace()


def _always_by_elements(variant: Variant, operand: int, stored: Element, product: Product) -> bool:
    """Return whether a kernel reads an operand element by element, however its rows are aligned.

    ``"rows of B"`` kernels read A so. ``"vectors"`` kernels copy K-major operands so, if they need no conversion.
    """
    if variant.reads.from_global == "vectors":
        copied = stored == product.compute.stored and stored.itemsize >= WORD_BYTES
        return copied and product.problem.layout[operand] == "NT"[operand]
    return operand == 0 and variant.reads.from_global == "rows of B"


def _has_wide_rows(problem: Problem, compute: Element) -> bool:
    """Return whether B has contiguous rows whose stride is a multiple of 16 bytes, the width of the widest loads."""
    return problem.layout[1] == "N" and problem.strides[2] * compute.itemsize % VECTOR_BYTES == 0
