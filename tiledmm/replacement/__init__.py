"""CuPy's matrix products by this package's kernels, in code that knows nothing of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from tiledmm.codegen.rendering import specialize
from tiledmm.problem.operands import Array, resolve
from tiledmm.replacement.names import Replacement, begin, end
from tiledmm.replacement.products import Products
from tiledmm.selection.select import AUTO, kernel_of, may_decompose, select

__all__ = ["Products", "replacing"]


@contextlib.contextmanager
def replacing(
    *,
    variant: str = AUTO,
    tile: int | None = None,
    config: Mapping[str, int] | None = None,
    precision: str = "float32",
) -> Iterator[Products]:
    """CuPy's matrix products by a kernel of your choice, as long as a ``with`` block runs.

    Replaced are, in all threads, ``cupy.matmul``, ``@``, ``cupy.dot`` and ``ndarray.dot``, and with them what calls
    them by these names: ``numpy.matmul``, ``cupy.einsum``, ``cupy.linalg.matrix_power``. A product that the kernel
    cannot take is CuPy's, which then raises what it raises without the block; those that it computes are counted, and
    why. ``cupy.inner``, ``cupy.tensordot`` and ``cupy.vdot`` are CuPy's, and are counted too. Neither replaced nor
    counted is what CuPy's compiled code does, ``cupy.linalg.solve`` for one, and what was imported by name before the
    block (``from cupy import matmul``).

    Blocks may be nested: the one that was entered last takes the products, and counts them.

    Args:
        variant, tile, config, precision: As for ``matmul``.

    Yields:
        What became of the products, to be printed in the block or after it.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If there is no such kernel.
        MissingDependencyError: If there is no CuPy.

    Example:
        >>> with tiledmm.replacing(variant="tiled", tile=16) as products:
        ...     c = a @ b
        >>> print(products)
    """
    replacement = replacement_by(variant=variant, tile=tile, config=config, precision=precision)
    begin(replacement)
    try:
        yield replacement.products
    finally:
        end(replacement)


def replacement_by(*, variant: str, tile: int | None, config: Mapping[str, int] | None, precision: str) -> Replacement:
    """A replacement by a kernel, not yet in force.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If there is no such kernel. Tried on the smallest of
            products, so that a mistake is not met again and again, as a reason to leave products to CuPy.
    """
    may_decompose(precision)
    kernel: dict[str, Any] = {"variant": variant, "tile": tile, "config": config, "precision": precision}
    dtype = specialize("naive" if variant in (AUTO, "cublas") else variant).compute.stored.dtype
    one = Array((1, 1), (dtype.itemsize,) * 2, dtype)
    select(**kernel_of(resolve(one, one), **kernel))
    return Replacement(**kernel)
