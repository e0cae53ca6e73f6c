"""float32 products by Triton, whose ``tl.dot`` uses tf32 or bfloat16 limbs. Needs Triton and PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import triton

from tiledmm.bench.peers.torch_ import tensor
from tiledmm.bench.peers.triton_ import multiply

#: Triton's schemes for float32 products.
SCHEMES = ("tf32x3", "bf16x6")


def calls(a: Any, b: Any, c: Any) -> dict[str, Callable[[int], Any]]:
    """Return functions that compute ``c = a @ b`` of CuPy arrays, one for each scheme of this Triton, by name."""
    tensors = [tensor(array) for array in (a, b, c)]

    def call(i: int, scheme: str) -> Any:
        multiply(*tensors, scheme)
        return c

    usable = {}
    for scheme in SCHEMES:
        try:
            call(0, scheme)
        except Exception as error:  # whatever a version says of a scheme that it does not know
            print(f"Triton {triton.__version__} has no {scheme}: {str(error).splitlines()[0]}")
            continue
        usable[f"Triton {scheme}"] = functools.partial(call, scheme=scheme)
    return usable
