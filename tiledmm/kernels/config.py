"""The parameters of a kernel and of its launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tiledmm.elements import Element

# Static shared memory of a block, in bytes; more is dynamic, requested at launch.
STATIC_SHARED_BYTES = 48 * 1024

# Dynamic shared memory of a block of compute capability 9.0; others have less (``hardware``).
DYNAMIC_SHARED_BYTES = 227 * 1024

# Bytes of the widest load or store of a thread.
VECTOR_BYTES = 16

#: The least bytes of an asynchronous copy, and of stores of narrow elements where they are contiguous.
WORD_BYTES = 4

# Most threads of a block.
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Parameters of the launches of a product, on which no kernel's text depends.

    Attributes:
        split_k: Most split-K partitions: each is summed by blocks of its own, and a split-K reduction adds the partial
            sums. The same kernel serves any number.
        pack_a, pack_b: 1 if an operand is packed first: copied to rows that begin at multiples of 16 bytes; else 0.
        pack_elements: 1 if elements of both operands are packed along K first: four of int8 and uint8, 32 of bool.
        group: Width of the rasterization in columns of tiles: blocks that run at a time share what they read. Not for a
            short K (``rasterization_group``).
    """

    split_k: int = 1
    pack_a: int = 0
    pack_b: int = 0
    pack_elements: int = 0
    group: int = 1


@dataclass(frozen=True, slots=True)
class Config:
    """Parameters of a kernel, named as in its template (there in capitals).

    Attributes:
        bm, bn: Rows and columns of C's tile: of a block, of a cluster of blocks, or of each of ``tiles_per_block``.
        bk: Columns of A and rows of B in a shared tile, or k that lanes share; 1 where there is neither.
        tm, tn: Rows and columns of C that a thread computes.
        pad: Elements added to each row of a shared tile; with several tiles a block, to each tile.
        stages: Pipeline stages in shared memory; 0 without shared tiles.
        unroll: Steps of the inner loop that are unrolled.
        min_blocks: ``minBlocksPerMultiprocessor`` of ``__launch_bounds__``, which bounds registers a thread.
        wm, wn: Rows and columns of C that a warp computes; 0 without warp tiles.
        lanes: Threads that share an element of C, each with a part of k.
        triangle: 1 if only tiles on and below C's diagonal are computed, and written on both sides of it: for a @ a.T.
        tiles_per_block: Tiles of bm x bn that a block computes, each with threads of its own.
        cluster: Blocks of a thread block cluster, which computes a tile of bm x bn and shares loads by multicast.
        scheme: Name of the decomposition into limbs (see ``tiledmm.elements.SCHEMES``); empty without one.
        moduli: Moduli of the decomposition into residues (see ``residues``); 0 without one.
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
    scheme: str = ""
    moduli: int = 0
    launch: LaunchConfig = LaunchConfig()

    @property
    def tile_threads(self) -> int:
        """Threads that compute a tile of bm x bn."""
        return (self.bm // self.tm) * (self.bn // self.tn) * self.lanes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile_threads * self.tiles_per_block // self.cluster

    def as_dict(self) -> dict[str, int | str]:
        """All fields by name, those of ``launch`` among them."""
        own: dict[str, Any] = asdict(self)
        launch: dict[str, int] = own.pop("launch")
        return own | launch

    def changed(self, overrides: ConfigOverrides) -> Config:
        """The same with some fields replaced, by name."""
        launch = {name: value for name, value in overrides.items() if name in _LAUNCH_FIELDS}
        own = {name: value for name, value in overrides.items() if name not in _LAUNCH_FIELDS}
        return replace(self, **own, launch=replace(self.launch, **launch))


# Fields that count elements along k, or columns of C.
_ALONG_ROWS = ("bk", "unroll", "bn", "tn", "wn")


def in_real_numbers(config: Config, element: Element) -> Config:
    """Return the same tile in real numbers, several per element, along k and C's columns (``decompose.cu.j2``)."""
    return replace(config, **{name: element.parts * getattr(config, name) for name in _ALONG_ROWS})


def in_elements(real: Config, element: Element) -> Config:
    """Return a tile of real numbers in elements that are several of them."""
    return replace(real, **{name: getattr(real, name) // element.parts for name in _ALONG_ROWS})


#: Fields of a ``Config`` and of its ``LaunchConfig`` by name, with values.
ConfigOverrides = Mapping[str, Any]

_LAUNCH_FIELDS = tuple(each.name for each in fields(LaunchConfig))

#: The names that ``config=`` takes.
CONFIG_FIELDS = (*(each.name for each in fields(Config) if each.name != "launch"), *_LAUNCH_FIELDS)
