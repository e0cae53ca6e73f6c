"""Pictures of what threads touch: that they are what the recorded accesses say."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree

import pytest

from docs.pictures import draw
from tiledmm.codegen import specialize
from tiledmm.simulator import trace


def box(rows: range, cols: range) -> set[tuple[int, int]]:
    return {(row, col) for row in rows for col in cols}


@pytest.mark.parametrize(("variant", "tile"), draw.PICTURES.items())
def test_pictures_are_what_the_simulator_records(variant, tile):
    written = draw.picture(variant, tile=tile)
    assert (draw.FOLDER / f"{variant}.svg").read_text(encoding="utf-8") == written, (
        "python -m docs.pictures.draw writes it anew"
    )
    root = ElementTree.fromstring(written)
    assert root.tag.endswith("svg") and "prefers-color-scheme: dark" in written


def test_a_warp_of_the_naive_kernel_walks_down_a_column_and_of_the_next_along_a_row():
    naive = draw.iteration(trace("naive"), "NN", 3, warp=2)
    assert box(range(32), range(3, 4)) == naive.warp.A and {(3, 2)} == naive.warp.B
    assert box(range(32), range(2, 3)) == naive.warp.C
    coalesced = draw.iteration(trace("coalesced"), "NN", 3, warp=2, lane=5)
    assert {(2, 3)} == coalesced.warp.A and box(range(3, 4), range(32)) == coalesced.warp.B
    assert ({(2, 3)}, {(3, 5)}, {(2, 5)}) == (coalesced.thread.A, coalesced.thread.B, coalesced.thread.C)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(
    ("variant", "tile"), [(variant, tile) for variant, tile in draw.PICTURES.items() if tile is not None]
)
def test_a_block_multiplies_its_tiles_one_after_the_other(variant, tile, layout):
    config = specialize(variant, tile=tile, layout=layout).config
    bm, bn, bk = config.bm, config.bn, config.bk
    recorded = trace(variant, tile=tile, layout=layout, sizes=(2 * bm, bn, 3 * bk), block=1)
    for number in range(3):
        done = draw.iteration(recorded, layout, number)
        rows, cols, steps = range(bm, 2 * bm), range(bn), range(number * bk, (number + 1) * bk)
        assert (box(rows, steps), box(steps, cols), box(rows, cols)) == (done.block.A, done.block.B, done.block.C)
        # A thread and a warp read the rows and columns that their elements of C need, and nothing else.
        for part in (done.thread, done.warp):
            assert {(row, k) for row, _ in part.C for k in steps} == part.A
            assert {(k, col) for _, col in part.C for k in steps} == part.B
        assert done.thread.C <= done.warp.C <= done.block.C
        ahead = number + max(config.stages, 1) - 1
        later = range(ahead * bk, (ahead + 1) * bk)
        expected = (box(rows, later), box(later, cols)) if number < ahead < 3 else (set(), set())
        assert expected == (done.fetched.A, done.fetched.B)


def test_rectangles_cover_elements_once():
    dice = random.Random(0)
    for _ in range(50):
        elements = {(dice.randrange(6), dice.randrange(6)) for _ in range(dice.randrange(30))}
        covered = [
            (row + i, col + j)
            for row, col, height, width in draw.rectangles(elements)
            for i in range(height)
            for j in range(width)
        ]
        assert sorted(covered) == sorted(elements)
    assert draw.rectangles(box(range(2, 5), range(3, 9))) == [(2, 3, 3, 6)]
