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
    narrow, together = element.itemsize <= 4, 4 if element.itemsize == 4 else 8
    copied = f"{together} * bk" if len(lengths) == 1 else f"{together} * bk, {together} * bm and {together} * bn"
    shares = [divmod(config.threads, max(size, 1)) for size in (config.bm, config.bn, config.bk)]
    return [
        *matrix_fragments(config, element, skinny=(16, 32)),
        (not narrow or config.bk * element.itemsize >= 64, f"bk must be at least {64 // element.itemsize} (64 bytes)"),
        (not narrow or all(map(is_power_of_2, (config.wm, config.wn))), "wm and wn must be powers of 2"),
        (not narrow or all(each % together == 0 for each in rows),
         f"{chunk} times the number of threads must be a multiple of {copied}"),
        (config.bm >= 64 or all(share and is_power_of_2(share) and not rest for share, rest in shares),
         "if bm is less than 64, the number of threads must be a power of 2 times each of bm, bn and bk"),
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
    rows = f"{', '.join(map(str, skinny))} or " if skinny else ""
    wide = element.itemsize >= 8
    widths = [size for size in ((64, 128, 256) if wide else (32, 64, 128)) if size >= depth]
    steps = " or ".join(str(size // element.itemsize) for size in widths)
    lanes = config.lanes if wide else 1  # warps that sum the same elements
    parts = lanes * config.cluster_k  # parts of K, whose sums are added in shared memory
    partial = config.bm * config.bn * lanes * element.itemsize if parts > 1 else 0
    tiles = shared_swizzled(config, element, "NN")
    cols = 32 if is_skinny and wide else 64
    whole = config.wm > 0 and config.wn > 0 and not (config.wm % step or config.wn % step)
    return [
        (whole, f"wm and wn must be multiples of {step}"),
        (whole and (config.tm, config.tn) == (config.wm // 8, config.wn // 4),
         "tm must be wm / 8, and tn must be wn / 4"),
        (whole and not (config.bm % config.wm or config.bn % config.wn), "bm and bn must be multiples of wm and wn"),
        (not ((config.bm % 64 and not is_skinny) or config.bn % cols),
         f"bm must be {rows}a multiple of 64, and bn a multiple of {cols}"),
        (config.bk * element.itemsize in widths, f"bk must be {steps} ({' or '.join(map(str, widths))} bytes)"),
        (config.unroll * element.itemsize % depth == 0, f"unroll must be a multiple of {depth // element.itemsize}"),
        (not any(size * config.bk % (config.threads * chunk) for size in (config.bm, config.bn)),
         f"bm * bk and bn * bk must be multiples of {chunk} times the number of threads"),
        (not any(config.threads % max(size // chunk, 1) for size in (config.bm, config.bn, config.bk)),
         f"bm / {chunk}, bn / {chunk} and bk / {chunk} must divide the number of threads"),
        (config.stages >= 2, "stages must be at least 2"),
        (config.pad == 0, "pad must be 0"),
        (config.lanes == lanes, "lanes must be 1"),
        (lanes > 0 and is_power_of_2(lanes) and config.bk * element.itemsize % (lanes * depth) == 0,
         f"lanes must be a power of 2, and bk a multiple of lanes * {depth // element.itemsize}"),
        (config.cluster_k == 1 or wide, "cluster_k must be 1"),
        (partial <= tiles, f"the partial sums of a block, {partial} bytes, must fit into its tiles of {tiles} bytes"),
        (config.wm * config.wn % (64 * max(parts, 1)) == 0, "wm * wn must be a multiple of 64 * lanes * cluster_k"),
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
            (config.bm in (64 * config.cluster, 128 * config.cluster), "bm must be 64 or 128 times cluster"),
            (config.cluster == 1 or (config.cluster == 2 and config.bn >= 128 and config.bn % 64 == 0),
             "cluster must be 1, or 2 if bn is a multiple of 64 and at least 128"),
            (config.bn in columns, f"bn must be {named}"),
            ((config.wm, config.wn, config.tm, config.tn) == (16, config.bn, 2, config.bn // 4),
             "wm must be 16, wn must be bn, tm must be 2, and tn must be bn / 4"),
            (config.bk * element.itemsize == 128 and config.unroll == config.bk,
             f"bk and unroll must be {128 // element.itemsize} (128 bytes)"),
            (config.stages >= 2, "stages must be at least 2"),
            (config.pad == 0 and config.lanes == config.min_blocks == 1,
             "pad must be 0, and lanes and min_blocks must be 1"),
        ]  # fmt: skip

    return rules


def shared_wgmma(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes.

    It holds the tiles of A and B, the epilogue's rows of C, and two barriers per stage.
    """
    return config.stages * _stage_bytes(config, element, layout) + _epilogue_bytes(config, element)


def _stage_bytes(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory of a stage of ``wgmma`` in bytes: tiles of A and B, and two barriers."""
    k_major = layout[1] == "T" or element.itemsize != 2  # the only layout in which wgmma reads other types
    columns = config.bn if k_major else loaded_columns(config, element)
    return config.bk * (config.bm // config.cluster + columns) * element.itemsize + 2 * 8


def loaded_columns(config: Config, element: Element) -> int:
    """Return the number of columns of an MN-major tile of B in shared memory: whole slabs, whose rows are 128 bytes."""
    slab = 128 // element.itemsize
    return -(-config.bn // slab) * slab


def _epilogue_bytes(config: Config, element: Element) -> int:
    """Return the bytes of shared memory that ``wgmma`` needs once, for all stages: rows of C, and a cluster's barriers.

    A row holds an equal part of the tile's columns of C, and padding. It has at least 8 columns, for which complex128
    needs most bytes.
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

    Tiles from 128 to 256 have 128 rows and ``tile`` columns. Tiles up to 80 have 64 rows and ``tile`` columns. Tiles
    between these have about as many elements as squares of that size: 96 is 64 x 128, 104 is 128 x 80, 112 is
    128 x 96, and 120 is 128 x 112. Tile 384 is two tiles of 192 in a cluster, and tile 512 two of 256. The blocks of
    a cluster share B. Clusters are faster if the rows of the operands do not begin at cache lines.
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
