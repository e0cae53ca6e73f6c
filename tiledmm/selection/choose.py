"""From a call to the kernels that compute it: asked for by name, measured on the device, or expected fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.problem.call import Call, with_precision
from tiledmm.problem.keywords import AUTO, KernelKeywords, is_ieee
from tiledmm.problem.product import Product
from tiledmm.selection.choice import Choice, kernel_spec_of, transposed_if_preferred
from tiledmm.selection.model import H100, Model
from tiledmm.selection.tuned import TunedTable, describe_product, has_its_kernel, table_of

# The variant of ``variant="auto", tile=...``.
_VARIANT_OF_A_TILE = "double_buffered"

# The variant of an epilogue without a product: it reads no operand.
_WITHOUT_PRODUCT = "warp_tiled"

#: From whether kernels fit to the fastest that do; None if none does.
Within = Callable[[Callable[[Choice], bool]], Choice | None]

#: The model of a device, with or without variants that decompose operands.
Models = Callable[[bool], Model]


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
