"""Products by ``jax.lax.dot``, for which XLA calls cuBLAS or generates a kernel."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

# Without this JAX allocates three quarters of the device's memory at its first use.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import cupy
import jax

from tiledmm.bench.timing import TimedCall
from tiledmm.elements import TF32, Element

# Types that JAX supports without its 64-bit mode, which could only be set for the whole process.
_TYPES = ("float16", "float32", "tf32", "complex64")


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def product(x: Any, y: Any, transposed_x: bool, transposed_y: bool, precision: str) -> Any:
    """Return ``x @ y`` for matrices with contiguous rows, each transposed first if its flag is set."""
    return jax.lax.dot(x.T if transposed_x else x, y.T if transposed_y else y, precision=precision)


def multiply(a: Any, b: Any, precision: str) -> Any:
    """Return the product of two CuPy arrays with contiguous rows or columns, computed by JAX, as a new CuPy array.

    Each call passes the arrays by DLPack, so that JAX's stream waits for the current stream, and vice versa.
    """
    transposed = [not x.flags.c_contiguous for x in (a, b)]
    # JAX would copy arrays with contiguous columns, so it gets their transposes.
    by_rows = (x.T if transpose else x for x, transpose in zip((a, b), transposed, strict=True))
    x, y = (jax.dlpack.from_dlpack(each, copy=False) for each in by_rows)
    return cupy.from_dlpack(product(x, y, *transposed, precision))


def matmuls(sets: Sequence[Any], kind: Element) -> dict[str, TimedCall]:
    """Return the function with which JAX multiplies, by its name.

    Its argument is the number of the call: successive calls use the sets of operands in turn. The dict is empty if JAX
    does not support the type, or if operands have neither contiguous rows nor columns.
    """
    contiguous = all(x.flags.c_contiguous or x.flags.f_contiguous for x in sets[0][:2])
    if kind.dtype_name not in _TYPES or not contiguous:
        return {}
    precision = "tensorfloat32" if kind == TF32 else "highest"

    def call(i: int) -> Any:
        a, b, _ = sets[i % len(sets)]
        return multiply(a, b, precision)

    return {"jax.lax.dot": call}
