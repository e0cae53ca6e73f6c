"""Tensor-core variants: the config of each tile, the rules of the templates, and the shared memory per block.

Functions are named as in ``cuda_cores``. Variants that decompose their operands are in ``split_variants``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tiledmm.elements import Element
from tiledmm.kernels.config import DYNAMIC_SHARED_BYTES, VECTOR_BYTES, Config, LaunchConfig
from tiledmm.kernels.rules import is_power_of_2
from tiledmm.kernels.variant import Rule

#: Numbers of blocks of a cluster that may share K. Every GPU with clusters has clusters of up to 8 blocks.
CLUSTERS = (2, 4, 8)


def _register_bytes(element: Element) -> int:
    """Return the bytes of one item of an operand fragment: 4 bytes of narrow elements, or one wide element."""
    return max(4, element.itemsize)


def double_buffered_fragments(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``tensor_core``, each paired with whether ``config`` obeys it."""
    chunk = VECTOR_BYTES // element.itemsize
    lengths = [config.bk] if element.itemsize == 1 else [config.bk, config.bm, config.bn]
    rows = [config.threads * chunk / max(length, 1) for length in lengths]
    narrow = element.itemsize <= 4
    shares = [divmod(config.threads, max(size, 1)) for size in (config.bm, config.bn, config.bk)]
    return [
        *matrix_fragments(config, element, skinny=(16, 32)),
        (not narrow or config.bk * element.itemsize >= 64, "bk is 64 or 128 bytes"),
        (not narrow or all(map(is_power_of_2, (config.wm, config.wn))), "wm and wn are powers of 2"),
        (not narrow or all(each % (4 if element.itemsize == 4 else 8) == 0 for each in rows),
         "threads copy 8 rows (tf32: 4) at a time"),
        (config.bm >= 64 or all(share and is_power_of_2(share) and not rest for share, rest in shares),
         "with fewer than 64 rows, threads are bm, bn and bk times powers of 2"),
    ]  # fmt: skip


def matrix_fragments(config: Config, element: Element, skinny: tuple[int, ...] = ()) -> list[Rule]:
    """Return the rules of kernels reading fragments from swizzled tiles, each paired with whether ``config`` obeys it.

    Args:
        config: The kernel's config.
        element: Type of the elements in shared memory.
        skinny: Numbers of rows below 64 that a tile may have; empty if it needs at least 64.
    """
    chunk = VECTOR_BYTES // element.itemsize
    is_skinny = config.bm in skinny
    depth, step = 8 * _register_bytes(element), 32 if element.itemsize == 4 and not is_skinny else 16
    rows = f", or bm is {' or '.join(map(str, skinny))}" if skinny else ""
    wide = element.itemsize >= 8
    widths = [size for size in ((64, 128, 256) if wide else (32, 64, 128)) if size >= depth]
    lanes = config.lanes if wide else 1  # warps that sum the same elements
    parts = lanes * config.cluster_k  # K is divided into so many parts; their sums meet in shared memory
    partial = config.bm * config.bn * lanes * element.itemsize if parts > 1 else 0
    cols = 32 if is_skinny and wide else 64
    said = f"bm and bn are multiples of 64{rows}" if cols == 64 else f"bn is a multiple of {cols}"
    whole = config.wm > 0 and config.wn > 0 and not (config.wm % step or config.wn % step)
    return [
        (whole, f"wm and wn are multiples of {step}"),
        (whole and (config.tm, config.tn) == (config.wm // 8, config.wn // 4), "tm is wm / 8, tn is wn / 4"),
        (whole and not (config.bm % config.wm or config.bn % config.wn), "bm and bn are multiples of wm and wn"),
        (not ((config.bm % 64 and not is_skinny) or config.bn % cols), said),
        (config.bk * element.itemsize in widths, f"bk is {' or '.join(map(str, widths))} bytes"),
        (config.unroll * element.itemsize % depth == 0, f"unroll is a multiple of {depth // element.itemsize}"),
        (not any(size * config.bk % (config.threads * chunk) for size in (config.bm, config.bn)),
         f"threads copy even shares of both tiles, in {chunk} at a time"),
        (not any(config.threads % max(size // chunk, 1) for size in (config.bm, config.bn, config.bk)),
         f"threads copy whole rows and columns of bm, bn and bk elements, in {chunk} at a time"),
        (config.stages >= 2, "stages is at least 2"),
        (config.pad == config.triangle == 0 and config.lanes == lanes, "pad and triangle are 0, lanes is 1"),
        (lanes > 0 and is_power_of_2(lanes) and config.bk * element.itemsize % (lanes * depth) == 0,
         f"lanes is a power of 2, and bk a multiple of lanes * {depth // element.itemsize}"),
        (config.cluster_k == 1 or wide, "cluster_k is 1"),
        (partial <= shared_swizzled(config, element, "NN") and config.wm * config.wn % (64 * max(parts, 1)) == 0,
         "partial sums of all lanes fit into the memory of the tiles, and every part of K has an equal part of them"),
    ]  # fmt: skip


def shared_tensor_core(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes.

    It is the larger of the mainloop's tiles and the epilogue's rows of C, which use the same memory.
    """
    rows = config.threads // 32 * 8 * config.wn * 16  # bytes per element of complex128; other types take less
    return max(shared_swizzled(config, element, layout), rows if element.itemsize <= 4 else 0)


def shared_swizzled(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes, which holds the unpadded tiles of A and B of all stages."""
    return config.stages * config.bk * (config.bm + config.bn) * element.itemsize


# Rows and columns of a block's tile, rows and columns of a warp's tile, bytes along K, stages, minimum blocks per SM,
# columns of tiles per rasterization group, and warps that share K if several do: by bytes per element and by tile.
# Accumulators fill the registers, except in tiles of 16 and 32 rows, which instead keep many bytes per SM in flight.
# Products of float64 fill the tensor cores only if each scheduler has two warps: in a tile of 32 rows, warps share K.
_NARROW_TILES: dict[int, tuple[int, ...]] = {
    16: (16, 64, 16, 16, 128, 5, 4, 8),
    32: (32, 64, 16, 32, 128, 4, 4, 8),
    64: (64, 64, 32, 32, 64, 4, 2, 8),
    128: (128, 128, 64, 64, 64, 3, 2, 8),
    256: (128, 256, 64, 64, 64, 4, 1, 8),
}
_TENSOR_TILES: dict[int, dict[int, tuple[int, ...]]] = {
    1: _NARROW_TILES | {32: (32, 64, 16, 32, 128, 4, 3, 8)},  # 8-bit elements take a register each
    2: _NARROW_TILES,
    4: _NARROW_TILES,
    8: {
        16: (16, 64, 16, 16, 128, 5, 4, 8),
        32: (32, 64, 16, 32, 256, 4, 2, 8, 2),
        64: (64, 64, 32, 32, 128, 3, 3, 8),
        128: (128, 128, 64, 32, 128, 3, 1, 8),
    },
    16: {
        16: (16, 64, 16, 16, 128, 5, 3, 16),
        32: (32, 32, 16, 16, 256, 3, 2, 16),
        64: (64, 64, 32, 32, 256, 3, 2, 16),
        128: (128, 64, 32, 32, 128, 3, 1, 16),
    },
}


def tensor_core(tile: int, element: Element) -> Config:
    """Return the config of ``tensor_core`` for tiles of C with ``tile`` rows and about as many columns.

    A tile of 256 is 128 x 256; 8- and 16-byte types use the config of tile 128 instead. Tiles of 16 and 32 rows, for
    skinny products, have 64 columns (32 columns for complex128 and 32 rows).
    """
    return tensor_tile(_TENSOR_TILES[element.itemsize], tile, element)


def tensor_tile(rows: Mapping[int, tuple[int, ...]], tile: int, element: Element) -> Config:
    """Return the config that a table such as ``_NARROW_TILES`` holds for a tile.

    Args:
        rows: The table, by tile.
        tile: A tile of the table. A larger number than any in the table stands for its largest tile.
        element: Type of the elements in shared memory.
    """
    bm, bn, wm, wn, line, stages, min_blocks, group, *lanes = rows[min(tile, max(rows))]
    bk = line // element.itemsize
    return Config(
        bm,
        bn,
        bk,
        wm // 8,
        wn // 4,
        stages=stages,
        unroll=bk,
        min_blocks=min_blocks,
        wm=wm,
        wn=wn,
        lanes=lanes[0] if lanes else 1,
        launch=LaunchConfig(group=group),
    )


def warpgroups(*columns: int) -> Callable[[Config, Element], list[Rule]]:
    """Return a function that returns the rules of ``wgmma`` and similar kernels.

    Args:
        *columns: Numbers of columns that a tile of C may have.
    """
    named = " or ".join([", ".join(map(str, columns[:-1])), str(columns[-1])])

    def rules(config: Config, element: Element) -> list[Rule]:
        return [
            (config.bm in (64 * config.cluster, 128 * config.cluster), "bm is 64 or 128 for every block of a cluster"),
            (config.cluster == 1 or (config.cluster == 2 and config.bn >= 128 and config.bn % 64 == 0),
             "cluster is 1, or 2 if bn is a multiple of 64 from 128 on"),
            (config.bn in columns, f"bn is {named}"),
            ((config.wm, config.wn, config.tm, config.tn) == (16, config.bn, 2, config.bn // 4),
             "wm is 16, wn is bn, tm is 2 and tn is bn / 4"),
            (config.bk * element.itemsize == 128 and config.unroll == config.bk,
             "bk is 128 bytes, and unroll the same"),
            (config.stages >= 2, "stages is at least 2"),
            (config.pad == config.triangle == 0 and config.lanes == config.min_blocks == 1,
             "pad and triangle are 0, lanes and min_blocks are 1"),
        ]  # fmt: skip

    return rules


def shared_wgmma(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes.

    It holds the tiles of A and B, the epilogue's rows of C, and two barriers per stage.
    """
    return config.stages * _stage_bytes(config, element, layout) + _epilogue_bytes(config, element)


def _stage_bytes(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory of a stage of ``wgmma`` in bytes: tiles of A and B, and two barriers."""
    k_major = layout[1] == "T" or element.itemsize != 2  # wgmma reads other types only so
    columns = config.bn if k_major else loaded_columns(config, element)
    return config.bk * (config.bm // config.cluster + columns) * element.itemsize + 2 * 8


def loaded_columns(config: Config, element: Element) -> int:
    """Return how many columns an MN-major tile of B has in shared memory: whole slabs, whose rows have 128 bytes."""
    slab = 128 // element.itemsize
    return -(-config.bn // slab) * slab


def _epilogue_bytes(config: Config, element: Element) -> int:
    """Return the shared memory of ``wgmma`` in bytes that all stages share: rows of C, and barriers of a cluster.

    A row has an equal part of the tile's columns of C, and padding. It has at least 8 columns, which take most bytes
    for complex128.
    """
    bm, written = config.bm // config.cluster, config.bn // config.cluster_k
    columns = max(part for part in range(8, min(written, _MOST_COLUMNS) + 1, 8) if written % part == 0)
    collected, pair = (columns // 2, 8) if element.itemsize > 2 else (columns, 4)
    rows = bm * max((collected // 2 + (8 if collected % 16 else 4)) * pair, 6 * 2 * 16)
    return rows + (2 * 8 if config.cluster_k > 1 else 0)


# Maximum number of columns of C that the epilogue of ``wgmma`` collects at a time.
_MOST_COLUMNS = 128

# Maximum number of stages of ``wgmma``.
_MOST_STAGES = 13


def sum_in_cluster(config: Config, partitions: int, element: Element) -> Config:
    """Return the config of ``wgmma`` whose clusters add up the partial sums of split-K.

    Return the given config if a cluster cannot have a block per partition: each block writes at least 8 columns of C,
    and blocks that share B do not share K.
    """
    if partitions not in CLUSTERS or config.cluster > 1 or config.bn % (8 * partitions):
        return config
    chosen = replace(config, cluster_k=partitions)
    return replace(chosen, stages=_stages(chosen, element))


# Rows and columns of each tile of ``wgmma``. One warpgroup multiplies a tile with 64 rows. Skinny products use the
# tiles with 16 and 32 columns.
_WGMMA_TILES = {
    16: (64, 16), 32: (64, 32), 64: (64, 64), 80: (64, 80), 96: (64, 128), 104: (128, 80), 112: (128, 96),
    120: (128, 112), **{columns: (128, columns) for columns in (128, 144, 160, 192, 224, 256)},
    384: (256, 192), 512: (256, 256),
}  # fmt: skip


def wgmma(tile: int, element: Element) -> Config:
    """Return the config of ``wgmma`` for a tile.

    Tiles from 128 to 256 have 128 rows and ``tile`` columns. Up to 80 they have 64 rows and ``tile`` columns. Those
    between have about as many elements as squares of that size: 96 is 64 x 128, 104 is 128 x 80, 112 is 128 x 96, and
    120 is 128 x 112. Tiles 384 and 512 are two tiles 192 or 256 in a cluster, whose blocks share B.
    They suit rows that do not begin at cache lines.
    """
    rows, columns = _WGMMA_TILES[tile]
    config = replace(warpgroup_tiles(columns, element, _MOST_STAGES), bm=rows, cluster=max(rows // 128, 1))
    return replace(config, stages=_stages(config, element))


def _stages(config: Config, element: Element) -> int:
    """Return the number of stages of ``wgmma`` that fit into shared memory, but at most those of the config."""
    left = DYNAMIC_SHARED_BYTES - _epilogue_bytes(config, element)
    return min(config.stages, left // _stage_bytes(config, element, "NN"))


def warpgroup_tiles(columns: int, element: Element, stages: int) -> Config:
    """Return the config of a kernel whose blocks compute 128 rows and the given number of columns of C.

    For 256 columns, two blocks form a cluster, which computes 256 rows.
    """
    bk, cluster = 128 // element.itemsize, 2 if columns == 256 else 1
    return Config(
        128 * cluster, columns, bk, 2, columns // 4,
        stages=stages, unroll=bk, wm=16, wn=columns, cluster=cluster, launch=LaunchConfig(group=8),
    )  # fmt: skip
