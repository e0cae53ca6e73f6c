"""A rank's part of a product: panels come in, products of panels are added to its block of C."""

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
    """A rank's block of C = A @ B. Every rank calls it at the same time.

    It begins with the range of k that it has of both operands, while the first panels are on their way. While the
    panels of a step are multiplied, those of the next two are on theirs.

    Args:
        a, b: The rank's blocks, of the shapes that ``layout.shapes(rank)`` says, of one type and on one device.
        layout: The grid and the sizes of all blocks.
        rank: Which rank this is.
        communicator: Its way to the others.
        precision: As for ``tiledmm.matmul``, of CuPy's arrays.
        width: Largest width of a panel; None for ``layout.panel_width()``. The same on all ranks.
        on_step: Called before each step with its number.

    Returns:
        A new array of the operands' type and device. 16-bit floats are summed in float32 and rounded once.

    Raises:
        CollectiveError: Another rank failed, or was silent past the deadline.
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
            del left, right  # or they are in memory beside those of three steps
    return rounded(c, a)
