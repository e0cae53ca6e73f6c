"""Process grids of a 2-D product: blocks, panels and bytes moved. Pure arithmetic.

Rank ``row * P_c + column`` of a P_r x P_c grid owns one block each of A, B and C = A @ B. A's blocks split m into P_r
and k into P_c ranges, B's split k into P_r and n into P_c, C's split m and n. A panel is a range of k that lies within
one column of A's blocks and within one row of B's: the owners broadcast it along grid rows and columns.

Panels are broadcast two at a time, from different owners where possible, so that links carry data both ways.

Source: R. van de Geijn, J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", 1997.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise, zip_longest

#: Steps whose panels are in flight. One step would leave a GPU idle: the host launches a product only when its panels
#: have arrived, and an NCCL broadcast may have to wait for the running product, whose blocks fill the GPU.
AHEAD = 2

# Panels that are broadcast together.
_TOGETHER = 2

# The product of each panel reads and writes all of C, which takes as long as multiplying several hundred columns, so
# panels are at least _NARROWEST wide. Broadcasts overlap with the product of a rank's own blocks. A rank that has
# nothing of its own to multiply waits for the first panels, so there are at least _MIN_STEPS steps. Panels that are
# received take at most _PANEL_MEMORY of the blocks' memory.
_NARROWEST, _MIN_STEPS, _PANEL_MEMORY = 1024, 4, 1 / 2

# A block boundary moves to a chunk boundary within 1 / _SLACK of the even block size.
_SLACK = 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A range of k whose columns of A and rows of B are broadcast.

    Attributes:
        begin, end: First index of the range, and the index after its last one.
        a_owner: Grid column of the ranks whose blocks of A contain the range.
        b_owner: Grid row of the ranks whose blocks of B contain the range.
    """

    begin: int
    end: int
    a_owner: int
    b_owner: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the blocks of a process grid.

    Attributes:
        rows: Rows of A's and C's blocks in each grid row: P_r numbers with the sum m.
        columns: Columns of B's and C's blocks in each grid column: P_c numbers with the sum n.
        a_depths: Columns of A's blocks in each grid column: P_c numbers with the sum k.
        b_depths: Rows of B's blocks in each grid row: P_r numbers with the sum k.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    a_depths: tuple[int, ...]
    b_depths: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the grid, P_r and P_c."""
        return len(self.rows), len(self.columns)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.rows) * len(self.columns)

    def place(self, rank: int) -> tuple[int, int]:
        """Return the grid row and column of a rank."""
        return divmod(rank, len(self.columns))

    def rank(self, row: int, column: int) -> int:
        """Return the number of the rank at a grid row and column."""
        return row * len(self.columns) + column

    def shapes(self, rank: int) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Return the shapes of a rank's blocks of A, B and C."""
        i, j = self.place(rank)
        m, n = self.rows[i], self.columns[j]
        return (m, self.a_depths[j]), (self.b_depths[i], n), (m, n)

    def steps(self, width: int) -> tuple[tuple[Panel, ...], ...]:
        """Split k into panels, and return the one or two panels of each step, in the order of their broadcasts.

        Args:
            width: Maximum width of a panel, in elements along k. No panel is empty.
        """
        a_ends, b_ends = list(accumulate(self.a_depths)), list(accumulate(self.b_depths))
        ranges = [
            # bisect_right skips empty blocks.
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
        """Row sizes and column sizes of A's blocks, then row sizes and column sizes of B's blocks."""
        return (self.rows, self.a_depths), (self.b_depths, self.columns)

    def own(self, rank: int) -> tuple[int, int]:
        """Return the begin and end of the range of k that a rank's blocks of A and B have in common.

        The rank multiplies this range without a broadcast. Begin and end are equal if the range is empty.
        """
        row, column = self.place(rank)
        begin = max(sum(self.a_depths[:column]), sum(self.b_depths[:row]))
        end = min(sum(self.a_depths[: column + 1]), sum(self.b_depths[: row + 1]))
        return begin, max(begin, end)

    def panel_width(self) -> int:
        """Return the maximum width of panels, in elements along k.

        The width is that of the shortest range of k that a rank multiplies without a broadcast, or more, so that there
        are not many steps. It is halved while received panels would need more than half of the blocks' memory, but not
        below 1024.
        """
        k, m, n = sum(self.a_depths), sum(self.rows), sum(self.columns)
        own = min(end - begin for begin, end in map(self.own, range(self.size)))
        width = max(_NARROWEST, own, -(-k // (_MIN_STEPS * _TOGETHER)))
        while width > _NARROWEST and self._received(width) > _PANEL_MEMORY * (m * k + k * n + m * n) / self.size:
            width = max(_NARROWEST, -(-width // 2))
        return width

    def _received(self, width: int) -> int:
        """Return the maximum number of elements of received panels that a rank stores at a time.

        A rank stores the panels of the current step and of the next ``AHEAD`` steps.

        Args:
            width: Maximum width of a panel, in elements along k.
        """
        steps, (p_r, p_c), most = self.steps(width), self.grid, 0
        for first in range(max(1, len(steps) - AHEAD)):
            of_a, of_b = [0] * p_c, [0] * p_r  # columns of A and rows of B, by the grid column or row that owns them
            for panel in chain(*steps[first : first + 1 + AHEAD]):
                of_a[panel.a_owner] += panel.end - panel.begin
                of_b[panel.b_owner] += panel.end - panel.begin
            received = max(self.rows) * (sum(of_a) - min(of_a)) + max(self.columns) * (sum(of_b) - min(of_b))
            most = max(most, received)
        return most

    def traffic(self, itemsize: int) -> int:
        """Return the number of bytes that all ranks together receive, for elements of ``itemsize`` bytes.

        Each element of A is sent to the other ranks of its grid row, and each element of B to the other ranks of its
        grid column.
        """
        (p_r, p_c), k = self.grid, sum(self.a_depths)
        return itemsize * (sum(self.rows) * k * (p_c - 1) + k * sum(self.columns) * (p_r - 1))


def choose_layout(
    m: int, n: int, k: int, size: int, a_chunks: Sequence[Sequence[int]], b_chunks: Sequence[Sequence[int]]
) -> Layout | None:
    """Return the layout, on at most ``size`` ranks, with which a product moves the fewest elements.

    Args:
        m, n, k: Sizes of the product.
        size: Number of available ranks. All are used, unless the product is too small for them.
        a_chunks, b_chunks: Sizes of the operands' chunks along each axis. Block boundaries move to nearby chunk
            boundaries. If a block boundary of an operand still lies inside a chunk, all elements of this operand count
            as moved once.

    Returns:
        The layout; None if fewer than two ranks would have anything to multiply.
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
        # On a tie, prefer fewer grid columns: panels of B are contiguous.
        return layout.traffic(1) + moved, abs(p_r - p_c), p_c

    return min(layouts, key=cost, default=None)


def pair(wishes: Iterable[tuple[int, int, str]]) -> list[tuple[int, str]]:
    """Return pairs of a rank and a worker, in which each rank and each worker occurs at most once.

    Args:
        wishes: Candidates (weight, rank, worker). Those of the largest weight are accepted first.
    """
    found: list[tuple[int, str]] = []
    ranks, workers = set[int](), set[str]()
    for _, rank, worker in sorted(wishes, key=lambda wish: (-wish[0], *wish[1:])):
        if rank not in ranks and worker not in workers:
            found.append((rank, worker))
            ranks.add(rank)
            workers.add(worker)
    return found


def _grids(m: int, n: int, k: int, size: int) -> list[tuple[int, int]]:
    """Return all process grids, as (rows, columns), of the largest usable number of ranks, which is at most ``size``.

    A number of ranks is usable if it has a grid in which no block is empty. The list is empty if only one rank is.
    """
    for ranks in range(size, 1, -1):
        # A's blocks split k, too, into P_c ranges, and B's into P_r.
        if grids := [(p_r, p_c) for p_r, p_c in _factors(ranks) if p_r <= min(m, k) and p_c <= min(n, k)]:
            return grids
    return []


def _is_kept(sizes: Sequence[int], chunks: Sequence[int]) -> bool:
    """Return whether each boundary between blocks along an axis is a boundary between chunks, too."""
    return set(accumulate(sizes)) <= set(accumulate(chunks))


def _factors(number: int) -> Iterator[tuple[int, int]]:
    return ((p, number // p) for p in range(1, number + 1) if number % p == 0)


def blocks(extent: int, count: int, chunks: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the sizes of blocks along an axis: about equal, with boundaries moved to nearby chunk boundaries.

    Args:
        extent: Size of the axis, at least ``count``.
        count: Number of blocks.
        chunks: Sizes of the chunks along the axis, which sum to ``extent``.

    Returns:
        ``count`` sizes of at least 1, which sum to ``extent``.
    """
    even = [i * extent // count for i in range(count + 1)]
    kept, slack = sorted(set(accumulate(chunks))), extent // count // _SLACK
    cuts = [0]
    for cut in even[1:-1]:
        at = bisect.bisect_left(kept, cut)
        nearest = min(kept[max(at - 1, 0) : at + 1], key=lambda end: abs(end - cut), default=cut)
        cuts.append(nearest if abs(nearest - cut) <= slack else cut)
    return tuple(end - begin for begin, end in pairwise([*cuts, extent]))
