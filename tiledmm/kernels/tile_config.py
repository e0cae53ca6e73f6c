"""Config of a variant's tile, with the fields that a caller overrides, and the rules that every config must satisfy."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tiledmm.elements import PACKED_ELEMENTS, Element
from tiledmm.errors import ConfigError
from tiledmm.kernels.config import (
    CONFIG_FIELDS,
    DYNAMIC_SHARED_BYTES,
    MAX_THREADS,
    STATIC_SHARED_BYTES,
    TRIANGLE_GROUP,
    Config,
    ConfigOverrides,
)

if TYPE_CHECKING:
    from tiledmm.kernels.variant import Rule, Variant

# Config fields that are 0 if a variant does not use them.
_MAY_BE_ZERO = ("pad", "stages", "wm", "wn", "triangle", "moduli", "pack_a", "pack_b", "pack_elements")


def scheme_of(variant: Variant, element: Element, overrides: ConfigOverrides) -> str:
    """Return the name of the decomposition scheme in ``overrides``, or else of the variant's first scheme for a type.

    Return an empty string if the variant does not decompose operands.

    Raises:
        ConfigError: If ``overrides`` is not a mapping, or the variant does not have the scheme that it names.
    """
    if not isinstance(overrides, Mapping):
        raise ConfigError(f"config must be a mapping of field names to values, such as {{'bk': 16}}; got {overrides!r}")
    known = variant.operands.schemes_of(element) or ("",)
    scheme = overrides.get("scheme", known[0])
    if scheme not in known:
        own = f"its schemes are {', '.join(known)}" if any(known) else "it does not decompose operands"
        raise ConfigError(f"variant {variant.name!r} of {element.dtype_name} has no scheme {scheme!r}: {own}")
    return str(scheme)


def config_of_tile(variant: Variant, tile: int | None, element: Element, scheme: str) -> Config:
    """Return the config of a variant's tile.

    Args:
        variant: The variant.
        tile: One of ``variant.tiles``; None for the default.
        element: Computation type.
        scheme: Name of the decomposition scheme; empty for a variant without schemes.

    Raises:
        ConfigError: If the variant has no such tile.
    """
    of_scheme = (scheme,) if scheme else ()
    if tile is None:
        return _default_config(variant, element, *of_scheme)
    if not variant.tiles:
        raise ConfigError(f"tile={tile!r} is not available for variant {variant.name!r}: it has no choice of tiles")
    try:
        return variant.configure(variant.tiles[variant.tiles.index(operator.index(tile))], element, *of_scheme)
    except (TypeError, ValueError):
        fits = ", ".join(map(str, variant.tiles))
        if isinstance(tile, str) and tile.isdecimal():
            raise ConfigError(
                f"tile must be an int, not the string {tile!r}; the tiles of variant {variant.name!r} are {fits}"
            ) from None
        raise ConfigError(
            f"tile={tile!r} is not available for variant {variant.name!r}: its tiles are {fits}"
        ) from None


def _default_config(variant: Variant, element: Element, *scheme: str) -> Config:
    """Return the config of a variant's default tile.

    For a variant with schemes, the tile is halved until its limbs fit into shared memory.
    """
    tile = variant.default_tile
    config = variant.configure(tile, element, *scheme)
    while scheme and variant.shared_bytes(config, element, "NT") > _shared_limit(variant):
        tile //= 2
        config = variant.configure(tile, element, *scheme)
    return config


def _shared_limit(variant: Variant) -> int:
    """Return the maximum shared memory per block of a variant, in bytes.

    For tensor-core variants it is the dynamic limit of compute capability 9.0, the largest of any device; for others
    it is the static limit of 48 KiB.
    """
    return DYNAMIC_SHARED_BYTES if variant.tensor_cores else STATIC_SHARED_BYTES


def with_overrides(variant: Variant, config: Config, overrides: ConfigOverrides, element: Element) -> Config:
    """Return a tile's config with some fields replaced, after checking it against all rules of the variant.

    Raises:
        ConfigError: If a field does not exist, or a value is invalid, or the resulting config breaks a rule.
    """
    for name, value in overrides.items():
        if name not in CONFIG_FIELDS:
            raise ConfigError(f"unknown config field {name!r}; the fields are {', '.join(CONFIG_FIELDS)}")
        if name == "scheme":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < (name not in _MAY_BE_ZERO):
            raise ConfigError(f"{name} must be an integer of at least {int(name not in _MAY_BE_ZERO)}; got {value!r}")
    changed = config.changed(overrides)
    broken = "; ".join(rule for holds, rule in _rules(variant, config, changed, element) if not holds)
    if broken:
        given = ", ".join(f"{name}={value!r}" for name, value in overrides.items())
        raise ConfigError(
            f"{given} {'does' if len(overrides) == 1 else 'do'} not work with variant {variant.name!r} in "
            f"{element.dtype_name}: {broken}{_values_in(broken, changed)}"
        )
    return changed


def _values_in(rules: str, config: Config) -> str:
    """Return the values of the fields that the texts of rules name, and of ``threads``, in parentheses."""
    known = config.as_dict() | {"threads": config.threads}
    named = [name for name in dict.fromkeys(re.findall(r"\w+", rules)) if name in known]
    return f" (here {', '.join(f'{name}={known[name]}' for name in named)})" if named else ""


def _rules(variant: Variant, of_tile: Config, config: Config, element: Element) -> list[Rule]:
    """Return the rules for a tile's config with some fields overridden, each with whether the config obeys it.

    The rules of all variants come first, then the variant's own.

    Args:
        variant: The variant.
        of_tile: The tile's config before the overrides.
        config: The config with the overrides.
        element: Computation type.
    """
    launch, packed = config.launch, config.launch.pack_a + config.launch.pack_b
    shared = max(variant.shared_bytes(config, element, layout) for layout in ("NN", "NT", "TN", "TT"))
    limit = _shared_limit(variant)
    whole = config.bm % config.tm == 0 and config.bn % config.tn == 0
    alone = config.cluster == 1 or variant.hopper.tma
    return [
        (whole, "bm and bn must be multiples of tm and tn"),
        (
            config.triangle <= 1 and (config.triangle == 0 or variant.has_triangle(config)),
            f"triangle must be 0, or 1 for a kernel with warp tiles if {TRIANGLE_GROUP} * bn is a multiple of bm",
        ),
        (config.tiles_per_block == 1 or of_tile.tiles_per_block > 1, "tiles_per_block must be 1"),
        (alone, "cluster must be 1"),
        (
            config.cluster_k in (1, *variant.clusters),
            f"cluster_k must be {' or '.join(map(str, (1, *variant.clusters)))}",
        ),
        (
            of_tile.moduli > 0 or not config.moduli,
            "moduli must be 0, because operands are not decomposed into residues",
        ),
        (launch.group == 1 or config.wm > 0, "group must be 1, because the kernel has no warp tiles"),
        (
            max(launch.pack_a, launch.pack_b, launch.pack_elements) <= 1,
            "pack_a, pack_b and pack_elements must be 0 or 1",
        ),
        (
            not launch.pack_elements or element.multiplied in PACKED_ELEMENTS,
            f"pack_elements must be 0 for types other than {', '.join(PACKED_ELEMENTS)}",
        ),
        (
            not launch.pack_elements or not config.lanes > 1,
            "pack_elements must be 0 if lanes is greater than 1",
        ),
        (not launch.pack_elements or not packed, "pack_elements must be 0 if pack_a or pack_b is 1"),
        (config.threads <= MAX_THREADS, f"the number of threads per block must be at most {MAX_THREADS}"),
        (
            shared <= limit,
            f"shared memory per block must be at most {limit} bytes, and this config needs {shared} bytes",
        ),
        *(variant.rules(config, element) if whole and alone else ()),
    ]
