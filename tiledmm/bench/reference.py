"""Random operands, and reference results to judge products by, for NumPy and CuPy arrays."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tiledmm.elements import TF32, Element

#: Allowed error in standard deviations of accumulated rounding (see ``tolerance``).
SAFETY = 8

# Integers are multiplied in limbs of this many bits, whose float64 products are exact: sums of K products of 2 * 16
# bits are below 2^53 for K up to 2^21.
_LIMB_BITS = 16
_EXACT_STEPS = 2**20

# Number of elements of a random matrix per task of the thread pool.
_DRAWN_TOGETHER = 2**20

# Largest relative error of rounding to tf32.
_TF32_ROUNDING = 2.0**-11


@dataclass(frozen=True, slots=True)
class Reference:
    """Correct result of a product.

    Attributes:
        values: Result R, (M, N), in float64 or complex128; for integers and bool exact, in their own type.
        scale: Product of the absolute values |A| |B|, (M, N) in float64, the unit of errors; None for exact results.
        tolerance: Largest allowed |C - R|, in units of the scale; 0 for exact results.
    """

    values: Any
    scale: Any
    tolerance: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Error of a result, and whether it is within the tolerance.

    Attributes:
        ok: True if all elements are within the tolerance.
        error: Maximum of |C - R| / (|A| |B|) over the elements; for integers and bool the fraction of wrong elements.
            None if there is a NaN or an infinity.
    """

    ok: bool
    error: float | None


def random_matrix(rng: np.random.Generator, rows: int, cols: int, dtype: np.dtype[Any], k: int) -> np.ndarray[Any, Any]:
    """Return a random matrix in host memory.

    Floats are normally distributed. Integers are uniform over their whole range, so that products wrap. Bools are so
    rarely true that half of the elements of the product are true.

    Args:
        rng: Random number generator.
        rows, cols: Shape.
        dtype: Element type.
        k: Inner size of the product that the matrix is for.
    """
    height = max(1, _DRAWN_TOGETHER // max(1, cols))
    if rows <= height:
        return _random_rows(rng, rows, cols, dtype, k)
    found = np.empty((rows, cols), dtype)
    parts = [found[start : start + height] for start in range(0, rows, height)]

    def draw(part: np.ndarray[Any, Any], own: np.random.Generator) -> None:
        part[...] = _random_rows(own, len(part), cols, dtype, k)

    with ThreadPoolExecutor() as threads:
        list(threads.map(draw, parts, rng.spawn(len(parts))))
    return found


def _random_rows(rng: np.random.Generator, rows: int, cols: int, dtype: np.dtype[Any], k: int) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return rng.random((rows, cols)) < math.sqrt(math.log(2) / k)
    if dtype.kind in "iu":
        return np.frombuffer(bytearray(rng.bytes(rows * cols * dtype.itemsize)), dtype).reshape(rows, cols)
    if dtype.kind == "c":
        real = np.dtype(f"f{dtype.itemsize // 2}")
        return rng.standard_normal((rows, cols, 2), real.type).view(dtype)[..., 0]
    drawn = np.float64 if dtype.itemsize == 8 else np.float32
    return rng.standard_normal((rows, cols), drawn).astype(dtype, copy=False)


def reference(a: Any, b: Any, compute: Element | None = None) -> Reference:
    """Compute the product of two matrices in higher precision, and return it with the tolerance for results.

    Floats are multiplied in float64 by the library of the arrays, and integers exactly.

    Args:
        a, b: Operands (M, K) and (K, N) of the same type, NumPy or CuPy arrays.
        compute: Computation type, if it differs from the operands' type: tf32, or a type with wide results.
    """
    if compute is not None and compute.result_name:
        a, b = a.astype(compute.result.dtype), b.astype(compute.result.dtype)
    dtype, k = a.dtype, a.shape[1]
    if dtype.kind == "b":
        return Reference(_wide(a) @ _wide(b) > 0, None, 0.0)
    if dtype.kind in "iu":
        return Reference(_wrapped_product(a, b), None, 0.0)
    a, b = _wide(a), _wide(b)
    rounded = 2 * _TF32_ROUNDING if compute == TF32 else 0.0
    return Reference(a @ b, abs(a) @ abs(b), tolerance(dtype, k) + rounded)


def tolerance(dtype: np.dtype[Any], k: int) -> float:
    """Return the largest error that rounding explains, in units of |A| |B|; 0 for integers and bool.

    The error is |C - R|, where C is the result and R is the correct result. ``k`` is the inner size of the product.

    A sum of K products, each step rounded with unit roundoff u, has an error of at most K u in these units, and of a
    few sqrt(K) u if the errors are independent (Higham and Mary, "A new approach to probabilistic rounding error
    analysis", SIAM J. Sci. Comput. 41, 2019). Narrower types are summed in float32 and rounded once.

    For complex types the tolerance is doubled, because each of the two components sums twice as many terms. For float64
    and complex128 it is doubled because the reference has an error of the same size.
    """
    if dtype.kind in "biu":
        return 0.0
    double = dtype.name in ("float64", "complex128")
    unit = 2.0**-53 if double else 2.0**-24
    steps = SAFETY * math.sqrt(k) * unit * (2 if dtype.kind == "c" else 1) * (2 if double else 1)
    return steps + (_finfo(dtype).eps / 2 if dtype.itemsize < 4 else 0.0)


def judge(result: Any, expected: Reference) -> Verdict:
    """Compare a result with the correct result, and return its error and whether that is within the tolerance.

    A result with a NaN is never within the tolerance.
    """
    if expected.scale is None:
        wrong = int((result != expected.values).sum())
        return Verdict(wrong == 0, wrong / result.size)
    off = abs(_wide(result) - expected.values)
    real = np.dtype(f"f{result.dtype.itemsize // 2}") if result.dtype.kind == "c" else result.dtype
    allowed = expected.scale * expected.tolerance + _finfo(real).smallest_subnormal
    error = float((off / (expected.scale + (expected.scale == 0))).max())
    return Verdict(bool((off <= allowed).all()), error if math.isfinite(error) else None)


def poison(result: Any, expected: Reference) -> None:
    """Fill a contiguous array with wrong values, so that an element that a kernel does not write is found.

    The values are NaN, or for exact results the correct values with inverted bits.

    Args:
        result: Array that the kernel will write.
        expected: Correct result.
    """
    if expected.scale is None:
        result[...] = ~expected.values
    else:
        result.view(np.uint8)[...] = 0xFF  # these bits are NaN in every floating-point type


class _Limits(NamedTuple):
    eps: float
    smallest_subnormal: float


def _finfo(dtype: np.dtype[Any]) -> _Limits:
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return _Limits(float(info.eps), float(info.smallest_subnormal))


def _wide(x: Any) -> Any:
    """Convert an array to float64 or complex128."""
    if x.dtype.name == "bfloat16":
        # Converted by its bits, because CuPy's conversion includes a CUDA header that may not be installed.
        bits = x.view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _wrapped_product(a: Any, b: Any) -> Any:
    """Return the product of two integer matrices, which wraps to the width of their type as in NumPy.

    It is computed exactly, from products of 16-bit limbs in float64.
    """
    dtype = a.dtype
    bits = 8 * dtype.itemsize
    unsigned = np.dtype(f"u{dtype.itemsize}")
    limbs = -(-bits // _LIMB_BITS)
    a, b = (x.view(unsigned).astype(np.uint64) for x in (a, b))
    total: Any = 0
    for start in range(0, a.shape[1], _EXACT_STEPS):
        steps = slice(start, start + _EXACT_STEPS)
        for i in range(limbs):
            for j in range(limbs - i):
                partial = _limb(a[:, steps], i) @ _limb(b[steps], j)
                total = total + (partial.astype(np.uint64) << (_LIMB_BITS * (i + j)))
    return total.astype(unsigned).view(dtype)


def _limb(x: Any, i: int) -> Any:
    return ((x >> (_LIMB_BITS * i)) & (2**_LIMB_BITS - 1)).astype(np.float64)
