"""Resolution of a call of ``matmul`` or ``gemm``: from arrays and keywords to the product that kernels compute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from tiledmm.elements import TF32, Element, with_float_epilogue
from tiledmm.problem.arrays import Array, describe, describe_call
from tiledmm.problem.epilogue import EpilogueCall
from tiledmm.problem.keywords import UfuncKeywords
from tiledmm.problem.prepared import PreparedOperand
from tiledmm.problem.product import Product, resolve


@dataclass(frozen=True, slots=True)
class Call:
    """Products to which a call of ``matmul`` or ``gemm`` was resolved.

    Attributes:
        product: The product of the arrays as they were passed. Its ``convert`` and ``via_temporary`` name the
            conversions that no kernel does.
        multiplied: The product that remains after these conversions.
    """

    product: Product
    multiplied: Product


def resolve_call(x1: Any, x2: Any, out: Any, ufunc: UfuncKeywords, epilogue: EpilogueCall | None = None) -> Call:
    """Return the products to which a call of ``matmul`` or ``gemm`` resolves. No data is read.

    Args:
        x1, x2: Operands: arrays of any library with ``shape``, ``strides`` and ``dtype``, an ``Array``, or a
            ``PreparedOperand``.
        out: The array for the result; None for a new one.
        ufunc: Keywords of the ufunc.
        epilogue: The keywords of ``gemm`` with their epilogue; None for ``matmul``.

    Raises:
        TiledmmError: As for ``tiledmm.matmul``, if arrays or keywords do not fit.
    """
    keywords: dict[str, Any] = ufunc._asdict()
    if epilogue is not None:
        arrays = [describe(each) for each in epilogue.arrays]
        keywords |= {"epilogue": epilogue.epilogue, "arrays": arrays, "adjoint": epilogue.adjoint}
    a, b, c, same_memory = describe_call(x1, x2, out)
    prepared = isinstance(x1, PreparedOperand), isinstance(x2, PreparedOperand)
    product = multiplied = resolve(a, b, c, same_memory=same_memory, prepared=prepared, **keywords)
    left, right = product.convert
    if product.converts:
        a = a if left is None else a.as_type(left)
        b = b if right is None else b.as_type(right)
        if c is not None and product.via_temporary:
            c = Array.allocated(c.shape, product.compute.result.dtype)
        prepared = prepared[0] and left is None, prepared[1] and right is None  # the others are converted each time
        multiplied = resolve(a, b, c, prepared=prepared, **keywords)
    if epilogue is not None and epilogue.epilogue is not None:
        multiplied = _with_epilogue(multiplied, epilogue)
    return Call(product, multiplied)


def precision_of(compute: Element) -> Literal["full", "tf32"]:
    """Return the value of ``precision=`` that selects a computation type: ``"tf32"`` for tf32, else ``"full"``."""
    return "tf32" if compute == TF32 else "full"


def dtype_of(compute: Element) -> str | None:
    """Return the value of ``dtype=`` that selects a computation type, given operands of its own type.

    It is None unless the type has wide results.
    """
    return compute.result_name or None


def _with_epilogue(product: Product, epilogue: EpilogueCall) -> Product:
    """Return a product with the changes that kernels with an epilogue need.

    The computation type is chosen for the epilogue. K is 0 if alpha is 0, so that A and B are not read.
    """
    if product.compute.result_name and product.compute.result.itemsize > 4:  # 32-bit sums do until they are scaled
        product = product.computed_in(product.compute.result)
    if product.compute.dtype.kind == "f":
        sums = with_float_epilogue(product.a, product.b, product.compute, product.problem.k)
        product = product.computed_in(sums)
    if epilogue.without_product:
        product = replace(product, problem=replace(product.problem, k=0))
    return product
