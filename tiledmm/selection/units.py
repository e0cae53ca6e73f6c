"""The peak of the unit that a kernel multiplies with, by a GPU's data sheet."""

from __future__ import annotations

from tiledmm.elements import SCHEMES, Element, compute_element
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.residues import DEFAULT_MODULI, residue_planes
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import find_variant
from tiledmm.selection.rates import KernelRates


def unit_flops(variant: Variant, compute: Element, gpu: Gpu, *, scheme: str = "", by_mma: bool = False) -> float:
    """Peak of the unit with which a kernel multiplies, in FLOP/s of ``2 * m * n * k``: 0 if the GPU has none.

    Args:
        variant: The kernel's variant.
        compute: The computation type.
        gpu: The GPU.
        scheme: How operands are decomposed; empty for the variant's default.
        by_mma: Whether tensor cores count at the rate of ``mma.sync``, not at that of the fastest instructions.
    """
    if variant.decomposes:
        chosen = SCHEMES[scheme or variant.schemes[0][0]]
        return gpu.tensor_flops(chosen.limb.itemsize, by_mma=by_mma) / chosen.products / compute.multiplies
    if variant.decomposes_to_bytes:
        return gpu.tensor_flops(1, by_mma=by_mma) / pairs_of_bytes(compute)
    if variant.decomposes_to_residues:
        return gpu.tensor_flops(1, by_mma=by_mma) / residue_planes(DEFAULT_MODULI, compute.parts)
    if variant.tensor_cores:
        return gpu.tensor_flops(compute.itemsize, by_mma=by_mma)
    return gpu.peak_flops(compute.multiplied)


def row_flops(row: KernelRates, gpu: Gpu) -> float:
    """The peak of the unit of a table's row, by the instructions that its kernel has."""
    variant = find_variant(row.variant)
    return unit_flops(variant, compute_element(row.type), gpu, by_mma=not variant.warpgroup)


def pairs_of_bytes(compute: Element) -> int:
    """Products of bytes in a product of integers, modulo their range."""
    return compute.itemsize * (compute.itemsize + 1) // 2
