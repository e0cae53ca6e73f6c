"""SVG building blocks of all pictures, and their style, which follows the reader's light or dark color scheme."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby

from docs.pictures.traced import Element

#: Width of a picture in px.
WIDTH = 560
#: Distance between matrices in px, part of which a label uses.
GAP = 36

_LABEL = 28  # px above a matrix
_LINE = 22  # px of a legend

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #5d6370 }
.letter { font-weight: 700; font-size: 20px }
.small { font-size: 9.5px; text-anchor: middle; fill: #24272e }
.inside { font-size: 11px; text-anchor: middle; fill: #24272e }
.ground { fill: #f1efe9; stroke: #c9c5ba }
.A { --color: #1d6fd1; --deep: #0c3d7c }
.B { --color: #8a3fc7; --deep: #4c1a75 }
.C { --color: #0c8a60; --deep: #04492f }
.letter { fill: var(--color) }
.block { fill: var(--color); fill-opacity: .22 }
.warp { fill: var(--color); fill-opacity: .75 }
.half { fill: var(--color); fill-opacity: .45 }
.once { fill: var(--deep) }
.thread { fill: #e07b00 }
.marks { stroke: #e07b00 }
.fetched { fill: none; stroke: var(--color); stroke-width: 1.5; stroke-dasharray: 4 3 }
.cell { fill: var(--color); fill-opacity: .16; stroke: var(--color); stroke-opacity: .5 }
.pointed { fill: none; stroke: #e07b00; stroke-width: 2.5 }
.line { fill: none; stroke: #f1efe9; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #a0a7b4 }
  .small, .inside { fill: #e4e7ec }
  .ground { fill: #1e232c; stroke: #3a4250 }
  .A { --color: #62aaff; --deep: #d3e7ff }
  .B { --color: #c493ff; --deep: #ecdcff }
  .C { --color: #41cd9b; --deep: #cdf7e6 }
  .letter { fill: var(--color) }
  .thread { fill: #ffb44a }
  .marks { stroke: #ffb44a }
  .pointed { stroke: #ffb44a }
  .line { stroke: #1e232c }
}
.on { fill: #24272e }
"""


def document(title: str, description: str, bottom: float, parts: Iterable[str]) -> str:
    """Assemble an SVG picture.

    Args:
        title, description: Subject of the picture, and its contents in words.
        bottom: Lower edge in px; the upper edge leaves room for a label.
        parts: SVG elements of the picture.
    """
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 {-_LABEL} {WIDTH + 2} {_LABEL + bottom:.0f}"',
        'role="img" aria-labelledby="title description">',
        f'<title id="title">{title}</title>',
        f'<desc id="description">{description}</desc>',
        f"<style>{_STYLE}</style>",
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def matrix(
    name: str,
    shape: tuple[int, int],
    at: tuple[float, float],
    scale: float,
    layers: Mapping[str, Iterable[Element]],
    *,
    label: str | None = None,
    below: bool = False,
    inside: Iterable[str] = (),
) -> str:
    """Draw A, B or C, with elements filled in layers, the first below.

    Args:
        name, shape: Name and shape of the matrix.
        at, scale: Position of its corner, and px per element.
        layers: Elements, by their look.
        label: Text beside its letter; None for its shape, empty for no text and no letter.
        below: Whether the label is placed below the matrix, not above.
        inside: Other SVG elements drawn in it.
    """
    rows, cols = shape
    drawn = [f'<rect class="ground" width="{cols * scale:.2f}" height="{rows * scale:.2f}"/>']
    drawn += [f'<path class="{kind}" d="{path(layers[kind], scale)}"/>' for kind in layers if layers[kind]]
    label = f"{rows} by {cols}" if label is None else label
    y = rows * scale + 20 if below else -8
    words = [text(name, 0, y, "letter"), text(label, 20, y)] if label else []
    begin = f'<g class="{name}" transform="translate({at[0]:.2f} {at[1]:.2f})">'
    return "\n".join([begin, *drawn, *inside, *words, "</g>"])


def legend(told: Mapping[str, str], top: float) -> tuple[list[str], float]:
    """Draw the meaning of each look, two per line; also return the lower edge."""
    drawn = []
    for number, (kind, words) in enumerate(told.items()):
        x, y = number % 2 * WIDTH / 2, top + number // 2 * _LINE
        drawn.append(f'<rect class="{kind} C" x="{x + 0.5:g}" y="{y:.1f}" width="12" height="12"/>')
        drawn.append(text(words, x + 20, y + 10.5))
    return drawn, top + (len(told) + 1) // 2 * _LINE


def text(words: object, x: float, y: float, look: str = "") -> str:
    """Draw a line of text."""
    of_class = f' class="{look}"' if look else ""
    return f'<text{of_class} x="{x:.5g}" y="{y:.5g}">{words}</text>'


def path(elements: Iterable[Element], scale: float) -> str:
    """Return the outline of elements, whose last two indices are row and column."""
    return "".join(
        f"M{col * scale:.4g} {row * scale:.4g}h{width * scale:.4g}v{height * scale:.4g}h{-width * scale:.4g}z"
        for row, col, height, width in rectangles(element[-2:] for element in elements)
    )


def rectangles(elements: Iterable[Element]) -> list[tuple[int, int, int, int]]:
    """Return disjoint rectangles that cover exactly these elements: row, column, height, width."""
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


def spans(name: str, elements: Iterable[Element]) -> str:
    """Describe in words which rows and columns elements occupy."""
    rows, cols = zip(*(element[-2:] for element in elements), strict=True)
    return f"{name} rows {min(rows)} to {max(rows)}, columns {min(cols)} to {max(cols)}"
