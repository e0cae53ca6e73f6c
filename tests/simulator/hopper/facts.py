"""Launches that show what a GPU does beyond its documentation, by kernels of the corpus: no examples to follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.simulator.hopper.case import Array, Arrays, Case, case, poison, rows_map, truncate_to_tf32
from tests.simulator.hopper.cases import mapped, tma_1d, tma_2d_at


def tensor_core_sums(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], depth: int, bits: int) -> np.ndarray[Any, Any]:
    """Return A @ B.T as a chain of wgmma computes it.

    A wgmma aligns its products and the sum so far to the largest exponent (a product has the sum of its factors'
    exponents), truncates each to some bits below that, adds them, and rounds toward zero.

    Args:
        a, b: Matrices (M, K) and (N, K), of floats that a tensor core reads as they are.
        depth: Steps of k of one wgmma.
        bits: Bits that are kept below the largest exponent.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    exponents = [np.where(x == 0, -1000, np.frexp(x)[1] - 1) for x in (a, b)]
    sums = np.zeros((len(a), len(b)))
    for k in range(0, a.shape[1], depth):
        part = slice(k, k + depth)
        products = a[:, None, part] * b[:, part]
        terms = np.concatenate([products, sums[:, :, None]], axis=2)
        of_sum = np.where(sums == 0, -1000, np.frexp(sums)[1] - 1)
        largest = np.maximum((exponents[0][:, None, part] + exponents[1][:, part]).max(2), of_sum)
        unit = (largest - bits)[:, :, None]
        exact = np.ldexp(np.trunc(np.ldexp(terms, -unit)).sum(2), unit[:, :, 0])
        nearest = exact.astype(np.float32)
        sums = np.where(np.abs(nearest) > np.abs(exact), np.nextafter(nearest, np.float32(0)), nearest).astype(float)
    return sums


def _sums(
    file: str, n: int, k: int, types: tuple[str, str], depth: int, bits: int, arguments: str, **rest: Any
) -> Case:
    """Return a launch of a wgmma kernel with random numbers."""
    arrays = {
        "a": Array(types[0], (64, k), "normal"),
        "b": Array(types[1], (n, k), "normal"),
        "d": poison("float32", 64, n),
    }

    def expect(x: Arrays) -> Arrays:
        a, b = (truncate_to_tf32(x[name]) if types[0] == "float32" else x[name] for name in "ab")
        return {"d": tensor_core_sums(a, b, depth, bits)}

    return case(f"fact_sums_{file}", (1,), (128,), arrays, arguments, expect, file=file, **rest)  # fmt: skip


#: All such launches.
FACTS: tuple[Case, ...] = (
    # A store leaves out what lies past the end in whole chunks of 16 bytes only: 150 elements are 37.5 of them.
    tma_1d("fact_stores_write_whole_chunks", 150, 152),
    # float32 that TMA rounds to tf32, half of which lie in the middle of two numbers.
    tma_2d_at("fact_tf32_ties", "tf32", Array("float32", (37, 48), (-16, 16), 1 + 2.0**-11)),
    _sums("wgmma_no_swizzle", 8, 64, ("float16", "float16"), 16, 25, "a b d", kernels="wgmma_no_swizzle"),
    _sums(
        "wgmma_registers_a", 8, 32, ("bfloat16", "bfloat16"), 16, 25, "a b_map d", kernels="wgmma_registers_a",
        maps={"b_map": rows_map("b", "bfloat16", (8, 32), (32, 8), 64)},
    ),
    _sums(
        "wgmma_tf32", 16, 32, ("float32", "float32"), 8, 25, "a_map b_map d", kernels="wgmma_tf32_tile",
        maps=mapped("float32", "float32", 32, 16),
    ),
    _sums(
        "wgmma_fp8", 24, 128, ("e4m3", "e5m2"), 32, 13, "a_map b_map d", kernels="wgmma_fp8",
        maps=mapped("e4m3", "e5m2", 128, 24),
    ),
    _sums("wgmma_fp8_registers", 8, 32, ("e5m2", "e4m3"), 32, 13, "a b d", kernels="wgmma_fp8_registers"),
)  # fmt: skip
