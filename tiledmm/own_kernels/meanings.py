"""Results that a kernel's name suggests: products of a matrix and a vector, transposes, sums of rows or columns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tiledmm.own_kernels.matrix_values import Array

# Function ``(matrix, others) -> result`` of arrays in float64.
_Function: TypeAlias = Callable[[Array, Sequence[Array]], Array]

# Patterns of names, each with the number of arrays that the kernel reads, what it computes, and words for it.
_MEANINGS: tuple[tuple[str, int, _Function, str], ...] = (
    (
        r"gemv|mat_?(?:rix_?)?vec|mv(?:_|\b)",
        2,
        lambda a, others: a @ others[0][: a.shape[1]],
        "the product of a matrix and a vector",
    ),
    (r"transpos", 1, lambda a, others: a.T, "a transpose"),
    (r"sum|reduc", 1, lambda a, others: a.sum(1), "the sum of each row"),
    (r"sum|reduc", 1, lambda a, others: a.sum(0), "the sum of each column"),
)


def meaning_of(name: str, before: Sequence[Any], after: Sequence[Any]) -> str:
    """Return what a kernel has computed from a matrix of two sizes, if it is what its name suggests; else "".

    Another result is not a finding, because the kernel may be for another layout.

    Args:
        name: The kernel's name.
        before, after: Its arguments before and after a launch.
    """
    arrays = [at for at, each in enumerate(before) if isinstance(each, np.ndarray) and each.dtype.kind in "fiu"]
    sizes = [each for each in before if isinstance(each, int)]
    written = [at for at in arrays if not np.array_equal(before[at], after[at])]
    if len(written) != 1 or len(sizes) != 2:
        return ""
    result = after[written[0]].astype(np.float64)
    inputs = [before[at].astype(np.float64) for at in arrays if at != written[0]]
    for pattern, count, function, said in _MEANINGS:
        if not re.search(pattern, name, re.IGNORECASE) or len(inputs) != count:
            continue
        for (rows, columns), (flat, *others) in itertools.product((sizes, sizes[::-1]), itertools.permutations(inputs)):
            for matrix in _matrices(flat, rows, columns):
                expected = function(matrix, others).reshape(-1)
                if np.array_equal(result[: expected.size], expected):
                    return said
    return ""


def _matrices(flat: Array, rows: int, columns: int) -> list[Array]:
    """Return the matrices that an array may be: with contiguous rows, and with contiguous columns."""
    if flat.size < rows * columns:
        return []
    whole = flat[: rows * columns]
    return [whole.reshape(rows, columns), whole.reshape(columns, rows).T]
