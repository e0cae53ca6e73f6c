"""The Ozaki scheme II in NumPy, step by step and with the same bits as the kernels of ``split_float64``.

Integers beyond 64 bits are Python's. ``product`` is the whole scheme; its intermediate results are those that the
kernels pass to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.kernels.operands.moduli import DEFAULT_MODULI, MODULI, modulus_product, norm_limit, weights

#: A count that no count of the other operand makes up for (``TOO_FEW`` in cuda_src/decompose_residues.cu.j2).
NEVER = -(1 << 30)


@dataclass(frozen=True)
class Decomposed:
    """Rows of float64 numbers as integers times powers of two.

    Attributes:
        integers: int64 of shape ``(rows, k)``; complex: ``(rows, 2 * k)``, alternating real and imaginary parts.
        scales: Exponent, per row, of the power of two by which it was multiplied.
        near: Number, per row, of elements that are at least an eighth of its root mean square.
        exact: Whether, per row, no element was rounded.
    """

    integers: np.ndarray
    scales: np.ndarray
    near: np.ndarray
    exact: np.ndarray


def decompose(elements: np.ndarray, moduli: int = DEFAULT_MODULI) -> Decomposed:
    """Scale each row by the largest power of two with which its norm stays below the limit, and round it."""
    k, parts = elements.shape[1], 2 if np.iscomplexobj(elements) else 1
    rows = np.ascontiguousarray(elements.astype(np.complex128 if parts == 2 else np.float64)).view(np.float64)
    finite = np.isfinite(rows).all(axis=1)
    known = np.where(finite[:, None], rows, 0.0)
    _, exponents = np.frexp(abs(known).max(axis=1, initial=0))
    units = np.ldexp(known, 2 - np.maximum(exponents, -1021)[:, None])
    sums = (units**2).sum(axis=1)
    some = sums > 0
    quotients = norm_limit(moduli) / np.where(some, sums, 1.0)
    halves = (np.frexp(quotients)[1] - 1) // 2
    scales = np.where(some, halves + 2 - np.maximum(exponents, -1021), 0)
    scaled = times_power(known, scales[:, None])
    integers = np.rint(scaled).astype(np.int64)
    thresholds = np.ldexp(sums, 2 * halves) / (64.0 * k)
    squares = (scaled.reshape(len(scaled), k, parts) ** 2).sum(axis=2)
    near = ((squares >= thresholds[:, None]) & (squares > 0)).sum(axis=1)
    near = np.where(~finite, NEVER, np.where(some, near, k))
    exact = ((integers == scaled) & ((scaled != 0) | (known == 0))).all(axis=1) & finite
    return Decomposed(integers, scales, near, exact)


def times_power(x: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Multiply numbers by powers of two in two steps, so that neither power overflows."""
    half = np.trunc(exponents / 2).astype(np.int64)
    return np.ldexp(np.ldexp(x, half), exponents - half)


def residues_of(integers: np.ndarray, moduli: int = DEFAULT_MODULI, parts: int = 1) -> np.ndarray:
    """Return ``(moduli, ...)`` bytes; for complex numbers also those of imaginary parts, and of sums of both parts."""
    if parts == 2:
        real, imaginary = integers[..., ::2], integers[..., 1::2]
        return np.concatenate([residues_of(each, moduli) for each in (real, imaginary, real + imaginary)])
    return np.stack([integers % modulus for modulus in MODULI[:moduli]]).astype(np.uint8)


def multiply(left: np.ndarray, right: np.ndarray, moduli: int = DEFAULT_MODULI) -> np.ndarray:
    """Return the residues of products of rows of ``(planes, m, k)`` and ``(planes, n, k)``; exact for K below 2^37."""
    wide = (np.matmul(a.astype(np.float64), b.astype(np.float64).T) for a, b in zip(left, right, strict=True))
    return np.stack([each % MODULI[plane % moduli] for plane, each in enumerate(wide)]).astype(np.uint8)


def in_kernels_order(residues: np.ndarray) -> np.ndarray:
    """Reorder residues as ``split_float64`` does: (pair, quad, element) of 64 columns become (quad, pair, element)."""
    return residues.reshape(*residues.shape[:-1], -1, 8, 4, 2).swapaxes(-3, -2).reshape(residues.shape)


def in_order(residues: np.ndarray) -> np.ndarray:
    """Undo ``in_kernels_order``."""
    return residues.reshape(*residues.shape[:-1], -1, 4, 8, 2).swapaxes(-3, -2).reshape(residues.shape)


def integers_of(residues: np.ndarray) -> np.ndarray:
    """Return the Python integers between -M / 2 and M / 2 that have these residues."""
    whole = modulus_product(len(residues))
    sums: Any = sum(r.astype(object) * weight for r, weight in zip(residues, weights(len(residues)), strict=True))
    found = sums % whole
    return np.where(found > whole // 2, found - whole, found)


def reconstruct(residues: np.ndarray, exponents: np.ndarray, parts: int = 1) -> np.ndarray:
    """Return the real or complex numbers with these residues, rounded to float64 once, times 2^exponents."""
    if parts == 2:
        real, imaginary, both = residues.reshape(3, -1, *residues.shape[1:]).astype(np.int64)
        moduli = np.array(MODULI[: len(real)]).reshape(-1, *[1] * (real.ndim - 1))
        differences = (real - imaginary) % moduli, (both - real - imaginary) % moduli
        numbers = [reconstruct(each, exponents) for each in differences]
        return np.stack(numbers, axis=-1).view(np.complex128)[..., 0]
    return times_power(integers_of(residues).astype(np.float64), exponents)


def product(a: np.ndarray, b: np.ndarray, moduli: int = DEFAULT_MODULI) -> np.ndarray:
    """Compute ``a @ b`` by residues."""
    left, right = decompose(a, moduli), decompose(np.ascontiguousarray(b.T), moduli)
    parts = 2 if np.iscomplexobj(a) else 1
    residues = multiply(*(residues_of(each.integers, moduli, parts) for each in (left, right)), moduli)
    return reconstruct(residues, -(left.scales[:, None] + right.scales[None, :]), parts)


def is_decomposed(a: np.ndarray, b: np.ndarray, moduli: int = DEFAULT_MODULI) -> bool:
    """Return whether the operand scan allows residues (``is_decomposed`` of cuda_src/matrices.cuh.j2)."""
    left, right = decompose(a, moduli), decompose(np.ascontiguousarray(b.T), moduli)
    k, large = a.shape[1], 0x7F7F7F7F
    least = sum(int(each.scales[(abs(x) > 0).any(axis=1)].min(initial=large)) for each, x in ((left, a), (right, b.T)))
    if least < 126 - 1023:
        return False
    near = int(left.near.min(initial=large)) + int(right.near.min(initial=large))
    return bool(near >= k + (k + 7) // 8 or (left.exact.all() and right.exact.all()))
