"""Guesses about types: sums or factors that are held in a type that is too narrow.

Sums depend on the order in which they are made. It is taken to be that of K, in which plain kernels make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tiledmm.simulated.explanation.wrong_product import Array, WrongProduct

# What rounding in the narrow type explains must be explained this much better than by the right product.
_BETTER = 20

# Fraction of the wrong elements that are so close. Where sums are rounded twice, a few are off by a unit.
_SHARE = 0.98

# Elements of a sum that are added one by one.
_MOST_WORK = 1 << 26


def precision_guess(wrong: WrongProduct) -> tuple[str, str] | None:
    """Return the pattern of a type that is too narrow, and a clause; None if no such type gives the result.

    Roundings are small, so that the variants are compared with the result more closely than others.
    """
    if wrong.alpha != 1 or wrong.beta != 0 or wrong.sums.dtype.kind == "c" or wrong.sums.size * wrong.k > _MOST_WORK:
        return None
    if not (wrong.is_integer or np.isfinite(wrong.c[wrong.compared].astype(np.float64)).all()):
        return None
    for said, variant in _variants(wrong):
        if _is_much_closer(wrong, variant()):
            return "narrow type", said
    return None


def _is_much_closer(wrong: WrongProduct, values: Array) -> bool:
    """Return whether values are equal to the result, up to what is left of the error of the right product."""
    if wrong.is_integer:
        return bool((wrong.c.astype(np.int64) == values)[wrong.compared].all())
    got, right = wrong.c.astype(np.float64), wrong.expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        left, error = np.abs(got - values), np.abs(got - right)
    told = wrong.compared & wrong.wrong
    typical = np.median(error[told])
    close = left[told] <= typical / _BETTER
    return bool(close.mean() >= _SHARE and (left[wrong.compared] <= 2 * typical).all())


def _variants(wrong: WrongProduct) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Yield clauses, each with a function that computes the result so."""
    if wrong.is_integer:
        for narrow in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32):
            if np.dtype(narrow).itemsize < wrong.c.dtype.itemsize:
                name = np.dtype(narrow).name
                wrapped = partial(lambda sums, narrow: sums.astype(narrow).astype(np.int64), wrong.sums, narrow)
                yield f"sums are held in {name}, and overflow", wrapped
        return
    a, b = wrong.a.astype(np.float64), wrong.b.astype(np.float64)
    yield "sums are truncated to integers", lambda: _summed(a, b, np.trunc, lambda x: x)
    yield "products are truncated to integers before they are added", lambda: np.trunc(a[:, :, None] * b).sum(axis=1)
    yield "the result is truncated to integers", lambda: np.trunc(wrong.sums)
    yield "A and B are truncated to integers", lambda: np.trunc(a) @ np.trunc(b)
    for name, rounded in _NARROW.items():
        if wrong.c.dtype.itemsize <= _BYTES[name]:
            continue
        yield f"sums are held in {name}", partial(_summed, a, b, rounded, lambda x: x)
        yield f"sums and products are held in {name}", partial(_summed, a, b, rounded, rounded)
        yield f"A and B are rounded to {name}", partial(lambda f: f(a) @ f(b), rounded)
        yield f"the result is rounded to {name}", partial(lambda f: f(wrong.sums), rounded)


def _summed(a: Array, b: Array, sums: Callable[[Array], Array], terms: Callable[[Array], Array]) -> Array:
    """Return sums that are rounded after each step along K.

    Args:
        a, b: Factors in float64.
        sums: Function that rounds a sum.
        terms: Function that rounds a product.
    """
    total = np.zeros((a.shape[0], b.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(a.shape[1]):
            total = sums(total + terms(np.multiply.outer(a[:, k], b[k])))
    return total


def _as(kind: Any) -> Callable[[Array], Array]:
    def rounded(values: Array) -> Array:
        with np.errstate(over="ignore"):
            return values.astype(kind).astype(np.float64)

    return rounded


def _mantissa(bits: int) -> Callable[[Array], Array]:
    """Return a function that rounds float64 numbers to the given number of bits after the leading one, ties to even."""

    def rounded(values: Array) -> Array:
        low = 52 - bits
        raw = values.view(np.uint64)
        odd = raw >> np.uint64(low) & np.uint64(1)
        kept = raw + np.uint64((1 << low - 1) - 1) + odd & ~np.uint64((1 << low) - 1)
        return np.where(np.isfinite(values), kept.view(np.float64), values)

    return rounded


# Smallest numbers of bytes of a result in which the types are not the result's own.
_BYTES = {"float32": 4, "float16": 1, "bfloat16": 2, "tf32": 2}

_NARROW: dict[str, Callable[[Array], Array]] = {
    "float32": _as(np.float32),
    "float16": lambda values: _as(np.float16)(_as(np.float32)(values)),
    "bfloat16": _mantissa(7),
    "tf32": _mantissa(10),
}
