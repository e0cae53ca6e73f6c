"""Sets of random operands on the device, enough of them that no call finds its operands in the L2 cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cupy
import numpy as np

from tiledmm.bench.reference import random_matrix
from tiledmm.bench.sizes import Size
from tiledmm.elements import compute_element
from tiledmm.kernels.variants import kernel_spec

# Limit on sets of operands. Products that need more to fill the L2 cache are so small that memory does not matter.
_MAX_SETS = 64

_SEED = 20_240_229


class Operands(NamedTuple):
    """A set of operands on the device: A (M, K), B (K, N), and C (M, N), which is written."""

    a: Any
    b: Any
    c: Any


def operand_sets(size: Size, dtype: str, layout: str) -> list[Operands]:
    """Allocate sets of operands on the current device, enough to fill the L2 cache twice, at most 64.

    All sets have copies of the same random matrices.

    Args:
        size: Sizes of the product.
        dtype: Computation type.
        layout: Letters of A and B: N for contiguous rows, T for contiguous columns, G for neither.

    Raises:
        UnsupportedTypeError: If there are no products of the type.
        ShapeError: If there is no such layout.
    """
    kernel_spec("naive", layout=layout)  # raises if there is no such layout
    compute = compute_element(dtype)
    kind, result = compute.dtype, compute.result.dtype
    rng = np.random.default_rng(_SEED)
    set_bytes = (size.m + size.n) * size.k * kind.itemsize + size.m * size.n * result.itemsize
    count = sets_beyond_cache(set_bytes)
    new_a = _drawn(rng, size.m, size.k, kind, size.k, layout[0])
    new_b = _drawn(rng, size.k, size.n, kind, size.k, layout[1])
    return [Operands(new_a(), new_b(), cupy.empty((size.m, size.n), result)) for _ in range(count)]


def sets_beyond_cache(set_bytes: int) -> int:
    """Return how many sets of operands fill the current device's L2 cache twice, at most 64.

    Args:
        set_bytes: Bytes of one set.
    """
    cache: int = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["l2CacheSize"]
    return max(1, min(_MAX_SETS, -(-2 * cache // set_bytes)))


def _drawn(
    rng: np.random.Generator, rows: int, cols: int, kind: np.dtype[Any], k: int, order: str
) -> Callable[[], Any]:
    """Draw a random matrix, and return a function that copies it to new device memory.

    Args:
        rng: Random number generator.
        rows, cols: Shape of the matrix.
        kind: Type of the elements.
        k: Inner size of the product that the matrix is for.
        order: Layout of the copies: N for contiguous rows, T for contiguous columns, G for neither.
    """
    if order == "T":
        columns = random_matrix(rng, cols, rows, kind, k)
        return lambda: cupy.asarray(columns).T
    if order == "G":
        wide = random_matrix(rng, rows, 2 * cols, kind, k)
        return lambda: cupy.asarray(wide)[:, ::2]
    host = random_matrix(rng, rows, cols, kind, k)
    return lambda: cupy.asarray(host)
