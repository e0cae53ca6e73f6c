"""``matmul`` as a PyTorch operator: it has gradients, and ``torch.compile`` does not break its graph there.

    import tiledmm.torch
    y = tiledmm.torch.matmul(x, weights)
    y.sum().backward()
    with tiledmm.torch.replacing():   # products in code that does not use this package
        loss = model(x)

This module needs PyTorch, which ``import tiledmm`` does not import.


Source: PyTorch documentation, "Custom Operators".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiledmm import api
from tiledmm.errors import needs

with needs("PyTorch", extra="torch"):
    import torch
    from torch import library
    from torch.overrides import TorchFunctionMode

__all__ = ["matmul", "replacing"]


def matmul(input: torch.Tensor, other: torch.Tensor, *, precision: str = "full") -> torch.Tensor:
    """Multiply tensors as ``torch.matmul`` does, with the kernel that ``tiledmm.matmul`` selects.

    The gradients, of any order, are computed by the same kernels.

    Args:
        input: Left operand on a GPU, ``(..., m, k)`` or ``(k,)``.
        other: Right operand, ``(..., k, n)`` or ``(k,)``, of the same type.
        precision: Precision of this product and of the products that compute its gradients, as for
            ``tiledmm.matmul``.

    Returns:
        A new tensor, ``(..., m, n)`` without the axes that 1-D operands lack.

    Raises:
        TiledmmError: As ``tiledmm.matmul`` does.
    """
    result: torch.Tensor = _product(input, other, precision)
    return result


def _multiply(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    a, b = a.detach() if a.requires_grad else a, b.detach() if b.requires_grad else b
    result: torch.Tensor = api.matmul(a, b, order="C", precision=precision)  # type: ignore[arg-type]
    return result


def _described(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    """Return an uninitialized tensor with the shape and type of the product, with which PyTorch traces a graph."""
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.dim() > 1 else ())))


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, str], output: torch.Tensor) -> None:
    """Save the operands and the precision in PyTorch's context of this call, for ``_gradients``."""
    a, b, ctx.precision = inputs
    ctx.save_for_backward(a, b)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    """Return the gradients of A and B in C = A @ B: dC @ B^H and A^H @ dC, summed where operands were broadcast."""
    a, b = ctx.saved_tensors
    rows, columns = torch.atleast_2d(a), b if b.dim() > 1 else b[:, None]
    gradient = gradient if a.dim() > 1 else gradient.unsqueeze(-1 if b.dim() == 1 else -2)
    gradient = gradient if b.dim() > 1 else gradient.unsqueeze(-1)
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        of_a = matmul(gradient, columns.mH, precision=ctx.precision).sum_to_size(rows.shape).reshape(a.shape)
    if ctx.needs_input_grad[1]:
        of_b = matmul(rows.mH, gradient, precision=ctx.precision).sum_to_size(columns.shape).reshape(b.shape)
    return of_a, of_b, None


# ``library.custom_op`` does the same, but compares the addresses of operands and result in each call.
_NAME = "tiledmm::matmul"
_library = library.Library("tiledmm", "DEF")
_library.define("matmul(Tensor a, Tensor b, str precision) -> Tensor")
_library.impl("matmul", _multiply, "CUDA")
library.register_fake(_NAME, _described, lib=_library)
library.register_autograd(_NAME, _gradients, setup_context=_keep, lib=_library)
_product: Any = torch.ops.tiledmm.matmul.default


class replacing(TorchFunctionMode):  # type: ignore[misc]
    """Context manager in which this package computes ``torch.matmul``, ``@``, ``mm``, ``bmm`` and ``linear`` on a GPU.

    PyTorch still computes products with ``out=``, of integers and of mixed types.

    Args:
        precision: Precision, as for ``matmul``.

    Example:
        >>> with tiledmm.torch.replacing():
        ...     loss = torch.nn.functional.mse_loss(model(x), y)
        >>> loss.backward()   # the same kernels compute the gradients, also outside of the block
    """

    def __init__(self, precision: str = "full") -> None:
        super().__init__()
        self.precision = precision

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Compute a product with this package, or call PyTorch's own function.

        PyTorch calls this method for every function.
        """
        ours = _PRODUCTS.get(func)
        if ours is None or kwargs or not _multiplies(*args[:2]):
            return func(*args, **kwargs or {})
        return ours(*args, precision=self.precision)


def _multiplies(a: Any, b: Any) -> bool:
    """Return whether this package multiplies two arguments.

    It does if both are tensors on a GPU, of the same floating-point or complex type.
    """
    on_gpu = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.device.type == b.device.type == "cuda"
    return on_gpu and a.dtype == b.dtype and (a.is_floating_point() or a.is_complex())


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, precision: str) -> torch.Tensor:
    result = matmul(x, weight.mT, precision=precision)
    return result if bias is None else result + bias


# Replacements of PyTorch's functions.
_PRODUCTS: dict[Any, Callable[..., torch.Tensor]] = {
    **dict.fromkeys((torch.matmul, torch.mm, torch.bmm), matmul),
    **dict.fromkeys((torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.mm, torch.Tensor.bmm), matmul),
    torch.nn.functional.linear: _linear,
}
