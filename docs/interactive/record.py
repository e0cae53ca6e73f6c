"""Record the data of the tile-loop page: ``python -m docs.interactive.record [--check]``.

The simulator runs each kernel on a small product and records one block, which is written to ``recorded.js`` beside this
file in a compact but readable form. ``--check`` writes nothing and exits with 1 if something would change.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiledmm.hardware.banks import ideal_wavefronts, wavefronts
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator import Request, Trace, trace
from tiledmm.simulator.report.requests import WARP, WORD_BYTES

DATA = Path(__file__).with_name("recorded.js")

LAYOUTS = ("NN", "NT")

#: The kernels, with the tiles in which they are shown.
KERNELS = {
    "tiled": (8, 16, 32),
    "tiled_padded": (8, 16, 32),
    "double_buffered": (16, 32),
    "register_tiled": (64,),
    "vectorized": (64,),
    "warp_tiled": (64,),
}

#: Kernels whose accesses are shown element by element, as their source has them: what the textbook says of its loop is
#: said of these. Of the others they are shown as the compiler joins them, 16 bytes at a time.
ELEMENTWISE = ("tiled", "tiled_padded")

# C is two tiles by two, and its last tile takes three steps along K.
TILES_OF_C = 2
STEPS = 3

# Words of a joined access.
_JOINED = 4

# A kernel's function; headers and parameters stand before it.
_FUNCTION = 'extern "C" __global__'

_HEAD = "// Written by python -m docs.interactive.record from what the simulator recorded.\n"

# What the page shows at first, and where it finds a bank conflict if a kernel has none.
_PAGE = {
    "product": True,
    "shown": {"variant": "tiled", "layout": "NN", "tile": 16},
    "conflict": {"variant": "tiled", "layout": "NT"},
}

#: Row and column.
Element = tuple[int, ...]


def sizes_of(kernel: KernelSpec) -> tuple[int, int, int]:
    """Return m, n and k of the recorded product."""
    config = kernel.config
    return TILES_OF_C * config.bm, TILES_OF_C * config.bn, STEPS * config.bk


def record(variant: str, layout: str, tile: int) -> dict[str, Any]:
    """Record one kernel's block, instruction by instruction.

    An instruction is ``[line, kind, array, base, pattern, units, ideal, width, base, pattern]``:

    - its source line, counted from the first line shown;
    - its kind;
    - the array's index in ``arrays``, -1 for arithmetic and barriers;
    - the base and pattern of the first element that each lane touches, which is
      ``base + patterns[pattern].warps[warp] + patterns[pattern].lanes[lane]``: for A, B and C in row-major order,
      whatever the layout in memory; for shared arrays in words of 4 bytes;
    - its wavefronts of shared memory or sectors of global memory, and their ideal number;
    - its width in elements;
    - for shared arrays, base and pattern of the elements that the words hold.

    All products with one k are one instruction, whose base is k.

    Raises:
        ValueError: If warps do different things, so that one picture cannot show them.
    """
    kernel = kernel_spec(variant, tile=tile, layout=layout)
    sizes = sizes_of(kernel)
    traced = trace(variant, tile=tile, layout=layout, sizes=sizes, block=TILES_OF_C**2 - 1, arithmetic=True)
    lines = traced.text.splitlines()
    shared = _Shared(traced, layout)
    timeline = list(_in_step(traced, kernel))
    begin = _begin(lines, timeline)
    arrays: list[str] = []
    patterns: list[dict[str, list[int]]] = []
    steps: list[list[Any]] = []
    products, k = kernel.config.tm * kernel.config.tn, 0
    for each in timeline:
        if isinstance(each, int):
            steps.append([each - 1 - begin, "barrier", -1, 0, -1, 0, 0, 0])
            continue
        first = each[0]
        head = [first.line - 1 - begin, first.kind]
        if not first.array:
            k += 1
            if k % products == 0:
                steps.append([*head, -1, k // products - 1, -1, 0, 0, 0])
            continue
        width = first.bytes // WORD_BYTES
        units = [first.units, first.ideal_units, width]
        if first.space == "shared":
            name, words, elements = shared.follow(each)
            numbers = [[_number(element, name[0], sizes) for element in row] for row in elements]
        else:
            name, words, numbers = first.array, [[_number(x, first.array, sizes) for x in r.elements] for r in each], []
            shared.load(each)
        step = [*head, _index(name, arrays), *_place(words, patterns), *units]
        steps.append(step + _place(numbers, patterns) if numbers else step)
    return {
        "variant": variant,
        "layout": layout,
        "tile": tile,
        "symbol": traced.symbol,
        "sizes": list(sizes),
        "depth": kernel.config.bk,
        "products": products,
        "block": list(traced.block[:2]),
        "shared": shared.shapes(),
        "arrays": arrays,
        "patterns": patterns,
        "steps": steps,
        "source": lines[begin:],
    }


def _in_step(traced: Trace, kernel: KernelSpec) -> Iterator[tuple[Request, ...] | int]:
    """Yield what all warps do, one instruction after the other: each warp's request, or the line of a barrier."""
    warps = [traced.requests(warp) for warp in range(kernel.threads // WARP)]
    if kernel.variant.name not in ELEMENTWISE:
        warps = [joined(each) for each in warps]
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


def joined(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Join one warp's accesses as the compiler does: four successive words per lane become one access of 16 bytes.

    The joined access replaces the first of the four. The others may come later, between the same two barriers, because
    the compiler unrolls the loop.
    """
    by_place = defaultdict(list)
    for number, each in enumerate(requests):
        if each.space == "shared" and each.bytes == WORD_BYTES and each.kind != "copy":
            by_place[each.step, each.line, each.kind, each.array].append(number)
    found: dict[int, Request | None] = dict(enumerate(requests))
    for numbers in by_place.values():
        while numbers:
            group, numbers = numbers[:_JOINED], numbers[_JOINED:]
            if wide := _wide([requests[number] for number in group]):
                found.update(dict.fromkeys(group))
                found[group[0]] = wide
    return tuple(each for each in found.values() if each)


def _wide(group: list[Request]) -> Request | None:
    """Join four accesses into one of 16 bytes; return None if that is impossible."""
    first, size = group[0], _JOINED * WORD_BYTES
    for number, each in enumerate(group):
        if each.addresses != tuple(address + number * WORD_BYTES for address in first.addresses):
            return None
    if len(group) < _JOINED or any(address % size for address in first.addresses) or len(first.lanes) != WARP:
        return None
    store = first.kind != "load"
    units = wavefronts(first.addresses, size, store=store)
    ideal = ideal_wavefronts(first.addresses, size, store=store)
    return replace(first, bytes=size, units=units, ideal_units=ideal)


class _Shared:
    """Contents of shared memory, as arrays ``As`` and ``Bs`` named after the matrices whose elements they hold."""

    def __init__(self, traced: Trace, layout: str) -> None:
        self._layout = layout
        self._loaded: deque[list[list[Element]]] = deque()  # by warp and lane, not yet stored
        self._held: dict[int, tuple[str, Element]] = {}  # by address
        self._begins: dict[str, int] = {}
        self._words: dict[str, dict[int, Element]] = {"As": {}, "Bs": {}}  # the first that a word held

    def load(self, together: tuple[Request, ...]) -> None:
        """Queue elements that the next stores write to shared memory."""
        first = together[0]
        if first.array == "C":
            return
        down = self._layout["AB".index(first.array)] == "T"
        for ahead in range(first.bytes // WORD_BYTES):
            step = (ahead, 0) if down else (0, ahead)
            moved = [[(row + step[0], col + step[1]) for row, col in each.elements] for each in together]
            self._loaded.append([[(first.array, *element) for element in row] for row in moved])  # type: ignore[misc]

    def follow(self, together: tuple[Request, ...]) -> tuple[str, list[list[int]], list[list[Element]]]:
        """Return the array that an access touches, and its first word and element by warp and lane."""
        first = together[0]
        if first.kind != "load":
            for ahead in range(first.bytes // WORD_BYTES):
                for each, row in zip(together, self._loaded.popleft(), strict=True):
                    for address, (matrix, *element) in zip(each.addresses, row, strict=True):
                        self._held[address + ahead * WORD_BYTES] = (str(matrix), tuple(element))
        matrix, _ = self._held[first.addresses[0]]
        name = f"{matrix}s"
        addresses = [address for each in together for address in each.addresses]
        begin = self._begins.setdefault(name, min(addresses))  # the first store is of the first row
        if begin % 128 or min(addresses) < begin:
            raise ValueError(f"{name} does not begin with its first element, in bank 0")
        words = [[(address - begin) // WORD_BYTES for address in each.addresses] for each in together]
        if first.kind != "load":
            for address in addresses:
                for at in range(address, address + first.bytes, WORD_BYTES):
                    self._words[name].setdefault((at - begin) // WORD_BYTES, self._held[at][1])
        return name, words, [[self._held[address][1] for address in each.addresses] for each in together]

    def shapes(self) -> dict[str, dict[str, int]]:
        """Return, per array, its number of rows, the words per row that hold elements, and the words between rows."""
        found = {}
        for name, words in self._words.items():
            row, col = words[0]
            places = {element: word for word, element in reversed(words.items())}
            down, right = places[row + 1, col], places[row, col + 1]
            width = 1
            while words.get(width) == ((row, col + width) if right < down else (row + width, col)):
                width += 1
            pitch = max(down, right)
            # ``along``: whether successive words are elements of a row, or of a column.
            found[name] = {
                "rows": -(-(max(words) + 1) // pitch),
                "width": width,
                "pitch": pitch,
                "along": int(right < down),
            }
        return found


def _begin(lines: list[str], timeline: list[tuple[Request, ...] | int]) -> int:
    """Return the first line to show, where the first function that does something begins."""
    touched = min(each if isinstance(each, int) else each[0].line for each in timeline) - 1
    function = next(number for number, line in enumerate(lines) if line.startswith(_FUNCTION))
    while touched < function and lines[touched - 1]:
        touched -= 1
    return min(touched, function)


def _number(element: Element, array: str, sizes: tuple[int, int, int]) -> int:
    """Return an element's row-major index in its matrix."""
    _, n, k = sizes
    row, col = element
    return row * {"A": k, "B": n, "C": n}[array] + col


def _place(numbers: list[list[int]], patterns: list[dict[str, list[int]]]) -> list[int]:
    base, distances = _separate(numbers)
    return [base, _index(distances, patterns)]


def _separate(elements: list[list[int]]) -> tuple[int, dict[str, list[int]]]:
    """Split elements by warp and lane into a base, an offset per warp and an offset per lane."""
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
    """Return a value's index in a list, and append it first if it is new."""
    if value not in among:
        among.append(value)
    return among.index(value)


def cases() -> Iterator[tuple[str, str, int]]:
    """Yield the variant, layout and tile of every recording on the page."""
    for variant, tiles in KERNELS.items():
        for tile in tiles:
            for layout in LAYOUTS:
                yield variant, layout, tile


def recordings() -> list[dict[str, Any]]:
    """Record everything that the page shows."""
    return [record(*case) for case in cases()]


def render(found: list[dict[str, Any]]) -> str:
    """Format the file with one line per source text and per recording, so that diffs are readable."""
    sources: list[list[str]] = []  # the same for all tiles, whose sizes are names in it
    shown = [{**each, "source": _index(each["source"], sources)} for each in found]
    parts = {"sources": sources, "recordings": shown}
    head = "".join(f'"{name}": {json.dumps(value)},\n' for name, value in _PAGE.items())
    text = ",\n".join(f'"{name}": [\n{_lines(values)}\n]' for name, values in parts.items())
    return f"{_HEAD}const RECORDED = {{\n{head}{text}\n}};\n"


def read(path: Path = DATA) -> list[dict[str, Any]]:
    """Read the recordings of a file, in the form of ``recordings``."""
    text = path.read_text(encoding="utf-8").split("const RECORDED = ", 1)[1].rstrip(";\n")
    found = json.loads(text)
    return [{**each, "source": found["sources"][each["source"]]} for each in found["recordings"]]


def _lines(values: list[Any]) -> str:
    return ",\n".join(json.dumps(value, separators=(",", ":")) for value in values)


def main(arguments: list[str] | None = None) -> int:
    """Write or check the file; return the exit status."""
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
