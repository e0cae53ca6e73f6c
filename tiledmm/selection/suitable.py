"""Products that kernels for few shapes are made for. ``auto`` considers such a kernel for no others."""

from __future__ import annotations

from tiledmm.kernels.config import Config
from tiledmm.kernels.tensor_maps import has_coordinates
from tiledmm.kernels.variant import Variant
from tiledmm.problem.strides import Problem

# Maximum number of rows of C for which skinny tiles are considered, on CUDA cores and on tensor cores.
_SKINNY_ROWS, _SKINNY_TENSOR_ROWS = 64, 1024

# Maximum number of rows and columns of a small product, and minimum number of elements in C of a batch of these.
_SMALL, _MANY = 32, 1 << 14


def is_suitable(variant: Variant, config: Config, problem: Problem) -> bool:
    """Return whether a kernel is made for products such as this one, or for products of any shape.

    Args:
        variant: Variant of the kernel.
        config: Its config.
        problem: The product, transposed if the kernel prefers that.
    """
    reads, most = variant.reads, _SKINNY_TENSOR_ROWS if variant.tensor_cores else _SKINNY_ROWS
    return (
        (not variant.is_limited or has_coordinates(problem))
        and (not reads.few_rows(config) or problem.m <= most)
        and (not reads.few_columns(config) or problem.n <= most)
        and (not reads.small_products or _is_small_batch(problem))
        and (not reads.short_k or problem.k <= config.bk)
        and (not reads.short_k or (_is_narrow(problem, config) if reads.narrow else 2 * problem.n >= config.bn))
    )


def _is_small_batch(problem: Problem) -> bool:
    """Return whether a problem is a batch of many small products, with few rows and columns each."""
    return max(problem.m, problem.n) <= _SMALL and problem.m * problem.n * problem.products >= _MANY


def _is_narrow(problem: Problem, config: Config) -> bool:
    """Return whether C has few columns, no gaps between its rows, and enough of these for a quarter of a tile."""
    row, column = problem.strides[4:]
    dense = row == problem.n and (column == 1 or problem.n == 1)
    return dense and problem.n <= config.bn and 4 * problem.m >= config.bm
