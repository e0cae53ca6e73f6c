"""Products by ``torch.mm``, for which PyTorch calls cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import torch

from tiledmm.bench.timing import TimedCall
from tiledmm.elements import TF32, Element


def tensor(array: Any) -> torch.Tensor:
    """Return a tensor that shares the memory of a CuPy array, which may be of type bfloat16."""
    if array.dtype.name == "bfloat16":
        return torch.from_dlpack(array.view("i2")).view(torch.bfloat16)
    return torch.from_dlpack(array)


def current_stream() -> torch.cuda.Stream:
    """Return CuPy's current stream as a stream of PyTorch."""
    pointer = cupy.cuda.get_current_stream().ptr
    return torch.cuda.ExternalStream(pointer) if pointer else torch.cuda.default_stream()


def matmuls(sets: Sequence[Any], kind: Element) -> dict[str, TimedCall]:
    """Return the function with which PyTorch multiplies, by its name.

    Its argument is the number of the call: successive calls use the sets of operands in turn. The dict is empty for
    bool and integers, which PyTorch cannot multiply on a GPU.
    """
    if kind.dtype.kind in "biu":
        return {}
    tensors = [tuple(map(tensor, each)) for each in sets]

    def multiply(i: int) -> None:
        a, b, c = tensors[i % len(tensors)]
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if kind == TF32 else "highest")
        try:
            with torch.cuda.stream(current_stream()):
                torch.mm(a, b, out=c)
        finally:
            torch.set_float32_matmul_precision(before)

    return {"torch.mm": multiply}
