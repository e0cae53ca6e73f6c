"""Products by a Triton kernel: one tile of C per program, one ``tl.dot`` per step along K. It also needs PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from tiledmm.bench.peers.torch_ import tensor
from tiledmm.bench.timing import TimedCall
from tiledmm.elements import TF32, Element

# Step along K in elements, by bytes per element.
_STEPS = {2: 64, 4: 32}


@triton.jit
def product(
    a, b, c, m, n, k, a_row, a_col, b_row, b_col, c_row,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SCHEME: tl.constexpr,
):  # fmt: skip
    """Compute C = A @ B, one tile of C per program. The rows of C must be contiguous."""
    number, down, across = tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = number // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    rows = (first + number % (GROUP * across) % height) * BM + tl.arange(0, BM)
    cols = number % (GROUP * across) // height * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    in_a = a + (rows % m)[:, None] * a_row + steps[None, :] * a_col
    in_b = b + steps[:, None] * b_row + (cols % n)[None, :] * b_col
    sums = tl.zeros((BM, BN), tl.float32)
    for done in range(0, k, BK):
        left = steps < k - done
        x = tl.load(in_a, mask=left[None, :], other=0.0)
        y = tl.load(in_b, mask=left[:, None], other=0.0)
        sums = tl.dot(x, y, sums, input_precision=SCHEME)
        in_a += BK * a_col
        in_b += BK * b_row
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(c + rows[:, None] * c_row + cols[None, :], sums.to(c.dtype.element_ty), mask=inside)


def multiply(x: Any, y: Any, z: Any, scheme: str) -> None:
    """Compute ``z = x @ y`` for tensors of 16-bit floats or float32, with Triton's input precision ``scheme``."""
    (m, k), n = x.shape, y.shape[1]
    product[(triton.cdiv(m, 128) * triton.cdiv(n, 128),)](
        x, y, z, m, n, k, *x.stride(), *y.stride(), z.stride(0),
        BM=128, BN=128, BK=_STEPS[x.element_size()], GROUP=8, SCHEME=scheme, num_warps=8, num_stages=3,
    )  # fmt: skip


def matmuls(sets: Sequence[Any], kind: Element) -> dict[str, TimedCall]:
    """Return the function with which Triton multiplies, by its name.

    Its argument is the number of the call: successive calls use the sets of operands in turn. The dict is empty unless
    the operands are floats of 16 or 32 bits.
    """
    if (kind.dtype.kind != "f" and kind.dtype_name != "bfloat16") or kind.itemsize not in _STEPS:
        return {}
    tensors = [tuple(map(tensor, each)) for each in sets]
    scheme = "tf32" if kind == TF32 else "ieee"

    def call(i: int) -> None:
        x, y, z = tensors[i % len(tensors)]
        multiply(x, y, z, scheme)

    return {"Triton tl.dot": call}
