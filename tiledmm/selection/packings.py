"""What may be packed for a kernel before it reads the operands of a product."""

from __future__ import annotations

from collections.abc import Iterator

from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.schedule.schedule import is_short
from tiledmm.schedule.tensor_maps import can_be_mapped
from tiledmm.selection.operand_reads import has_wide_rows, rate_type, reads_in_place
from tiledmm.selection.parts import is_within_limits
from tiledmm.selection.rates import KernelRates


def packings(row: KernelRates, product: Product) -> Iterator[tuple[str, ...]]:
    """What may be packed for a kernel: fields of ``LaunchConfig``; no choice if it is not for the product."""
    problem, compute, variant = product.problem, product.compute, find_variant(row.variant)
    if row.type != rate_type(compute):
        yield ("pack_elements",)
        return
    if variant.global_reads == "K-major":
        if problem.layout[1] == "T":
            yield () if problem.layout[0] == "N" else ("pack_a",)
    elif variant.global_reads == "rows of B":
        if problem.m <= row.tile and problem.layout[1] == "N":
            yield ()
    elif variant.has_own_operands:
        if is_within_limits(variant, problem, compute) and not (variant.decomposes and is_short(problem, compute)):
            yield ()
    elif variant.tensor_cores:
        in_place = (  # loaded in place, 16 bytes at a time
            stored == compute.stored
            and can_be_mapped(problem, i, compute)
            and variant.reads_fast(i, problem.layout[i], compute)
            for i, stored in enumerate((product.a, product.b))
        )
        packs = tuple(name for name, ready in zip(("pack_a", "pack_b"), in_place, strict=True) if not ready)
        yield packs
        if packs and reads_in_place(variant):
            yield ()
    elif variant.global_reads == "vectors" and not has_wide_rows(problem, compute):
        yield ("pack_b",)
        if row.tile < 256:  # which is too slow with loads of single elements
            yield ()
    else:
        yield ()
