"""A rank's part of a product: panels come in, products of panels are added to its block of C."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tiledmm.distributed.communicators import COLUMN, ROW, Communicator
from tiledmm.distributed.grid import Layout, Panel
from tiledmm.distributed.local import allocate_sums, multiply_add, rounded

# Panels that are on their way. One would leave a GPU without work: the host launches a product when its panels are
# there, and a broadcast by NCCL may have to wait for the product that runs, whose blocks fill the GPU.
_AHEAD = 2


def summa(
    a: Any,
    b: Any,
    layout: Layout,
    rank: int,
    communicator: Communicator,
    *,
    precision: str = "full",
    width: int | None = None,
    on_panel: Callable[[int], None] = lambda step: None,
) -> Any:
    """A rank's block of C = A @ B. Every rank calls it at the same time.

    While a panel is multiplied, the next two are on their way: beside its blocks a rank needs room for three panels of
    each operand.

    Args:
        a, b: The rank's blocks, of the shapes that ``layout.shapes(rank)`` says, of one type and on one device.
        layout: The grid and the sizes of all blocks.
        rank: Which rank this is.
        communicator: Its way to the others.
        precision: As for ``tiledmm.matmul``, of CuPy's arrays.
        width: Largest width of a panel; None for one by its bytes. The same on all ranks.
        on_panel: Called before each step with its number.

    Returns:
        A new array of the operands' type and device. 16-bit floats are summed in float32 and rounded once.

    Raises:
        CollectiveError: Another rank failed, or was silent past the deadline.
    """
    row, column = layout.place(rank)
    a_shape, b_shape, c_shape = layout.shapes(rank)
    a_begin, b_begin = sum(layout.a_depths[:column]), sum(layout.b_depths[:row])
    panels = layout.panels(width or layout.panel_width(a.dtype.itemsize))

    def begin(panel: Panel) -> tuple[Callable[[], Any], Callable[[], Any]]:
        depth = panel.end - panel.begin
        mine_a = a[:, panel.begin - a_begin : panel.end - a_begin] if panel.a_owner == column else None
        mine_b = b[panel.begin - b_begin : panel.end - b_begin] if panel.b_owner == row else None
        return (
            communicator.broadcast(ROW, panel.a_owner, mine_a, (a_shape[0], depth), a),
            communicator.broadcast(COLUMN, panel.b_owner, mine_b, (depth, b_shape[1]), b),
        )

    c = allocate_sums(c_shape, a)
    coming = deque(map(begin, panels[:_AHEAD]))
    for step in range(len(panels)):
        on_panel(step)
        left, right = (received() for received in coming.popleft())
        coming.extend(map(begin, panels[step + _AHEAD : step + _AHEAD + 1]))
        multiply_add(left, right, c, precision, first=not step)
    return rounded(c, a)
