"""float32 products by XLA, which splits them into tf32 or bfloat16 pieces. Needs JAX with CUDA."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

# JAX takes three quarters of the device's memory otherwise, as soon as it is asked for anything.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import cupy
import jax

#: How XLA may take a product of float32 numbers: what we call it, and what JAX calls it.
SCHEMES = {
    "tf32x3": "TF32_TF32_F32_X3",
    "bf16x3": "BF16_BF16_F32_X3",
    "bf16x6": "BF16_BF16_F32_X6",
    "bf16x9": "BF16_BF16_F32_X9",
}


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def product(x: Any, y: Any, turned_x: bool, turned_y: bool, scheme: str) -> Any:
    """``x @ y`` of matrices, or of transposes, that lie by rows."""
    return jax.lax.dot(x.T if turned_x else x, y.T if turned_y else y, precision=scheme)


def calls(a: Any, b: Any, c: Any) -> dict[str, Callable[[int], Any]]:
    """What returns ``a @ b`` of CuPy arrays, by name; without the schemes that this JAX does not have for this device.

    JAX cannot write into ``c``.
    """
    turned = [not x.flags.c_contiguous for x in (a, b)]
    operands = [x.T if turn else x for x, turn in zip((a, b), turned, strict=True)]  # by rows, or JAX would copy them

    def call(scheme: str) -> Callable[[int], Any]:
        def multiply(i: int) -> Any:
            # Handed over each time: JAX's stream then waits for the current one, and that for JAX's.
            x, y = (jax.dlpack.from_dlpack(each, copy=False) for each in operands)
            return cupy.from_dlpack(product(x, y, *turned, scheme))

        return multiply

    usable = {}
    for name, scheme in SCHEMES.items():
        try:
            call(scheme)(0)
        except Exception as error:  # whatever a version says of a scheme that it does not know
            print(f"JAX {jax.__version__} has no {name}: {str(error).splitlines()[0]}")
            continue
        usable[f"XLA {name}"] = call(scheme)
    return usable
