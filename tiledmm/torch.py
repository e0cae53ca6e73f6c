"""``matmul`` as an operator of PyTorch: it has gradients, and ``torch.compile`` keeps it whole.

    import tiledmm.torch
    y = tiledmm.torch.matmul(x, weights)
    y.sum().backward()
    with tiledmm.torch.replacing():   # the products of code that knows nothing of this package
        loss = model(x)

Needs PyTorch, which nothing else here imports. PyTorch, "Custom Operators".
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
    """``torch.matmul`` by the kernel that ``tiledmm.matmul`` takes, with gradients of any order by the same kernels.

    Args:
        input: Left operand on a GPU, ``(..., m, k)`` or ``(k,)``.
        other: Right operand, ``(..., k, n)`` or ``(k,)``, of the same type.
        precision: As for ``tiledmm.matmul``, of the product and of those that make its gradients.

    Returns:
        A new tensor, ``(..., m, n)`` less the axes that 1-D operands lack.

    Raises:
        TiledmmError: As ``tiledmm.matmul``.
    """
    result: torch.Tensor = _product(input, other, precision)
    return result


def _multiply(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    a, b = a.detach() if a.requires_grad else a, b.detach() if b.requires_grad else b
    result: torch.Tensor = api.matmul(a, b, order="C", precision=precision)  # type: ignore[arg-type]
    return result


def _described(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    """A tensor without elements, as the product's."""
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.dim() > 1 else ())))


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, str], output: torch.Tensor) -> None:
    """Keeps what gradients are computed from."""
    a, b, ctx.precision = inputs
    ctx.save_for_backward(a, b)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    """Those of the operands: of C = A @ B, they are dC @ B^H and A^H @ dC, summed where operands were broadcast."""
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


# ``library.custom_op`` does the same, and in each call compares the addresses of operands and result.
_NAME = "tiledmm::matmul"
_library = library.Library("tiledmm", "DEF")
_library.define("matmul(Tensor a, Tensor b, str precision) -> Tensor")
_library.impl("matmul", _multiply, "CUDA")
library.register_fake(_NAME, _described, lib=_library)
library.register_autograd(_NAME, _gradients, setup_context=_keep, lib=_library)
_product: Any = torch.ops.tiledmm.matmul.default


class replacing(TorchFunctionMode):  # type: ignore[misc]
    """Where it is entered, ``torch.matmul``, ``@``, ``mm``, ``bmm`` and ``linear`` on a GPU are these products.

    Products with ``out=``, of integers and of mixed types are left to PyTorch.

    Args:
        precision: As for ``matmul``.

    Example:
        >>> with tiledmm.torch.replacing():
        ...     loss = torch.nn.functional.mse_loss(model(x), y)
        >>> loss.backward()   # the gradients are by the same kernels, wherever they are computed
    """

    def __init__(self, precision: str = "full") -> None:
        super().__init__()
        self.precision = precision

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What PyTorch calls in the place of each of its functions."""
        ours = _PRODUCTS.get(func)
        if ours is None or kwargs or not _multiplies(*args[:2]):
            return func(*args, **kwargs or {})
        return ours(*args, precision=self.precision)


def _multiplies(a: Any, b: Any) -> bool:
    """Whether a product of two operands is computed here: of tensors on a GPU, of one type with gradients."""
    on_gpu = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.device.type == b.device.type == "cuda"
    return on_gpu and a.dtype == b.dtype and (a.is_floating_point() or a.is_complex())


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, precision: str) -> torch.Tensor:
    result = matmul(x, weight.mT, precision=precision)
    return result if bias is None else result + bias


# What stands for functions of PyTorch.
_PRODUCTS: dict[Any, Callable[..., torch.Tensor]] = {
    **dict.fromkeys((torch.matmul, torch.mm, torch.bmm), matmul),
    **dict.fromkeys((torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.mm, torch.Tensor.bmm), matmul),
    torch.nn.functional.linear: _linear,
}
