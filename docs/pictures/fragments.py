"""Picture of one tensor-core instruction: which lane holds which elements of A, B and C.

The owners of C's elements are those that the simulator recorded writing them. A and B are loaded by ``ldmatrix``, where
lanes read for each other. Therefore a separate kernel (``fragments.cu.j2``) loads them by the same functions as
``tensor_core`` and writes out what each lane then holds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tiledmm
from docs.pictures import svg
from docs.pictures.blocks import Scene
from docs.pictures.traced import Element, Touched, together
from tiledmm import simulator
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator.report.requests import WARP

_CELL = 17  # px

_TEMPLATE = Path(__file__).with_name("fragments.cu.j2")
_TILE = 64


def operands() -> list[Touched]:
    """Return the elements of A and B of a float16 instruction that each lane holds."""
    tiledmm.register(_TEMPLATE, name="fragments", like="tensor_core")
    try:
        config = kernel_spec("fragments", tile=_TILE, dtype="float16").config
        numbers = np.arange(2048, dtype=np.float16)  # more would not be told apart
        a, b = numbers.reshape(config.bm, config.bk), numbers.reshape(config.bk, config.bn)
        has = simulator.matmul(a, b, variant="fragments", tile=_TILE, checks=False)[:WARP, :12].astype(int)
    finally:
        tiledmm.unregister("fragments")
    return [
        Touched(A={divmod(x, config.bk) for x in row[:8].tolist()}, B={divmod(x, config.bn) for x in row[8:].tolist()})
        for row in has
    ]


def picture(scene: Scene) -> str:
    """Draw the first instruction of a warp of ``tensor_core``.

    Args:
        scene: The kernel, in float16, and the lane that is followed.
    """
    done = scene.iteration(scene.recorded())
    first, own = together(done.first), operands()
    every = together(own)
    rows, depth, cols = (1 + max(x) for x in (*zip(*every.A, strict=True), [col for _, col in every.B]))
    for touched, written in zip(own, done.lanes, strict=True):
        touched.C = {(row, col) for row, col in _moved(written.C, done.warp.C) if row < rows and col < cols}
    corner = depth * _CELL + svg.GAP

    def drawn(name: str, shape: tuple[int, int], at: tuple[float, float]) -> str:
        cells = [cell for lane in range(WARP) for cell in _cells(lane, own[lane].of(name), lane == scene.lane)]
        pointed = _moved(done.first[scene.lane].of(name), first.of(name)) if name != "C" else set()
        outline = f'<path class="pointed" d="{svg.path(pointed, _CELL)}"/>' if pointed else ""
        return svg.matrix(name, shape, at, _CELL, {}, inside=[*cells, outline])

    lane = scene.lane
    parts = [
        svg.text("One instruction, and the number of", 0, 20),
        svg.text("the lane that holds each element.", 0, 38),
        drawn("A", (rows, depth), (0, corner)),
        drawn("B", (depth, cols), (corner, 0)),
        drawn("C", (rows, cols), (corner, corner)),
    ]
    told = {"thread": f"lane {lane}'s elements", "pointed": f"the row that lane {lane} passes to ldmatrix"}
    legend, bottom = svg.legend(told, corner + rows * _CELL + 18)
    mine = own[lane]
    description = (
        f"A ({rows} by {depth}), B ({depth} by {cols}) and C ({rows} by {cols}) of one mma instruction, and the "
        f"number of the lane that holds each element. Lane {lane} holds {len(mine.A)} of A, {len(mine.B)} of B and "
        f"{len(mine.C)} of C: {', '.join(f'C{list(each)}' for each in sorted(mine.C))}."
    )
    return svg.document("mma: which lane holds which element", description, bottom, [*parts, *legend])


def _moved(elements: set[Element], origin: set[Element]) -> set[Element]:
    """Shift elements so that they are relative to the first row and column of others."""
    row, col = (min(x) for x in zip(*origin, strict=True))
    return {(i - row, j - col) for i, j in elements}


def _cells(lane: int, elements: set[Element], followed: bool) -> list[str]:
    """Draw the adjacent elements that a lane holds, with its number."""
    drawn = []
    for row, col, height, width in svg.rectangles(elements):
        x, y, w, h = (each * _CELL for each in (col, row, width, height))
        drawn.append(f'<rect class="{"thread" if followed else "cell"}" x="{x}" y="{y}" width="{w}" height="{h}"/>')
        drawn.append(svg.text(lane, x + w / 2, y + _CELL / 2 + 3.5, "small" + " on" * followed))
    return drawn
