"""Products that CuPy itself computes, for ``variant="cublas"``. CuPy's elementwise kernels compute an epilogue."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cupy

from tiledmm.launch.devices import as_cupys, cupy_matmul, ndarray
from tiledmm.problem.arrays import Allocate
from tiledmm.problem.casting import loop_type
from tiledmm.problem.epilogue import EpilogueCall, EpilogueKeywords
from tiledmm.problem.keywords import UfuncKeywords


class Baseline:
    """Plan of a call with ``variant="cublas"``, which CuPy itself computes, including the epilogue."""

    def __init__(self, ufunc: UfuncKeywords) -> None:
        self.ufunc, self.keywords = ufunc, ufunc.given()

    def run(
        self, x1: Any, x2: Any, out: Any, epilogue: EpilogueCall | None = None, allocate: Allocate | None = None
    ) -> Any:
        """Compute the product with CuPy. The arguments are those of ``Plan.run``; ``allocate`` is not used."""
        x1, x2, out = map(as_cupys, (x1, x2, out))
        if epilogue is None:
            return cupy_matmul(x1, x2, out=out, **self.keywords)
        keywords = EpilogueKeywords(*map(as_cupys, epilogue.keywords))
        return cupy_gemm(x1, x2, replace(epilogue, keywords=keywords), out, self.ufunc)


def cupy_gemm(a: Any, b: Any, epilogue: EpilogueCall, out: Any, ufunc: UfuncKeywords) -> Any:
    """Compute ``gemm`` with ``cupy.matmul`` and CuPy's elementwise kernels.

    Each of these kernels rounds its result to the type that CuPy chooses.

    Args:
        a, b: The operands, CuPy arrays.
        epilogue: The keywords of ``gemm``, with CuPy arrays.
        out: The array for the result; None for a new one.
        ufunc: The keywords of ``matmul``, of which only ``dtype`` and ``casting`` are used.

    Returns:
        ``out``, or a new array.
    """
    c, alpha, beta, bias, activation, *_ = epilogue.keywords
    a, b = (_adjoint(x) if is_adjoint else x for x, is_adjoint in zip((a, b), epilogue.adjoint, strict=True))
    dtype = loop_type(a.dtype, b.dtype, ufunc.dtype)
    x = cupy_matmul(a.astype(dtype, copy=False), b.astype(dtype, copy=False))
    if epilogue.without_product:
        x = cupy.zeros_like(x)
    elif isinstance(alpha, ndarray) or alpha != 1:
        x = x * alpha
    if c is not None and (isinstance(beta, ndarray) or beta != 0):
        x = x + beta * c
    x = x if bias is None else x + bias
    x = ACTIVATIONS[activation](x) if activation else x
    if out is None:
        return x.astype(dtype, copy=False)
    cupy.copyto(out, x, casting=ufunc.casting)
    return out


def _adjoint(x: Any) -> Any:
    """Return an array conjugated, with its last two axes exchanged; a vector is only conjugated."""
    return x.conj() if x.ndim < 2 else x.conj().swapaxes(-1, -2)


def _gelu(x: Any) -> Any:
    from cupyx.scipy.special import erf

    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


#: Activations as functions of CuPy arrays, by name.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: cupy.maximum(x, 0),
    "gelu": _gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + cupy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + cupy.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + cupy.exp(-x)),
    "tanh": lambda x: cupy.tanh(x),
}
