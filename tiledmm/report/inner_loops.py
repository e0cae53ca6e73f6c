"""Wavefronts of the on-chip loads in a kernel's inner loop, per multiply-add of a warp, by its access pattern.

Shared memory and L1 serve one *wavefront*, at most 128 bytes, at a time. The counts are those of a full warp in the
middle of C, with base addresses that are aligned to 128 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.banks import wavefronts
from tiledmm.kernels.config import VECTOR_BYTES, WORD_BYTES

if TYPE_CHECKING:
    from tiledmm.kernels.spec import KernelSpec

WAVEFRONT_BYTES = 128


def wavefronts_per_multiply_add(spec: KernelSpec, m: int, n: int, k: int) -> float:
    """Return the wavefronts in which shared memory or L1 serves the inner loop's loads, per multiply-add of a warp.

    Args:
        spec: Specification of the kernel.
        m, n, k: Sizes of the product.
    """
    if spec.variant.tensor_cores:
        return _matrix_wavefronts(spec)
    if spec.config.wm:
        return _fragment_wavefronts(spec)
    if spec.config.lanes > 1 and not spec.variant.tensor_cores:
        return _shared_k_wavefronts(spec)
    if spec.variant.reads.narrow:
        return _narrow_wavefronts(spec, n, k)
    if spec.variant.reads.short_k:
        return _outer_wavefronts(spec, k)
    if spec.config.tiles_per_block > 1:
        return _grouped_wavefronts(spec)
    block_x = spec.block[0]
    lanes = [(lane % block_x, lane // block_x) for lane in range(min(WARP_SIZE, spec.threads))]
    if spec.variant.reads.down_columns:
        rows, cols = [x for x, _ in lanes], [y for _, y in lanes]
    else:
        rows, cols = [y for _, y in lanes], [x for x, _ in lanes]
    if is_staged(spec):
        return _staged_wavefronts(spec, rows, cols)
    # All lanes read the same k, so only the distances between rows of A and between columns of B matter.
    a_step = spec.a.itemsize * (1 if spec.layout[0] == "T" else k)
    b_step = spec.b.itemsize * (k if spec.layout[1] == "T" else 1)
    from_a = global_wavefronts([row * a_step for row in rows], spec.a.itemsize)
    return from_a + global_wavefronts([col * b_step for col in cols], spec.b.itemsize)


def global_wavefronts(addresses: Sequence[int], width: int) -> int:
    """Return the number of wavefronts in which L1 serves one load of a warp, at best: one per 128-byte line it touches.

    Args:
        addresses: Byte address of each lane.
        width: Bytes that each lane reads.
    """
    lines: set[int] = set()
    for address in addresses:
        lines.update(range(address // WAVEFRONT_BYTES, (address + width - 1) // WAVEFRONT_BYTES + 1))
    return len(lines)


def is_staged(spec: KernelSpec) -> bool:
    """Return whether a kernel's inner loop reads A and B from tiles in shared memory, not from global memory."""
    return spec.config.stages > 0


def is_too_long(spec: KernelSpec, k: int) -> bool:
    """Return whether a kernel that is made for short K gets a K longer than its ``bk``.

    Then the kernel cannot keep its operands in registers.
    """
    return spec.variant.reads.short_k and k > spec.config.bk


def _fragment_wavefronts(spec: KernelSpec) -> float:
    """Return the shared-memory wavefronts per multiply-add of a warp that loads fragments from K-major tiles.

    Each lane loads 16 bytes at a time.
    """
    config = spec.config
    across, down = config.wn // config.tn, config.wm // config.tm  # lanes along the rows and columns of the warp's tile
    pair = min(down, 2)  # successive lanes in one column
    rows = [lane // (pair * across) * pair + lane % pair for lane in range(WARP_SIZE)]
    cols = [lane // pair % across for lane in range(WARP_SIZE)]
    read_a = wavefronts([row * VECTOR_BYTES for row in rows], VECTOR_BYTES)
    read_b = wavefronts([col * VECTOR_BYTES for col in cols], VECTOR_BYTES)
    vector = VECTOR_BYTES // spec.compute.sum_bytes
    return (read_a / config.tn + read_b / config.tm) / vector


def _matrix_wavefronts(spec: KernelSpec) -> float:
    """Return the shared-memory wavefronts per multiply-add of a warp that multiplies on tensor cores.

    The tiles are swizzled, so that there are no bank conflicts. The warps of a warpgroup share what one instruction
    reads.
    """
    config = spec.config
    rows = 4 * config.wm if spec.variant.hopper.warpgroup else config.wm  # four warps share what one instruction reads
    cols, size = spec.variant.operands.fragment(spec)
    return (rows + cols) * size / WAVEFRONT_BYTES / (rows * cols / WARP_SIZE)


def _shared_k_wavefronts(spec: KernelSpec) -> float:
    """Return the L1 wavefronts per multiply-add of a warp whose lanes divide the steps of k among themselves.

    Such a warp loads from global memory. The lanes read K-major rows of A and columns of B, 16 bytes each. In ``axpy``
    they read parts of rows of B, and each reads an element of A that adjacent lanes read, too.
    """
    config = spec.config
    if spec.variant.reads.from_global == "rows of B":
        rows = WARP_SIZE // (config.bn // config.tn)
        lines = rows * -(-config.bn * spec.b.itemsize // WAVEFRONT_BYTES)
        return (config.tm + lines) / (config.tm * config.tn)
    reads = WARP_SIZE * VECTOR_BYTES / WAVEFRONT_BYTES * (config.tm + config.tn)
    return reads / (config.tm * config.tn * (config.bk // config.lanes))


def _outer_wavefronts(spec: KernelSpec, k: int) -> float:
    """Return the L1 wavefronts per multiply-add of a warp of ``outer_products``, which loads from global memory.

    B is loaded once for all rows of a thread. An element of A is loaded by all lanes at once.
    """
    config, word = spec.config, max(1, WORD_BYTES // spec.c.itemsize)
    step = spec.b.itemsize * word * (k if spec.layout[1] == "T" else 1)
    from_b = global_wavefronts([lane * step for lane in range(WARP_SIZE)], spec.b.itemsize)
    if is_too_long(spec, k):
        return 1 + from_b
    return 1 / config.tn + from_b / config.tm


def _narrow_wavefronts(spec: KernelSpec, n: int, k: int) -> float:
    """Return the L1 wavefronts per multiply-add of a warp of ``narrow_outer_products``, which loads from global memory.

    Successive lanes compute successive words of C, and load an element of A, or up to 16 bytes of its row, for each
    element of C. B is loaded once for all rows of a thread.
    """
    word, size, k_major = spec.config.tn, spec.a.itemsize, spec.layout[0] == "N"
    width = math.gcd(k, VECTOR_BYTES // size) if k_major else 1  # elements that one instruction loads
    step = size * (k if k_major else 1)
    wavefronts = sum(
        global_wavefronts([(lane * word + i) // n * step for lane in range(WARP_SIZE)], width * size)
        for i in range(word)
    )
    from_b = 1.0 if is_too_long(spec, k) else 0.0
    return wavefronts / (word * width) + from_b


def _grouped_wavefronts(spec: KernelSpec) -> float:
    """Return the shared-memory wavefronts per multiply-add of a warp whose groups of lanes multiply different tiles.

    Each group has small tiles of A and B, which are swizzled.
    """
    config = spec.config
    across = config.bn // config.tn
    threads = [divmod(lane, config.tile_threads) for lane in range(WARP_SIZE)]
    a = [(group, thread // across * config.tm) for group, thread in threads]
    b = [(group, thread % across * config.tn) for group, thread in threads]
    reads_a = _swizzled_reads(spec, a, config.bm, config.tm, spec.layout[0] != "T")
    reads_b = _swizzled_reads(spec, b, config.bn, config.tn, spec.layout[1] != "N")
    return (reads_a + reads_b) / (config.tm * config.tn * config.bk)


def _swizzled_reads(spec: KernelSpec, lanes: Sequence[tuple[int, int]], width: int, count: int, k_major: bool) -> int:
    """Return the wavefronts in which a warp reads the elements of A or B that it needs from swizzled tiles.

    The tiles are those of ``tiny.cu.j2``: one per group of lanes.

    Args:
        spec: Specification of the kernel.
        lanes: Group of each lane, and the first row of A or column of B that the lane reads.
        width: Rows of A or columns of B in a tile.
        count: Rows or columns that a lane reads.
        k_major: Whether elements along K are contiguous in a tile.
    """
    config, size = spec.config, spec.compute.sum_bytes
    vector = VECTOR_BYTES // size
    length = config.bk if k_major else width
    apart = max(count, WAVEFRONT_BYTES // (length * size))
    contiguous = vector if k_major else min(count, vector)

    def address(group: int, i: int, k: int) -> int:
        row, place = (i, k) if k_major else (k, i)
        swizzled = (place // vector) ^ (row // apart % (length // vector))
        return (group * (width * config.bk + config.pad) + row * length + swizzled * vector + place % vector) * size

    return sum(
        wavefronts([address(group, i + c, k) for group, i in lanes], contiguous * size)
        for k in range(0, config.bk, contiguous if k_major else 1)
        for c in range(0, count, 1 if k_major else contiguous)
    )


def _staged_wavefronts(spec: KernelSpec, rows: Sequence[int], cols: Sequence[int]) -> float:
    """Return the shared-memory wavefronts per multiply-add of a warp that reads the tiles ``As`` and ``Bs``.

    Args:
        spec: Specification of the kernel.
        rows: Row of A that each lane reads.
        cols: Column of B that each lane reads.
    """
    config = spec.config
    if spec.variant.reads.from_shared != "elements":
        return _k_major_wavefronts(spec, rows, cols)
    # With more than one buffer, only a B tile that is stored by columns is padded: only that is read across its rows.
    pad_a = config.pad if config.stages == 1 else 0
    read_a = _tile_read(spec, rows, spec.layout[0] != "T", pad_a)
    read_b = _tile_read(spec, cols, spec.layout[1] == "T", config.pad)
    # A thread's other rows and columns lie at a constant distance, so their banks are all shifted by the same amount.
    return read_a / config.tn + read_b / config.tm


def _k_major_wavefronts(spec: KernelSpec, rows: Sequence[int], cols: Sequence[int]) -> float:
    """Return the shared-memory wavefronts per multiply-add of a warp that reads K-major tiles.

    Each lane reads one element or 16 bytes at a time.

    Args:
        spec: Specification of the kernel.
        rows: Row of A that each lane reads.
        cols: Column of B that each lane reads.
    """
    size = spec.compute.sum_bytes
    width = VECTOR_BYTES if spec.variant.reads.from_shared == "K-major vectors" else size
    read_a, read_b = (wavefronts([at * width for at in across], width) * size / width for across in (rows, cols))
    return read_a / spec.config.tn + read_b / spec.config.tm


def _tile_read(spec: KernelSpec, across: Sequence[int], k_contiguous: bool, pad: int) -> float:
    """Return the wavefronts, per step of k, in which a warp reads one element per lane from a tile in shared memory.

    If elements along K are contiguous and aligned, the compiler merges the loads of successive k.

    Args:
        spec: Specification of the kernel.
        across: Row of A or column of B that each lane reads.
        k_contiguous: Whether elements along K are contiguous in the tile.
        pad: Elements of padding per row of the tile.
    """
    size = spec.compute.sum_bytes
    if not k_contiguous:
        return wavefronts([at * size for at in across], size)
    pitch = spec.config.bk + pad
    joined = max(1, VECTOR_BYTES // size)
    while joined > 1 and (pitch % joined or spec.config.unroll % joined):
        joined //= 2
    return wavefronts([at * pitch * size for at in across], size * joined) / joined
