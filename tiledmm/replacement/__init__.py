"""CuPy's matrix products by this package's kernels, in existing code.

In: a kernel by its keywords, and a program, a cell or a block of code. Out: the account of its products, ``Products``.
May import ``api`` and everything below.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from tiledmm.elements import ELEMENTS
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.problem.arrays import Array
from tiledmm.problem.keywords import KernelKeywords, Precision, UfuncKeywords
from tiledmm.replacement.names import Replacement, begin, end
from tiledmm.replacement.products import Products
from tiledmm.selection.front_end import choose, resolve_call
from tiledmm.selection.model import H100
from tiledmm.selection.select import AUTO, is_ieee

__all__ = ["Products", "replacing"]


def replacing(
    *,
    variant: str = AUTO,
    tile: int | None = None,
    config: Mapping[str, int] | None = None,
    precision: Precision = "full",
) -> contextlib.AbstractContextManager[Products]:
    """Computes CuPy's matrix products by a kernel of your choice, in a ``with`` block.

    It replaces ``cupy.matmul``, ``@``, ``cupy.dot`` and ``ndarray.dot`` in all threads, and so all that calls them by
    these names: ``numpy.matmul``, ``cupy.einsum``, ``cupy.linalg.matrix_power``; and the products of chunks of
    ``cupyx.distributed.array.matmul``. CuPy computes a product that the kernel cannot, and raises the errors that it
    raises without the block; these products are counted with the reason.
    ``cupy.inner``, ``cupy.tensordot`` and ``cupy.vdot`` stay CuPy's, and are counted too. Products in CuPy's compiled
    code, such as those of ``cupy.linalg.solve``, and functions imported by name before the block
    (``from cupy import matmul``) are neither replaced nor counted.

    Blocks may be nested: the innermost one computes the products, and counts them.

    Args:
        variant, tile, config, precision: As for ``matmul``.

    Returns:
        What a ``with`` statement takes. In the block it is the account of the products, to be printed then or later.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If there is no such kernel.
        MissingDependencyError: If there is no CuPy.

    Example:
        >>> with tiledmm.replacing(variant="tiled", tile=16) as products:
        ...     c = a @ b
        >>> print(products)
    """
    replacement_by(variant=variant, tile=tile, config=config, precision=precision)  # a mistake is an error here
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
    """A replacement by a kernel, not yet in force.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If there is no such kernel. It is tried on a product of
            size 1, so that a mistake is one error, and not a reason to leave every product to CuPy.
    """
    is_ieee(precision)
    kernel = KernelKeywords(variant, tile, config, precision)
    row = None if variant == AUTO else find_variant(variant)
    dtype = "float32" if row is None or row.is_baseline else kernel_spec(row).compute.stored.dtype_name
    one = Array.allocated((1, 1), ELEMENTS[dtype].dtype)
    choose(resolve_call(one, one, None, UfuncKeywords(), precision), kernel, lambda ieee: H100, tuned=False)
    return Replacement(kernel)
