"""Synthetic and real data on which errors are measured.

Real data is the language reference included with Python and, if matplotlib is installed, two pictures included with
that. Matrices of any size can be made from it; rows repeat only by chance.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import re
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

Pair = tuple[Any, Any]
Kind = Callable[[Any, Any, int, int, int], Pair]

#: Folder of matplotlib's example pictures. matplotlib itself is not imported, since that may warn.
MATPLOTLIB = importlib.util.find_spec("matplotlib")
SAMPLES = Path(MATPLOTLIB.origin if MATPLOTLIB and MATPLOTLIB.origin else "").parent / "mpl-data" / "sample_data"

#: Words of a document.
WORDS = 300


def _of(draw: Callable[[Any, Any, tuple[int, int]], Any]) -> Kind:
    """Make a kind whose operands are both drawn by the same function."""
    return lambda xp, rng, m, n, k: (
        draw(xp, rng, (m, k)).astype(xp.float32),
        draw(xp, rng, (k, n)).astype(xp.float32),
    )


def _spread(xp: Any, rng: Any, shape: tuple[int, int], exponents: float) -> Any:
    values = rng.standard_normal(shape) * xp.exp2(rng.uniform(-exponents, exponents, shape))
    return values.astype(xp.float32)


def _cancelling(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    # The second half of each sum is the first, negated, up to a thousandth.
    half = (k + 1) // 2
    a, b = rng.standard_normal((m, half)), rng.standard_normal((half, n))
    left = xp.concatenate([a, -a * (1 + 1e-3 * rng.standard_normal((m, half)))], axis=1)[:, :k]
    return left.astype(xp.float32), xp.concatenate([b, b])[:k].astype(xp.float32)


def _graded(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    falls = xp.exp2(-40.0 * xp.arange(k) / k)
    return (a * falls).astype(xp.float32), (b * falls[:, None]).astype(xp.float32)


def _ill_scaled(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a = rng.standard_normal((m, k)) * xp.exp2(rng.uniform(-30, 30, (m, 1)))
    return a.astype(xp.float32), (rng.standard_normal((k, n)) * xp.exp2(rng.uniform(-30, 30, (1, n)))).astype(
        xp.float32
    )


def _counts(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    # How often words occur: most never, a few very often.
    a, b = (xp.floor(1 / (1e-6 + rng.random_sample(shape))) // 8 for shape in ((m, k), (k, n)))
    return a.astype(xp.float32), b.astype(xp.float32)


def _half_zero(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a = xp.maximum(rng.standard_normal((m, k)), 0)
    return a.astype(xp.float32), rng.standard_normal((k, n)).astype(xp.float32)


def _short_far_apart(xp: Any, rng: Any, shape: tuple[int, int]) -> Any:
    # Positive numbers of 11 bits: they show most what tensor cores lose by truncating short sums.
    return xp.floor(rng.uniform(1024, 2048, shape)) * xp.exp2(xp.floor(rng.uniform(-11, 1, shape)))


def _one_a_row(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    a = xp.zeros((m, k), xp.float32)
    a[xp.arange(m), rng.randint(0, k, m)] = 1
    return a, rng.standard_normal((k, n)).astype(xp.float32)


@functools.cache
def _terms() -> np.ndarray[Any, Any]:
    """Return the frequency ranks (0 first) of the word and of the word pair at each place in the language reference."""
    text = "\n".join(topics[each] for each in sorted(topics)).lower()
    known, words = np.unique(re.findall("[a-z]+", text), return_inverse=True)
    pairs = len(known) * (1 + words[:-1]) + words[1:]
    _, terms, counts = np.unique(np.concatenate([words[:-1], pairs]), return_inverse=True, return_counts=True)
    ranks = np.empty_like(counts)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return ranks[terms].reshape(2, -1)


def _documents(xp: Any, rng: Any, count: int, k: int) -> Any:
    """Count the ``k`` most common terms in random stretches of text; the shape is (count, k)."""
    terms = xp.asarray(_terms())
    begins = rng.randint(0, terms.shape[1] - WORDS + 1, count)
    found = terms[:, begins[:, None] + xp.arange(WORDS)]
    places = xp.arange(count)[:, None] * k + found
    return xp.bincount(places[found < k], minlength=count * k).reshape(count, k)


def _counts_of_terms(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    return _rows_and_columns(xp, *(_documents(xp, rng, count, k) for count in (m, n)))


def _tf_idf(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    # What few documents have counts for more, and all are as long as each other: their products are cosines.
    counts = [_documents(xp, rng, count, k) for count in (m, n)]
    rarity = 1 + xp.log((1 + m) / (1 + (counts[0] > 0).sum(axis=0)))
    weighed = [each * rarity for each in counts]
    lengths = [xp.sqrt((each**2).sum(axis=1, keepdims=True)) for each in weighed]
    return _rows_and_columns(xp, *(x / (length + (length == 0)) for x, length in zip(weighed, lengths, strict=True)))


def _tf_idf_by_weights(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    return _tf_idf(xp, rng, m, 1, k)[0], rng.standard_normal((k, n)).astype(xp.float32)


@functools.cache
def _photograph() -> np.ndarray[Any, Any]:
    """Read the red channel of a portrait, from 0 to 1; the shape is (600, 512)."""
    from PIL import Image  # which matplotlib needs, too

    with Image.open(SAMPLES / "grace_hopper.jpg") as image:
        return np.asarray(image)[..., 0] / 255


@functools.cache
def _terrain() -> np.ndarray[Any, Any]:
    """Read a map of heights in whole metres; the shape is (344, 403)."""
    with np.load(SAMPLES / "jacksboro_fault_dem.npz") as file:
        return file["elevation"]


def _patches(xp: Any, rng: Any, picture: np.ndarray[Any, Any], count: int, k: int) -> Any:
    """Read the first ``k`` elements of random squares of a picture; the shape is (count, k)."""
    side = math.isqrt(k - 1) + 1
    height, width = picture.shape
    corners = rng.randint(0, height - side + 1, count) * width + rng.randint(0, width - side + 1, count)
    steps = xp.arange(k)
    return xp.asarray(picture).ravel()[corners[:, None] + steps // side * width + steps % side]


def _photograph_by_filters(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    # A convolution by filters that look for parts of the picture, and sum up to zero.
    patches, filters = (_patches(xp, rng, _photograph(), count, k) for count in (m, n))
    return _rows_and_columns(xp, patches, filters - filters.mean(axis=1, keepdims=True))


def _terrain_by_terrain(xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    return _rows_and_columns(xp, *(_patches(xp, rng, _terrain(), count, k) for count in (m, n)))


def _rows_and_columns(xp: Any, left: Any, right: Any) -> Pair:
    """Convert rows of A and columns of B, both given as rows, to float32 operands."""
    return left.astype(xp.float32), xp.ascontiguousarray(right.T.astype(xp.float32))


MADE_UP: dict[str, Kind] = {
    "normal": _of(lambda xp, rng, shape: rng.standard_normal(shape)),
    "uniform from 0 to 1": _of(lambda xp, rng, shape: rng.random_sample(shape)),
    "half of A zero": _half_zero,
    "exponents from -12 to 12": _of(lambda xp, rng, shape: _spread(xp, rng, shape, 12)),
    "exponents from -60 to 60": _of(lambda xp, rng, shape: _spread(xp, rng, shape, 60)),
    "rows and columns scaled": _ill_scaled,
    "graded": _graded,
    "cancelling": _cancelling,
    "integers to 64": _of(lambda xp, rng, shape: rng.randint(-64, 65, shape)),
    "short, far apart": _of(_short_far_apart),
    "integers to 4095": _of(lambda xp, rng, shape: rng.randint(-4095, 4096, shape)),
    "counts of words": _counts,
    "one 1 a row": _one_a_row,
}
TEXT: dict[str, Kind] = {
    "text, counts of terms": _counts_of_terms,
    "text, tf-idf": _tf_idf,
    "text, tf-idf by weights": _tf_idf_by_weights,
}
PICTURES: dict[str, Kind] = {
    "photograph by filters": _photograph_by_filters,
    "terrain by terrain": _terrain_by_terrain,
}
#: Kinds without data in this environment.
LEFT_OUT = () if SAMPLES.is_dir() else tuple(PICTURES)

REAL = {kind: draw for kind, draw in {**TEXT, **PICTURES}.items() if kind not in LEFT_OUT}

#: Operands by kind: ``(xp, rng, m, n, k)``, where ``xp`` is CuPy or NumPy and ``rng`` its ``RandomState``.
KINDS = {**MADE_UP, **REAL}

#: Kinds that tensor cores multiply; CUDA cores multiply the others, which limbs do not hold.
DECOMPOSED = {
    "normal",
    "uniform from 0 to 1",
    "half of A zero",
    "rows and columns scaled",
    "cancelling",
    "integers to 64",
    "short, far apart",
    "text, counts of terms",
    "terrain by terrain",
}
#: Kinds of one limb each whose rows differ: only their long sums go to tensor cores.
ONE_LIMB, LONG = {"integers to 64", "short, far apart", "text, counts of terms", "terrain by terrain"}, 1024
#: Kinds that one limb of float16 does not hold as tf32 does: many elements lie far below the maximum of their row.
TOO_WIDE = {"exponents from -12 to 12", "exponents from -60 to 60", "graded"}
#: Kinds that go either way, by the density and the spread of one row.
EITHER = {"text, tf-idf by weights", "photograph by filters"}


def operands(kind: str, dtype: str, xp: Any, rng: Any, m: int, n: int, k: int) -> Pair:
    """Return operands of a kind; imaginary parts of complex ones are the real parts shifted along K."""
    a, b = KINDS[kind](xp, rng, m, n, k)
    if dtype == "float32":
        return a, b
    left, right = xp.empty((m, k), dtype), xp.empty((k, n), dtype)
    left.real, left.imag = a, xp.roll(a, 1, axis=1)
    right.real, right.imag = b, xp.roll(b, 2, axis=0)
    return left, right
