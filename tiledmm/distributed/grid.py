"""Process grids of a 2-D product: blocks, panels and bytes moved. Pure arithmetic.

Rank ``row * P_c + column`` of a P_r x P_c grid owns one block of A, of B and of C = A @ B. A's blocks split m into P_r
and k into P_c ranges, B's split k into P_r and n into P_c, C's split m and n. A panel is a range of k that is in one
column of A's blocks and in one row of B's: the owners broadcast it along grid rows and columns.

R. van de Geijn, J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", 1997.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

# Each panel's product reads and writes all of C, which takes as long as multiplying some hundred columns does: so
# panels are wide. But the first one is not overlapped with anything, and several are in memory.
_NARROWEST, _PANEL_BYTES, _MIN_PANELS = 1024, 256 << 20, 8

# How far a block may be from the even size so that a chunk boundary is kept: this fraction of it.
_SLACK = 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A range of k that the ranks multiply in one step.

    Attributes:
        begin, end: The range.
        a_owner: Grid column of the ranks whose blocks of A have it.
        b_owner: Grid row of the ranks whose blocks of B have it.
    """

    begin: int
    end: int
    a_owner: int
    b_owner: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the blocks of a grid.

    Attributes:
        rows: P_r sizes that sum to m.
        columns: P_c sizes that sum to n.
        a_depths: P_c sizes of k, those of A's blocks.
        b_depths: P_r sizes of k, those of B's blocks.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    a_depths: tuple[int, ...]
    b_depths: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, int]:
        """P_r and P_c."""
        return len(self.rows), len(self.columns)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.rows) * len(self.columns)

    def place(self, rank: int) -> tuple[int, int]:
        """A rank's grid row and column."""
        return divmod(rank, len(self.columns))

    def rank(self, row: int, column: int) -> int:
        """The rank at a place of the grid."""
        return row * len(self.columns) + column

    def shapes(self, rank: int) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """The shapes of a rank's blocks of A, B and C."""
        i, j = self.place(rank)
        m, n = self.rows[i], self.columns[j]
        return (m, self.a_depths[j]), (self.b_depths[i], n), (m, n)

    def panels(self, width: int) -> tuple[Panel, ...]:
        """Panels of at most that width, in order of k; none that is empty."""
        a_ends, b_ends = list(accumulate(self.a_depths)), list(accumulate(self.b_depths))
        cuts = sorted({0, *a_ends, *b_ends})
        ranges = ((b, min(b + width, end)) for begin, end in pairwise(cuts) for b in range(begin, end, width))
        # bisect_right passes blocks that are empty.
        return tuple(Panel(b, e, bisect.bisect_right(a_ends, b), bisect.bisect_right(b_ends, b)) for b, e in ranges)

    def panel_width(self, itemsize: int) -> int:
        """The width of panels, of elements of ``itemsize`` bytes: some in a product, none too large or too narrow."""
        k, longest = sum(self.a_depths), max(1, *self.rows, *self.columns)
        return max(_NARROWEST, min(_PANEL_BYTES // (longest * itemsize), -(-k // _MIN_PANELS)))

    def traffic(self, itemsize: int) -> int:
        """Bytes that all ranks receive in a product."""
        return itemsize * _moved(sum(self.rows), sum(self.columns), sum(self.a_depths), self.grid)


def choose_layout(
    m: int, n: int, k: int, size: int, a_chunks: Sequence[Sequence[int]], b_chunks: Sequence[Sequence[int]]
) -> Layout | None:
    """The layout of a product on at most ``size`` ranks.

    Args:
        m, n, k: The product's sizes.
        size: Ranks that there are.
        a_chunks, b_chunks: Sizes of the operands' chunks along each axis. Their boundaries are kept where blocks
            stay near the even size.

    Returns:
        The layout, or None if fewer than two ranks would have anything to multiply.
    """
    if (grid := choose_grid(m, n, k, size)) == (1, 1):
        return None
    p_r, p_c = grid
    return Layout(
        blocks(m, p_r, a_chunks[0]),
        blocks(n, p_c, b_chunks[1]),
        blocks(k, p_c, a_chunks[1]),
        blocks(k, p_r, b_chunks[0]),
    )


def choose_grid(m: int, n: int, k: int, size: int) -> tuple[int, int]:
    """P_r and P_c of the grid with the least traffic, of as many ranks as have blocks with elements.

    Args:
        m, n, k: The product's sizes.
        size: Ranks that there are. All are used, unless the sizes are too small for them.
    """
    for ranks in range(size, 1, -1):
        # A's blocks split k, too, into as many ranges as the grid has columns; B's into as many as it has rows.
        grids = [(p_r, p_c) for p_r, p_c in _factors(ranks) if p_r <= min(m, k) and p_c <= min(n, k)]
        if grids:
            return min(grids, key=lambda grid: (_moved(m, n, k, grid), abs(grid[0] - grid[1])))
    return 1, 1


def _factors(number: int) -> Iterator[tuple[int, int]]:
    return ((p, number // p) for p in range(1, number + 1) if number % p == 0)


def _moved(m: int, n: int, k: int, grid: tuple[int, int]) -> int:
    """Elements received: each of A by the rest of its grid row, each of B by the rest of its grid column."""
    return m * k * (grid[1] - 1) + k * n * (grid[0] - 1)


def blocks(extent: int, parts: int, chunks: Sequence[int] = ()) -> tuple[int, ...]:
    """Sizes of the blocks along an axis: even, but with boundaries of chunks where one is near.

    Args:
        extent: The axis's size, at least ``parts``.
        parts: Blocks.
        chunks: Sizes of the chunks along the axis, which sum to ``extent``.

    Returns:
        ``parts`` sizes that sum to ``extent``. None is 0.
    """
    even = [i * extent // parts for i in range(parts + 1)]
    kept, slack = sorted(set(accumulate(chunks))), extent // parts // _SLACK
    cuts = [0]
    for cut in even[1:-1]:
        at = bisect.bisect_left(kept, cut)
        nearest = min(kept[max(at - 1, 0) : at + 1], key=lambda end: abs(end - cut), default=cut)
        cuts.append(nearest if abs(nearest - cut) <= slack else cut)
    return tuple(end - begin for begin, end in pairwise([*cuts, extent]))
