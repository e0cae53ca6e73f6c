"""From a limit on device memory to the tiling that costs least.

For tiles of t x t, a step over d of K copies ``2 * t * d`` elements to the device for ``2 * t * t * d`` FLOP: the
larger the tile, the more arithmetic covers the copies. But nothing covers the copy of the first panels and that of the
last tile back; and the shorter the steps, the more often C is read and written. The tiling that costs least by these
is taken, and what memory is left keeps panels for the next tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiledmm.distributed.tiling import Matrices, Tiling, Workspace, device_bytes, most_workspace, parts, round_up
from tiledmm.errors import ConfigError

#: Tile edges are multiples of this where they are as large: kernels then have no partial blocks inside of matrices.
UNIT = 256

# Those of smaller tiles; the first is the smallest tile there is.
_SMALL = (16, 32, 64, 128)

#: Edge of the largest square tiles. They cover copies from page-locked memory.
LARGEST = 32768

#: How many times as fast memory is read and written on the device as copied to it: by data sheets 26 on an H100 with
#: PCIe 5.0 (3.35 TB/s both ways, 64 GB/s), 32 on an A100. Products read and write panels, and C but for a tile's first.
PASS = 25

#: Bytes that could be copied while the host issues a step: some 80 us.
STEP_BYTES = 4 << 20

#: Longest edge of a tile: one of its rows fits into a staging buffer, and its pitch is one that 2-D copies take.
LONGEST = 1 << 22

# The workspace of a tiling takes long to tell. Once one fits, so many others are tried at most, and only those that are
# expected to cost at most this fraction.
_MOST_ASKED, _WORTHWHILE = 24, 0.95


def tiling_within(matrices: Matrices, limit: int, workspace: Workspace) -> Tiling:
    """The tiling that costs least, as far as can be foretold, of those that a limit has room for.

    Tiles are about as large as each other.

    Args:
        matrices: The product.
        limit: Most bytes of device memory: panels, tiles and workspace.
        workspace: The workspace of a product.

    Raises:
        ConfigError: If no tile fits; it says what would.
    """
    tilings = list(_tilings(matrices))
    left = {tiling for tiling in tilings if tiling.buffer_bytes <= limit}
    best, best_cost, asked = None, math.inf, 0
    share = 0.0  # the expected ratio of workspace to panels, by what others need

    def expected(tiling: Tiling) -> tuple[float, int]:
        spare = limit - tiling.buffer_bytes - math.ceil(share * _panel_bytes(tiling))
        return cost(_with_spare(tiling, spare)) if spare >= 0 else math.inf, tiling.buffer_bytes

    while left and asked < _MOST_ASKED:
        tiling = min(left, key=expected)
        if expected(tiling)[0] > _WORTHWHILE * best_cost:
            break
        left.remove(tiling)
        asked += best is not None
        # Whole tiles need most, as a rule; but other products may need more.
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
            f"memory={limit:,} bytes have no room for any tile of this product: it needs {least:,} at least"
        )
    return best


def _panel_bytes(tiling: Tiling) -> int:
    """Bytes of one panel of A and one of B."""
    return tiling.bytes(0) + tiling.bytes(1)


def _least_bytes(tilings: Sequence[Tiling], workspace: Workspace) -> int:
    """Bytes of device memory of the tiling that takes least."""
    first, *others = sorted(tilings, key=lambda tiling: tiling.buffer_bytes)
    least = device_bytes(first, workspace)
    for tiling in others:
        if tiling.buffer_bytes >= least:
            break
        least = min(least, device_bytes(tiling, workspace))
    return least


def cost(tiling: Tiling) -> float:
    """Bytes that are copied to the device, and others that count as many: to compare tilings of a product."""
    matrices, steps = tiling.matrices, tiling.steps
    slots, lines = (tiling.a_slots, tiling.b_slots), tiling.grid
    kept, other = tiling.kept, 1 - tiling.kept
    panels = [0, 0]  # copied; at each turn those are used again that are still there
    panels[kept] = lines[kept] * (steps + (lines[other] - 1) * max(0, steps - slots[kept]))
    panels[other] = lines[other] * steps + (lines[kept] - 1) * max(0, lines[other] * steps - slots[other])
    a, b, c = (rows * cols for rows, cols in tiling.shapes)
    copied = panels[0] * a + panels[1] * b
    exposed = a + b + c  # the first panels, and the last tile
    issued = tiling.tiles * steps
    passes = issued * (a + b) * matrices.itemsize + (steps - 1) * matrices.m * matrices.n * matrices.sum_itemsize
    return (copied + exposed) * matrices.itemsize + passes / PASS + issued * STEP_BYTES


def _tilings(matrices: Matrices) -> Iterator[Tiling]:
    """Tilings that are tried, with two panels of A and of B: one is copied while the other is multiplied."""
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
    """Sizes that are tried along an axis, ascending: multiples of units, a sixteenth apart at least, and all of it."""
    found = [edge for edge in _SMALL if edge < longest]
    edge = UNIT
    while edge < longest:
        found.append(edge)
        edge = round_up(max(edge + 1, edge + edge // 16), UNIT)
    return [*found, longest]


def _with_spare(tiling: Tiling, spare: int) -> Tiling:
    """The tiling with more panels in memory that is left, as far as later tiles need them again."""
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
    """A size of parts up to ``most``, with as many parts as those would be, and about equal."""
    per = -(-size // parts(size, most))
    return min(round_up(per, UNIT if most >= UNIT else _SMALL[0]), most, size)
