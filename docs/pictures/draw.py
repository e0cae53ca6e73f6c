"""Draws what a kernel's threads touch in one iteration: ``python -m docs.pictures.draw [--check]``.

One picture a rung, ``<variant>.svg`` beside this file: A, B and C; what the block multiplies in an iteration, and what
one of its warps and one thread of that warp read of it; what the block meanwhile fetches for later; and which elements
of C are whose. All of it is followed through the accesses that the simulator recorded: a picture shows what the kernel
does. With ``--check`` nothing is written: exit status 1 if something would change.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from tiledmm.codegen import specialize
from tiledmm.simulator import Event, Trace, trace
from tiledmm.simulator.requests import WARP, WORD_BYTES

FOLDER = Path(__file__).parent

#: The rungs that have a picture, and the tile that is drawn: the smaller, the easier to see.
PICTURES: dict[str, int | None] = {
    "naive": None,
    "coalesced": None,
    "tiled": 16,
    "tiled_padded": 16,
    "double_buffered": 16,
    "register_tiled": 64,
    "vectorized": 64,
    "warp_tiled": 64,
}

# C is two blocks by two, and the last of them is drawn; in its second iteration, when pipelines are full.
_BLOCKS = 2
_ITERATION = 1
_WARP = 1
_LANE = 9

# Steps along k where a kernel goes on by single ones.
_SINGLE_STEPS = 24

Element = tuple[int, ...]


@dataclass
class Touched:
    """What someone has to do with in an iteration, as [row, column], by matrix."""

    A: set[Element] = field(default_factory=set)
    B: set[Element] = field(default_factory=set)
    C: set[Element] = field(default_factory=set)

    def of(self, matrix: str) -> set[Element]:
        """Elements of A, B or C."""
        found: set[Element] = getattr(self, matrix)
        return found


@dataclass
class Iteration:
    """One iteration of a block's loop along K.

    Attributes:
        block, warp, thread: What takes part in products: all of the block's, one warp's, one thread's. Their elements
            of C are those that they write in the end.
        fetched: What the block meanwhile reads from global memory for a later iteration.
    """

    block: Touched = field(default_factory=Touched)
    warp: Touched = field(default_factory=Touched)
    thread: Touched = field(default_factory=Touched)
    fetched: Touched = field(default_factory=Touched)


def iteration(recorded: Trace, layout: str, number: int, *, warp: int = _WARP, lane: int = _LANE) -> Iteration:
    """What a block does in one iteration.

    That is what it reads from shared memory between two barriers, followed to where that came from; in a kernel without
    shared memory, what each thread reads from A and from B for the n-th time.

    Args:
        recorded: A block of a kernel on float32.
        layout: How A and B lie in memory, a letter each.
        number: The iteration, from 0 on.
        warp, lane: Which warp of the block, and which thread of it.
    """
    found = Iteration()

    def parties(event: Event) -> Iterator[Touched]:
        x, y, z = event.thread
        width, height, _ = recorded.block
        place = divmod(x + width * (y + height * z), WARP)
        yield found.block
        if place[0] == warp:
            yield found.warp
        if place == (warp, lane):
            yield found.thread

    carried: dict[tuple[int, ...], deque[tuple[str, Element]]] = defaultdict(deque)  # by a thread, not yet stored
    held: dict[int, tuple[str, Element]] = {}  # by the words of shared memory
    times: dict[tuple[str, tuple[int, ...]], int] = defaultdict(int)
    reading = sorted({event.step for event in recorded.events if event.space == "shared" and event.kind == "load"})
    for event in recorded.events:
        if event.array == "C":
            for touched in parties(event):
                touched.C.update(_elements(event, "N"))
        elif event.space == "global":
            elements = _elements(event, layout["AB".index(event.array)])
            carried[event.thread].extend((event.array, element) for element in elements)
            if reading and event.step == reading[number]:
                found.fetched.of(event.array).update(elements)
            if not reading and times[event.array, event.thread] == number:
                for touched in parties(event):
                    touched.of(event.array).update(elements)
            times[event.array, event.thread] += 1
        else:
            for word in range(event.address, event.address + event.bytes, WORD_BYTES):
                if event.kind != "load":
                    held[word] = carried[event.thread].popleft()
                elif event.step == reading[number]:
                    for touched in parties(event):
                        touched.of(held[word][0]).add(held[word][1])
    for matrix in "AB":
        found.fetched.of(matrix).difference_update(found.block.of(matrix))
    return found


def _elements(event: Event, letter: str) -> list[Element]:
    """The elements of one access, which are neighbours in memory."""
    row, col = event.element
    along = (1, 0) if letter == "T" else (0, 1)
    return [(row + i * along[0], col + i * along[1]) for i in range(event.bytes // WORD_BYTES)]


# ---- the drawing ----

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #5d6370 }
.letter { font-weight: 700; font-size: 20px }
.ground { fill: #f1efe9; stroke: #c9c5ba }
.A { --color: #1d6fd1 } .B { --color: #8a3fc7 } .C { --color: #0c8a60 }
.letter { fill: var(--color) }
.block { fill: var(--color); fill-opacity: .22 }
.warp { fill: var(--color); fill-opacity: .75 }
.thread { fill: #e07b00 }
.fetched { fill: none; stroke: var(--color); stroke-width: 1.5; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #a0a7b4 }
  .ground { fill: #1e232c; stroke: #3a4250 }
  .A { --color: #62aaff } .B { --color: #c493ff } .C { --color: #41cd9b }
  .letter { fill: var(--color) }
  .thread { fill: #ffb44a }
}
"""

_WIDTH, _HEIGHT = 560, 480  # px that the matrices have, with what is between them
_GAP = 36  # px, of which a label takes a part
_LABEL = 28  # px


def picture(variant: str, *, tile: int | None = None, layout: str = "NN") -> str:
    """A kernel's picture, as SVG. It follows the reader's light or dark colors.

    Args:
        variant, tile: The kernel, one of CUDA cores that can be simulated.
        layout: How A and B lie in memory, a letter each.
    """
    config = specialize(variant, tile=tile, layout=layout).config
    m, n = _BLOCKS * config.bm, _BLOCKS * config.bn
    k = config.bk * max(_ITERATION + 2, _ITERATION + config.stages) if config.bk > 1 else _SINGLE_STEPS
    recorded = trace(variant, tile=tile, layout=layout, sizes=(m, n, k), block=_BLOCKS**2 - 1)
    done = iteration(recorded, layout, _ITERATION)
    scale = min((_WIDTH - _GAP) / (k + n), (_HEIGHT - _GAP) / (k + m))
    corner = k * scale + _GAP
    bottom = corner + m * scale
    parts = [
        _matrix("A", (m, k), (0, corner), scale, done),
        _matrix("B", (k, n), (corner, 0), scale, done),
        _matrix("C", (m, n), (corner, corner), scale, done),
        *_legend(done, bottom + 18),
    ]
    block, own = done.block, done.thread.C
    description = (
        f"Iteration {_ITERATION + 1} of a block: {_spans('A', block.A)}, times {_spans('B', block.B)}. "
        f"The block computes {_spans('C', block.C)}; one thread has {len(own)} of them, the first C{list(min(own))}."
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 {-_LABEL} {_WIDTH + 2} {bottom + _LABEL + 60:.0f}"',
        'role="img" aria-labelledby="title description">',
        f'<title id="title">{recorded.symbol}: what its threads touch</title>',
        f'<desc id="description">{description}</desc>',
        f"<style>{_STYLE}</style>",
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend(done: Iteration, top: float) -> Iterator[str]:
    own = len(done.thread.C)
    told = {
        "block": "the block's, in this iteration",
        "warp": "one warp's",
        "thread": f"one thread's, with {own} element{'s' if own > 1 else ''} of C",
    }
    if done.fetched.A or done.fetched.B:
        told["fetched"] = "fetched meanwhile, for later"
    for number, (kind, words) in enumerate(told.items()):
        x, y = number % 2 * _WIDTH / 2, top + number // 2 * 22
        yield f'<rect class="{kind} C" x="{x + 0.5:g}" y="{y:.1f}" width="12" height="12"/>'
        yield f'<text x="{x + 20:g}" y="{y + 10.5:.1f}">{words}</text>'


def _matrix(name: str, shape: tuple[int, int], at: tuple[float, float], scale: float, done: Iteration) -> str:
    rows, cols = shape
    drawn = [f'<rect class="ground" width="{cols * scale:.2f}" height="{rows * scale:.2f}"/>']
    for kind in ("block", "fetched", "warp", "thread"):
        elements = getattr(done, kind).of(name)
        if elements:
            drawn.append(f'<path class="{kind}" d="{_path(elements, scale)}"/>')
    lines = [
        f'<g class="{name}" transform="translate({at[0]:.2f} {at[1]:.2f})">',
        *drawn,
        f'<text class="letter" x="0" y="-8">{name}</text>',
        f'<text x="20" y="-8">{rows} by {cols}</text>',
        "</g>",
    ]
    return "\n".join(lines)


def _path(elements: Iterable[Element], scale: float) -> str:
    return "".join(
        f"M{col * scale:.4g} {row * scale:.4g}h{width * scale:.4g}v{height * scale:.4g}h{-width * scale:.4g}z"
        for row, col, height, width in rectangles(elements)
    )


def rectangles(elements: Iterable[Element]) -> list[tuple[int, int, int, int]]:
    """Rectangles that cover elements and nothing else, each once: row, column, height, width."""
    runs: dict[tuple[int, int], list[int]] = defaultdict(list)  # by first column and width: the rows
    for row, in_row in groupby(sorted(elements), key=lambda element: element[0]):
        cols = [col for _, col in in_row]
        for _, run in groupby(enumerate(cols), key=lambda pair: pair[1] - pair[0]):
            stretch = [col for _, col in run]
            runs[stretch[0], len(stretch)].append(row)
    found = []
    for (col, width), rows in runs.items():
        for _, run in groupby(enumerate(rows), key=lambda pair: pair[1] - pair[0]):
            stretch = [row for _, row in run]
            found.append((stretch[0], col, len(stretch), width))
    return sorted(found)


def _spans(name: str, elements: Iterable[Element]) -> str:
    rows, cols = zip(*elements, strict=True)
    return f"{name} rows {min(rows)} to {max(rows)}, columns {min(cols)} to {max(cols)}"


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    check = parser.parse_args(arguments).check
    stale = 0
    for variant, tile in PICTURES.items():
        path, written = FOLDER / f"{variant}.svg", picture(variant, tile=tile)
        if path.exists() and path.read_text(encoding="utf-8") == written:
            continue
        stale += 1
        if not check:
            path.write_text(written, encoding="utf-8")
        print(f"{path}: {'is not what the simulator records' if check else 'written'}")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
