"""The ladder: one row a kernel, in the order in which they are read. Everything that lists variants iterates it."""

from __future__ import annotations

import difflib
import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tiledmm.elements import Element
from tiledmm.errors import ConfigError, UnknownVariantError

# A block's static shared memory; more has to be asked for at launch, which no rung here needs.
STATIC_SHARED_BYTES = 48 * 1024

# Threads that an SM can hold at a time, on the GPUs that hold most.
FULL_SM_THREADS = 2048

# Multiply-adds laid out in a kernel's inner loop. More only makes ptxas slow: fully unrolled, a complex128 kernel with
# 64 x 64 tiles takes seconds to compile.
UNROLLED_MULTIPLIES = 256


@dataclass(frozen=True, slots=True)
class Config:
    """The numbers of one kernel, named as its template names them (there in capitals).

    Attributes:
        bm, bn: Rows and columns of C that a block computes.
        bk: Step along K; 1 where nothing is staged in shared memory.
        tm, tn: Rows and columns of C that a thread computes.
        pad: Elements added to each row of a shared tile.
        stages: Shared buffers; 0 without shared memory.
        unroll: Steps of the inner loop that are laid out in full.
        min_blocks: Blocks that an SM must have room for, which bounds a thread's registers.
        wm, wn: Rows and columns of C that a warp computes; 0 where its threads' places follow from the block's.
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

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.bm // self.tm) * (self.bn // self.tn)


@dataclass(frozen=True, slots=True)
class Variant:
    """One rung of the ladder.

    Attributes:
        name: What ``variant=`` takes.
        template: File in ``cuda_src/``, or None for the baseline that is not ours.
        summary: What it adds to the rung before it, in one line.
        configure: ``(tile, element) -> Config`` for products of that element type.
        block: ``Config -> (x, y)``, the block's dimensions.
        shared_bytes: ``(Config, element, layout) -> bytes`` of shared memory a block uses.
        tiles: What ``tile=`` may be; empty where the variant has no tile to choose.
        default_tile: The tile taken when none is given.
        simulated: Whether the simulator can run it: it has no twin for some instructions of GPUs.
        text: Of a user's template: its text when it was registered. ``template`` is then the file's name, for messages.
        folder: Where that lies, and what it includes may lie.
    """

    name: str
    template: str | None
    summary: str
    configure: Callable[[int, Element], Config]
    block: Callable[[Config], tuple[int, int]]
    shared_bytes: Callable[[Config, Element, str], int]
    tiles: tuple[int, ...] = ()
    default_tile: int = 0
    simulated: bool = True
    text: str | None = None
    folder: str = ""

    def config(self, tile: int | None, element: Element) -> Config:
        """The numbers for a tile and an element type.

        Raises:
            ConfigError: If the variant has no tiles, or not this one; the message names those it has.
        """
        if tile is None:
            return self.configure(self.default_tile, element)
        if not self.tiles:
            raise ConfigError(f"variant {self.name!r} has no tile to choose; leave tile= out")
        try:
            return self.configure(self.tiles[self.tiles.index(operator.index(tile))], element)
        except (TypeError, ValueError):
            fits = ", ".join(map(str, self.tiles))
            raise ConfigError(f"variant {self.name!r} has no tile {tile!r}; its tiles are {fits}") from None


def _block_of_tiles(config: Config) -> tuple[int, int]:
    return config.bn // config.tn, config.bm // config.tm


def _tile_bytes(rows: int, cols: int, pad: int, element: Element) -> int:
    return rows * (cols + pad) * element.sum_bytes


def _shared_tiled(config: Config, element: Element, layout: str) -> int:
    a_rows, a_cols = (config.bk, config.bm) if layout[0] == "T" else (config.bm, config.bk)
    b_rows, b_cols = (config.bn, config.bk) if layout[1] == "T" else (config.bk, config.bn)
    return _tile_bytes(a_rows, a_cols, config.pad, element) + _tile_bytes(b_rows, b_cols, config.pad, element)


def _shared_double_buffered(config: Config, element: Element, layout: str) -> int:
    pad_b = config.pad if layout[1] == "T" else 0
    a_bytes = config.bm * config.bk * element.sum_bytes
    return 2 * (a_bytes + config.bk * config.bn * element.sum_bytes + pad_b * config.bn * element.sum_bytes)


def _square(tile: int, element: Element, *, stages: int, pad: int) -> Config:
    """Square tiles of C, a square number of elements a thread.

    The step along K is the tile (16 for tiles of 64). With two buffers it is twice that, which buys more work between
    two barriers, unless the next tile's elements wait in registers, as those do that are widened on the way. It is
    halved until every layout's shared tiles fit the static 48 KiB. A thread computes one element, or more where the
    tile has more elements than a block has threads, or fewer to copy than threads.
    """
    waits_in_registers = stages > 1 and element.itemsize < element.sum_bytes
    bk = (tile if tile <= 32 else 16) * (1 if waits_in_registers else stages)
    while stages * 2 * _tile_bytes(tile, bk, pad, element) > STATIC_SHARED_BYTES:
        bk //= 2
    per_thread = 1 if tile <= 32 else 4
    while (tile // per_thread) ** 2 > tile * bk:
        per_thread *= 2
    unroll = min(bk, UNROLLED_MULTIPLIES // (per_thread * per_thread * element.multiplies))
    # Sums of 4 bytes make do with the registers that a full SM leaves each thread.
    min_blocks = 1
    if element.sum_bytes == 4 and not waits_in_registers:
        min_blocks = FULL_SM_THREADS // tile**2 if per_thread == 1 else 3
    return Config(tile, tile, bk, per_thread, per_thread, pad, stages, unroll, min_blocks)


def _tiled(tile: int, element: Element) -> Config:
    return _square(tile, element, stages=1, pad=0)


def _tiled_padded(tile: int, element: Element) -> Config:
    return _square(tile, element, stages=1, pad=1)


def _double_buffered(tile: int, element: Element) -> Config:
    return _square(tile, element, stages=2, pad=16 // element.sum_bytes)


def _register_tiled(tile: int, element: Element) -> Config:
    """Square tiles of C, 8 x 8 elements a thread.

    complex128 and 64-bit integers have registers for half or a quarter as many, and none for a tile of 128.
    """
    tm, tn = {4: (8, 8), 8: (8, 8), 16: (4, 4)}[element.sum_bytes]
    integer = element.dtype.kind in "biu"
    if element.sum_bytes == 16 or (integer and element.sum_bytes == 8):
        tile, tn = 64, 4
    min_blocks = 2 if element.sum_bytes == 4 and not integer else 1
    return Config(tile, tile, 8, tm, tn, pad=16 // element.sum_bytes, stages=1, unroll=8, min_blocks=min_blocks)


def _shared_k_major(config: Config, element: Element, layout: str) -> int:
    a_bytes = _tile_bytes(config.bk, config.bm, 0 if layout[0] == "T" else config.pad, element)
    b_bytes = _tile_bytes(config.bk, config.bn, 0 if layout[1] == "N" else config.pad, element)
    return config.stages * (a_bytes + b_bytes)


# Rows of a block's tile, of a warp's, columns of a warp's, rows and columns of a thread's, step along K, stages, blocks
# an SM: by bytes of a sum and by columns of the block's tile. Two sets of fragments and the sums fill the registers.
_WARP_TILES = {
    4: {64: (64, 32, 32, 8, 4, 8, 3, 1), 128: (128, 32, 64, 8, 8, 8, 3, 2), 256: (128, 32, 128, 8, 16, 8, 3, 1)},
    8: {64: (64, 32, 32, 8, 4, 8, 3, 1), 128: (128, 32, 64, 8, 8, 8, 2, 1), 256: (64, 32, 64, 8, 8, 8, 2, 1)},
    16: {64: (64, 32, 16, 4, 4, 8, 2, 1), 128: (64, 32, 32, 4, 8, 4, 2, 1)},
}
# A 64-bit integer product takes registers of its own.
_WARP_TILES_OF_INT64 = {64: (64, 32, 32, 8, 4, 8, 3, 1), 128: (64, 32, 32, 8, 4, 8, 3, 1)}


def _warp_tiled(tile: int, element: Element) -> Config:
    """Tiles of ``tile`` columns; complex128 and 64-bit integers have no registers for more than 128."""
    integer = element.dtype.kind in "biu"
    tiles = _WARP_TILES_OF_INT64 if integer and element.sum_bytes == 8 else _WARP_TILES[element.sum_bytes]
    bn = tile if tile in tiles else max(tiles)
    bm, wm, wn, tm, tn, bk, stages, min_blocks = tiles[bn]
    if integer:
        min_blocks = 1  # two blocks an SM leave too few registers for what multiplies, widens or takes apart
    return Config(
        bm, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, min_blocks=min_blocks, wm=wm, wn=wn
    )


SQUARE_TILES = (8, 16, 32, 64)

VARIANTS: dict[str, Variant] = {
    row.name: row
    for row in (
        Variant(
            name="naive",
            template="naive.cu.j2",
            summary="one thread per element of C; a warp walks down a column: uncoalesced",
            configure=lambda tile, element: Config(bm=32, bn=16, unroll=8),
            block=lambda config: (config.bm, config.bn),
            shared_bytes=lambda config, element, layout: 0,
        ),
        Variant(
            name="coalesced",
            template="coalesced.cu.j2",
            summary="a warp walks along a row of C: neighbouring lanes read neighbouring addresses",
            configure=lambda tile, element: Config(bm=16, bn=32, unroll=8),
            block=_block_of_tiles,
            shared_bytes=lambda config, element, layout: 0,
        ),
        Variant(
            name="tiled",
            template="tiled.cu.j2",
            summary="square tiles of A and B in shared memory, each element used once per row or column of the tile",
            configure=_tiled,
            block=_block_of_tiles,
            shared_bytes=_shared_tiled,
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="tiled_padded",
            template="tiled.cu.j2",
            summary="rows of TILE + 1: a column of a tile lies in 32 different banks",
            configure=_tiled_padded,
            block=_block_of_tiles,
            shared_bytes=_shared_tiled,
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="double_buffered",
            template="double_buffered.cu.j2",
            summary="the next tiles are loaded while the current ones are multiplied; one barrier a step",
            configure=_double_buffered,
            block=_block_of_tiles,
            shared_bytes=_shared_double_buffered,
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="register_tiled",
            template="register_tiled.cu.j2",
            summary="8 x 8 elements a thread: one element from shared memory takes part in 8 products",
            configure=_register_tiled,
            block=_block_of_tiles,
            shared_bytes=_shared_k_major,
            tiles=(64, 128),
            default_tile=128,
        ),
        Variant(
            name="vectorized",
            template="vectorized.cu.j2",
            summary="the same, 16 bytes at a time: float4 to and from global and shared memory",
            configure=_register_tiled,
            block=_block_of_tiles,
            shared_bytes=_shared_k_major,
            tiles=(64, 128),
            default_tile=128,
        ),
        Variant(
            name="warp_tiled",
            template="warp_tiled.cu.j2",
            summary="a tile a warp, fragments of it in registers; copies several steps ahead, 16 bytes at a time",
            configure=_warp_tiled,
            block=lambda config: (config.threads, 1),
            shared_bytes=_shared_k_major,
            tiles=(64, 128, 256),
            default_tile=256,
        ),
        Variant(
            name="cublas",
            template=None,
            summary="cupy.matmul itself, the baseline; never chosen unless it is named",
            configure=lambda tile, element: Config(0, 0),
            block=lambda config: (0, 0),
            shared_bytes=lambda config, element, layout: 0,
            simulated=False,
        ),
    )
}


def add_variant(row: Variant) -> None:
    """Puts a user's variant on the ladder, above the kernels and below the baseline; one of that name is replaced."""
    with _LOCK:
        rows = {name: known for name, known in VARIANTS.items() if name not in (row.name, "cublas")}
        _replace({**rows, row.name: row, "cublas": VARIANTS["cublas"]})


def remove_variant(name: str) -> None:
    """Takes a user's variant off the ladder."""
    with _LOCK:
        _replace({known: row for known, row in VARIANTS.items() if known != name})


def _replace(rows: dict[str, Variant]) -> None:
    # In place: everybody holds this dict.
    VARIANTS.clear()
    VARIANTS.update(rows)


_LOCK = threading.Lock()


def kernel_variants() -> list[Variant]:
    """The variants that are kernels of this package, in ladder order: all but ``cublas``."""
    return [row for row in VARIANTS.values() if row.template is not None]


def find_variant(name: str) -> Variant:
    """The row of a name.

    Raises:
        UnknownVariantError: If there is none; the message names the nearest and lists all.
    """
    row = VARIANTS.get(name) if isinstance(name, str) else None
    if row is None:
        near = difflib.get_close_matches(str(name), VARIANTS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise UnknownVariantError(f"there is no variant {name!r}{hint}; the variants are auto, {', '.join(VARIANTS)}")
    return row
