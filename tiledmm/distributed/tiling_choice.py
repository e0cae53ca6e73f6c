"""Choice of the tiling with the lowest cost within a limit on device memory.

For tiles of t x t, a step over d of K copies ``2 * t * d`` elements to the device for ``2 * t * t * d`` FLOP: the
larger the tile, the more arithmetic covers the copies. But nothing covers the copy of the first panels, nor that of the
last tile back; and the shorter the steps, the more often C is read and written. ``cost`` weighs these. Memory that is
left over keeps panels for the next tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiledmm.distributed.tiling import Matrices, Tiling, Workspace, ceil_div, device_bytes, most_workspace, round_up
from tiledmm.errors import ConfigError

#: Tile edges of at least this size are multiples of it, so that kernels have partial blocks only at the edges of C.
UNIT = 256

# Edges of smaller tiles. The first one is the smallest.
_SMALL = (16, 32, 64, 128)

#: Edge of the largest square tile. Such tiles cover copies from page-locked memory.
LARGEST = 32768

#: Ratio of the bandwidth of device memory to that of copies to the device. By data sheets it is 26 on an H100 with PCIe
#: 5.0 (3.35 TB/s both ways, 64 GB/s), and 32 on an A100. Products read panels, and they read and write C except in the
#: first step of a tile.
PASS = 25

#: Bytes that can be copied while the host issues a step, about 80 us.
STEP_BYTES = 4 << 20

#: Longest edge of a tile: one of its rows fits into a staging buffer, and 2-D copies support its pitch.
LONGEST = 1 << 22

# The workspace of a tiling is slow to compute. Once a tiling fits, at most _MOST_ASKED others are tried, and only those
# whose expected cost is at most _WORTHWHILE of the best one.
_MOST_ASKED, _WORTHWHILE = 24, 0.95


def tiling_within(matrices: Matrices, limit: int, workspace: Workspace) -> Tiling:
    """Return the tiling with the lowest expected cost out of those that fit into a limit on device memory.

    All tiles are of about equal size.

    Args:
        matrices: Sizes and layouts of the product to tile.
        limit: Maximum number of bytes of device memory for panels, tiles and workspace.
        workspace: Function that returns the bytes of workspace of a product.

    Raises:
        ConfigError: If no tile fits. The message says how many bytes would suffice.
    """
    tilings = list(_tilings(matrices))
    left = {tiling for tiling in tilings if tiling.buffer_bytes <= limit}
    best, best_cost, asked = None, math.inf, 0
    share = 0.0  # expected ratio of workspace to panels, from the tilings that did not fit

    def expected(tiling: Tiling) -> tuple[float, int]:
        spare = limit - tiling.buffer_bytes - math.ceil(share * _panel_bytes(tiling))
        return cost(_with_spare(tiling, spare)) if spare >= 0 else math.inf, tiling.buffer_bytes

    while left and asked < _MOST_ASKED:
        tiling = min(left, key=expected)
        if expected(tiling)[0] > _WORTHWHILE * best_cost:
            break
        left.remove(tiling)
        asked += best is not None
        # Whole tiles usually need most, but a smaller product may need more.
        need = workspace(tiling, *next(tiling.products()))
        if tiling.buffer_bytes + need <= limit:
            need = most_workspace(tiling, workspace)
        if (spare := limit - tiling.buffer_bytes - need) < 0:
            share = max(share, need / _panel_bytes(tiling))
            continue
        found = _with_spare(tiling, spare)
        if cost(found) < best_cost:
            best, best_cost = found, cost(found)
        share /= 2  # others may need less than this one
    if best is None:
        least = _least_bytes(tilings, workspace)
        raise ConfigError(
            f"memory={limit:,} bytes are too few for any tile of this product, which needs at least {least:,} bytes"
        )
    return best


def _panel_bytes(tiling: Tiling) -> int:
    """Return the bytes of one panel of A and one panel of B."""
    return tiling.bytes(0) + tiling.bytes(1)


def _least_bytes(tilings: Sequence[Tiling], workspace: Workspace) -> int:
    """Return the minimum number of bytes of device memory that any of the tilings needs."""
    first, *others = sorted(tilings, key=lambda tiling: tiling.buffer_bytes)
    least = device_bytes(first, workspace)
    for tiling in others:
        if tiling.buffer_bytes >= least:
            break
        least = min(least, device_bytes(tiling, workspace))
    return least


def cost(tiling: Tiling) -> float:
    """Return the cost of a tiling in bytes: the bytes that it copies to the device, plus an equivalent of other work.

    The equivalent is the number of bytes that could be copied to the device in the time of that work.
    """
    matrices, steps = tiling.matrices, tiling.steps
    slots, lines = (tiling.a_slots, tiling.b_slots), tiling.grid
    kept, other = tiling.kept, 1 - tiling.kept
    panels = [0, 0]  # copied panels; each row or column of tiles reuses the panels that are still on the device
    panels[kept] = lines[kept] * (steps + (lines[other] - 1) * max(0, steps - slots[kept]))
    panels[other] = lines[other] * steps + (lines[kept] - 1) * max(0, lines[other] * steps - slots[other])
    a, b, c = (rows * cols for rows, cols in tiling.shapes)
    copied = panels[0] * a + panels[1] * b
    exposed = a + b + c  # the first panels, and the last tile
    issued = tiling.tiles * steps
    passes = issued * (a + b) * matrices.itemsize + (steps - 1) * matrices.m * matrices.n * matrices.sum_itemsize
    return (copied + exposed) * matrices.itemsize + passes / PASS + issued * STEP_BYTES


def _tilings(matrices: Matrices) -> Iterator[Tiling]:
    """Yield the candidates for a product's tiling, from small tiles and steps to large ones.

    On the device they have two panels of A and two of B, if there are as many: one is copied while the other one is
    multiplied.
    """
    longest = min(max(matrices.m, matrices.n), LONGEST)
    # One edge may be longer where the matrix is narrow.
    most = [LARGEST * LARGEST // min(other, LARGEST) // UNIT * UNIT for other in (matrices.n, matrices.m)]
    depths = dict.fromkeys(_even(matrices.k, edge) for edge in _edges(min(matrices.k, LONGEST)))
    pairs = dict.fromkeys(
        (_even(matrices.m, min(edge, most[0])), _even(matrices.n, min(edge, most[1]))) for edge in _edges(longest)
    )
    for (rows, cols), depth in itertools.product(pairs, depths):
        tiling = Tiling(matrices, rows, cols, depth)
        (down, across), steps = tiling.grid, tiling.steps
        yield replace(tiling, a_slots=min(2, down * steps), b_slots=min(2, across * steps))


def _edges(longest: int) -> list[int]:
    """Return the sizes to try along an axis of ``longest`` elements, in increasing order.

    They are powers of two from 16, then multiples of ``UNIT`` that grow by a sixteenth, then the whole axis.
    """
    found = [edge for edge in _SMALL if edge < longest]
    edge = UNIT
    while edge < longest:
        found.append(edge)
        edge = round_up(max(edge + 1, edge + edge // 16), UNIT)
    return [*found, longest]


def _with_spare(tiling: Tiling, spare: int) -> Tiling:
    """Return the tiling with more panels on the device, if there is spare memory.

    Panels are added until ``spare`` bytes are used, or until every panel that a later tile needs again stays there.
    """
    (down, across), steps = tiling.grid, tiling.steps
    slots = [tiling.a_slots, tiling.b_slots]
    kept, other = tiling.kept, 1 - tiling.kept
    lines = (down, across)
    if lines[other] > 1:  # the panels of a row of tiles, and one that is copied for the next row
        most = min(steps + 1, lines[kept] * steps)
        spare -= (more := min(most - slots[kept], spare // tiling.bytes(kept))) * tiling.bytes(kept)
        slots[kept] += more
    if lines[kept] > 1:
        slots[other] += min(lines[other] * steps - slots[other], spare // tiling.bytes(other))
    return replace(tiling, a_slots=slots[0], b_slots=slots[1])


def _even(size: int, most: int) -> int:
    """Divide a size into as few equal parts as possible, each of at most ``most``. Return the size of a part.

    It is rounded up to a multiple of ``UNIT`` if ``most`` is at least ``UNIT``, else to a multiple of 16.
    """
    per = ceil_div(size, ceil_div(size, most))
    return min(round_up(per, UNIT if most >= UNIT else _SMALL[0]), most, size)
