"""Elements of matrices for a check: small integers, numbers whose sums need many bits, and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

#: Function ``(shape, dtype, seed) -> array`` that returns elements of a matrix.
Values: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any], int], Array]

#: Largest K at which sums of ``wide_numbers`` are exact in the type of C.
WIDEST_K = 1024

# CUDA's 16-bit types.
_HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def small_numbers(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Return random integers whose sums of products are exact in every type."""
    most = 1 if dtype.itemsize < 4 else 3
    low, rng = 0 if dtype.kind in "ub" else -most, np.random.default_rng(seed)
    values = rng.integers(low, most + 1, shape)
    return (values + 1j * rng.integers(low, most + 1, shape) if dtype.kind == "c" else values).astype(dtype)


def unset(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of values that no result contains: NaN, or a number that no sum reaches."""
    is_float = dtype.kind in "fc" or dtype == np.dtype(ml_dtypes.bfloat16)
    return np.full(shape, np.nan if is_float else 0x5B, dtype)


def random_numbers(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Return random numbers, with which different mistakes have different results."""
    rng = np.random.default_rng(seed)
    if dtype.kind in "iub":
        return rng.integers(0 if dtype.kind in "ub" else -9, 2 if dtype.kind == "b" else 10, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def wide_numbers(types: Sequence[np.dtype[Any]]) -> Values | None:
    """Return a function for elements whose sums are exact in the type of C, but in no narrower type.

    Floats are positive multiples of 1/4 below 4, which are exact in every type of factors, even if a kernel converts
    them to float16 or TF32; those of float64 products have 20 bits. Bytes have the whole range of their type, and
    other integers have a part of it whose sums do not overflow.

    Args:
        types: Types of A, B and C.

    Returns:
        The function; None if C is of a type that sums may be rounded to.
    """
    a, b, c = types
    if c in _HALVES or "b" in (a.kind, b.kind):
        return None
    if c.kind in "iu" and (c.itemsize < 4 or not {a.kind, b.kind} <= set("iu")):
        return None
    double = all(each in (np.dtype(np.float64), np.dtype(np.complex128)) for each in types)

    def values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
        rng = np.random.default_rng(seed)
        if dtype.kind in "iu" and c.kind in "iu":
            most = {1: 128, 2: 1400, 4: 1400, 8: 1 << 20}[min(dtype.itemsize, c.itemsize)]
            low, high = (0, most) if dtype.itemsize > 1 else (-most, most) if dtype.kind == "i" else (0, 2 * most)
            return rng.integers(low, high, shape).astype(dtype)
        if dtype.kind in "iu":
            return rng.integers(1, 16, shape).astype(dtype)
        most, unit = (1 << 20, 1 / 1024) if double else (16, 0.25)
        numbers = rng.integers(1, most, shape) * unit
        return (numbers + 1j * rng.integers(1, most, shape) * unit if dtype.kind == "c" else numbers).astype(dtype)

    return values
