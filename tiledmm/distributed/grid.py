"""Process grids of a 2-D product: blocks, panels and bytes moved. Pure arithmetic.

Rank ``row * P_c + column`` of a P_r x P_c grid owns one block of A, of B and of C = A @ B. A's blocks split m into P_r
and k into P_c ranges, B's split k into P_r and n into P_c, C's split m and n. A panel is a range of k that is in one
column of A's blocks and in one row of B's: the owners broadcast it along grid rows and columns.

Panels are broadcast two at a time, of different owners where there are any: so links carry data both ways.

R. van de Geijn, J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", 1997.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise, zip_longest

#: Steps whose panels are on their way. One would leave a GPU without work: the host launches a product when its panels
#: are there, and a broadcast by NCCL may have to wait for the product that runs, whose blocks fill the GPU.
AHEAD = 2

# Panels that are broadcast together.
_TOGETHER = 2

# Each panel's product reads and writes all of C, which takes as long as multiplying some hundred columns does: so they
# are wide. But they are broadcast while a rank multiplies what it has itself, and nothing is overlapped with the first
# ones of a rank that has nothing: so there are some, and those that are received take at most this fraction of the
# blocks' memory.
_NARROWEST, _MIN_STEPS, _PANEL_MEMORY = 1024, 4, 1 / 2

# How far a block may be from the even size so that a chunk boundary is kept: this fraction of it.
_SLACK = 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A range of k.

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

    def steps(self, width: int) -> tuple[tuple[Panel, ...], ...]:
        """Panels of at most that width, which cover k, in the order in which they are broadcast; none is empty."""
        a_ends, b_ends = list(accumulate(self.a_depths)), list(accumulate(self.b_depths))
        ranges = [
            # bisect_right passes blocks that are empty.
            [
                Panel(at, min(at + width, end), bisect.bisect_right(a_ends, at), bisect.bisect_right(b_ends, at))
                for at in range(begin, end, width)
            ]
            for begin, end in pairwise(sorted({0, *a_ends, *b_ends}))
        ]
        panels = [panel for group in zip_longest(*ranges) for panel in group if panel]
        return tuple(tuple(panels[i : i + _TOGETHER]) for i in range(0, len(panels), _TOGETHER))

    @property
    def block_sizes(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]:
        """Row and column sizes of A's blocks, and of B's."""
        return (self.rows, self.a_depths), (self.b_depths, self.columns)

    def own(self, rank: int) -> tuple[int, int]:
        """The range of k that is in a rank's blocks of A and of B, which it multiplies without a broadcast."""
        row, column = self.place(rank)
        begin = max(sum(self.a_depths[:column]), sum(self.b_depths[:row]))
        end = min(sum(self.a_depths[: column + 1]), sum(self.b_depths[: row + 1]))
        return begin, max(begin, end)

    def panel_width(self) -> int:
        """The width of panels: what each rank has itself, or some in a product; narrower where memory is short."""
        k, m, n = sum(self.a_depths), sum(self.rows), sum(self.columns)
        own = min(end - begin for begin, end in map(self.own, range(self.size)))
        width = max(_NARROWEST, own, -(-k // (_MIN_STEPS * _TOGETHER)))
        while width > _NARROWEST and self._received(width) > _PANEL_MEMORY * (m * k + k * n + m * n) / self.size:
            width = max(_NARROWEST, -(-width // 2))
        return width

    def _received(self, width: int) -> int:
        """Most elements that a rank has received of panels of a step and of the next ones, which are in memory."""
        steps, (p_r, p_c), most = self.steps(width), self.grid, 0
        for first in range(max(1, len(steps) - AHEAD)):
            of_a, of_b = [0] * p_c, [0] * p_r  # columns of A and rows of B, by the grid column and row that has them
            for panel in chain(*steps[first : first + 1 + AHEAD]):
                of_a[panel.a_owner] += panel.end - panel.begin
                of_b[panel.b_owner] += panel.end - panel.begin
            received = max(self.rows) * (sum(of_a) - min(of_a)) + max(self.columns) * (sum(of_b) - min(of_b))
            most = max(most, received)
        return most

    def traffic(self, itemsize: int) -> int:
        """Bytes that all ranks receive: each of A by the rest of its grid row, each of B by the rest of its column."""
        (p_r, p_c), k = self.grid, sum(self.a_depths)
        return itemsize * (sum(self.rows) * k * (p_c - 1) + k * sum(self.columns) * (p_r - 1))


def choose_layout(
    m: int, n: int, k: int, size: int, a_chunks: Sequence[Sequence[int]], b_chunks: Sequence[Sequence[int]]
) -> Layout | None:
    """The layout of a product on at most ``size`` ranks: of the grid that moves least.

    Args:
        m, n, k: The product's sizes.
        size: Ranks that there are. All are used, unless the sizes are too small for them.
        a_chunks, b_chunks: Sizes of the operands' chunks along each axis. Their boundaries are kept where blocks
            stay near the even size. An operand some of whose blocks are cut elsewhere is counted as moved once.

    Returns:
        The layout, or None if fewer than two ranks would have anything to multiply.
    """
    layouts = [
        Layout(
            blocks(m, p_r, a_chunks[0]),
            blocks(n, p_c, b_chunks[1]),
            blocks(k, p_c, a_chunks[1]),
            blocks(k, p_r, b_chunks[0]),
        )
        for p_r, p_c in _grids(m, n, k, size)
    ]

    def cost(layout: Layout) -> tuple[int, int, int]:
        a_is_kept = _is_kept(layout.rows, a_chunks[0]) and _is_kept(layout.a_depths, a_chunks[1])
        b_is_kept = _is_kept(layout.b_depths, b_chunks[0]) and _is_kept(layout.columns, b_chunks[1])
        moved = m * k * (not a_is_kept) + k * n * (not b_is_kept)
        p_r, p_c = layout.grid
        # Rows rather than columns: panels of B are contiguous.
        return layout.traffic(1) + moved, abs(p_r - p_c), p_c

    return min(layouts, key=cost, default=None)


def pair(wishes: Iterable[tuple[int, int, str]]) -> list[tuple[int, str]]:
    """Ranks and workers, one to one: of wishes (weight, rank, worker), the heaviest are granted first."""
    found: list[tuple[int, str]] = []
    ranks, workers = set[int](), set[str]()
    for _, rank, worker in sorted(wishes, key=lambda wish: (-wish[0], *wish[1:])):
        if rank not in ranks and worker not in workers:
            found.append((rank, worker))
            ranks.add(rank)
            workers.add(worker)
    return found


def _grids(m: int, n: int, k: int, size: int) -> list[tuple[int, int]]:
    """The grids of as many ranks as have blocks with elements; none if that is one."""
    for ranks in range(size, 1, -1):
        # A's blocks split k, too, into as many ranges as the grid has columns; B's into as many as it has rows.
        if grids := [(p_r, p_c) for p_r, p_c in _factors(ranks) if p_r <= min(m, k) and p_c <= min(n, k)]:
            return grids
    return []


def _is_kept(sizes: Sequence[int], chunks: Sequence[int]) -> bool:
    """Whether all boundaries of blocks are boundaries of chunks."""
    return set(accumulate(sizes)) <= set(accumulate(chunks))


def _factors(number: int) -> Iterator[tuple[int, int]]:
    return ((p, number // p) for p in range(1, number + 1) if number % p == 0)


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
