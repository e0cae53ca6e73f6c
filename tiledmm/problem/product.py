"""Resolution of two arrays and a ufunc's keywords to a product: its shapes, types and strides.

The functions here work on descriptions of arrays and read no data. So they serve CuPy arrays, NumPy arrays and tests
alike, and their results can be kept: two calls whose arrays have equal descriptions are the same product. An operand's
first element is always that of its array, so that a launch needs only a product and three pointers.

The rules are NumPy's for the generalized ufunc ``matmul``, ``(n?,k),(k,m?)->(n?,m?)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.elements import Element, compute_element_of, element
from tiledmm.errors import ShapeError
from tiledmm.problem.arrays import Array
from tiledmm.problem.axes import (
    SIGNATURE,
    OperandAxes,
    axes_entries,
    broadcast,
    check_dimensions,
    memory_order,
    result_axes,
)
from tiledmm.problem.casting import check_cast, converts_in_kernel, loop_type
from tiledmm.problem.epilogue import Epilogue
from tiledmm.problem.keywords import UfuncKeywords
from tiledmm.problem.strides import Problem, Span, arrange


@dataclass(frozen=True, slots=True)
class Product:
    """Product to which a call of ``matmul`` or ``gemm`` was resolved.

    Attributes:
        problem: Sizes and strides in the form that kernels read.
        a, b, c: Element types in memory of the kernel's operands and of its result.
        compute: Computation type. Variants that do not support it compute in ``compute.result``.
        is_transposed: True if the kernel computes C^T = B^T A^T, because C's columns are contiguous. Its first operand
            is then ``x2``.
        convert: Types that ``x1`` and ``x2`` must be converted to before this product is resolved again; None for an
            array that needs no conversion.
        shape: Shape of the result.
        order: Memory order of a result that is not allocated yet, ``"C"`` or ``"F"``.
        result_type: Type of the result: that of ``out`` if it was given.
        via_temporary: True if no kernel converts to the type of ``out``, so that the product needs a temporary result.
        spans: Ranges of bytes that ``x1``, ``x2``, ``out`` and the epilogue's arrays occupy, relative to their first
            elements.
        symmetric: True if C is symmetric, or Hermitian, because B is the transpose of A in the same memory.
        epilogue: Operations on each sum before it is stored; None for ``matmul``.
        prepared: Whether A, and B, are prepared operands.
        conjugates: Whether the elements of A, and those of B, are conjugated before they are multiplied; False for
            operands that are not complex.
    """

    problem: Problem
    a: Element
    b: Element
    c: Element
    compute: Element
    is_transposed: bool
    convert: tuple[Any, Any]
    shape: tuple[int, ...]
    order: str
    result_type: np.dtype[Any]
    via_temporary: bool
    spans: tuple[Span, ...]
    symmetric: bool = False
    epilogue: Epilogue | None = None
    prepared: tuple[bool, bool] = (False, False)
    conjugates: tuple[bool, bool] = (False, False)

    @property
    def hermitian(self) -> bool:
        """True if C is Hermitian: the elements of one operand are the conjugates of the other's, transposed."""
        return self.symmetric and self.conjugates[0] != self.conjugates[1]

    @property
    def converts(self) -> bool:
        """True if arrays must be converted before or after the product."""
        return self.via_temporary or any(each is not None for each in self.convert)

    def each_time(self, *, shared: bool = False) -> tuple[int, ...]:
        """Return the operands that each product must pack or decompose, 0 for A and 1 for B: those not prepared.

        Args:
            shared: Whether one copy is of both operands, of which one must be prepared.
        """
        found = tuple(i for i, prepared in enumerate(self.prepared) if not prepared or self.problem.outer)
        return found if not shared else (0,) if len(found) == 2 else ()

    def computed_in(self, compute: Element) -> Product:
        """Return this product with ``compute`` as its computation type."""
        return self if compute == self.compute else replace(self, compute=compute)

    def transposed(self) -> Product:
        """Return this product in the form C^T = B^T A^T, which has the same elements in memory."""
        return replace(
            self, problem=self.problem.transposed(), a=self.b, b=self.a, is_transposed=not self.is_transposed,
            prepared=self.prepared[::-1], conjugates=self.conjugates[::-1],
        )  # fmt: skip

    def part(self, rows: range, cols: range, products: Sequence[range] = ()) -> Product:
        """Return the part of this product that computes a range of rows and columns of C.

        Args:
            rows, cols: Rows and columns of C as the kernel computes it.
            products: Range along each of the first batch dimensions; all products along the others.
        """
        part = self.problem.part(rows, cols, products)
        return replace(self, problem=part, symmetric=self.symmetric and rows == cols)


def resolve(
    x1: Array,
    x2: Array,
    out: Array | None = None,
    *,
    same_memory: bool = False,
    epilogue: Epilogue | None = None,
    arrays: Sequence[Array] = (),
    prepared: tuple[bool, bool] = (False, False),
    adjoint: tuple[bool, bool] = (False, False),
    **keywords: Any,
) -> Product:
    """Return the product of a call of ``matmul`` or ``gemm``.

    Args:
        x1, x2, out: Descriptions of the arrays; None for a new ``out``.
        same_memory: Whether the first elements of x1 and x2 have the same address.
        epilogue: Operations on each sum before it is stored; None for ``matmul``.
        arrays: Descriptions of the arrays that the epilogue reads; they broadcast to the result.
        prepared: Whether x1, and x2, are prepared operands.
        adjoint: Whether x1, and x2, are conjugated and transposed before they are multiplied.
        **keywords: The fields of ``UfuncKeywords``.

    Raises:
        ShapeError: If an operand is 0-d, core dimensions differ, batches do not broadcast, or ``out`` has another
            shape.
        AxisError: If an entry of ``axes`` is out of bounds or has the wrong length.
        KeywordError: If ``axis`` or ``keepdims`` is given, which this signature does not support, or ``axes`` is
            malformed.
        UnsupportedTypeError: If a type is not supported, or ``casting`` forbids a conversion.
        AlignmentError: If strides are not multiples of the element size.
    """
    ufunc = UfuncKeywords(**keywords)
    x1, x2 = (x.transposed() if is_adjoint else x for x, is_adjoint in zip((x1, x2), adjoint, strict=True))
    entries, casting, order = axes_entries(ufunc), ufunc.casting, ufunc.order
    compute_type = loop_type(x1.dtype, x2.dtype, ufunc.dtype, ufunc.signature)
    for i, x in enumerate((x1, x2)):
        check_cast(x.dtype, compute_type, casting, f"operand {i}")

    left = OperandAxes(x1, entries[0], 0)
    right = OperandAxes(x2, entries[1], 1)
    (m, k) = left.core_shape if left.matrix else (1, left.core_shape[0])
    (k2, n) = right.core_shape if right.matrix else (right.core_shape[0], 1)
    if k != k2:
        raise ShapeError(
            f"operands do not fit: {x1.shape} @ {x2.shape} has {k} columns on the left and {k2} rows on the right "
            f"(signature {SIGNATURE})"
        )

    core = ((m,) if left.matrix else ()) + ((n,) if right.matrix else ())
    loop = broadcast(left.loop_shape, right.loop_shape)
    result_type = compute_type if out is None else out.dtype
    if out is None:
        shape, out_axes = result_axes(loop, core, entries[2])
        order = memory_order(order, x1, x2)
        via_temporary = False
        target, entry = OperandAxes(Array.allocated(shape, result_type, order), out_axes, 2, len(core)), out_axes
    else:
        check_cast(compute_type, out.dtype, casting, "the result", to="out")
        check_dimensions(out.shape, loop, core, entries[2])
        target, entry = OperandAxes(out, entries[2], 2, len(core)), entries[2]
        if target.core_shape != core:
            raise ShapeError(f"out has shape {out.shape}, which does not hold a product of shape {loop + core}")
        if broadcast(loop, target.loop_shape) != target.loop_shape:
            raise ShapeError(f"out has shape {out.shape}, too small for a product of shape {loop + core}")
        shape, loop, order = out.shape, target.loop_shape, "C"
        via_temporary = not converts_in_kernel(compute_type, out.dtype)
        out.check_writable()

    convert = tuple(None if converts_in_kernel(x.dtype, compute_type) else compute_type for x in (x1, x2))
    a, b, c = (element(x) for x in (x1.dtype, x2.dtype, compute_type if via_temporary else result_type))
    conjugates = adjoint[0] and a.components > 1, adjoint[1] and b.components > 1
    if via_temporary or any(each is not None for each in convert):  # not `!=`, because dtype("float64") == None
        # The kernel will get converted arrays, not these: only the checks and shapes matter here.
        problem, transposed = _NO_PROBLEM, False
    else:
        strides = (left.strides(loop), right.strides(loop), target.strides(loop))
        read = [OperandAxes(each.broadcast_to(shape), entry, 2, len(core)).strides(loop) for each in arrays]
        problem, transposed = arrange((m, n, k), loop, *strides, read)
    return Product(
        problem=problem,
        a=b if transposed else a,
        b=a if transposed else b,
        c=c,
        compute=compute_element_of(a, b, element(compute_type), k),
        is_transposed=transposed,
        convert=(convert[0], convert[1]),
        shape=shape,
        order=order,
        result_type=result_type,
        via_temporary=via_temporary,
        spans=(
            Span.of(x1.shape, x1.strides, a.itemsize),
            Span.of(x2.shape, x2.strides, b.itemsize),
            *(Span.of(each.shape, each.strides, each.dtype.itemsize) for each in (target.array, *arrays)),
        ),
        symmetric=same_memory and a == b and problem is not _NO_PROBLEM and problem.is_mirrored,
        epilogue=epilogue,
        prepared=prepared[::-1] if transposed else prepared,
        conjugates=conjugates[::-1] if transposed else conjugates,
    )


_NO_PROBLEM = Problem(0, 0, 0, (), (), "NN", ())
