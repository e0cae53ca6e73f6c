"""The ladder: one row a kernel, in the order in which they are read. Everything that lists variants iterates it."""

from __future__ import annotations

import difflib
import operator
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from tiledmm.architectures import WARP_SIZE
from tiledmm.elements import WORDS, Element
from tiledmm.errors import ConfigError, UnknownVariantError

# A block's static shared memory; more has to be asked for at launch, which no rung here needs.
STATIC_SHARED_BYTES = 48 * 1024

# Bytes that a thread moves at a time, at most.
VECTOR_BYTES = 16

# Threads that a block can have.
MAX_THREADS = 1024

# Numbers of what is launched, which are no part of a kernel's text.
LAUNCHED = ("split_k", "pack_a", "pack_b", "pack_words", "group")

# Numbers that some rungs have no use for.
_MAY_BE_ZERO = ("pad", "stages", "wm", "wn", "triangle", "pack_a", "pack_b", "pack_words")

# Threads that an SM can hold at a time, on the GPUs that hold most.
FULL_SM_THREADS = 2048

# Multiply-adds laid out in a kernel's inner loop. More only makes ptxas slow: fully unrolled, a complex128 kernel with
# 64 x 64 tiles takes seconds to compile.
UNROLLED_MULTIPLIES = 256


@dataclass(frozen=True, slots=True)
class Config:
    """The numbers of one kernel, named as its template names them (there in capitals).

    Attributes:
        bm, bn: Rows and columns of C that a block computes, or each of its tiles_per_block.
        bk: Step along K; 1 where nothing is staged in shared memory.
        tm, tn: Rows and columns of C that a thread computes.
        pad: Elements added to each row of a shared tile; in blocks of several tiles, to each tile.
        stages: Shared buffers; 0 without shared memory.
        unroll: Steps of the inner loop that are laid out in full.
        min_blocks: Blocks that an SM must have room for, which bounds a thread's registers.
        wm, wn: Rows and columns of C that a warp computes; 0 where its threads' places follow from the block's.
        lanes: Threads that share those elements, each with steps of k of its own.
        triangle: 1 if only tiles on and below C's diagonal are computed, and written on both sides of it: for a @ a.T.
        split_k: Slices that K is cut into, at most: blocks of their own sum them, and a second kernel adds them up. The
            same kernel serves any number.
        pack_words: 1 if both operands are first packed to words along K: of int8 and uint8 four elements, of bool 32.
        pack_a, pack_b: 1 if an operand is first copied to rows that begin at multiples of 16 bytes, else 0.
        group: Columns of blocks that are numbered together, so that those that run at a time share what they read.
        tiles_per_block: Tiles of bm x bn that a block computes, each with threads of its own.
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
    split_k: int = 1
    pack_a: int = 0
    pack_b: int = 0
    pack_words: int = 0
    group: int = 1
    tiles_per_block: int = 1

    @property
    def tile_threads(self) -> int:
        """Threads that compute a tile of bm x bn."""
        return (self.bm // self.tm) * (self.bn // self.tn) * self.lanes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile_threads * self.tiles_per_block


# Whether something holds, and what.
Rule = tuple[bool, str]


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
        rules: ``(Config, element) -> [(holds, rule)]``: what its template needs of its numbers.
        few_rows: Whether it is for a C of few rows: a product with fewer columns than rows is computed transposed.
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
    rules: Callable[[Config, Element], list[Rule]] = lambda config, element: []
    few_rows: bool = False
    tiles: tuple[int, ...] = ()
    default_tile: int = 0
    simulated: bool = True
    text: str | None = None
    folder: str = ""

    def config(self, tile: int | None, element: Element, numbers: Mapping[str, int] | None = None) -> Config:
        """The numbers for a tile and an element type, some of them given.

        Args:
            tile: One of ``tiles``; None for the default.
            element: Type the product is taken in.
            numbers: What to have instead of the tile's own numbers, by their names in ``Config``.

        Raises:
            ConfigError: If the variant has no tiles, or not this one (the message names those it has); if there is no
                such number, or they break a rule (the message says which).
        """
        return self._with(self._of_tile(tile, element), numbers, element) if numbers else self._of_tile(tile, element)

    def _of_tile(self, tile: int | None, element: Element) -> Config:
        if tile is None:
            return self.configure(self.default_tile, element)
        if not self.tiles:
            raise ConfigError(f"variant {self.name!r} has no tile to choose; leave tile= out")
        try:
            return self.configure(self.tiles[self.tiles.index(operator.index(tile))], element)
        except (TypeError, ValueError):
            fits = ", ".join(map(str, self.tiles))
            raise ConfigError(f"variant {self.name!r} has no tile {tile!r}; its tiles are {fits}") from None

    def _with(self, config: Config, numbers: Mapping[str, int], element: Element) -> Config:
        known = [field.name for field in fields(Config)]
        for name, value in numbers.items():
            if name not in known:
                raise ConfigError(f"there is no number {name!r}; the numbers are {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, int) or value < (name not in _MAY_BE_ZERO):
                raise ConfigError(
                    f"{name} is a whole number of at least {int(name not in _MAY_BE_ZERO)}; got {value!r}"
                )
        one_tile = config.tiles_per_block == 1
        config = replace(config, **numbers)
        shared = max(self.shared_bytes(config, element, layout) for layout in ("NN", "NT", "TN", "TT"))
        limit = STATIC_SHARED_BYTES
        whole = config.bm % config.tm == 0 and config.bn % config.tn == 0
        rules = [
            (whole, "bm and bn are multiples of tm and tn"),
            (
                config.triangle <= 1 and (config.triangle == 0 or (config.wm > 0 and config.bm == config.bn)),
                "triangle is 0, or 1 where blocks have warp tiles and bm is bn",
            ),
            (config.tiles_per_block == 1 or not one_tile, "tiles_per_block is 1"),
            (config.group == 1 or config.wm > 0, "group is 1 where blocks have no warp tiles"),
            (max(config.pack_a, config.pack_b, config.pack_words) <= 1, "pack_a, pack_b and pack_words are 0 or 1"),
            (not config.pack_words or element.dtype_name in WORDS, f"pack_words is for {', '.join(WORDS)}"),
            (not config.pack_words or not config.lanes > 1, "pack_words is for kernels whose lanes do not share k"),
            (not config.pack_words or not config.pack_a + config.pack_b, "pack_words packs both, once"),
            (config.threads <= MAX_THREADS, f"a block has at most {MAX_THREADS} threads, not {config.threads}"),
            (shared <= limit, f"a block has {limit} bytes of shared memory, not the {shared} that this needs"),
            *(self.rules(config, element) if whole else ()),
        ]
        broken = "; ".join(rule for holds, rule in rules if not holds)
        if broken:
            raise ConfigError(f"variant {self.name!r} of {element.dtype_name} cannot have these numbers: {broken}")
        return config


def _one_element_a_thread(config: Config, element: Element) -> list[Rule]:
    return [
        (config.tm == config.tn == config.bk == config.lanes == 1, "tm, tn, bk and lanes are 1"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad are 0"),
    ]


def _is_power_of_2(size: int) -> bool:
    return size & (size - 1) == 0


def _even_copies(stages: int) -> Callable[[Config, Element], list[Rule]]:
    """Of kernels whose threads copy one element after the other."""

    def rules(config: Config, element: Element) -> list[Rule]:
        threads, sizes = config.threads, (config.bm, config.bn, config.bk)
        even = not any(config.bk * size % threads for size in (config.bm, config.bn))
        return [
            (even, "threads copy even shares of both tiles"),
            (all(threads % size == 0 for size in sizes), "the number of threads is a multiple of bm, bn and bk"),
            (config.bk % config.unroll == 0, "bk is a multiple of unroll"),
            (config.stages == stages, f"stages is {stages}"),
            (config.wm == config.wn == 0 and config.lanes == 1, "wm and wn are 0, lanes is 1"),
        ]  # fmt: skip

    return rules


def _padded_to_vectors(config: Config, element: Element) -> Rule:
    return config.pad * element.sum_bytes % VECTOR_BYTES == 0, f"pad is a multiple of {VECTOR_BYTES} bytes"


def _vector_copies(config: Config, element: Element) -> list[Rule]:
    """Of ``tile_copies.cuh``: shares are even, a vector at a time and an element at a time."""
    vector = VECTOR_BYTES // element.sum_bytes
    threads = config.threads
    shares = [
        (big % small == 0)
        for width in (config.bm, config.bn)
        for across in (config.bk // vector, width // vector, config.bk, width)
        for small, big in [sorted((max(across, 1), threads))]
    ] + [
        (big % small == 0)
        for width in (config.bm, config.bn)
        for small, big in [sorted((width * config.bk, threads * vector))]
    ]
    return [
        (config.tm % vector == 0 and config.tn % vector == 0, f"tm and tn are multiples of {vector}"),
        (config.bk % vector == 0, f"bk is a multiple of {vector}"),
        (all(shares), "threads copy even shares of both tiles"),
        _padded_to_vectors(config, element),
    ]


def _square_vectors(config: Config, element: Element) -> list[Rule]:
    return [*_vector_copies(config, element), *_even_copies(1)(config, element)[3:]]


def _warp_tiles(config: Config, element: Element) -> list[Rule]:
    fits = config.wm > 0 and config.wn > 0 and config.wm % config.tm == 0 and config.wn % config.tn == 0
    lanes = config.wm // config.tm * (config.wn // config.tn) if fits else 0
    return [
        (lanes == WARP_SIZE, f"wm / tm * (wn / tn) is {WARP_SIZE}"),
        (fits and config.bm % config.wm == 0 and config.bn % config.wn == 0, "bm and bn are multiples of wm and wn"),
        (config.bk % 2 == 0, "bk is even"),
        (config.stages >= 2, "stages is at least 2"),
        (config.lanes == 1, "lanes is 1"),
        *_vector_copies(config, element),
    ]


def _lanes_share_k(config: Config, element: Element) -> list[Rule]:
    bk = WARP_SIZE * VECTOR_BYTES // element.sum_bytes
    return [
        (config.lanes == WARP_SIZE, f"lanes is {WARP_SIZE}"),
        (config.bk == bk, f"bk is {bk}"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad are 0"),
    ]


def _groups_of_threads(config: Config, element: Element) -> list[Rule]:
    vector, group = VECTOR_BYTES // element.sum_bytes, config.tile_threads
    sizes = (config.bm, config.bn, config.bk)
    return [
        (group > 0 and WARP_SIZE % group == 0, f"the threads of a tile, bm / tm * (bn / tn), divide {WARP_SIZE}"),
        (config.threads % WARP_SIZE == 0, f"those of a block are a multiple of {WARP_SIZE}"),
        (all(_is_power_of_2(size) and size >= vector for size in sizes),
         f"bm, bn and bk are powers of 2, at least {vector}"),
        (config.tn % vector == 0, f"tn is a multiple of {vector}"),
        (config.bk % config.unroll == 0 and config.unroll % vector == 0,
         f"bk is a multiple of unroll, and that of {vector}"),
        (group > 0 and not any(config.bk * size % (group * vector) for size in sizes[:2]),
         f"threads copy even shares of both tiles, in {vector} at a time"),
        _padded_to_vectors(config, element),
        (config.stages == 1, "stages is 1"),
        (config.wm == config.wn == 0 and config.lanes == 1, "wm and wn are 0, lanes is 1"),
    ]  # fmt: skip


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


def _shared_warp_tiles(config: Config, element: Element, layout: str) -> int:
    """Tiles on their way in, or rows of C on their way out."""
    rows = config.bm // config.tm * (config.bn // max(config.wn, 1)) * (config.wn + 1) * element.sum_bytes
    return max(_shared_k_major(config, element, layout), -(-rows // 16) * 16)


# Rows of a block's tile, of a warp's, columns of a warp's, rows and columns of a thread's, step along K, stages, blocks
# an SM: by bytes of a sum and by columns of the block's tile. Two sets of fragments and the sums fill the registers.
_WARP_TILES = {
    4: {
        32: (32, 32, 32, 8, 4, 16, 2, 1),
        64: (64, 32, 32, 8, 4, 8, 3, 5),
        128: (128, 32, 64, 8, 8, 8, 3, 2),
        256: (128, 32, 128, 8, 16, 8, 3, 1),
    },
    8: {
        32: (32, 32, 32, 8, 4, 8, 2, 1),
        64: (64, 32, 32, 8, 4, 8, 3, 1),
        128: (128, 32, 64, 8, 8, 8, 2, 1),
        256: (64, 32, 64, 8, 8, 8, 2, 1),
    },
    16: {
        32: (32, 32, 16, 4, 4, 8, 2, 1),
        64: (64, 32, 16, 4, 4, 8, 2, 1),
        128: (64, 32, 32, 4, 8, 4, 2, 1),
    },
}
# A 64-bit integer product takes registers of its own.
_WARP_TILES_OF_INT64 = {
    32: (32, 32, 32, 8, 4, 8, 2, 1),
    64: (64, 32, 32, 8, 4, 8, 3, 1),
    128: (64, 32, 32, 8, 4, 8, 3, 1),
}


def _warp_tiled(tile: int, element: Element) -> Config:
    """Tiles of ``tile`` columns; complex128 and 64-bit integers have no registers for more than 128."""
    integer = element.dtype.kind in "biu"
    tiles = _WARP_TILES_OF_INT64 if integer and element.sum_bytes == 8 else _WARP_TILES[element.sum_bytes]
    bn = tile if tile in tiles else max(tiles)
    bm, wm, wn, tm, tn, bk, stages, min_blocks = tiles[bn]
    # The blocks that run at a time, as many as an H100 holds, cover about as many rows of C as columns.
    group = {32: 32, 64: 16, 128: 16, 256: 8}[bn]
    if integer:
        min_blocks = 1  # two blocks an SM leave too few registers for what multiplies, widens or takes apart
    elif element.itemsize < element.sum_bytes:
        min_blocks = min(min_blocks, 4)
    return Config(
        bm, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, min_blocks=min_blocks, wm=wm, wn=wn,
        group=group,
    )  # fmt: skip


# The same for tiles of few rows, by bytes of a sum (or of those that are widened on the way) and by rows. Blocks are
# small and stages many: what counts is how much is on its way.
_THIN_TILES = {
    4: {
        8: (128, 8, 128, 8, 4, 16, 4),
        16: (256, 16, 64, 8, 4, 8, 4),
        32: (256, 32, 64, 8, 8, 8, 4),
        64: (128, 64, 64, 16, 8, 8, 4),
    },
    8: {
        8: (128, 8, 128, 8, 4, 8, 4),
        16: (128, 16, 64, 8, 4, 8, 4),
        32: (128, 32, 32, 8, 4, 8, 4),
        64: (64, 32, 32, 8, 4, 8, 3),
    },
    16: {
        8: (64, 8, 64, 4, 4, 8, 4),
        16: (64, 16, 32, 4, 4, 8, 4),
        32: (64, 16, 32, 4, 4, 8, 3),
        64: (64, 32, 16, 4, 4, 8, 2),
    },
}
_THIN_TILES_WIDENED = {
    8: (256, 8, 64, 4, 4, 8, 2),
    16: (256, 16, 64, 8, 4, 8, 2),
    32: (256, 32, 64, 8, 8, 8, 2),
    64: (128, 32, 64, 8, 8, 8, 3),
}


def _thin(tile: int, element: Element) -> Config:
    """Tiles of ``tile`` rows: columns, rows and columns of a warp's, of a thread's, step along K, stages."""
    widened = element.itemsize < element.sum_bytes
    tiles = _THIN_TILES_WIDENED if widened else _THIN_TILES[element.sum_bytes]
    bn, wm, wn, tm, tn, bk, stages = tiles[tile]
    return Config(tile, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, wm=wm, wn=wn)


def _dot_products(tile: int, element: Element) -> Config:
    """``tile`` rows, 2 or 4 columns a warp, and the fewer the wider its elements are."""
    tm = min(tile, 8 if tile < 16 else 4)
    widened = element.itemsize < element.sum_bytes
    columns = 1 if widened and tile == 2 else 2 if widened or tile < 8 else 4
    tn = max(1, columns * 4 // element.sum_bytes)
    across = 4 if tile < 16 else 2
    bk = WARP_SIZE * VECTOR_BYTES // element.sum_bytes
    return Config(tile, across * tn, bk=bk, tm=tm, tn=tn, lanes=WARP_SIZE)


# Step along K, rows and columns of a thread, blocks an SM: by bytes of a sum and by tile. The fewer threads a tile has,
# the less time a warp spends on finding out where its tiles lie; a thread writes 16 bytes side by side.
_TINY_TILES = {
    4: {4: (4, 1, 4, 7), 8: (8, 2, 4, 5), 16: (16, 4, 4, 4)},
    8: {4: (4, 1, 2, 7), 8: (8, 2, 2, 7), 16: (8, 4, 2, 4)},
    16: {4: (4, 1, 1, 7), 8: (4, 2, 1, 7), 16: (4, 8, 1, 3)},
}


def _tiny(tile: int, element: Element) -> Config:
    """Square tiles of C, as many as 128 threads compute."""
    bk, tm, tn, min_blocks = _TINY_TILES[element.sum_bytes][tile]
    pad = tile if tile < 16 else 0  # two tiles of 16 do not meet in a wavefront
    config = Config(tile, tile, bk, tm, tn, pad=pad, stages=1, unroll=bk, min_blocks=min_blocks)
    return replace(config, tiles_per_block=128 // config.tile_threads)


def _shared_tiny(config: Config, element: Element, layout: str) -> int:
    elements = config.bk * (config.bm + config.bn) + 2 * config.pad
    return config.tiles_per_block * elements * element.sum_bytes


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
            rules=_one_element_a_thread,
        ),
        Variant(
            name="coalesced",
            template="coalesced.cu.j2",
            summary="a warp walks along a row of C: neighbouring lanes read neighbouring addresses",
            configure=lambda tile, element: Config(bm=16, bn=32, unroll=8),
            block=_block_of_tiles,
            shared_bytes=lambda config, element, layout: 0,
            rules=_one_element_a_thread,
        ),
        Variant(
            name="tiled",
            template="tiled.cu.j2",
            summary="square tiles of A and B in shared memory, each element used once per row or column of the tile",
            configure=_tiled,
            block=_block_of_tiles,
            shared_bytes=_shared_tiled,
            rules=_even_copies(1),
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
            rules=_even_copies(1),
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
            rules=lambda config, element: [*_even_copies(2)(config, element), _padded_to_vectors(config, element)],
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
            rules=_even_copies(1),
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
            rules=_square_vectors,
            tiles=(64, 128),
            default_tile=128,
        ),
        Variant(
            name="warp_tiled",
            template="warp_tiled.cu.j2",
            summary="a tile a warp, fragments of it in registers; copies several steps ahead, 16 bytes at a time",
            configure=_warp_tiled,
            block=lambda config: (config.threads, 1),
            shared_bytes=_shared_warp_tiles,
            rules=_warp_tiles,
            tiles=(32, 64, 128, 256),
            default_tile=256,
        ),
        Variant(
            name="thin",
            template="warp_tiled.cu.j2",
            summary="the same with tiles of few rows: a C of few rows or columns at the speed of memory",
            configure=_thin,
            block=lambda config: (config.threads, 1),
            shared_bytes=_shared_warp_tiles,
            rules=_warp_tiles,
            few_rows=True,
            tiles=(8, 16, 32, 64),
            default_tile=8,
        ),
        Variant(
            name="dot_products",
            template="dot_products.cu.j2",
            summary="a warp for a few elements of C, its lanes share k: for a C of few rows or columns",
            configure=_dot_products,
            block=lambda config: (config.threads, 1),
            shared_bytes=lambda config, element, layout: 0,
            rules=_lanes_share_k,
            few_rows=True,
            tiles=(1, 2, 4, 8, 16),
            default_tile=4,
        ),
        Variant(
            name="tiny",
            template="tiny.cu.j2",
            summary="a warp, or a part of one, for a tile of C, and many in a block: for batches of small products",
            configure=_tiny,
            block=lambda config: (config.threads, 1),
            shared_bytes=_shared_tiny,
            rules=_groups_of_threads,
            tiles=(4, 8, 16),
            default_tile=8,
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


def _sum_slices(slices: int, element: Element) -> Config:
    """Elements side by side up to 16 bytes, and the more threads for each the more slices there are."""
    tn = min(4, 16 // element.itemsize)
    groups = 1 if slices <= 8 else 8 if slices <= 128 else 32
    return Config(bm=groups, bn=256 // groups * tn, tn=tn)


# The second kernel of a product whose K is cut into slices; its tile is their number. No rung: it multiplies nothing.
SUM_SLICES = Variant(
    name="sum_slices",
    template="sum_slices.cu.j2",
    summary="adds up the slices of K",
    configure=_sum_slices,
    block=_block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * config.bn * element.sum_bytes if config.bm > 1 else 0,
)


# What copies an operand to rows that a kernel reads fast.
PACK = Variant(
    name="pack",
    template="pack.cu.j2",
    summary="copies an operand to aligned rows",
    configure=lambda tile, element: Config(bm=32, bn=32, tm=4),
    block=_block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * (config.bn + 1) * element.sum_bytes,
)


# What packs narrow elements to words; its tile is how many go into one.
PACK_WORDS = Variant(
    name="pack_words",
    template="pack_words.cu.j2",
    summary="packs narrow elements to words along K",
    configure=lambda tile, element: Config(bm=32, bn=32, bk=tile, tm=4),
    block=_block_of_tiles,
    shared_bytes=lambda config, element, layout: 4 * config.bn * (config.bm + 1),
)


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
