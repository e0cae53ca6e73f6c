"""float32 products by XLA, which uses tf32 or bfloat16 limbs. Needs JAX with CUDA."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from tiledmm.bench.peers.jax_ import multiply

#: XLA's schemes for float32 products: our name, and JAX's.
SCHEMES = {
    "tf32x3": "TF32_TF32_F32_X3",
    "bf16x6": "BF16_BF16_F32_X6",
    "bf16x9": "BF16_BF16_F32_X9",
}


def calls(a: Any, b: Any, c: Any) -> dict[str, Callable[[int], Any]]:
    """Return functions that compute ``a @ b`` of CuPy arrays, one for each scheme of this JAX on this device, by name.

    JAX cannot write into ``c``.
    """

    def call(i: int, scheme: str) -> Any:
        return multiply(a, b, scheme)

    usable = {}
    for name, scheme in SCHEMES.items():
        try:
            call(0, scheme)
        except Exception as error:  # whatever a version says of a scheme that it does not know
            print(f"JAX {jax.__version__} has no {name}: {str(error).splitlines()[0]}")
            continue
        usable[f"XLA {name}"] = functools.partial(call, scheme=scheme)
    return usable
