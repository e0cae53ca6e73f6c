"""Tests of the rule by which products in tf32 are computed from one float16 limb: they are as accurate as in tf32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.support.data import KINDS, TOO_WIDE, operands
from tests.one_limb_in_numpy import LOST, counts, is_decomposed, product, scaled
from tests.strategies import multiplied

Rows = np.ndarray[Any, Any]

#: Largest error of a product of rounded operands relative to |A| |B|: they have 11 bits, and few elements have fewer.
BOUND = 2.0**-10 + 2.0**-15 + 2.0**-22


def worst(found: Rows, a: Rows, b: Rows) -> float:
    """Return the largest error of an element relative to |A| |B|."""
    wide, sizes = a.astype("f8"), abs(a).astype("f8") @ abs(b).astype("f8")
    return float((abs(found - wide @ b.astype("f8")) / np.where(sizes == 0, 1, sizes)).max())


def in_tf32(a: Rows, b: Rows) -> Rows:
    return multiplied(a, "tf32").astype("f8") @ multiplied(np.ascontiguousarray(b), "tf32").astype("f8")


def both(draw: Callable[[tuple[int, int]], Rows], k: int, m: int = 40, n: int = 50) -> tuple[Rows, Rows]:
    return draw((m, k)).astype("f4"), np.ascontiguousarray(draw((n, k)).T.astype("f4"))


@pytest.mark.parametrize("k", [256, 2048])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_data(kind: str, k: int) -> None:
    a, b = operands(kind, "float32", np, np.random.RandomState(21), 60, 70, k)
    assert is_decomposed(a, b) == (kind not in TOO_WIDE)
    if kind not in TOO_WIDE:
        assert worst(product(a, b), a, b) <= 1.01 * worst(in_tf32(a, b), a, b)


def _with_outliers(x: Rows) -> Rows:
    x[:, :3] *= 1000
    return x


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, shape: rng.standard_normal(shape),
        lambda rng, shape: rng.random(shape),
        lambda rng, shape: np.exp(rng.standard_normal(shape)),
        lambda rng, shape: rng.standard_t(3, shape),
        lambda rng, shape: np.maximum(rng.standard_normal(shape), 0),
        lambda rng, shape: _with_outliers(rng.standard_normal(shape)),
    ],
    ids=["normal", "uniform", "lognormal", "t", "relu", "outliers"],
)
def test_long_rows_of_ordinary_data_pass(draw: Callable[..., Rows], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = both(lambda shape: draw(rng, shape), 16384)
    assert is_decomposed(a, b)


def test_a_few_elements_far_below_the_maximum_pass_and_many_do_not() -> None:
    rng = np.random.default_rng(1)
    for share, passes in ((0.001, True), (0.02, False)):
        a, b = both(lambda shape: rng.standard_normal(shape), 4096)
        a[rng.random(a.shape) < share] *= np.float32(2.0**-40)
        assert counts(a)[1].any()
        assert is_decomposed(a, b) == passes


@pytest.mark.parametrize("others", [0.0, 2.0**-30])
def test_rows_of_extreme_spread_do_not_pass(others: float) -> None:
    # Half of each row of A lies far below its maximum, and meets the large half of each column of B.
    rng = np.random.default_rng(2)
    a, b = both(lambda shape: rng.standard_normal(shape), 1024)
    assert is_decomposed(a, b)
    a[:, ::2] *= np.float32(2.0**-36)
    b[1::2] *= np.float32(others)
    assert worst(product(a, b), a, b) > 10 * worst(in_tf32(a, b), a, b), "it would lose more than tf32"
    assert not is_decomposed(a, b)


def test_sparse_rows_pass_unless_an_element_is_far_below_the_maximum() -> None:
    rng = np.random.default_rng(3)
    a, b = both(lambda shape: rng.standard_normal(shape) * (rng.random(shape) < 0.02), 512)
    assert is_decomposed(a, b)
    a[5, np.flatnonzero(a[5])[0]] = np.float32(2.0**-35)
    assert not is_decomposed(a, b)


@pytest.mark.parametrize("seed", range(200))
def test_elements_that_lose_more_bits_than_in_tf32_are_negligible(seed: int) -> None:
    """Mix terms of two small factors with terms of a large and a tiny one, in all proportions. Others have few bits."""
    rng = np.random.default_rng(seed)
    k, largest = int(rng.integers(40, 400)), 2.0**15 - 2.0**5
    near, tiny = np.ldexp(1.0, rng.integers(-2, 4)), np.ldexp(0.999, -rng.integers(15, 30))
    share = np.exp2(-rng.uniform(0, 9))
    lost = rng.choice(3, k, p=(1 - share, share / 2, share / 2))  # in neither operand, in A, in B
    a, b = (np.where(lost == 0, near, np.where(lost == own, tiny, largest)) * np.ones((3, 1)) for own in (1, 2))
    a[:, 0], b[:, 0], a[:, 1], b[:, 1] = largest, 0, 0, largest  # maxima that meet zeros
    left, right = a.astype("f4"), np.ascontiguousarray(b.T.astype("f4"))
    if is_decomposed(left, right):
        assert worst(product(left, right), left, right) <= 2.0**-15


def test_what_passes_is_as_accurate_as_tf32_where_it_loses_most() -> None:
    """Give as many terms as the rule allows a lost factor and a large one, and let the others be as small as it can."""
    k = 2048
    a, b = np.ones((1, k), "f4"), np.ones((k, 1), "f4")
    lost = (k - k // 8 - 2) // (2 * (1 + LOST))
    a[0, 0] = b[1, 0] = 2.0**14 * 1.999  # the maxima, and others near them
    a[0, 2 : 2 + lost] = np.float32(2.0**-25 * 0.999)  # which rounds to zero, and loses all of it
    b[2 : 2 + lost, 0] = 2.0**14 * 1.999
    a[0, -lost:], b[-lost:, 0] = b[2 : 2 + lost, 0], a[0, 2 : 2 + lost]
    assert abs(scaled(a)).max() < 2.0**15
    assert is_decomposed(a, b)
    assert 0 < worst(product(a, b), a, b) <= 2.0**-10 + 2.0**-15
    a[0, 2 + lost : 4 + lost] = a[0, 2]
    assert not is_decomposed(a, b), "one more of each"
