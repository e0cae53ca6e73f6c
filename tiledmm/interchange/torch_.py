"""PyTorch tensors, by address, strides and type: PyTorch's own protocols refuse tensors that require gradients."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

from tiledmm.elements import ELEMENTS
from tiledmm.errors import OperandTypeError, UnsupportedTypeError
from tiledmm.launch.devices import ForeignArray, as_cupys, current_device

#: NumPy's types, by PyTorch's.
TYPES = {getattr(torch, name): known.dtype for name, known in ELEMENTS.items()}

#: PyTorch's types, by NumPy's.
TENSORS = {known: kind for kind, known in TYPES.items()}

#: Whether all work on an array is on the current stream of its device.
HAS_CURRENT_STREAM = True

_STRIDED = torch.strided

# Function that returns the handle of a device's current stream. This one, which PyTorch's compilers use, takes a fifth
# of the time.
_stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda device: torch.cuda.current_stream(device).cuda_stream
)

# Types that CuPy does not export by DLPack, with the types that their bits are exported as and restored to.
_AS_BITS = {np.dtype(ml_dtypes.bfloat16): ("i2", torch.bfloat16), np.dtype(bool): ("u1", torch.bool)}


def device(x: Any, name: str) -> int:
    """Return the number of the device that holds a tensor.

    Raises:
        OperandTypeError: If the tensor is not on a GPU.
    """
    if not x.is_cuda:
        raise OperandTypeError(
            f"{name} must be a tensor on a GPU; it is on device {x.device.type!r}. Copy it with {name}.cuda(), or "
            f"multiply {name}.numpy() on the CPU with tiledmm.simulator.matmul"
        )
    return int(x.get_device())


def stream(x: Any, device: int) -> int | None:
    """Return the handle of PyTorch's current stream on a device."""
    return int(_stream_of(device))


def view(x: Any, name: str, *, written: bool = False) -> Any:
    """Return a CuPy array that shares the memory of a tensor. For the arguments and errors see ``foreign``."""
    return as_cupys(foreign(x, name, written=written))


def foreign(x: Any, name: str, *, written: bool = False) -> ForeignArray:
    """Return a tensor's memory as a ``ForeignArray``. A lazily conjugated or negated tensor is copied first.

    Args:
        x: Tensor.
        name: Name of the tensor for messages.
        written: Whether the tensor is for a result.

    Raises:
        OperandTypeError: If the tensor is not on a GPU, is sparse, requires gradients, because they would be lost, or
            is a lazy view that would be written.
        UnsupportedTypeError: If there are no products of its element type.
    """
    number = x.get_device() if x.is_cuda else device(x, name)
    if x.layout is not _STRIDED:
        raise OperandTypeError(
            f"{name} must be a strided tensor; its layout is {x.layout}. Convert it with {name}.to_dense()"
        )
    if x.requires_grad and torch.is_grad_enabled():
        raise OperandTypeError(
            f"{name} requires gradients, which this function does not compute: use tiledmm.torch.matmul, call it "
            f"within torch.no_grad(), or pass {name}.detach()"
        )
    if x.is_conj() or x.is_neg():
        if written:
            raise OperandTypeError(f"{name} is a lazily conjugated or negated view: results cannot be written there")
        x = x.resolve_conj().resolve_neg()
    if (kind := TYPES.get(x.dtype)) is None:
        raise UnsupportedTypeError(f"{name} has elements of type {x.dtype}, whose products are not supported")
    return _foreign(x, tuple(x.shape), kind, number)


def allocate(shape: tuple[int, ...], kind: np.dtype[Any], order: str) -> ForeignArray:
    """Create a tensor on the current device, and return its memory as a ``ForeignArray``.

    Args:
        shape: Shape of the tensor.
        kind: Type of the elements.
        order: ``"F"`` if the first axis is contiguous; otherwise the last axis is.
    """
    number = current_device()
    if order == "F":
        x = torch.empty(shape[::-1], dtype=TENSORS[kind], device=number).permute(*range(len(shape))[::-1])
    else:
        x = torch.empty(shape, dtype=TENSORS[kind], device=number)
    return _foreign(x, shape, kind, number)


def _foreign(x: Any, shape: tuple[int, ...], kind: np.dtype[Any], number: int) -> ForeignArray:
    itemsize = kind.itemsize
    return ForeignArray(x.data_ptr(), shape, tuple([step * itemsize for step in x.stride()]), kind, x, number)


def native(array: Any, like: Any) -> Any:
    """Return a CuPy array as a tensor of the same memory. ``like`` is not used."""
    bits, kind = _AS_BITS.get(array.dtype, (None, None))
    return torch.from_dlpack(array) if bits is None else torch.from_dlpack(array.view(bits)).view(kind)
