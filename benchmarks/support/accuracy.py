"""Errors of products relative to float64, and the bounds that ``auto`` promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: How many times the larger of cuBLAS's and a chain's error ``auto``'s may be: Frobenius norm, largest componentwise.
PROMISE = (1.05, 1.25)


def errors(result: Any, exact: Any, sizes: Any) -> tuple[float, float]:
    """Return ||C - R|| / ||R|| in the Frobenius norm, and the largest |C - R| / (|A||B|) of any element."""
    import cupy

    apart = result - exact
    norm = float(cupy.linalg.norm(exact.ravel())) or 1.0
    return float(cupy.linalg.norm(apart.ravel())) / norm, float((abs(apart) / cupy.where(sizes == 0, 1, sizes)).max())


def accuracy(
    a: Any, b: Any, others: Mapping[str, Callable[[], Any]] | None = None, **keywords: Any
) -> dict[str, list[float]]:
    """Measure the errors of several products of the same operands; of a batch, use the first 64 products.

    Args:
        a, b: Operands.
        others: Functions that return other products, by name.
        **keywords: Arguments of ``tiledmm.matmul``, whose errors are named ``"auto"``.

    Returns:
        Pairs as from ``errors``, by name: ``"auto"``, ``"cublas"``, ``"chain"`` (sequential FMAs) and others.
    """
    import cupy

    import tiledmm

    a, b = (x[:64] if x.ndim == 3 else x for x in (a, b))
    wide = [x.astype(cupy.promote_types(x.dtype, cupy.float64)) for x in (a, b)]
    exact = cupy.matmul(*wide)
    sizes = cupy.matmul(abs(wide[0]), abs(wide[1]))
    del wide
    return {
        "auto": [*errors(tiledmm.matmul(a, b, **keywords), exact, sizes)],
        "cublas": [*errors(cupy.matmul(a, b), exact, sizes)],
        "chain": [*errors(tiledmm.matmul(a, b, variant="coalesced"), exact, sizes)],
        **{name: [*errors(product(), exact, sizes)] for name, product in (others or {}).items()},
    }


def keeps_promise(row: dict[str, Any], product: str = "auto") -> bool:
    """Return whether a product's errors are within the bounds promised for ``auto``.

    Args:
        row: ``"errors"`` of products by name, from ``accuracy``, and ``"bounds"``: the names of the two products whose
            larger error is the bound, if these are not cuBLAS's and the chain.
        product: Name of the product.
    """
    errors = row["errors"]
    one, other = row.get("bounds", ("cublas", "chain"))
    bounds = [max(pair) for pair in zip(errors[one], errors[other], strict=True)]
    return all(ours <= factor * bound for ours, factor, bound in zip(errors[product], PROMISE, bounds, strict=True))
