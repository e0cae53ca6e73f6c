"""Parameters of a kernel (``Config``) and of its launches (``LaunchConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tiledmm.elements import Element

# Maximum static shared memory per block, in bytes. More is dynamic and must be requested at launch.
STATIC_SHARED_BYTES = 48 * 1024

# Maximum dynamic shared memory per block on compute capability 9.0, in bytes. Other devices have less (``hardware``).
DYNAMIC_SHARED_BYTES = 227 * 1024

# Bytes of the widest load or store per thread.
VECTOR_BYTES = 16

#: Bytes of the narrowest asynchronous copy, and of one store of contiguous narrow elements.
WORD_BYTES = 4

# Maximum number of threads per block.
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Parameters of the launches of a product. The source of the kernel does not depend on them.

    Attributes:
        split_k: Maximum number of split-K partitions. Different blocks sum the partitions, and a split-K reduction adds
            the partial sums. The same kernel serves any number of partitions.
        pack_a, pack_b: 1 to pack the operand first, which copies it to rows that begin at cache lines; else 0.
        pack_elements: 1 to pack the elements of both operands along K first: four of int8 or uint8, or 32 of bool, per
            packed element; else 0.
        group: Number of columns of tiles per rasterization group. Blocks that run at the same time share the operands
            that they read. Short K uses another number (``rasterization_group``).
    """

    split_k: int = 1
    pack_a: int = 0
    pack_b: int = 0
    pack_elements: int = 0
    group: int = 1


#: Number of columns of tiles per rasterization group of a kernel that computes only a triangle of C.
TRIANGLE_GROUP = 8


@dataclass(frozen=True, slots=True)
class Config:
    """Parameters of a kernel. Templates have the same names in capitals.

    Attributes:
        bm, bn: Rows and columns of a tile of C. A block computes one tile, unless ``tiles_per_block`` or ``cluster`` is
            greater than 1.
        bk: Step along K: columns of A and rows of B per shared tile, or the steps of k that lanes share; 1 for kernels
            with neither.
        tm, tn: Rows and columns of C per thread.
        pad: Elements of padding per row of a shared tile, or per shared tile if ``tiles_per_block`` is greater than 1.
        stages: Number of pipeline stages in shared memory; 0 for kernels without shared tiles.
        unroll: Number of steps of the inner loop that are unrolled.
        min_blocks: ``minBlocksPerMultiprocessor`` of ``__launch_bounds__``, which limits the registers per thread.
        wm, wn: Rows and columns of C per warp; 0 for kernels without warp tiles.
        lanes: Number of threads that compute an element of C together, each for a part of K. They belong to one warp,
            or, in kernels with warp tiles, to that many warps.
        triangle: 1 to compute only the tiles that reach below C's diagonal or lie on it, and to write each element on
            both sides of it, for a @ a.T; or its conjugate above the diagonal, for a @ a.conj().T; else 0.
        tiles_per_block: Number of tiles of bm x bn per block, each computed by its own threads.
        cluster: Number of blocks per thread block cluster. A cluster computes one tile of bm x bn, and its blocks share
            loads by multicast.
        cluster_k: Number of blocks per cluster that each sum a part of K of the same tile. They add their sums through
            each other's shared memory. For ``wgmma`` a caller sets ``split_k`` instead, from which
            ``Hopper.in_cluster`` derives it.
        scheme: Name of the decomposition into limbs (see ``tiledmm.elements.SCHEMES``); empty for other kernels.
        moduli: Number of moduli of the decomposition into residues (see ``operands/residues``); 0 for other kernels.
        launch: Parameters of the launches.
    """

    bm: int
    bn: int
    bk: int = 1
    tm: int = 1
    tn: int = 1
    pad: int = 0
    stages: int = 0
    unroll: int = 1
    min_blocks: int = 1
    wm: int = 0
    wn: int = 0
    lanes: int = 1
    triangle: int = 0
    tiles_per_block: int = 1
    cluster: int = 1
    cluster_k: int = 1
    scheme: str = ""
    moduli: int = 0
    launch: LaunchConfig = LaunchConfig()

    @property
    def blocks_per_cluster(self) -> int:
        """Number of blocks per thread block cluster; 1 for kernels without clusters."""
        return self.cluster * self.cluster_k

    @property
    def tile_threads(self) -> int:
        """Number of threads that compute a tile of bm x bn."""
        return (self.bm // self.tm) * (self.bn // self.tn) * self.lanes

    @property
    def threads(self) -> int:
        """Number of threads per block that compute C, which excludes those of a producer warpgroup."""
        return self.tile_threads * self.tiles_per_block // self.cluster

    def as_dict(self) -> dict[str, int | str]:
        """Return a dict of all fields and their values, including those of ``launch``."""
        own: dict[str, Any] = asdict(self)
        launch: dict[str, int] = own.pop("launch")
        return own | launch

    def changed(self, overrides: ConfigOverrides) -> Config:
        """Return a copy of this config with some fields replaced, which may also be fields of ``launch``."""
        launch = {name: value for name, value in overrides.items() if name in _LAUNCH_FIELDS}
        own = {name: value for name, value in overrides.items() if name not in _LAUNCH_FIELDS}
        return replace(self, **own, launch=replace(self.launch, **launch))


# Fields that count elements along K, or columns of C.
_ALONG_ROWS = ("bk", "unroll", "bn", "tn", "wn")


def in_real_numbers(config: Config, element: Element) -> Config:
    """Return a tile's config with its columns and steps of k counted in real numbers instead of elements.

    A complex element is two real numbers (see ``decompose.cu.j2``).
    """
    return replace(config, **{name: element.components * getattr(config, name) for name in _ALONG_ROWS})


def in_elements(real: Config, element: Element) -> Config:
    """Return a tile's config with its columns and steps of k counted in elements instead of real numbers.

    A complex element is two real numbers. This reverses ``in_real_numbers``.
    """
    return replace(real, **{name: getattr(real, name) // element.components for name in _ALONG_ROWS})


#: Values for fields of a ``Config`` and of its ``LaunchConfig``, by the field's name.
ConfigOverrides = Mapping[str, Any]

_LAUNCH_FIELDS = tuple(each.name for each in fields(LaunchConfig))

#: Names of the fields that ``config=`` accepts.
CONFIG_FIELDS = (*(each.name for each in fields(Config) if each.name != "launch"), *_LAUNCH_FIELDS)
