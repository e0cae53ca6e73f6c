"""From a name to the rung and the numbers that compute a product: what was asked for, or measured, or is expected."""

from __future__ import annotations

from typing import Any

from tiledmm.elements import SCHEMES, TF32, Element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.problem.operands import Product
from tiledmm.registry.config import ConfigOverrides
from tiledmm.registry.variants import find_variant, kernel_variants
from tiledmm.selection.choice import Choice, specialization_of, transposed_if_preferred
from tiledmm.selection.model import H100, Model
from tiledmm.selection.tuned import Table, describe_product

AUTO = "auto"

#: What ``precision=`` takes.
PRECISIONS = ("float32", "ieee", "tf32", *SCHEMES)


def may_decompose(precision: str) -> bool:
    """Whether float32 and complex64 products may be taken as products of pieces.

    Raises:
        ConfigError: If there is no such precision.
    """
    if precision not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise ConfigError(f"precision is one of {known}; got {precision!r}")
    return precision != "ieee"


def with_precision(product: Product, precision: str) -> Product:
    """The product: in tf32, if it is one of float32 and that was asked for. Kernels without tf32 take it in float32."""
    return product.computed_in(TF32) if precision == "tf32" and product.compute == TF32.stored else product


def precision_of(compute: Element) -> str:
    """What ``precision=`` has to be for products to be taken in a type."""
    return "tf32" if compute == TF32 else "float32"


def kernel_of(
    product: Product,
    variant: str,
    tile: int | None,
    config: ConfigOverrides | None,
    precision: str,
    model: Model = H100,
) -> dict[str, Any]:
    """What was asked for, as ``select`` takes it: a scheme stands for a variant that has it.

    Unless a variant is named, that is the first on the ladder that runs on the model's device.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant, or it does not go with that precision.
        UnsupportedTypeError: If no variant that has the scheme runs there.
    """
    splits = variant != AUTO and find_variant(variant).decomposes
    if splits and not may_decompose(precision):
        raise ConfigError(f"precision {precision!r} is float32 multiply-adds, and variant {variant!r} has none")
    compute = product.compute
    rows = (row for row in kernel_variants() if precision in dict(row.schemes))
    if having := [row.name for row in rows if row.multiplies(compute)]:
        known = " or ".join(map(repr, having))
        if variant == AUTO:
            here = {each.variant for each in model.kernels_for(compute)}
            variant = next((name for name in having if name in here), AUTO)
        if variant == AUTO:
            raise UnsupportedTypeError(
                f"precision {precision!r} of {compute.dtype_name} needs {known}, which other devices run; "
                "precision='float32' takes what runs on this one"
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
    table: Table | None = None,
    model: Model = H100,
) -> Choice:
    """The kernel for a product.

    Args:
        name: A variant, or ``"auto"``.
        tile: A tile of that variant. None: ``auto`` chooses by size, a named variant takes its default.
        product: What is to be computed.
        config: Fields to have instead of the tile's own, for a variant that is named.
        table: What was measured on the device: ``auto`` takes what is in it, and else what the model says.
        model: Of the device.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant, tile or number.
    """
    if name == AUTO and tile is None:
        if config is not None:
            raise ConfigError('config= gives the numbers of one kernel: name it with variant=, which is "auto" here')
        return (measured(product, table, model) if table else None) or model.best(product)
    variant = find_variant("double_buffered" if name == AUTO else name)
    product = transposed_if_preferred(variant, product)
    numbers = variant.config(tile, variant.computes_in(product.compute), config)
    if numbers.triangle and not product.symmetric:
        raise ConfigError("triangle is for a @ a.T or a.T @ a, of one array: C is symmetric")
    return Choice(product, specialization_of(variant.name, numbers, product))


def measured(product: Product, table: Table, model: Model) -> Choice | None:
    """What a table has for a product."""
    entry = table.get(describe_product(product))
    if entry is None:
        return None
    seen = product.transposed() if entry.transposed else product
    first, others = model.with_others(seen, entry.cut) if entry.cut else (seen, ())
    if not model.takes(entry.variant):
        return None  # it may not be used here, or not any more
    variant = find_variant(entry.variant)
    config = variant.config(None, variant.computes_in(seen.compute), entry.numbers)
    return Choice(first, specialization_of(entry.variant, config, seen), entry.microseconds, others)
