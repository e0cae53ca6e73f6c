"""PyTorch's tensors, by address, strides and type: its own protocols refuse those that have gradients."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

from tiledmm.errors import OperandTypeError, UnsupportedTypeError
from tiledmm.interchange.protocols import array_at

#: NumPy's types by PyTorch's.
TYPES = {
    getattr(torch, name): np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip

# Types that CuPy does not hand over, and those whose bits it does.
_AS_BITS = {np.dtype(ml_dtypes.bfloat16): ("i2", torch.bfloat16), np.dtype(bool): ("u1", torch.bool)}


def device(x: Any, name: str) -> int:
    """The device that a tensor is on; ``OperandTypeError`` if that is no GPU."""
    if x.device.type != "cuda":
        advice = f"{name}.cuda() is one on a GPU, and tiledmm.simulator.matmul takes NumPy arrays ({name}.numpy())"
        raise OperandTypeError(f"{name} is a tensor on the device {x.device.type!r}; {advice} on the CPU")
    return int(x.device.index)


def stream(x: Any, device: int) -> int | None:
    """PyTorch's current stream on a device."""
    return int(torch.cuda.current_stream(device).cuda_stream)


def view(x: Any, name: str, *, written: bool = False) -> Any:
    """A CuPy array of a tensor's memory; of a copy, if its elements are conjugated or negated when they are read.

    Raises:
        OperandTypeError: A sparse tensor, one of which gradients would be lost, or one that cannot be written in place.
        UnsupportedTypeError: No type of NumPy's.
    """
    if x.layout is not torch.strided:
        raise OperandTypeError(f"{name} has the layout {x.layout}; {name}.to_dense() is strided")
    if x.requires_grad and torch.is_grad_enabled():
        raise OperandTypeError(
            f"{name} requires gradients, which this product does not have: tiledmm.torch.matmul has them; or call it "
            f"in torch.no_grad(), or with {name}.detach()"
        )
    if written and (x.is_conj() or x.is_neg()):
        raise OperandTypeError(f"{name} is a lazily conjugated or negated view: results cannot be written there")
    if (kind := TYPES.get(x.dtype)) is None:
        raise UnsupportedTypeError(f"{name} has elements of {x.dtype}, of which there are no products")
    x = x.resolve_conj().resolve_neg()
    strides = tuple(stride * kind.itemsize for stride in x.stride())
    return array_at(x.data_ptr(), tuple(x.shape), strides, kind, x, x.device.index)


def native(array: Any, like: Any) -> Any:
    """A result as a tensor of the same memory."""
    bits, kind = _AS_BITS.get(array.dtype, (None, None))
    return torch.from_dlpack(array) if bits is None else torch.from_dlpack(array.view(bits)).view(kind)
