"""How a kernel is laid over a product: the grid, and the ``Problem`` that it is told (``cuda_src/matrices.cuh``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledmm.codegen import Specialization
from tiledmm.errors import ShapeError
from tiledmm.problem import KERNEL_BATCH_DIMENSIONS, BatchDimension, Problem

MAX_GRID_X = 2**31 - 1
MAX_GRID_Y = 65_535

_ONE_PRODUCT = BatchDimension(1, 0, 0, 0)


def grid(specialization: Specialization, problem: Problem) -> tuple[int, int]:
    """Blocks along x and y: one a tile of C a product, numbered through both dimensions.

    Raises:
        ShapeError: If there are more than a grid can hold, 1.4e14.
    """
    blocks = _tiles(problem.m, specialization.config.bm) * _tiles(problem.n, specialization.config.bn)
    for dimension in problem.batch:
        blocks *= dimension.size
    x = min(blocks, MAX_GRID_X)
    y = -(-blocks // max(x, 1))
    if y > MAX_GRID_Y:
        raise ShapeError(f"{blocks} blocks do not fit a grid of {MAX_GRID_X} x {MAX_GRID_Y}; take a larger tile")
    return x, y


def pack(specialization: Specialization, problem: Problem) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The kernel's ``Problem``, a word a member."""
    batch = ((_ONE_PRODUCT,) * KERNEL_BATCH_DIMENSIONS + problem.batch)[-KERNEL_BATCH_DIMENSIONS:]
    row_a, col_a, row_b, col_b, row_c, col_c = problem.strides
    words = [
        problem.m, problem.n, problem.k,
        _tiles(problem.m, specialization.config.bm), _tiles(problem.n, specialization.config.bn),
        *(d.size for d in batch),
        row_a, col_a, *(d.a for d in batch),
        row_b, col_b, *(d.b for d in batch),
        row_c, col_c, *(d.c for d in batch),
    ]  # fmt: skip
    return np.array(words, dtype=np.int64)


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)
