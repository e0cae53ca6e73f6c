"""The front end of every product: from descriptions of arrays and keywords to a ``Choice``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tiledmm.elements import TF32, compute_element, with_float_epilogue
from tiledmm.problem.arrays import Array, describe
from tiledmm.problem.epilogue import EpilogueCall
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.problem.product import Product, resolve
from tiledmm.selection.choice import Choice
from tiledmm.selection.model import Model
from tiledmm.selection.select import AUTO, dtype_of, is_ieee, kernel_of, select, with_precision
from tiledmm.selection.tuned import TunedTable, table_of

#: From whether kernels fit to the fastest that do; None if none does.
Within = Callable[[Callable[[Choice], bool]], Choice | None]

# The variant of an epilogue without a product: it reads no operand.
_WITHOUT_PRODUCT = "warp_tiled"

#: The model of a device, with or without variants that decompose operands.
Models = Callable[[bool], Model]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of ``matmul``, resolved.

    Attributes:
        product: The product of the arrays as they came. Its ``convert`` and ``via_temporary`` say which conversions no
            kernel does.
        multiplied: The product after these conversions, in the precision that was asked for.
    """

    product: Product
    multiplied: Product


def resolve_call(
    x1: Array,
    x2: Array,
    out: Array | None,
    ufunc: UfuncKeywords,
    precision: str,
    same_memory: bool = False,
    epilogue: EpilogueCall | None = None,
) -> Call:
    """The product of a call, with its epilogue.

    Raises:
        TiledmmError: As ``tiledmm.matmul``, for arrays and keywords that do not fit.
    """
    keywords = ufunc._asdict()
    if epilogue is not None:
        keywords |= {"epilogue": epilogue.epilogue, "arrays": [describe(each) for each in epilogue.arrays]}
    product = multiplied = resolve(x1, x2, out, same_memory=same_memory, **keywords)
    left, right = product.convert
    if product.converts:
        x1 = x1 if left is None else x1.as_type(left)
        x2 = x2 if right is None else x2.as_type(right)
        if out is not None and product.via_temporary:
            out = Array.allocated(out.shape, product.compute.result.dtype)
        multiplied = resolve(x1, x2, out, **keywords)
    if epilogue is not None and epilogue.epilogue is not None:
        multiplied = _with_epilogue(multiplied, epilogue)
    return Call(product, with_precision(multiplied, precision))


def _with_epilogue(product: Product, epilogue: EpilogueCall) -> Product:
    """The product as kernels with an epilogue compute it."""
    if product.compute.result_name and product.compute.result.itemsize > 4:  # 32-bit sums do until they are scaled
        product = product.computed_in(product.compute.result)
    if product.compute.dtype.kind == "f":
        sums = with_float_epilogue(product.a, product.b, product.compute, product.problem.k)
        product = product.computed_in(sums)
    if epilogue.without_product:
        product = replace(product, problem=replace(product.problem, k=0))
    return product


def call_of(size: tuple[int, int, int], dtype: Any, layout: str, precision: str) -> tuple[Call, str]:
    """The call for (m, k) @ (k, n) of new matrices of a type, and a layout; and its precision."""
    m, n, k = size
    compute = compute_element(dtype)
    asked = "tf32" if compute == TF32 else precision
    a = Array.laid_out((m, k), compute.dtype, layout[0])
    b = Array.laid_out((k, n), compute.dtype, layout[1])
    return resolve_call(a, b, None, UfuncKeywords(dtype=dtype_of(compute)), asked), asked


def choose(call: Call, kernel: KernelKeywords, models: Models, tuned: bool = True) -> Choice:
    """The kernels of a call.

    Args:
        call: See ``resolve_call``.
        kernel: ``variant``, ``tile``, ``config`` and ``precision``.
        models: The device's models.
        tuned: Whether ``auto`` takes what the device's tuned table holds.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If there is no such kernel, or not on this device.
    """
    model = models(is_ieee(kernel.precision))
    table: TunedTable | None = table_of(model.gpu.name) if tuned and kernel.variant == AUTO else None
    choice = select(**kernel_of(call.multiplied, *kernel, model=model), table=table, model=model)
    if call.multiplied.epilogue and not call.multiplied.problem.k and choice.needs_operands:
        return select(_WITHOUT_PRODUCT, None, call.multiplied, model=model)
    return choice


def choose_within(call: Call, kernel: KernelKeywords, models: Models, fits: Callable[[Choice], bool]) -> Choice | None:
    """The fastest kernel that fits, of the same precision, for a call whose choice needs more memory than there is.

    Args:
        call, kernel, models: As for ``choose``.
        fits: Whether a kernel's workspace is small enough.

    Returns:
        None if no kernel fits, or if the call names its kernel.
    """
    model = models(is_ieee(kernel.precision))
    found = kernel_of(call.multiplied, *kernel, model=model)
    if found["name"] != AUTO or kernel.tile is not None:
        return None
    return model.best_within(found["product"], fits)
