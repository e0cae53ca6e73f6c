"""From a product and its kernel to a launch.

A plan does everything once that does not depend on where the data lies.
"""

from __future__ import annotations

from typing import Any

import cupy
from cupy.linalg import _product

from tiledmm.codegen import Specialization
from tiledmm.compilation import raw_kernel
from tiledmm.errors import AlignmentError, OperandTypeError
from tiledmm.geometry import grid, pack
from tiledmm.operands import Product

#: CuPy's own product, also where the name ``cupy.matmul`` has been given to ours.
cupy_matmul = _product.matmul

#: Device that launches go to.
current_device = cupy.cuda.runtime.getDevice

# RawKernel takes a size-1 NumPy array as a struct by value, and wraps it so at every launch (1.6 us on a 7 us launch).
# A wrapper made once serves as well; it is not a documented name, so a CuPy without it gets the array.
_PreparedArgument = getattr(cupy.cuda.function, "CNumpyArray", lambda array: array)


class Plan:
    """One product on one device, ready to be launched on any arrays that are described alike."""

    __slots__ = ("alignment", "block", "function", "grid", "product", "sizes")

    def __init__(self, product: Product, specialization: Specialization) -> None:
        self.product = product
        self.grid = grid(specialization, product.problem)
        self.block = specialization.block
        words = pack(specialization, product.problem)
        self.sizes = _PreparedArgument(words.view(f"V{words.nbytes}"))
        self.function: Any = None if product.problem.is_empty else raw_kernel(specialization).kernel
        self.alignment = max(product.a.itemsize, product.b.itemsize, product.c.itemsize) - 1

    def run(self, x1: Any, x2: Any, out: Any) -> Any:
        """Computes the product.

        Args:
            x1, x2: The operands.
            out: Where the result goes, or None for a new array.

        Returns:
            ``out``, or the new array.
        """
        product = self.product
        if out is None:
            result = cupy.ndarray(product.shape, product.result_type, order=product.order)
        elif self.function is not None and self._overlaps(x1, x2, out):
            result = self._apart(out)
        else:
            result = out
        if self.function is None:
            return result
        if (x1.data.ptr | x2.data.ptr | result.data.ptr) & self.alignment:
            self._check_alignment(x1, x2, result)
        if product.problem.outer:
            self._run_outer(x1, x2, result)
        elif product.swapped:
            self.function(self.grid, self.block, (x2, x1, result, self.sizes))
        else:
            self.function(self.grid, self.block, (x1, x2, result, self.sizes))
        if out is not None and result is not out:
            out[...] = result
            return out
        return result

    def _overlaps(self, x1: Any, x2: Any, out: Any) -> bool:
        """Whether ``out`` may share memory with an operand, judged by the stretch of memory that each spans."""
        spans = self.product.spans
        start, stop = (out.data.ptr + edge for edge in (spans[2].start, spans[2].stop))
        return any(
            x.data.ptr + span.start < stop and start < x.data.ptr + span.stop
            for x, span in zip((x1, x2), spans, strict=False)
        )

    def _apart(self, out: Any) -> Any:
        """An array like ``out``, strides and all, in memory of its own."""
        span = self.product.spans[2]
        memory = cupy.cuda.alloc(span.stop - span.start) - span.start
        return cupy.ndarray(out.shape, out.dtype, memory, strides=out.strides)

    def _run_outer(self, x1: Any, x2: Any, result: Any) -> None:
        product = self.product
        left, right = (x2, x1) if product.swapped else (x1, x2)
        for a, b, c in product.problem.outer_offsets():
            pointers = (
                left.data + a * product.a.itemsize,
                right.data + b * product.b.itemsize,
                result.data + c * product.c.itemsize,
            )
            self.function(self.grid, self.block, (*pointers, self.sizes))

    def _check_alignment(self, x1: Any, x2: Any, result: Any) -> None:
        for name, x in (("x1", x1), ("x2", x2), ("out", result)):
            if x.data.ptr % x.dtype.itemsize:
                raise AlignmentError(
                    f"{name} begins at an address that is not a multiple of its {x.dtype.itemsize}-byte elements; "
                    "a GPU cannot read it in place: copy it first (x.copy())"
                )


def check_array(x: Any, name: str) -> None:
    """Raises OperandTypeError unless ``x`` is a CuPy array on the current device."""
    if isinstance(x, cupy.ndarray):
        device = current_device()
        if x.data.device_id != device and x.size:
            raise OperandTypeError(
                f"{name} is on device {x.data.device_id} and the current device is {device}; "
                f"use 'with cupy.cuda.Device({x.data.device_id}):', or copy it"
            )
        return
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    advice = "cupy.asarray(x) copies it to the GPU, and tiledmm.simulator.matmul takes NumPy arrays on the CPU"
    raise OperandTypeError(f"{name} must be a cupy.ndarray, not {kind}; {advice}")
