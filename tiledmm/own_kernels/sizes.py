"""Sizes at which a product is checked: some that its tile divides, some that it does not, and those of its file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tiledmm.errors import ConfigError
from tiledmm.kernels.plain import SIZES
from tiledmm.own_kernels.expectation import Product
from tiledmm.own_kernels.host_launch import HostLaunch
from tiledmm.own_kernels.launch_rule import LaunchRule, tile_of
from tiledmm.own_kernels.roles import Roles
from tiledmm.simulator.build.program.program import Program

#: Maximum number of multiply-adds in a check, unless the user states sizes: about two seconds on two cores.
MOST_WORK = 1 << 23


class SizesError(ConfigError):
    """Error for a kernel whose sizes are unknown constants."""


def granularity(text: str) -> int:
    """Return the number of which sizes must be multiples if a kernel accesses whole fragments or vectors.

    Args:
        text: The kernel's text.
    """
    if re.search(r"\bwmma\b|\bmma\b|mma_sync|ldmatrix", text):
        return 16
    return 4 if re.search(r"\b(?:float|int|uint)4\b|__dp4a|_memcpy_async|cp\.async", text) else 1


def sizes_to_try(rule: LaunchRule, roles: Roles, step: int = 1) -> list[tuple[dict[str, int], bool]]:
    """Return sizes that the tile divides, and sizes that it does not, each with whether it does.

    Args:
        rule: How the kernel is launched.
        roles: Roles of its parameters.
        step: Number of which all sizes are multiples.
    """
    bm, bn = tile_of(rule, roles)
    if roles.square:
        whole = math.lcm(bm, bn, 32)
        whole = whole if whole >= 64 else 2 * whole
        odd = {size: whole - 27 if whole <= 128 else whole - 55 for size in SIZES}
        sizes = dict.fromkeys(SIZES, whole)
    else:
        m, n = -(-48 // bm) * bm, -(-80 // bn) * bn
        n += bn * (m == n) * max(1, 16 // bn)
        sizes = {"M": m, "N": n, "K": 64}
        odd = {"M": 37, "N": 45, "K": 83}
        if bm > 1:
            odd = {"M": (2 * bm if bm <= 16 else bm) + 5, "N": (2 * bn if bn <= 16 else bn) + 13, "K": 83}
    odd = {name: -(-size // step) * step for name, size in odd.items()}
    for names in (names for names in roles.sizes.values() if len(names) == 2):
        tile, largest = math.lcm(bm, bn), max(sizes[each] for each in names)
        sizes |= dict.fromkeys(names, -(-largest // tile) * tile)
        odd |= dict.fromkeys(names, max(odd[each] for each in names))
    return [(sizes, True), (odd, False)]


def complete(sizes: dict[str, int], rule: LaunchRule, product: Product) -> dict[str, int]:
    """Return sizes, in which those that are not parameters of the kernel are derived from the host code's allocations.

    Raises:
        SizesError: If these are unknown.
    """
    roles = product.roles
    if isinstance(rule, HostLaunch) and not rule.is_free:
        sizes = sizes | rule.own_sizes()
    found = {name: size for name, size in sizes.items() if name in roles.named}
    if len(found) == 3:
        return found
    elements: list[int] = []
    if isinstance(rule, HostLaunch):
        for at, dtype in zip(roles.order, product.types, strict=True):
            size = rule.bytes_of(at, sizes, dtype.itemsize)
            elements.append(size // dtype.itemsize if size else 0)
    mk, kn, mn = elements or [0, 0, 0]
    if not found and mk and kn and mn:
        m, n, k = (math.isqrt(x * y // z) for x, y, z in ((mk, mn, kn), (kn, mn, mk), (mk, kn, mn)))
        if (m * k, k * n, m * n) == (mk, kn, mn):
            return {"M": m, "N": n, "K": k}
    for _ in range(3):
        for name, pairs in {
            "M": ((mk, "K"), (mn, "N")),
            "N": ((kn, "K"), (mn, "M")),
            "K": ((mk, "M"), (kn, "N")),
        }.items():
            for count, other in pairs:
                if name not in found and count and other in found and count % found[other] == 0:
                    found[name] = count // found[other]
    missing = [name for name in SIZES if name not in found]
    if missing and not roles.named:
        raise SizesError(f"the kernel has no parameter for {', '.join(missing)}: pass --size M,N,K")
    return {name: found.get(name, sizes[name]) for name in SIZES}


def work_of(sizes: Mapping[str, int]) -> int:
    """Return the number of multiply-adds of a product."""
    return math.prod(sizes[each] for each in SIZES)


def constants_of(program: Program, used: Sequence[int]) -> list[str]:
    """Return the names of the program's own constants that are sizes of a product or of arrays, not of a tile.

    Args:
        program: The program.
        used: Sizes of a launch.
    """
    tiles = re.compile(r"tile|block|thread|warp|mem|pad|^b[mnk]$|^t[mnk]$|^ts$|^bs$", re.IGNORECASE)
    return [
        name for name, value in program.constants.items() if value in used and value >= 16 and not tiles.search(name)
    ]


def smaller(value: int) -> int:
    """Return a smaller size, for a check that takes seconds. Usual tiles that divide the size divide it, too."""
    return value if value <= 100 else 64 if value % 64 == 0 else 100
