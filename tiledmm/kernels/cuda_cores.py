"""CUDA-core variants: the config of each tile, and shared memory in bytes.

A function that makes a config has its variant's name; a ``shared_`` function is named for the tiles it measures.
"""

from __future__ import annotations

from dataclasses import replace

from tiledmm.elements import Element
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.kernels.config import STATIC_SHARED_BYTES, VECTOR_BYTES, WORD_BYTES, Config, LaunchConfig

# Most resident threads of an SM, of all GPUs.
FULL_SM_THREADS = 2048

# Most resident blocks of an SM, of all GPUs. Smaller blocks than FULL_SM_THREADS // FULL_SM_BLOCKS never fill one.
FULL_SM_BLOCKS = 32

# Most multiply-adds of an unrolled inner loop. More only makes ptxas slow: fully unrolled, a complex128 kernel with
# 64 x 64 tiles takes seconds to compile.
UNROLLED_MULTIPLIES = 256


def _tile_bytes(rows: int, cols: int, pad: int, element: Element) -> int:
    return rows * (cols + pad) * element.sum_bytes


def shared_tiled(config: Config, element: Element, layout: str) -> int:
    """One tile of A and one of B, in the matrices' layouts."""
    a_rows, a_cols = (config.bk, config.bm) if layout[0] == "T" else (config.bm, config.bk)
    b_rows, b_cols = (config.bn, config.bk) if layout[1] == "T" else (config.bk, config.bn)
    return _tile_bytes(a_rows, a_cols, config.pad, element) + _tile_bytes(b_rows, b_cols, config.pad, element)


def shared_double_buffered(config: Config, element: Element, layout: str) -> int:
    """Two of each. Tiles of a B stored by columns are padded."""
    pad_b = config.pad if layout[1] == "T" else 0
    a_bytes = config.bm * config.bk * element.sum_bytes
    return 2 * (a_bytes + config.bk * config.bn * element.sum_bytes + pad_b * config.bn * element.sum_bytes)


def _square(tile: int, element: Element, *, stages: int, pad: int) -> Config:
    """Square tiles of C, and square thread tiles.

    The step along K is the tile size (16 for tiles of 64). Two buffers double it, for more work between two barriers,
    unless the next tile waits in registers, as narrow types do that are widened. It is halved until the tiles of every
    layout fit 48 KiB of static shared memory. A thread computes one element; more if the tile has more elements than a
    block has threads, or fewer to copy than threads.
    """
    waits_in_registers = stages > 1 and element.itemsize < element.sum_bytes
    bk = (tile if tile <= 32 else 16) * (1 if waits_in_registers else stages)
    while stages * 2 * _tile_bytes(tile, bk, pad, element) > STATIC_SHARED_BYTES:
        bk //= 2
    per_thread = 1 if tile <= 32 else 4
    while (tile // per_thread) ** 2 > tile * bk:
        per_thread *= 2
    unroll = min(bk, UNROLLED_MULTIPLIES // (per_thread * per_thread * element.multiplies))
    # 4-byte sums fit the registers that a full SM leaves each thread.
    min_blocks = 1
    if element.sum_bytes == 4 and not waits_in_registers and tile**2 * FULL_SM_BLOCKS >= FULL_SM_THREADS:
        min_blocks = FULL_SM_THREADS // tile**2 if per_thread == 1 else 2 if element.itemsize < 4 else 3
    return Config(tile, tile, bk, per_thread, per_thread, pad, stages, unroll, min_blocks)


def tiled(tile: int, element: Element) -> Config:
    """One buffer."""
    return _square(tile, element, stages=1, pad=0)


def tiled_padded(tile: int, element: Element) -> Config:
    """One buffer, its rows padded by one element."""
    return _square(tile, element, stages=1, pad=1)


def double_buffered(tile: int, element: Element) -> Config:
    """Two buffers, their rows padded by 16 bytes."""
    return _square(tile, element, stages=2, pad=16 // element.sum_bytes)


def register_tiled(tile: int, element: Element) -> Config:
    """Square tiles of C, 8 x 8 elements a thread.

    complex128 and 64-bit integers have registers for half or a quarter of these, and for tiles of 64 only.
    """
    tm, tn = {4: (8, 8), 8: (8, 8), 16: (4, 4)}[element.sum_bytes]
    integer = element.dtype.kind in "biu"
    if element.sum_bytes == 16 or (integer and element.sum_bytes == 8):
        tile, tn = 64, 4
    min_blocks = 2 if element.sum_bytes == 4 and not integer else 1
    return Config(tile, tile, 8, tm, tn, pad=16 // element.sum_bytes, stages=1, unroll=8, min_blocks=min_blocks)


def shared_k_major(config: Config, element: Element, layout: str) -> int:
    """K-major tiles, padded if they are transposed while they are copied."""
    a_bytes = _tile_bytes(config.bk, config.bm, 0 if layout[0] == "T" else config.pad, element)
    b_bytes = _tile_bytes(config.bk, config.bn, 0 if layout[1] == "N" else config.pad, element)
    return config.stages * (a_bytes + b_bytes)


def shared_warp_tiles(config: Config, element: Element, layout: str) -> int:
    """Tiles of the mainloop, or rows of C in the epilogue, which reuses the memory."""
    rows = config.bm // config.tm * (config.bn // max(config.wn, 1)) * (config.wn + 1) * element.sum_bytes
    return max(shared_k_major(config, element, layout), -(-rows // 16) * 16)


# BM, WM, WN, TM, TN, BK, stages and blocks an SM, by bytes of a sum and by BN. Two sets of fragments and accumulators
# fill the registers.
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
# The product of two 64-bit integers needs registers of its own.
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
    # The blocks that are resident together on an H100 cover about as many rows of C as columns.
    group = {32: 32, 64: 16, 128: 16, 256: 8}[bn]
    if integer:
        min_blocks = 1  # two blocks an SM leave too few registers to multiply, widen and unpack
    elif element.itemsize < element.sum_bytes:
        min_blocks = min(min_blocks, 4)
    return Config(
        bm, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, min_blocks=min_blocks, wm=wm, wn=wn,
        launch=LaunchConfig(group=group),
    )  # fmt: skip


# BN, WM, WN, TM, TN, BK and stages, by bytes of a sum (widened types apart) and BM. Small blocks and many stages keep
# more bytes in flight.
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
    """Tiles of ``tile`` rows."""
    widened = element.itemsize < element.sum_bytes
    tiles = _THIN_TILES_WIDENED if widened else _THIN_TILES[element.sum_bytes]
    bn, wm, wn, tm, tn, bk, stages = tiles[tile]
    return Config(tile, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, wm=wm, wn=wn)


def dot_products(tile: int, element: Element) -> Config:
    """``tile`` rows and 2 or 4 columns a warp, fewer of wider elements."""
    tm = min(tile, 8 if tile < 16 else 4)
    widened = element.itemsize < element.sum_bytes
    columns = 1 if widened and tile == 2 else 2 if widened or tile < 8 else 4
    tn = max(1, columns * 4 // element.sum_bytes)
    across = 4 if tile < 16 else 2
    bk = WARP_SIZE * VECTOR_BYTES // element.sum_bytes
    unroll = {1: 4, 2: 4, 4: 2}.get(tile, 1)  # larger tiles have as many loads in a step
    spills = (element.itemsize, tile) == (2, 8) or (element.parts == 2 and tile <= 2)  # with NVRTC 13.0
    min_blocks = 4 if spills else 1
    return Config(tile, across * tn, bk=bk, tm=tm, tn=tn, unroll=unroll, min_blocks=min_blocks, lanes=WARP_SIZE)


def block_dot_products(tile: int, element: Element) -> Config:
    """The elements of a warp of ``dot_products``, whose k eight warps share."""
    of_warp = dot_products(tile, element)
    return replace(of_warp, bn=of_warp.tn, bk=8 * of_warp.bk, lanes=8 * WARP_SIZE, min_blocks=1)


def shared_block_dot_products(config: Config, element: Element, layout: str) -> int:
    """Sums of each warp."""
    return config.threads // WARP_SIZE * config.bm * config.bn * element.sum_bytes


def axpy(tile: int, element: Element) -> Config:
    """``tile`` rows. 8 threads read a row of B, up to 16 bytes each, and as many rows at a time as keep memory busy."""
    tn = min(VECTOR_BYTES // element.itemsize, 128 // (tile * element.sum_bytes))
    column = tile * element.sum_bytes  # bytes of the sums of a column, of which there are tn
    depth = 64 if element.itemsize < 4 or element.itemsize * tile == 4 else 32
    unroll = 8 if column <= 16 and column * tn < 128 else 4 if column <= 32 else 2
    if (element.itemsize, tile) == (2, 2):
        unroll = 4  # eight spill on TN with NVRTC 13.0
    min_blocks = 2 if column * tn <= 16 else 1
    return Config(tile, 8 * tn, bk=depth, tm=tile, tn=tn, unroll=unroll, min_blocks=min_blocks, lanes=depth)


def shared_axpy(config: Config, element: Element, layout: str) -> int:
    """A tile of C for each warp."""
    return config.threads // WARP_SIZE * config.bm * config.bn * element.sum_bytes


# Bytes of the elements of B that a thread of ``outer_products`` keeps in registers.
_OUTER_BYTES = 128


def outer_products(tile: int, element: Element) -> Config:
    """``tile`` steps of k. Four warps, and 4 words of a row a lane, or fewer if B takes too many registers.

    The fewer rows a block has, the nearer to each other concurrent blocks write. But a block of bytes begins with many
    loads.
    """
    word = max(1, WORD_BYTES // element.itemsize)
    words = max(1, min(4, _OUTER_BYTES // (tile * word * element.sum_bytes)))
    tn, rows = words * word, 64 if element.itemsize == 1 else 32
    unroll = max(1, 8 // (tile * word))
    return Config(rows, WARP_SIZE * tn, bk=tile, tm=rows // 4, tn=tn, unroll=unroll)


# BK, TM, TN and blocks an SM, by bytes of a sum and by tile. The fewer threads a tile has, the less a warp spends on
# addresses; a thread writes 16 contiguous bytes.
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
    pad = tile if tile < 16 else 0  # a wavefront never reads two tiles of 16
    config = Config(tile, tile, bk, tm, tn, pad=pad, stages=1, unroll=bk, min_blocks=min_blocks)
    return replace(config, tiles_per_block=128 // config.tile_threads)


def shared_tiny(config: Config, element: Element, layout: str) -> int:
    """A tile of A and one of B for each group of threads."""
    elements = config.bk * (config.bm + config.bn) + 2 * config.pad
    return config.tiles_per_block * elements * element.sum_bytes
