"""NumPy version of the scheme ``fp16x1``: operands rounded to one float16 limb, and the operand scan's decision."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Scaled, a row's maximum lies between 2^14 and 2^15, elements near it are at least 1, and normal float16 numbers this.
LEAST_NORMAL = 2.0**-14

#: Elements near the maximum that outweigh one that loses more bits than in tf32 (``LOST`` in cuda_src/decompose.cu.j2).
LOST = 32

Rows = np.ndarray[Any, Any]


def scales(rows: Rows) -> Rows:
    """Return the exponent of two by which each row is scaled."""
    largest = abs(rows).max(axis=1)
    return np.where(largest > 0, 15 - np.frexp(largest)[1], 0)


def scaled(rows: Rows) -> Rows:
    """Return scaled rows in float64."""
    return np.ldexp(rows.astype("f8"), scales(rows)[:, None])


def limbs(rows: Rows) -> Rows:
    """Return the values of the limbs of finite rows in float64, without their scales."""
    return np.ldexp(scaled(rows).astype("f2").astype("f8"), -scales(rows)[:, None])


def counts(rows: Rows) -> tuple[Rows, Rows]:
    """Return, for each row, the number of elements near its maximum, and of those that lose more bits than in tf32.

    Subnormal float32 numbers do not count as near it.
    """
    x = abs(scaled(rows))
    near = ((x >= 1) & (abs(rows) >= np.float32(2.0**-126))).sum(axis=1)
    near = np.where(x.any(axis=1), near, x.shape[1])
    return near, ((x > 0) & (x < LEAST_NORMAL)).sum(axis=1)


def is_decomposed(a: Rows, b: Rows) -> bool:
    """Return whether finite operands whose sums cannot overflow are multiplied as limbs."""
    k = a.shape[1]
    (near, lost), (near_b, lost_b) = counts(a), counts(b.T)
    least = (near - LOST * lost).min() + (near_b - LOST * lost_b).min()
    return bool(least >= k + k // 8 or not (lost.any() or lost_b.any()))


def product(a: Rows, b: Rows) -> Rows:
    """Return the exact product of limbs."""
    return limbs(a) @ limbs(b.T).T
