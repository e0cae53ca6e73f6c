"""The SUMMA algorithm on one rank: it receives panels, and adds their products to its block of C."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tiledmm.distributed.communicators import COLUMN, ROW, Broadcast, Communicator
from tiledmm.distributed.grid import AHEAD, Layout, Panel
from tiledmm.distributed.local import allocate_sums, multiply_add, rounded


def summa(
    a: Any,
    b: Any,
    layout: Layout,
    rank: int,
    communicator: Communicator,
    *,
    precision: str = "full",
    width: int | None = None,
    on_step: Callable[[int], None] = lambda step: None,
) -> Any:
    """Compute and return a rank's block of C = A @ B. Every rank calls this at the same time.

    The rank begins with the range of k that its blocks of A and B share, while the first panels are in flight. While
    the panels of a step are multiplied, those of the next two steps are in flight.

    Args:
        a, b: Blocks of the rank, of the shapes that ``layout.shapes(rank)`` returns, of one type and on one device.
        layout: Process grid and the sizes of its blocks.
        rank: Number of this rank.
        communicator: Connection to the other ranks.
        precision: Precision of products of CuPy arrays, as for ``tiledmm.matmul``.
        width: Maximum width of a panel in elements along k, the same on all ranks; None for ``layout.panel_width()``.
        on_step: Function that is called before each step with its number.

    Returns:
        A new array of the operands' type and device. 16-bit floats are summed in float32 and rounded once.

    Raises:
        CollectiveError: If another rank failed, or was silent past the deadline.
    """
    row, column = layout.place(rank)
    a_shape, b_shape, c_shape = layout.shapes(rank)
    a_begin, b_begin = sum(layout.a_depths[:column]), sum(layout.b_depths[:row])
    steps = layout.steps(width or layout.panel_width())
    c, is_empty = allocate_sums(c_shape, a), True

    def broadcasts(panel: Panel) -> Iterator[Broadcast]:
        depth = panel.end - panel.begin
        mine_a = a[:, panel.begin - a_begin : panel.end - a_begin] if panel.a_owner == column else None
        mine_b = b[panel.begin - b_begin : panel.end - b_begin] if panel.b_owner == row else None
        yield Broadcast(ROW, panel.a_owner, mine_a, (a_shape[0], depth))
        yield Broadcast(COLUMN, panel.b_owner, mine_b, (depth, b_shape[1]))

    def begin(step: Sequence[Panel]) -> Callable[[], list[Any]]:
        return communicator.broadcast([each for panel in step for each in broadcasts(panel)], a)

    def add(left: Any, right: Any) -> None:
        nonlocal is_empty
        multiply_add(left, right, c, precision, first=is_empty)
        is_empty = False

    coming = deque(map(begin, steps[:AHEAD]))
    begins, ends = layout.own(rank)
    if begins < ends:
        add(a[:, begins - a_begin : ends - a_begin], b[begins - b_begin : ends - b_begin])
    for index, step in enumerate(steps):
        on_step(index)
        arrived = coming.popleft()()
        coming.extend(map(begin, steps[index + AHEAD : index + AHEAD + 1]))
        for panel, left, right in zip(step, arrived[::2], arrived[1::2], strict=True):
            if (panel.b_owner, panel.a_owner) != (row, column):
                add(left, right)
            del left, right  # otherwise they stay in memory beside the panels of three steps
    return rounded(c, a)
