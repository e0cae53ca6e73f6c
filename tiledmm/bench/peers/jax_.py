"""``jax.lax.dot``: what XLA makes of a product, cuBLAS or a kernel of its own."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

# JAX takes three quarters of the device's memory otherwise, as soon as it is asked for anything.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import cupy
import jax

from tiledmm.bench.timing import TimedCall
from tiledmm.elements import TF32, Element

# Without its 64-bit mode, which is for a whole process, JAX has these.
_TYPES = ("float16", "float32", "tf32", "complex64")


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def product(x: Any, y: Any, transposed_x: bool, transposed_y: bool, precision: str) -> Any:
    """``x @ y`` of matrices with contiguous rows, or of their transposes."""
    return jax.lax.dot(x.T if transposed_x else x, y.T if transposed_y else y, precision=precision)


def multiply(a: Any, b: Any, precision: str) -> Any:
    """``a @ b`` of CuPy arrays that are contiguous, by rows or by columns, as a new one.

    Each call hands them over, so that JAX's stream waits for the current one, and the current one for JAX's.
    """
    transposed = [not x.flags.c_contiguous for x in (a, b)]
    by_rows = (
        x.T if transpose else x for x, transpose in zip((a, b), transposed, strict=True)
    )  # or JAX would copy them
    x, y = (jax.dlpack.from_dlpack(each, copy=False) for each in by_rows)
    return cupy.from_dlpack(product(x, y, *transposed, precision))


def calls(sets: Sequence[Any], kind: Element) -> dict[str, TimedCall]:
    """Floats of 32 bits and less, of contiguous operands."""
    contiguous = all(x.flags.c_contiguous or x.flags.f_contiguous for x in sets[0][:2])
    if kind.dtype_name not in _TYPES or not contiguous:
        return {}
    precision = "tensorfloat32" if kind == TF32 else "highest"

    def call(i: int) -> Any:
        a, b, _ = sets[i % len(sets)]
        return multiply(a, b, precision)

    return {"jax.lax.dot": call}
