"""Writes what the page of the tile loop shows: ``python -m docs.interactive.record [--check]``.

The simulator runs each kernel on a small product and records one block; ``recorded.js`` beside this file gets that, as
compact as it can be and still be read. With ``--check`` nothing is written: exit status 1 if something would change.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiledmm.codegen.specialization import specialize
from tiledmm.simulator import Request, Trace, trace
from tiledmm.simulator.requests import WARP

DATA = Path(__file__).with_name("recorded.js")

VARIANTS = ("tiled", "tiled_padded")
LAYOUTS = ("NN", "NT")
TILES = (8, 16, 32)

# C is two tiles by two, and its last tile takes three steps along K.
TILES_OF_C = 2
STEPS = 3

# A kernel's function; headers and parameters stand before it.
_FUNCTION = 'extern "C" __global__'

_HEAD = "// Written by python -m docs.interactive.record from what the simulator recorded.\n"


def record(variant: str, layout: str, tile: int) -> dict[str, Any]:
    """One kernel's block, instruction by instruction.

    An instruction is ``[line, kind, array, base, pattern, units, ideal]``: its source line, counted from that of the
    function; the array's number among ``arrays``, -1 for arithmetic and barriers; and which element a lane of a warp
    touches, ``base + patterns[pattern].warps[warp] + patterns[pattern].lanes[lane]``. Elements of A, B and C are
    counted row after row, whichever way they lie in memory; those of shared arrays are words. Units are wavefronts of
    shared memory or sectors of global memory.

    Raises:
        ValueError: If warps do not all do the same, each a constant further: nothing to draw in one picture.
    """
    size = TILES_OF_C * tile
    sizes = (size, size, STEPS * tile)
    traced = trace(variant, tile=tile, layout=layout, sizes=sizes, block=TILES_OF_C**2 - 1, arithmetic=True)
    config = specialize(variant, tile=tile, layout=layout).config
    lines = traced.text.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(_FUNCTION))
    arrays: list[str] = []
    patterns: list[dict[str, list[int]]] = []
    steps: list[list[Any]] = []
    for each in _in_step(traced):
        if isinstance(each, int):
            steps.append([each - 1 - begin, "barrier", -1, 0, -1, 0, 0])
            continue
        first = each[0]
        array, base, pattern = -1, 0, -1
        if first.array:
            numbers = [[_number(element, first.array, sizes) for element in request.elements] for request in each]
            base, distances = _separate(numbers)
            array, pattern = _index(first.array, arrays), _index(distances, patterns)
        steps.append([first.line - 1 - begin, first.kind, array, base, pattern, first.units, first.ideal_units])
    return {
        "variant": variant,
        "layout": layout,
        "tile": tile,
        "symbol": traced.symbol,
        "sizes": list(sizes),
        "block": list(traced.block[:2]),
        "pitch": tile + config.pad,
        "arrays": arrays,
        "patterns": patterns,
        "steps": steps,
        "source": lines[begin:],
    }


def _in_step(traced: Trace) -> Iterator[tuple[Request, ...] | int]:
    """What all warps do, one instruction after the other: each warp's request, or the line of a barrier."""
    threads = traced.block[0] * traced.block[1]
    warps = [traced.requests(warp) for warp in range(threads // WARP)]
    passed = 0
    for together in zip(*warps, strict=True):
        first = together[0]
        alike = replace(first, addresses=(), elements=())
        if any(replace(each, addresses=(), elements=()) != alike for each in together) or len(first.lanes) != WARP:
            raise ValueError(f"{traced.symbol}: at line {first.line} warps or lanes differ in what they do")
        while passed < first.step:
            yield traced.barriers[passed]
            passed += 1
        yield together


def _number(element: tuple[int, ...], array: str, sizes: tuple[int, int, int]) -> int:
    """An element's number: its word in shared memory, in a matrix row after row."""
    if len(element) == 1:
        return element[0]
    _, n, k = sizes
    row, col = element
    return row * {"A": k, "B": n, "C": n}[array] + col


def _separate(elements: list[list[int]]) -> tuple[int, dict[str, list[int]]]:
    """Elements by warp and lane as a base, a distance for each warp and a distance for each lane."""
    base = elements[0][0]
    warps = [row[0] - base for row in elements]
    lanes = [element - base for element in elements[0]]
    if any(
        element != base + w + x
        for row, w in zip(elements, warps, strict=True)
        for element, x in zip(row, lanes, strict=True)
    ):
        raise ValueError("warps do not touch the same elements, each a constant further")
    return base, {"warps": warps, "lanes": lanes}


def _index(value: Any, among: list[Any]) -> int:
    """Its place in a list, at whose end it is put if it is new."""
    if value not in among:
        among.append(value)
    return among.index(value)


def recordings(tiles: tuple[int, ...] = TILES) -> list[dict[str, Any]]:
    """All that the page shows."""
    return [record(variant, layout, tile) for tile in tiles for variant in VARIANTS for layout in LAYOUTS]


def render(found: list[dict[str, Any]]) -> str:
    """The file: a line a source text and a recording, so that a change shows."""
    sources: list[list[str]] = []  # the same for all tiles, whose sizes are names in it
    shown = [{**each, "source": _index(each["source"], sources)} for each in found]
    parts = {"sources": sources, "recordings": shown}
    text = ",\n".join(f'"{name}": [\n{_lines(values)}\n]' for name, values in parts.items())
    return f"{_HEAD}const RECORDED = {{\n{text}\n}};\n"


def read(path: Path = DATA) -> list[dict[str, Any]]:
    """The recordings in a file, as ``recordings`` gives them."""
    text = path.read_text(encoding="utf-8").split("const RECORDED = ", 1)[1].rstrip(";\n")
    found = json.loads(text)
    return [{**each, "source": found["sources"][each["source"]]} for each in found["recordings"]]


def _lines(values: list[Any]) -> str:
    return ",\n".join(json.dumps(value, separators=(",", ":")) for value in values)


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    check = parser.parse_args(arguments).check
    written = render(recordings())
    if DATA.exists() and DATA.read_text(encoding="utf-8") == written:
        return 0
    if not check:
        DATA.write_text(written, encoding="utf-8")
    print(f"{DATA}: {'is not what the simulator records' if check else 'written'}")
    return int(check)


if __name__ == "__main__":
    sys.exit(main())
