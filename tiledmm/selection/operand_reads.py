"""How kernels read the operands of a product: how much, and in accesses of how many bytes."""

from __future__ import annotations

import math

from tiledmm.elements import Element
from tiledmm.kernels.config import VECTOR_BYTES, WORD_BYTES
from tiledmm.kernels.variant import Variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem
from tiledmm.schedule.auxiliary import PACKED_ALIGNMENT


def footprint(problem: Problem, operand: int) -> int:
    """Elements of A (0) or B (1), broadcast batches counted once."""
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    products = 1
    for dimension in (*problem.outer, *problem.batch):
        products *= dimension.size if (dimension.a, dimension.b)[operand] else 1
    return rows * cols * products


def aligned_in_place(product: Product) -> tuple[bool, bool]:
    """Whether rows of A and of B begin at cache lines. Those of packed operands do (``PACKED_ALIGNMENT``)."""
    strides = product.problem.strides
    left, right = max(strides[:2]) * product.a.itemsize, max(strides[2:4]) * product.b.itemsize
    return left % PACKED_ALIGNMENT == 0, right % PACKED_ALIGNMENT == 0


def rate_type(compute: Element) -> str:
    """The type of a table's rows whose kernels take as long."""
    if compute.dtype_name in ("float32", "tf32", "float64", "complex64", "complex128"):
        return compute.dtype_name
    return {1: "int8", 2: "float16", 4: "int32", 8: "int64"}[compute.itemsize]


def access(variant: Variant, packs: tuple[str, ...], product: Product) -> str:
    """How a kernel reads its operands.

    Returns:
        ``"chunks"`` of 16 bytes, or as it always does; ``"words"`` of 4 or 8 bytes; or ``"elements"``: the slower of
        A's and B's.
    """
    problem, compute = product.problem, product.compute
    if variant.global_reads == "vectors":
        return "chunks" if packs or has_wide_rows(problem, compute) else "elements"
    if not reads_in_place(variant):
        return "chunks"
    aligned = [VECTOR_BYTES]
    for operand, (name, stored) in enumerate(zip(("pack_a", "pack_b"), (product.a, product.b), strict=True)):
        if name not in packs and (operand or variant.global_reads != "rows of B"):
            strides = problem.strides[2 * operand : 2 * operand + 2]
            same = stored == compute.stored and variant.reads_fast(operand, problem.layout[operand], compute)
            contiguous = problem.layout[operand] != "G"
            aligned.append(math.gcd(max(strides) * compute.itemsize, VECTOR_BYTES) if same and contiguous else 1)
    word = max(WORD_BYTES, min(compute.itemsize, VECTOR_BYTES))
    return "chunks" if min(aligned) == VECTOR_BYTES else "words" if min(aligned) >= word else "elements"


def reads_in_place(variant: Variant) -> bool:
    """Whether a kernel also reads operands that are not aligned, more slowly, at rates of its own."""
    if variant.global_reads in ("K-major", "rows of B"):
        return True
    return variant.tensor_cores and not variant.tma and not variant.has_own_operands


def has_wide_rows(problem: Problem, compute: Element) -> bool:
    """Whether rows of B are aligned for 16-byte loads."""
    return problem.layout[1] == "N" and problem.strides[2] * compute.itemsize % 16 == 0
