"""Of each rung of the CUDA cores: the numbers of its tiles, the rules that they keep, and their shared memory.

``configure`` functions are named as the rungs are; rules and shared memory are named for what they are of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiledmm.elements import Element
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.registry.config import STATIC_SHARED_BYTES, VECTOR_BYTES, Config, LaunchConfig
from tiledmm.registry.variant import Rule

# Threads that an SM can hold at a time, on the GPUs that hold most.
FULL_SM_THREADS = 2048

# Multiply-adds laid out in a kernel's inner loop. More only makes ptxas slow: fully unrolled, a complex128 kernel with
# 64 x 64 tiles takes seconds to compile.
UNROLLED_MULTIPLIES = 256


def one_element_a_thread(config: Config, element: Element) -> list[Rule]:
    """Of kernels without tiles."""
    return [
        (config.tm == config.tn == config.bk == config.lanes == 1, "tm, tn, bk and lanes are 1"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad are 0"),
    ]


def _is_power_of_2(size: int) -> bool:
    return size & (size - 1) == 0


def even_copies(stages: int) -> Callable[[Config, Element], list[Rule]]:
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


def buffers_of_vectors(config: Config, element: Element) -> list[Rule]:
    """Of ``double_buffered``."""
    return [*even_copies(2)(config, element), _padded_to_vectors(config, element)]


def _vector_copies(config: Config, element: Element) -> list[Rule]:
    """Of ``tile_copies.cuh.j2``: shares are even, a vector at a time and an element at a time."""
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


def square_vectors(config: Config, element: Element) -> list[Rule]:
    """Of ``vectorized``."""
    return [*_vector_copies(config, element), *even_copies(1)(config, element)[3:]]


def warp_tiles(config: Config, element: Element) -> list[Rule]:
    """Of kernels whose warps have tiles of their own."""
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


def lanes_share_k(config: Config, element: Element) -> list[Rule]:
    """Of ``dot_products``."""
    bk = WARP_SIZE * VECTOR_BYTES // element.sum_bytes
    return [
        (config.lanes == WARP_SIZE, f"lanes is {WARP_SIZE}"),
        (config.bk == bk, f"bk is {bk}"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad are 0"),
    ]


def rows_of_vectors(config: Config, element: Element) -> list[Rule]:
    """Of ``axpy``."""
    return [
        (config.tm == config.bm, "tm is bm"),
        (config.lanes == config.bk > 1, "lanes is bk, at least 2"),
        (_is_power_of_2(config.tn), "tn is a power of 2"),
        (config.bn % config.tn == 0 and WARP_SIZE % (config.bn // config.tn) == 0, f"bn / tn divides {WARP_SIZE}"),
        (config.threads % WARP_SIZE == 0, f"threads, bk * bn / tn, are a multiple of {WARP_SIZE}"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad are 0"),
    ]


def groups_of_threads(config: Config, element: Element) -> list[Rule]:
    """Of ``tiny``."""
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


def block_of_tiles(config: Config) -> tuple[int, int]:
    """Threads along x and y, a thread's elements each."""
    return config.bn // config.tn, config.bm // config.tm


def _tile_bytes(rows: int, cols: int, pad: int, element: Element) -> int:
    return rows * (cols + pad) * element.sum_bytes


def shared_tiled(config: Config, element: Element, layout: str) -> int:
    """One tile of A and one of B, as the matrices lie."""
    a_rows, a_cols = (config.bk, config.bm) if layout[0] == "T" else (config.bm, config.bk)
    b_rows, b_cols = (config.bn, config.bk) if layout[1] == "T" else (config.bk, config.bn)
    return _tile_bytes(a_rows, a_cols, config.pad, element) + _tile_bytes(b_rows, b_cols, config.pad, element)


def shared_double_buffered(config: Config, element: Element, layout: str) -> int:
    """Two of each; rows of B's are padded where B lies by columns."""
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


def tiled(tile: int, element: Element) -> Config:
    """One buffer."""
    return _square(tile, element, stages=1, pad=0)


def tiled_padded(tile: int, element: Element) -> Config:
    """One buffer, rows of one element more."""
    return _square(tile, element, stages=1, pad=1)


def double_buffered(tile: int, element: Element) -> Config:
    """Two buffers, rows of 16 bytes more."""
    return _square(tile, element, stages=2, pad=16 // element.sum_bytes)


def register_tiled(tile: int, element: Element) -> Config:
    """Square tiles of C, 8 x 8 elements a thread.

    complex128 and 64-bit integers have registers for half or a quarter as many, and none for a tile of 128.
    """
    tm, tn = {4: (8, 8), 8: (8, 8), 16: (4, 4)}[element.sum_bytes]
    integer = element.dtype.kind in "biu"
    if element.sum_bytes == 16 or (integer and element.sum_bytes == 8):
        tile, tn = 64, 4
    min_blocks = 2 if element.sum_bytes == 4 and not integer else 1
    return Config(tile, tile, 8, tm, tn, pad=16 // element.sum_bytes, stages=1, unroll=8, min_blocks=min_blocks)


def shared_k_major(config: Config, element: Element, layout: str) -> int:
    """Tiles that are kept K-major, padded where they are transposed on the way."""
    a_bytes = _tile_bytes(config.bk, config.bm, 0 if layout[0] == "T" else config.pad, element)
    b_bytes = _tile_bytes(config.bk, config.bn, 0 if layout[1] == "N" else config.pad, element)
    return config.stages * (a_bytes + b_bytes)


def shared_warp_tiles(config: Config, element: Element, layout: str) -> int:
    """Tiles on their way in, or rows of C on their way out."""
    rows = config.bm // config.tm * (config.bn // max(config.wn, 1)) * (config.wn + 1) * element.sum_bytes
    return max(shared_k_major(config, element, layout), -(-rows // 16) * 16)


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


def warp_tiled(tile: int, element: Element) -> Config:
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
        launch=LaunchConfig(group=group),
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


def thin(tile: int, element: Element) -> Config:
    """Tiles of ``tile`` rows: columns, rows and columns of a warp's, of a thread's, step along K, stages."""
    widened = element.itemsize < element.sum_bytes
    tiles = _THIN_TILES_WIDENED if widened else _THIN_TILES[element.sum_bytes]
    bn, wm, wn, tm, tn, bk, stages = tiles[tile]
    return Config(tile, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, wm=wm, wn=wn)


def dot_products(tile: int, element: Element) -> Config:
    """``tile`` rows, 2 or 4 columns a warp, and the fewer the wider its elements are."""
    tm = min(tile, 8 if tile < 16 else 4)
    widened = element.itemsize < element.sum_bytes
    columns = 1 if widened and tile == 2 else 2 if widened or tile < 8 else 4
    tn = max(1, columns * 4 // element.sum_bytes)
    across = 4 if tile < 16 else 2
    bk = WARP_SIZE * VECTOR_BYTES // element.sum_bytes
    return Config(tile, across * tn, bk=bk, tm=tm, tn=tn, lanes=WARP_SIZE)


def axpy(tile: int, element: Element) -> Config:
    """``tile`` rows; of B 8 threads a row, up to 16 bytes each, and as many rows at a time as keep memory busy."""
    tn = min(VECTOR_BYTES // element.itemsize, 128 // (tile * element.sum_bytes))
    column = tile * element.sum_bytes  # bytes of sums, of which there are tn
    depth = 64 if element.itemsize < 4 or element.itemsize * tile == 4 else 32
    unroll = 8 if column <= 16 and column * tn < 128 else 4 if column <= 32 else 2
    min_blocks = 2 if column * tn <= 16 else 1
    return Config(tile, 8 * tn, bk=depth, tm=tile, tn=tn, unroll=unroll, min_blocks=min_blocks, lanes=depth)


def shared_axpy(config: Config, element: Element, layout: str) -> int:
    """A tile of C for each warp."""
    return config.threads // WARP_SIZE * config.bm * config.bn * element.sum_bytes


# Step along K, rows and columns of a thread, blocks an SM: by bytes of a sum and by tile. The fewer threads a tile has,
# the less time a warp spends on finding out where its tiles lie; a thread writes 16 bytes side by side.
_TINY_TILES = {
    4: {4: (4, 1, 4, 7), 8: (8, 2, 4, 5), 16: (16, 4, 4, 4)},
    8: {4: (4, 1, 2, 7), 8: (8, 2, 2, 7), 16: (8, 4, 2, 4)},
    16: {4: (4, 1, 1, 7), 8: (4, 2, 1, 7), 16: (4, 8, 1, 3)},
}


def tiny(tile: int, element: Element) -> Config:
    """Square tiles of C, as many as 128 threads compute."""
    bk, tm, tn, min_blocks = _TINY_TILES[element.sum_bytes][tile]
    if (element.dtype_name, tile) == ("bool", 16):
        min_blocks = 3  # of four, NVRTC 13.0 spills one register on NT
    pad = tile if tile < 16 else 0  # two tiles of 16 do not meet in a wavefront
    config = Config(tile, tile, bk, tm, tn, pad=pad, stages=1, unroll=bk, min_blocks=min_blocks)
    return replace(config, tiles_per_block=128 // config.tile_threads)


def shared_tiny(config: Config, element: Element, layout: str) -> int:
    """A tile of A and one of B for each group of threads."""
    elements = config.bk * (config.bm + config.bn) + 2 * config.pad
    return config.tiles_per_block * elements * element.sum_bytes


def pack(tile: int, element: Element) -> Config:
    """A word a thread and turn: of narrow elements several."""
    tn = max(1, 4 // element.itemsize)
    size = 32 if tn == 1 else 64
    return Config(bm=size, bn=size, tm=size * size // (tn * 256), tn=tn)


def split_k_reduction(slices: int, element: Element) -> Config:
    """Elements side by side up to 16 bytes, and the more threads for each the more slices there are."""
    tn = min(4, 16 // element.itemsize)
    groups = 1 if slices <= 8 else 8 if slices <= 128 else 32
    return Config(bm=groups, bn=256 // groups * tn, tn=tn)
