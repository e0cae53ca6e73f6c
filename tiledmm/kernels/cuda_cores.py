"""CUDA-core variants: the config of each tile, and the shared memory per block.

A function that returns a config has the name of its variant. A function whose name begins with ``shared_`` returns
the shared memory per block, in bytes.
"""

from __future__ import annotations

from dataclasses import replace

from tiledmm.elements import Element
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.kernels.config import STATIC_SHARED_BYTES, VECTOR_BYTES, WORD_BYTES, Config, LaunchConfig

# Maximum number of resident threads per SM, on any GPU.
FULL_SM_THREADS = 2048

# Maximum number of resident blocks per SM, on any GPU. Blocks of fewer than FULL_SM_THREADS // FULL_SM_BLOCKS threads
# never fill an SM.
FULL_SM_BLOCKS = 32

# Maximum number of multiply-adds in an unrolled inner loop. More would only slow down ptxas: fully unrolled, a
# complex128 kernel with 64 x 64 tiles takes seconds to compile.
UNROLLED_MULTIPLIES = 256


def _tile_bytes(rows: int, cols: int, pad: int, element: Element) -> int:
    return rows * (cols + pad) * element.sum_bytes


def shared_tiled(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes: a tile of A and a tile of B, each in the layout of its matrix."""
    a_rows, a_cols = (config.bk, config.bm) if layout[0] == "T" else (config.bm, config.bk)
    b_rows, b_cols = (config.bn, config.bk) if layout[1] == "T" else (config.bk, config.bn)
    return _tile_bytes(a_rows, a_cols, config.pad, element) + _tile_bytes(b_rows, b_cols, config.pad, element)


def shared_double_buffered(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes: two tiles of A and two of B.

    Tiles of B are padded only if B has contiguous columns.
    """
    pad_b = config.pad if layout[1] == "T" else 0
    a_bytes = config.bm * config.bk * element.sum_bytes
    return 2 * (a_bytes + config.bk * config.bn * element.sum_bytes + pad_b * config.bn * element.sum_bytes)


def _square(tile: int, element: Element, *, stages: int, pad: int) -> Config:
    """Return the config of a square tile of C with square thread tiles.

    The step along K is the tile size, or 16 for tiles of 64. Two stages double it, so that there is more work between
    two barriers. It is not doubled for elements narrower than their sums, because the next tile of these waits in
    registers until it is widened. Then the step is halved until the tiles of every layout fit into 48 KiB of static
    shared memory.

    A thread computes one element of C, or 4 x 4 for tiles of 64. It computes more if a block would otherwise have more
    threads than a tile of A has elements.

    Args:
        tile: Rows and columns of the tile.
        element: Computation type.
        stages: Number of buffers, 1 or 2.
        pad: Elements of padding per row of a shared tile.
    """
    waits_in_registers = stages > 1 and element.itemsize < element.sum_bytes
    bk = (tile if tile <= 32 else 16) * (1 if waits_in_registers else stages)
    while stages * 2 * _tile_bytes(tile, bk, pad, element) > STATIC_SHARED_BYTES:
        bk //= 2
    per_thread = 1 if tile <= 32 else 4
    while (tile // per_thread) ** 2 > tile * bk:
        per_thread *= 2
    unroll = min(bk, UNROLLED_MULTIPLIES // (per_thread * per_thread * element.multiplies))
    # Kernels with 4-byte sums fit into the registers that each thread has on a full SM.
    min_blocks = 1
    if element.sum_bytes == 4 and not waits_in_registers and tile**2 * FULL_SM_BLOCKS >= FULL_SM_THREADS:
        min_blocks = FULL_SM_THREADS // tile**2 if per_thread == 1 else 2 if element.itemsize < 4 else 3
    return Config(tile, tile, bk, per_thread, per_thread, pad, stages, unroll, min_blocks)


def tiled(tile: int, element: Element) -> Config:
    """Return the config of ``tiled`` for square tiles with ``tile`` rows, which have one buffer and no padding."""
    return _square(tile, element, stages=1, pad=0)


def tiled_padded(tile: int, element: Element) -> Config:
    """Return the config of ``tiled_padded``: square tiles with one buffer, whose rows are padded by one element."""
    return _square(tile, element, stages=1, pad=1)


def double_buffered(tile: int, element: Element) -> Config:
    """Return the config of ``double_buffered``: square tiles with two buffers, whose rows are padded by 16 bytes."""
    return _square(tile, element, stages=2, pad=16 // element.sum_bytes)


def register_tiled(tile: int, element: Element) -> Config:
    """Return the config of ``register_tiled`` and ``vectorized``: square tiles with 8 x 8 elements of C per thread.

    64-bit integers have registers for only 8 x 4 elements per thread, and complex128 for 4 x 4. Both support only
    tiles of 64.
    """
    tm, tn = {4: (8, 8), 8: (8, 8), 16: (4, 4)}[element.sum_bytes]
    integer = element.dtype.kind in "biu"
    if element.sum_bytes == 16 or (integer and element.sum_bytes == 8):
        tile, tn = 64, 4
    min_blocks = 2 if element.sum_bytes == 4 and not integer else 1
    return Config(tile, tile, 8, tm, tn, pad=16 // element.sum_bytes, stages=1, unroll=8, min_blocks=min_blocks)


def shared_k_major(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes: the K-major tiles of A and B of all stages.

    A tile is padded only if it is transposed as it is copied.
    """
    a_bytes = _tile_bytes(config.bk, config.bm, 0 if layout[0] == "T" else config.pad, element)
    b_bytes = _tile_bytes(config.bk, config.bn, 0 if layout[1] == "N" else config.pad, element)
    return config.stages * (a_bytes + b_bytes)


def shared_warp_tiles(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes.

    It is the larger of the mainloop's tiles and the epilogue's rows of C, which use the same memory.
    """
    rows = config.bm // config.tm * (config.bn // max(config.wn, 1)) * (config.wn + 1) * element.sum_bytes
    return max(shared_k_major(config, element, layout), -(-rows // 16) * 16)


# BM, WM, WN, TM, TN, BK, stages and minimum blocks per SM, by bytes per sum and by BN. Two sets of fragments and the
# accumulators fill the registers.
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
# Multiplying two 64-bit integers takes additional registers.
_WARP_TILES_OF_INT64 = {
    32: (32, 32, 32, 8, 4, 8, 2, 1),
    64: (64, 32, 32, 8, 4, 8, 3, 1),
    128: (64, 32, 32, 8, 4, 8, 3, 1),
}


def warp_tiled(tile: int, element: Element) -> Config:
    """Return the config of ``warp_tiled`` for tiles of C with ``tile`` columns.

    complex128 and 64-bit integers have at most 128 columns, because there are no registers for more.
    """
    integer = element.dtype.kind in "biu"
    tiles = _WARP_TILES_OF_INT64 if integer and element.sum_bytes == 8 else _WARP_TILES[element.sum_bytes]
    bn = tile if tile in tiles else max(tiles)
    bm, wm, wn, tm, tn, bk, stages, min_blocks = tiles[bn]
    # The blocks that are resident on an H100 at the same time cover about as many rows of C as columns.
    group = {32: 32, 64: 16, 128: 16, 256: 8}[bn]
    if integer:
        min_blocks = 1  # two blocks per SM leave too few registers to multiply, widen and unpack
    elif element.itemsize < element.sum_bytes:
        min_blocks = min(min_blocks, 4)
    return Config(
        bm, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, min_blocks=min_blocks, wm=wm, wn=wn,
        launch=LaunchConfig(group=group),
    )  # fmt: skip


# BN, WM, WN, TM, TN, BK and stages, by bytes per sum and by BM; types that are widened have their own table. Small
# blocks and many stages keep more bytes in flight.
_THIN_TILES = {
    4: {
        8: (128, 8, 128, 8, 4, 16, 4),
        16: (256, 16, 64, 8, 4, 8, 4),
        32: (256, 32, 64, 8, 8, 8, 4),
        48: (256, 48, 64, 12, 8, 8, 4),
        64: (128, 64, 64, 16, 8, 8, 4),
    },
    8: {
        8: (128, 8, 128, 8, 4, 8, 4),
        16: (128, 16, 64, 8, 4, 8, 4),
        32: (128, 32, 32, 8, 4, 8, 4),
        48: (64, 48, 16, 6, 4, 8, 4),
        64: (64, 32, 32, 8, 4, 8, 3),
    },
    16: {
        8: (64, 8, 64, 4, 4, 8, 4),
        16: (64, 16, 32, 4, 4, 8, 4),
        32: (64, 16, 32, 4, 4, 8, 3),
        48: (64, 48, 16, 6, 4, 8, 3),
        64: (64, 32, 16, 4, 4, 8, 2),
    },
}
_THIN_TILES_WIDENED = {
    8: (256, 8, 64, 4, 4, 8, 2),
    16: (256, 16, 64, 8, 4, 8, 2),
    32: (256, 32, 64, 8, 8, 8, 2),
    48: (256, 48, 64, 12, 8, 8, 2),
    64: (128, 32, 64, 8, 8, 8, 3),
}


def thin(tile: int, element: Element) -> Config:
    """Return the config of ``thin``, the variant for skinny products, for tiles of C with ``tile`` rows."""
    widened = element.itemsize < element.sum_bytes
    tiles = _THIN_TILES_WIDENED if widened else _THIN_TILES[element.sum_bytes]
    bn, wm, wn, tm, tn, bk, stages = tiles[tile]
    return Config(tile, bn, bk, tm, tn, pad=16 // element.sum_bytes, stages=stages, unroll=bk, wm=wm, wn=wn)


def dot_products(tile: int, element: Element) -> Config:
    """Return the config of ``dot_products`` for tiles of C with ``tile`` rows.

    A warp computes 1 to 4 columns, fewer for wide elements.
    """
    tm = min(tile, 8 if tile < 16 else 4)
    widened = element.itemsize < element.sum_bytes
    columns = 1 if widened and tile == 2 else 2 if widened or tile < 8 else 4
    tn = max(1, columns * 4 // element.sum_bytes)
    across = 4 if tile < 16 else 2
    bk = WARP_SIZE * VECTOR_BYTES // element.sum_bytes
    unroll = {1: 4, 2: 4, 4: 2}.get(tile, 1)  # larger tiles have as many loads per step
    spills = (element.itemsize, tile) == (2, 8) or (element.components == 2 and tile <= 2)  # with NVRTC 13.0
    min_blocks = 4 if spills else 1
    return Config(tile, across * tn, bk=bk, tm=tm, tn=tn, unroll=unroll, min_blocks=min_blocks, lanes=WARP_SIZE)


def block_dot_products(tile: int, element: Element) -> Config:
    """Return the config of ``block_dot_products`` for tiles of C with ``tile`` rows.

    A block computes one tile, of the size that a warp has in ``dot_products``. Eight warps share K.
    """
    of_warp = dot_products(tile, element)
    return replace(of_warp, bn=of_warp.tn, bk=8 * of_warp.bk, lanes=8 * WARP_SIZE, min_blocks=1)


def shared_block_dot_products(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes, which holds one partial sum per warp and element of the tile."""
    return config.threads // WARP_SIZE * config.bm * config.bn * element.sum_bytes


def axpy(tile: int, element: Element) -> Config:
    """Return the config of ``axpy`` for tiles of C with ``tile`` rows.

    Eight threads read a row of B, up to 16 bytes each. The number of rows of B that a block reads at a time is large
    enough to keep the memory busy.
    """
    tn = min(VECTOR_BYTES // element.itemsize, 128 // (tile * element.sum_bytes))
    column = tile * element.sum_bytes  # bytes of a thread's sums per column
    depth = 64 if element.itemsize < 4 or element.itemsize * tile == 4 else 32
    unroll = 8 if column <= 16 and column * tn < 128 else 4 if column <= 32 else 2
    if (element.itemsize, tile) == (2, 2):
        unroll = 4  # with 8, NVRTC 13.0 spills registers on TN
    min_blocks = 2 if column * tn <= 16 else 1
    return Config(tile, 8 * tn, bk=depth, tm=tile, tn=tn, unroll=unroll, min_blocks=min_blocks, lanes=depth)


def shared_axpy(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes, which holds the partial sums of one tile of C per warp."""
    return config.threads // WARP_SIZE * config.bm * config.bn * element.sum_bytes


# Maximum bytes of B that a thread of ``outer_products`` keeps in registers.
_OUTER_BYTES = 128


def outer_products(tile: int, element: Element) -> Config:
    """Return the config of ``outer_products`` for K of at most ``tile``, with four warps per block.

    A lane computes four 4-byte words of each row of C, or fewer if their elements of B need too many registers. The
    fewer rows a block has, the closer to each other concurrent blocks write. Blocks of 8-bit types have more rows,
    because each block begins with many loads.
    """
    word = max(1, WORD_BYTES // element.itemsize)
    words = max(1, min(4, _OUTER_BYTES // (tile * word * element.sum_bytes)))
    tn, rows = words * word, 64 if element.itemsize == 1 else 32
    unroll = max(1, 8 // (tile * word))
    return Config(rows, WARP_SIZE * tn, bk=tile, tm=rows // 4, tn=tn, unroll=unroll)


# Rows of C that a block of ``narrow_outer_products`` computes, maximum bytes of each, and threads of the block.
_NARROW_ROWS, _NARROW_BYTES, _NARROW_THREADS = 1024, 256, 256


def narrow_outer_products(tile: int, element: Element) -> Config:
    """Return the config of ``narrow_outer_products`` for K of at most ``tile``.

    A thread writes one 4-byte word of C at a time, or one element if that is wider. It loads elements of A for up to
    four words together. Wider rows fill the stores of ``outer_products``.
    """
    word, columns = max(1, WORD_BYTES // element.itemsize), _NARROW_BYTES // element.itemsize
    unroll = max(1, min(4, _OUTER_BYTES // (tile * word * element.sum_bytes)))
    rows = _NARROW_ROWS * columns // (_NARROW_THREADS * word)
    return Config(_NARROW_ROWS, columns, bk=tile, tm=rows, tn=word, unroll=unroll)


# BK, TM, TN and minimum blocks per SM, by bytes per sum and by tile. The fewer threads a tile has, the less time a warp
# spends on addresses. A thread writes 16 contiguous bytes.
_TINY_TILES = {
    4: {4: (4, 1, 4, 7), 8: (8, 2, 4, 5), 16: (16, 4, 4, 4)},
    8: {4: (4, 1, 2, 7), 8: (8, 2, 2, 7), 16: (8, 4, 2, 4)},
    16: {4: (4, 1, 1, 7), 8: (4, 2, 1, 7), 16: (4, 8, 1, 3)},
}


def tiny(tile: int, element: Element) -> Config:
    """Return the config of ``tiny``: square tiles of C with ``tile`` rows, as many per block as 128 threads compute."""
    bk, tm, tn, min_blocks = _TINY_TILES[element.sum_bytes][tile]
    if (element.dtype_name, tile) == ("bool", 16):
        min_blocks = 3  # with 4, NVRTC 13.0 spills one register on NT
    pad = tile if tile < 16 else 0  # a wavefront never reads two tiles of 16
    config = Config(tile, tile, bk, tm, tn, pad=pad, stages=1, unroll=bk, min_blocks=min_blocks)
    return replace(config, tiles_per_block=128 // config.tile_threads)


def shared_tiny(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes: one tile of A and one of B for each tile of C."""
    elements = config.bk * (config.bm + config.bn) + 2 * config.pad
    return config.tiles_per_block * elements * element.sum_bytes
