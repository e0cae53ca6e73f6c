"""Clusters of a launch: their size, whether it fits the grid, and which blocks run together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from tiledmm.errors import ConfigError
from tiledmm.simulator.build.native_kernel import NativeKernel

#: Blocks of a cluster at most: 16 on an H100, where more than 8 are not portable.
MOST_BLOCKS = 16

Three = tuple[int, int, int]


def three_sizes(what: str, size: int | Sequence[int]) -> Three:
    """Return three sizes, along x, y and z; sizes that are not given are 1.

    Args:
        what: ``"grid"``, ``"block"`` or ``"cluster"``, for the message of an error.
        size: One to three whole numbers.

    Raises:
        ConfigError: If ``size`` is something else.
    """
    sizes = tuple(size) if isinstance(size, Iterable) else (size,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(each, (int, np.integer)) for each in sizes):
        raise ConfigError(f"{what} must be one to three integers; got {size!r}")
    x, y, z = map(int, (*sizes, 1, 1)[:3])
    return x, y, z


def cluster_of(kernel: NativeKernel, given: int | Sequence[int] | None, grid: Three) -> Three:
    """Return the number of blocks per cluster along x, y and z; zeros for a launch without clusters.

    Args:
        kernel: The kernel.
        given: What the launch says; None for what the kernel's ``__cluster_dims__`` says.
        grid: Number of blocks along x, y and z.

    Raises:
        ConfigError: If the target has no such clusters, if the kernel's ``__cluster_dims__`` says something else, or if
            the grid does not consist of whole clusters.
    """
    declared = kernel.cluster
    if given is None and not any(declared):
        return 0, 0, 0
    cluster = declared if given is None else three_sizes("cluster", given)
    said = " x ".join(map(str, cluster))
    if any(declared) and cluster != declared:
        raise ConfigError(
            f"cluster must be {' x '.join(map(str, declared))}, as __cluster_dims__ of {kernel.name} says; got {said}"
        )
    blocks = cluster[0] * cluster[1] * cluster[2]
    if min(cluster) < 1 or blocks > MOST_BLOCKS:
        raise ConfigError(f"a cluster has from 1 to {MOST_BLOCKS} blocks; got {said}")
    if kernel.target.capability < (9, 0):
        raise ConfigError(
            f'clusters need compute capability 9.0 or newer (target="sm_90"), which {kernel.target.name} does not have'
        )
    for axis, size, each in zip("xyz", grid, cluster, strict=True):
        if size % each:
            raise ConfigError(
                f"a grid of {' x '.join(map(str, grid))} blocks does not fit clusters of {said}: its size along {axis} "
                f"must be a multiple of {each}, such as {-(-size // each) * each}"
            )
    return cluster


def whole_clusters(chosen: Sequence[int] | None, grid: Three, cluster: Three) -> tuple[int, ...] | None:
    """Return the numbers of all blocks of the clusters in which chosen blocks are.

    Clusters are in order of their numbers, each with its blocks by rank.

    Args:
        chosen: Numbers of blocks; None for all blocks of the grid, for which None is returned.
        grid: Number of blocks along x, y and z.
        cluster: Number of blocks per cluster along x, y and z; zeros for a launch without clusters.
    """
    if chosen is None or cluster[0] * cluster[1] * cluster[2] <= 1:
        return None if chosen is None else tuple(chosen)
    firsts = set()  # the first block of each cluster, as (z, y, x)
    for number in chosen:
        at = number // (grid[0] * grid[1]), number // grid[0] % grid[1], number % grid[0]
        firsts.add(tuple(i // each * each for i, each in zip(at, cluster[::-1], strict=True)))
    return tuple(
        x + dx + grid[0] * (y + dy + grid[1] * (z + dz))
        for z, y, x in sorted(firsts)
        for dz, dy, dx in product(*map(range, cluster[::-1]))
    )
