"""Replacement of CuPy's matrix products by this package's kernels, in existing code.

In: the keywords of a kernel, and a program, a cell or a block of code. Out: ``Products``, the record of the products.
May import ``api`` and everything below.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping

from tiledmm.elements import ELEMENTS
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.problem.arrays import Array
from tiledmm.problem.call import resolve_call
from tiledmm.problem.keywords import AUTO, KernelKeywords, Precision, UfuncKeywords, is_ieee
from tiledmm.replacement.names import Replacement, begin, end
from tiledmm.replacement.products import Products
from tiledmm.selection.choose import choose
from tiledmm.selection.model import H100

__all__ = ["Products", "replacing"]


def replacing(
    *,
    variant: str = AUTO,
    tile: int | None = None,
    config: Mapping[str, int] | None = None,
    precision: Precision = "full",
) -> contextlib.AbstractContextManager[Products]:
    """Compute CuPy's matrix products with a kernel of your choice within a ``with`` block.

    It replaces ``cupy.matmul``, ``@``, ``cupy.dot`` and ``ndarray.dot`` in all threads, and thereby the products of
    everything that calls them by these names: ``numpy.matmul``, ``cupy.einsum``, ``cupy.linalg.matrix_power``, and the
    products of chunks in ``cupyx.distributed.array.matmul``. CuPy computes a product that the kernel cannot compute,
    and raises the same errors as without the block; these products are counted with the reason. CuPy also computes
    ``cupy.inner``, ``cupy.tensordot`` and ``cupy.vdot``, which are counted, too. Products in CuPy's compiled code, such
    as those of ``cupy.linalg.solve``, and functions that were imported by name before the block (``from cupy import
    matmul``) are neither replaced nor counted.

    Blocks may be nested: the innermost one computes the products, and counts them.

    Args:
        variant, tile, config, precision: Keywords of the kernel, as for ``matmul``.

    Returns:
        A context manager. It yields the record of the products, which can be printed in the block or after it.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If there is no such kernel.
        MissingDependencyError: If CuPy is not installed.

    Example:
        >>> with tiledmm.replacing(variant="tiled", tile=16) as products:
        ...     c = a @ b
        >>> print(products)
    """
    replacement_by(variant=variant, tile=tile, config=config, precision=precision)  # reports mistakes before the block
    return _replaced(variant, tile, config, precision)


@contextlib.contextmanager
def _replaced(variant: str, tile: int | None, config: Mapping[str, int] | None, precision: str) -> Iterator[Products]:
    replacement = replacement_by(variant=variant, tile=tile, config=config, precision=precision)
    begin(replacement)
    try:
        yield replacement.products
    finally:
        end(replacement)


def replacement_by(*, variant: str, tile: int | None, config: Mapping[str, int] | None, precision: str) -> Replacement:
    """Return a ``Replacement`` of CuPy's products by a kernel. It has no effect before ``begin`` is called with it.

    Args:
        variant, tile, config, precision: Keywords of the kernel, as for ``tiledmm.matmul``.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If there is no such kernel. The kernel is chosen for a
            small product, so that a mistake raises an error at once and does not leave every product to CuPy.
    """
    is_ieee(precision)
    kernel = KernelKeywords(variant, tile, config, precision)
    row = None if variant == AUTO else find_variant(variant)
    dtype = "float32" if row is None or row.is_baseline else kernel_spec(row).compute.stored.dtype_name
    size = math.lcm(*row.plain.multiple_of) if row is not None and row.plain is not None else 1
    square = Array.allocated((size, size), ELEMENTS[dtype].dtype)
    choose(resolve_call(square, square, None, UfuncKeywords()), kernel, lambda ieee: H100, tuned=False)
    return Replacement(kernel)
