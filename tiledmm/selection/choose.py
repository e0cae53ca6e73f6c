"""Choice of the kernels that compute a call: named by the call, measured on the device, or expected to be fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tiledmm.elements import SCHEMES, TF32, compute_element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.problem.arrays import Array
from tiledmm.problem.call import Call, dtype_of, resolve_call
from tiledmm.problem.keywords import AUTO, SYMMETRIES, KernelKeywords, UfuncKeywords, is_ieee
from tiledmm.problem.product import Product, resolve
from tiledmm.selection.choice import Choice, kernel_spec_of, named_choice
from tiledmm.selection.model import H100, Model
from tiledmm.selection.tuned import TunedTable, describe_product, has_its_kernel, table_of

# The variant of ``variant="auto", tile=...``.
_VARIANT_OF_A_TILE = "double_buffered"

# The variant of an epilogue without a product: it reads no operand.
_WITHOUT_PRODUCT = "warp_tiled"

#: Function that returns the fastest kernels for which another function is true; None if there are none.
Within = Callable[[Callable[[Choice], bool]], Choice | None]

#: Function that returns a device's model; with True, one without variants that decompose operands.
Models = Callable[[bool], Model]


def choose(call: Call, kernel: KernelKeywords, models: Models, tuned: bool = True) -> Choice:
    """Return a ``Choice`` of the kernels for a call of ``matmul`` or ``gemm``.

    Args:
        call: The call, from ``resolve_call``.
        kernel: ``variant``, ``tile``, ``config`` and ``precision``.
        models: Function that returns the device's model; with True, the model without variants that decompose
            operands.
        tuned: Whether ``auto`` uses the device's tuned table.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError: If the named kernel does not exist, or does not run on
            this device.
    """
    model = models(is_ieee(kernel.precision))
    product = with_precision(call.multiplied, kernel.precision)
    tuned = tuned and kernel.variant == AUTO and may_be_tuned(product)
    table = table_of(model.gpu.name) if tuned else None
    named = with_scheme(product, kernel, model)
    choice = select(named.variant, named.tile, product, named.config, table, model)
    if product.epilogue and not product.problem.k and choice.needs_operands:
        return select(_WITHOUT_PRODUCT, None, product, model=model)
    return choice


def choose_within(call: Call, kernel: KernelKeywords, models: Models, fits: Callable[[Choice], bool]) -> Choice | None:
    """Return a ``Choice`` of the fastest kernel with a small enough workspace.

    It replaces the choice of ``choose`` if there is no memory for that one's workspace, and has the same precision.

    Args:
        call, kernel, models: As for ``choose``.
        fits: Function that returns whether a kernel's workspace is small enough.

    Returns:
        The kernel; None if no kernel fits, or if the call names its kernel.
    """
    model = models(is_ieee(kernel.precision))
    product = with_precision(call.multiplied, kernel.precision)
    if with_scheme(product, kernel, model).variant != AUTO or kernel.tile is not None:
        return None
    return model.best_within(product, fits)


def packed_within(within: Within) -> Within:
    """Return a function that returns the fastest kernels that fit after their operands are packed.

    It is needed for operands from whose addresses TMA cannot read.
    """
    return lambda fits: within(lambda choice: fits(choice.with_packing()))


def unprepared_within(within: Within) -> Within:
    """Return a function that returns the fastest kernels that fit although they prepare their operands.

    It is needed where there is no memory for the forms of prepared operands, which kernels with little workspace read.
    """

    def unprepared(fits: Callable[[Choice], bool]) -> Choice | None:
        choice = within(lambda choice: fits(choice.unprepared()))
        return choice and choice.unprepared()

    return unprepared


def with_precision(product: Product, precision: str) -> Product:
    """Return the product with the computation type tf32 if ``precision`` allows it and the type is float32.

    Such a precision is ``"tf32"``, or the name of a scheme that emulates it. Variants that do not support tf32 compute
    such a product in float32.
    """
    emulated = SCHEMES[precision].emulates if precision in SCHEMES else precision
    is_tf32 = emulated == TF32.dtype_name and product.compute == TF32.stored
    return product.computed_in(TF32) if is_tf32 else product


def layouts_with(symmetry: str, layouts: Iterable[str]) -> list[str]:
    """Return the different layouts of products: those given or, if C has a symmetry, those of A and its transpose."""
    own = {"N": "NT", "T": "TN", "G": "GG"} if symmetry != "none" else {}
    return list(dict.fromkeys(own.get(layout[:1], layout) for layout in layouts))


def call_of(
    size: tuple[int, int, int], dtype: Any, layout: str, precision: str, symmetry: str = "none"
) -> tuple[Call, str]:
    """Return the call that multiplies new matrices of the given sizes, type and layout, and its precision.

    Args:
        size: m, n and k of the product (m, k) @ (k, n).
        dtype: Computation type. For ``"tf32"``, the precision is ``"tf32"``.
        layout: One letter per operand: N for contiguous rows, T for contiguous columns, G for neither.
        precision: Precision for all other types.
        symmetry: ``"symmetric"`` if B is A's own transpose, ``"hermitian"`` if it is A's own adjoint, else ``"none"``.
            If it is, the layout of B follows from that of A.

    Raises:
        ConfigError: If there is no such symmetry, or a symmetric C would not be square.
    """
    m, n, k = size
    compute = compute_element(dtype)
    asked = "tf32" if compute == TF32 else precision
    a = Array.laid_out((m, k), compute.dtype, layout[0])
    b = Array.laid_out((k, n), compute.dtype, layout[1])
    keywords = UfuncKeywords(dtype=dtype_of(compute))
    if symmetry == "none":
        call = resolve_call(a, b, None, keywords)
    elif symmetry not in SYMMETRIES:
        raise ConfigError(f"symmetry must be one of {', '.join(SYMMETRIES)}; got {symmetry!r}")
    elif m != n:
        raise ConfigError(f"a symmetric or Hermitian C has as many rows as columns; got {m} x {n}")
    else:
        adjoint = symmetry == "hermitian"
        b = a if adjoint else a.transposed()
        product = resolve(a, b, same_memory=True, adjoint=(False, adjoint), **keywords._asdict())
        call = Call(product, product)
    return replace(call, multiplied=with_precision(call.multiplied, asked)), asked


def with_scheme(product: Product, kernel: KernelKeywords, model: Model = H100) -> KernelKeywords:
    """Return a call's keywords with ``variant`` and ``config`` set as a precision such as ``"fp16x3"`` requires.

    Such a precision is the name of a decomposition scheme. Keywords with any other precision are returned unchanged.
    The variant is the named one, or the first in ladder order that has the scheme and runs on the model's device.

    Raises:
        UnknownVariantError, ConfigError: If the named variant does not exist, or does not have that precision.
        UnsupportedTypeError: If no variant that has the scheme runs on the device.
    """
    variant, precision, compute = kernel.variant, kernel.precision, product.compute
    if is_ieee(precision) and variant != AUTO and not find_variant(variant).operands.is_ieee:
        raise ConfigError(
            f"precision={precision!r} allows only multiply-adds in the operands' own type, "
            f"which variant {variant!r} does not use"
        )
    rows = (row for row in kernel_variants() if precision in row.operands.schemes_of(compute))
    having = [row.name for row in rows if row.multiplies(compute)]
    if not having:
        return kernel
    known = " or ".join(map(repr, having))
    if variant == AUTO:
        capability = model.gpu.arch.capability
        variant = next((name for name in having if find_variant(name).runs_on(capability, compute)), AUTO)
    if variant == AUTO:
        raise UnsupportedTypeError(
            f"precision={precision!r} of {compute.dtype_name} needs variant {known}, which this device does not "
            "support; precision='full' uses only kernels that it supports"
        )
    if variant not in having:
        raise ConfigError(f"precision={precision!r} of {compute.dtype_name} needs variant {known}, not {variant!r}")
    return kernel._replace(variant=variant, config={"scheme": precision, **(kernel.config or {})})


def select(
    name: str,
    tile: int | None,
    product: Product,
    config: ConfigOverrides | None = None,
    table: TunedTable | None = None,
    model: Model = H100,
) -> Choice:
    """Return a ``Choice`` of the kernel for a product: the named variant's, or the one that ``auto`` selects.

    Args:
        name: Name of a variant, or ``"auto"``.
        tile: A tile of that variant; None for its default, and for a tile that ``auto`` chooses.
        product: The product.
        config: Values of config fields that replace those of the tile, for a named variant.
        table: The device's tuned table, which ``auto`` prefers to the model; None for none.
        model: The device's model.

    Raises:
        UnknownVariantError, ConfigError: If the variant, the tile or a config field does not exist.
    """
    if name == AUTO and tile is None:
        if config is not None:
            raise ConfigError('config= sets fields of one kernel: name it with variant=, which is "auto" here')
        return (measured(product, table, model) if table else None) or model.best(product)
    variant = find_variant(_VARIANT_OF_A_TILE if name == AUTO else name)
    chosen = variant.config(tile, variant.computes_in(product.compute), config)
    if chosen.triangle and not product.symmetric:
        raise ConfigError("triangle=1 needs a symmetric or Hermitian C: a @ a.T, or gemm(a, a, adjoint_b=True)")
    if any(product.conjugates) and not variant.conjugates:
        raise UnsupportedTypeError(
            f"variant {variant.name!r} is a kernel of your own, which multiplies no conjugates: pass b.conj().T "
            "instead of b with adjoint_b=True"
        )
    return named_choice(variant, chosen, product)


def may_be_tuned(product: Product) -> bool:
    """Return whether tuned tables may hold a product: one whose operands are neither prepared nor conjugated."""
    return not any((*product.prepared, *product.conjugates))


def measured(product: Product, table: TunedTable, model: Model) -> Choice | None:
    """Return a ``Choice`` of the kernel that a tuned table holds for a product; None if there is no valid entry.

    Warn if the kernel's code has changed since it was measured.
    """
    entry = table.get(describe_product(product))
    if entry is None or not model.takes(entry.variant):  # the precision rules it out, or it was unregistered
        return None
    if not has_its_kernel(entry):
        return None
    seen = product.transposed() if entry.transposed else product
    first, others = model.with_others(seen, entry.cut) if entry.cut else (seen, ())
    variant = find_variant(entry.variant)
    config = variant.config(None, variant.computes_in(seen.compute), entry.overrides)
    return Choice(first, kernel_spec_of(entry.variant, config, seen), entry.microseconds, others)
