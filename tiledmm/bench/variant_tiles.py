"""Variants with tiles, the kernels of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.errors import ConfigError, ShapeError, UnsupportedTypeError
from tiledmm.hardware.architectures import find_target
from tiledmm.kernels.plain import SIZES
from tiledmm.kernels.variants import find_variant, kernel_spec, kernel_variants


class VariantTile(NamedTuple):
    """A variant with a tile.

    Attributes:
        variant: Name of the variant, or ``"auto"``.
        tile: Tile size; None for ``"auto"`` and for variants without tiles.
    """

    variant: str
    tile: int | None = None

    @property
    def label(self) -> str:
        """Name of the variant and its tile in tables: ``"tiled 32"``."""
        return self.variant if self.tile is None else f"{self.variant} {self.tile}"


def expand(
    variants: Iterable[str] | None = None, tiles: Iterable[int] | Literal["all"] | None = None
) -> list[VariantTile]:
    """Return a ``VariantTile`` for each combination of a given variant and a given tile that the variant has.

    They are in ladder order, with ``"auto"`` last. A variant without tiles is returned once.

    Args:
        variants: Names of variants; None for all kernels of this package. ``"cublas"`` is ignored, because the baseline
            is in every comparison.
        tiles: Tile sizes; ``"all"`` for all tiles of each variant; None for its default tile.

    Raises:
        UnknownVariantError: If there is no such variant.
        ConfigError: If none of the variants has one of the tiles.
    """
    names = [row.name for row in kernel_variants()] if variants is None else list(variants)
    chosen = {find_variant(name).name for name in names if name != "auto"}
    rows = [row for row in kernel_variants() if row.name in chosen]
    fitting = {tile for row in rows for tile in row.tiles}
    wanted = None if tiles is None else sorted(fitting if tiles == "all" else set(tiles))
    for tile in wanted or ():
        if not fitting:
            raise ConfigError(f"{' and '.join(names)} has no tiles to choose from: leave the tile out")
        if tile not in fitting:
            which = "no variant" if variants is None else f"none of {', '.join(row.name for row in rows)}"
            raise ConfigError(f"{which} has a tile {tile}; tiles are {', '.join(map(str, sorted(fitting)))}")
    variant_tiles: list[VariantTile] = []
    for row in rows:
        if not row.tiles:
            variant_tiles.append(VariantTile(row.name))
        else:
            kept = [row.default_tile] if wanted is None else [tile for tile in wanted if tile in row.tiles]
            variant_tiles += [VariantTile(row.name, tile) for tile in kept]
    return variant_tiles + ([VariantTile("auto")] if "auto" in names else [])


def multiplying(
    variant_tiles: Iterable[VariantTile], dtype: str, size: tuple[int, int, int] | None = None
) -> list[VariantTile]:
    """Return those of the given variants and tiles whose variant multiplies elements of a type, or is ``"auto"``.

    Args:
        variant_tiles: Variants and tiles.
        dtype: Computation type.
        size: m, n and k of a product; a plain kernel that cannot compute it is left out. None for any.

    Raises:
        UnsupportedTypeError: If there is no such type, or none of the variants multiplies it.
    """
    kind = compute_element(dtype)
    every = list(variant_tiles)
    found = [each for each in every if each.variant == "auto" or find_variant(each.variant).multiplies(kind)]
    if every and not found:
        names = dict.fromkeys(each.variant for each in every)
        has = dict.fromkeys(each for name in names for each in dict(find_variant(name).types) or ELEMENTS)
        who = f"none of {', '.join(names)} multiplies" if len(names) > 1 else f"{next(iter(names))} does not multiply"
        raise UnsupportedTypeError(f"{who} {kind.dtype_name}, only {', '.join(has)}")
    return found if size is None else [each for each in found if not _refusal(each, size)]


def refusals(variant_tiles: Iterable[VariantTile], size: tuple[int, int, int]) -> list[str]:
    """Return sentences that name the plain kernels among variants which cannot compute a product of the given sizes."""
    said = (_refusal(each, size) for each in variant_tiles)
    return [f"Left out: {each}." for each in said if each]


def _refusal(variant_tile: VariantTile, size: tuple[int, int, int]) -> str:
    """Return why a plain kernel cannot compute a product of the given sizes; an empty string if it can."""
    plain = None if variant_tile.variant == "auto" else find_variant(variant_tile.variant).plain
    if plain is not None:
        try:
            plain.check_sizes(variant_tile.variant, dict(zip(SIZES, size, strict=True)))
        except ShapeError as error:
            return str(error)
    return ""


def runnable(by_type: Mapping[str, Iterable[VariantTile]], target: str) -> dict[str, list[VariantTile]]:
    """Return, by type, those of the given variants and tiles that multiply the type on a target architecture.

    A type for which none does is left out.

    Args:
        by_type: Variants and tiles by computation type.
        target: Name of the target; empty for no restriction to a target.

    Raises:
        UnsupportedTypeError: If there is no such type, or none of its variants multiplies it.
        ConfigError: If there is no such target, or none of the variants runs there.
    """
    found, reasons = dict[str, list[VariantTile]](), list[str]()
    for dtype, variant_tiles in by_type.items():
        why = {each: _why_not(each, dtype, target) for each in multiplying(variant_tiles, dtype)}
        reasons += filter(None, why.values())
        if here := [each for each, reason in why.items() if not reason]:
            found[dtype] = here
    if reasons and not found:
        raise ConfigError(reasons[0])
    return found


def _why_not(variant_tile: VariantTile, dtype: str, target: str) -> str:
    """Return the reason why a kernel does not run on a target; an empty string if it does, or ``target`` is empty."""
    if variant_tile.variant == "auto" or not target:
        return ""  # auto chooses only kernels that run on the target
    return kernel_spec(variant_tile.variant, tile=variant_tile.tile, dtype=dtype).why_not_on(find_target(target))


def left_out(by_type: Mapping[str, Iterable[VariantTile]], target: str = "") -> list[str]:
    """Return sentences that name variants unable to multiply a type, and kernels unable to run on the target.

    Args:
        by_type: Variants and tiles by computation type.
        target: Name of the target; empty for no restriction to a target.

    Raises:
        UnsupportedTypeError: If there is no such type.
        ConfigError: If there is no such target.
    """
    said, elsewhere = list[str](), dict[str, None]()
    for dtype, variant_tiles in by_type.items():
        every = list(variant_tiles)
        fitting = multiplying(every, dtype)
        names = dict.fromkeys(each.variant for each in every if each not in fitting)
        if names:
            kind = compute_element(dtype).dtype_name
            said.append(f"Left out (not available for {kind}): {', '.join(names)}.")
        elsewhere |= dict.fromkeys(each.label for each in fitting if _why_not(each, dtype, target))
    return said + ([f"Left out (not available on {target}): {', '.join(elsewhere)}."] if elsewhere else [])
