"""From the name of a variant to the kernels of a product: asked for, measured on the device, or expected fastest."""

from __future__ import annotations

from typing import Any, Literal

from tiledmm.elements import SCHEMES, TF32, Element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.problem.product import Product
from tiledmm.selection.choice import Choice, kernel_spec_of, transposed_if_preferred
from tiledmm.selection.model import H100, Model
from tiledmm.selection.tuned import TunedTable, describe_product, has_its_kernel

AUTO = "auto"

# The variant of ``variant="auto", tile=...``.
_VARIANT_OF_A_TILE = "double_buffered"

#: What ``precision=`` takes; ``"float32"`` is another name of ``"full"``.
PRECISIONS = ("full", "float32", "ieee", "tf32", *SCHEMES)


def is_ieee(precision: str) -> bool:
    """Return whether a precision asks for multiply-adds of the operands' own type only.

    Raises:
        ConfigError: If there is no such precision.
    """
    if precision not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise ConfigError(f"precision is one of {known}; got {precision!r}")
    return precision == "ieee"


def with_precision(product: Product, precision: str) -> Product:
    """The product, in tf32 if it is a float32 product and tf32 was asked for. Variants without tf32 use float32."""
    return product.computed_in(TF32) if precision == "tf32" and product.compute == TF32.stored else product


def precision_of(compute: Element) -> Literal["full", "tf32"]:
    """The ``precision=`` for a computation type."""
    return "tf32" if compute == TF32 else "full"


def dtype_of(compute: Element) -> str | None:
    """The ``dtype=`` for a computation type, given operands of its type in memory: None unless results are wider."""
    return compute.result_name or None


def kernel_of(
    product: Product,
    variant: str,
    tile: int | None,
    config: ConfigOverrides | None,
    precision: str,
    model: Model = H100,
) -> dict[str, Any]:
    """The arguments of ``select`` for the keywords of a call: a scheme names a variant that has it.

    That is the named variant, or the first in ladder order that runs on the model's device.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant, or not with that precision.
        UnsupportedTypeError: If no variant that has the scheme runs there.
    """
    if is_ieee(precision) and variant != AUTO and not find_variant(variant).operands.is_ieee:
        raise ConfigError(
            f"precision {precision!r} is multiply-adds of the operands' own type, "
            f"which variant {variant!r} does not use"
        )
    compute = product.compute
    rows = (row for row in kernel_variants() if precision in row.operands.schemes)
    if having := [row.name for row in rows if row.multiplies(compute)]:
        known = " or ".join(map(repr, having))
        if variant == AUTO:
            here = {each.variant for each in model.kernels_for(compute)}
            variant = next((name for name in having if name in here), AUTO)
        if variant == AUTO:
            raise UnsupportedTypeError(
                f"precision {precision!r} of {compute.dtype_name} needs {known}, which other devices run; "
                "precision='full' takes what runs on this one"
            )
        if variant not in having:
            raise ConfigError(f"precision {precision!r} of {compute.dtype_name} is for {known}, not {variant!r}")
        config = {"scheme": precision, **(config or {})}
    return {"name": variant, "tile": tile, "config": config, "product": with_precision(product, precision)}


def select(
    name: str,
    tile: int | None,
    product: Product,
    config: ConfigOverrides | None = None,
    table: TunedTable | None = None,
    model: Model = H100,
) -> Choice:
    """The kernel for a product.

    Args:
        name: A variant, or ``"auto"``.
        tile: A tile of that variant. None: ``auto`` chooses by size, a named variant takes its default.
        product: The product.
        config: Fields that replace the tile's own, for a named variant.
        table: The device's tuned table, which ``auto`` prefers to the model.
        model: The device's model.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant, tile or field.
    """
    if name == AUTO and tile is None:
        if config is not None:
            raise ConfigError('config= sets fields of one kernel: name it with variant=, which is "auto" here')
        return (measured(product, table, model) if table else None) or model.best(product)
    variant = find_variant(_VARIANT_OF_A_TILE if name == AUTO else name)
    chosen = variant.config(tile, variant.computes_in(product.compute), config)
    product = transposed_if_preferred(variant, chosen, product)
    if chosen.triangle and not product.symmetric:
        raise ConfigError("triangle is for a @ a.T or a.T @ a, of one array: C is symmetric")
    return Choice(product, kernel_spec_of(variant.name, chosen, product))


def measured(product: Product, table: TunedTable, model: Model) -> Choice | None:
    """The kernel of a tuned table for a product."""
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
