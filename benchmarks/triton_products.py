"""float32 products by Triton, whose ``tl.dot`` splits them into tf32 or bfloat16 pieces. Needs Triton and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

#: How Triton may take a product of float32 numbers.
SCHEMES = ("tf32x3", "bf16x6")

#: Step along K, which K is to be a multiple of.
STEP = 32


@triton.jit
def product(
    a, b, c, m, n, k, a_row, a_col, b_row, b_col, c_row,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SCHEME: tl.constexpr,
):  # fmt: skip
    """A tile of C a program; K a multiple of BK, C's rows contiguous."""
    number, down, across = tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = number // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    rows = (first + number % (GROUP * across) % height) * BM + tl.arange(0, BM)
    cols = number % (GROUP * across) // height * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    in_a = a + (rows % m)[:, None] * a_row + steps[None, :] * a_col
    in_b = b + steps[:, None] * b_row + (cols % n)[None, :] * b_col
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        sums = tl.dot(tl.load(in_a), tl.load(in_b), sums, input_precision=SCHEME)
        in_a += BK * a_col
        in_b += BK * b_row
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(c + rows[:, None] * c_row + cols[None, :], sums, mask=inside)


def calls(a: Any, b: Any, c: Any) -> dict[str, Callable[[int], Any]]:
    """What computes ``c = a @ b`` of CuPy arrays and returns it, by name; without what this Triton does not have."""
    x, y, z = (torch.from_dlpack(array) for array in (a, b, c))
    (m, k), n = x.shape, y.shape[1]
    if k % STEP:
        return {}

    def call(scheme: str) -> Callable[[int], Any]:
        grid = (triton.cdiv(m, 128) * triton.cdiv(n, 128),)

        def multiply(i: int) -> Any:
            product[grid](
                x, y, z, m, n, k, *x.stride(), *y.stride(), z.stride(0),
                BM=128, BN=128, BK=STEP, GROUP=8, SCHEME=scheme, num_warps=8, num_stages=3,
            )  # fmt: skip
            return c

        return multiply

    usable = {}
    for scheme in SCHEMES:
        try:
            call(scheme)(0)
        except Exception as error:  # whatever a version says of a scheme that it does not know
            print(f"Triton {triton.__version__} has no {scheme}: {str(error).splitlines()[0]}")
            continue
        usable[f"Triton {scheme}"] = call(scheme)
    return usable
