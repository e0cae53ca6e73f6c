"""From a limit on device memory to tiles of C and panels of A and B, and the order in which they are computed.

For tiles of t x t, a step over d of K copies ``2 * t * d`` elements to the device for ``2 * t * t * d`` FLOP: the
larger the tile, the more arithmetic covers the copies. But nothing covers the copy of the first panels and that of the
last tile back; and the shorter the steps, the more often C is read and written. The tiling that costs least by these
is taken, and what memory is left keeps panels for the next tiles. Arithmetic only: nothing here knows of a device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

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

# Bytes that rows of device matrices are padded to a multiple of, for TMA; and matrices, as CuPy's pool allocates.
_PITCH, _ALIGNMENT = 16, 512


@dataclass(frozen=True, slots=True)
class Matrices:
    """What a tiling depends on of a product ``(m, k) @ (k, n)``.

    Attributes:
        m, n, k: Its sizes, none of them 0.
        itemsize: Bytes of an element.
        sum_itemsize: Bytes of an element of C between two steps along K: more than ``itemsize`` for float16, which is
            rounded once.
        layouts: Those of A, B and C: N if rows are contiguous, T if columns are.
    """

    m: int
    n: int
    k: int
    itemsize: int
    sum_itemsize: int
    layouts: str = "NNN"


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of C of ``rows`` x ``cols``, computed in steps of ``depth`` along K.

    Attributes:
        matrices: The product.
        rows, cols, depth: Sizes of a tile and of a step. Those at the edges may be smaller.
        a_slots, b_slots: How many panels of A and of B there is room for on the device.
    """

    matrices: Matrices
    rows: int
    cols: int
    depth: int
    a_slots: int = 1
    b_slots: int = 1

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return _parts(self.matrices.m, self.rows), _parts(self.matrices.n, self.cols)

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.grid[0] * self.grid[1]

    @property
    def steps(self) -> int:
        """Steps along K of a tile."""
        return _parts(self.matrices.k, self.depth)

    @property
    def by_rows(self) -> bool:
        """Whether a row of tiles comes after the other, which keeps panels of A; else columns, which keeps those of B.

        The operand that is kept is copied once, the other one for each row or column of tiles.
        """
        (down, across), each = self.grid, self.matrices
        return each.m + down * each.n <= each.n + across * each.m

    @property
    def kept(self) -> int:
        """The operand whose panels are kept: A (0) or B (1)."""
        return 0 if self.by_rows else 1

    def tile(self, number: int) -> tuple[int, int]:
        """Row and column of the tile that comes at a place of the order: serpentine, so that a panel is shared."""
        down, across = self.grid
        outer, inner = divmod(number, across if self.by_rows else down)
        if outer % 2:
            inner = (across if self.by_rows else down) - 1 - inner
        return (outer, inner) if self.by_rows else (inner, outer)

    def depths(self, number: int) -> Sequence[int]:
        """The steps along K of a tile, in order: to and fro, so that a tile begins where the one before it ended.

        They depend on the tile's place in the order alone, and so do the bits of the result.
        """
        return range(self.steps)[:: -1 if number % 2 else 1]

    def part_of_c(self, number: int) -> tuple[slice, slice]:
        """The rows and columns of C that a tile has."""
        i, j = self.tile(number)
        return slice(i * self.rows, (i + 1) * self.rows), slice(j * self.cols, (j + 1) * self.cols)

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Rows and columns of a panel of A, a panel of B and a tile of C."""
        return (self.rows, self.depth), (self.depth, self.cols), (self.rows, self.cols)

    def pitch(self, which: int, itemsize: int | None = None) -> int:
        """Bytes from a contiguous row (or column, of layout T) to the next, of A (0), B (1) or C (2) on the device."""
        contiguous = self.shapes[which][1 if self.matrices.layouts[which] == "N" else 0]
        return _round_up(contiguous * (itemsize or self.matrices.itemsize), _PITCH)

    def bytes(self, which: int, itemsize: int | None = None) -> int:
        """Bytes of a panel of A (0), a panel of B (1) or a tile of C (2) on the device."""
        others = self.shapes[which][0 if self.matrices.layouts[which] == "N" else 1]
        return _round_up(others * self.pitch(which, itemsize), _ALIGNMENT)

    @property
    def results(self) -> int:
        """Tiles of C that are on the device: one is copied back while the next is computed."""
        return min(2, self.tiles)

    @property
    def wide_sums(self) -> bool:
        """Whether sums have memory of their own, because they are wider than the result."""
        return self.steps > 1 and self.matrices.sum_itemsize != self.matrices.itemsize

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all panels and tiles on the device."""
        sums = self.bytes(2, self.matrices.sum_itemsize) if self.wide_sums else 0
        return self.a_slots * self.bytes(0) + self.b_slots * self.bytes(1) + self.results * self.bytes(2) + sums

    def products(self) -> Iterator[tuple[tuple[int, int, int], bool, bool]]:
        """Every kind of product that is computed: m, n and k, and whether it is a tile's first and last step.

        Whole tiles and whole panels are first.
        """
        m, n, k = self.matrices.m, self.matrices.n, self.matrices.k
        kinds = [(True, False), (False, True), *([(False, False)] if self.steps > 2 else [])]
        rows, cols, depths = (
            (whole, size % whole or whole) for size, whole in ((m, self.rows), (n, self.cols), (k, self.depth))
        )
        for shape in dict.fromkeys(itertools.product(rows, cols, depths)):
            for first, last in kinds if self.steps > 1 else [(True, True)]:
                yield shape, first, last


#: Bytes of workspace of a product of a tiling: its m, n and k, and whether it is a tile's first and last step.
Workspace = Callable[[Tiling, tuple[int, int, int], bool, bool], int]


def most_workspace(tiling: Tiling, workspace: Workspace) -> int:
    """Bytes of workspace that there must be for every product of a tiling."""
    return _round_up(max(workspace(tiling, *kind) for kind in tiling.products()), _ALIGNMENT)


def device_bytes(tiling: Tiling, workspace: Workspace) -> int:
    """Bytes of device memory that a tiling takes."""
    return tiling.buffer_bytes + most_workspace(tiling, workspace)


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
    share = 0.0  # of a tiling's panels, which its workspace is expected to be, by what was told of others

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
        edge = _round_up(max(edge + 1, edge + edge // 16), UNIT)
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
    per = -(-size // _parts(size, most))
    return min(_round_up(per, UNIT if most >= UNIT else _SMALL[0]), most, size)


def _parts(size: int, each: int) -> int:
    return -(-size // each)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
