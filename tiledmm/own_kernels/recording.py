"""What one block of a kernel does, instruction by instruction and warp by warp: the data of the page of a trace."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tiledmm.own_kernels.argument_text import value
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.translation.syntax import without_comments
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.interface import KINDS, RawEvent
from tiledmm.simulator.execute.memory import Placed
from tiledmm.simulator.report.events import ACCESSES, Event, barrier_lines, events_of
from tiledmm.simulator.report.requests import BANKS, WARP, WORD_BYTES, Request, requests

#: Instructions that a recording has at most: of one warp, and of all warps that differ in what they do.
MOST_PER_WARP = 1000
MOST = 20_000

# Kinds of events that are instructions here; ``pipeline`` shows those of asynchronous operations.
_SHOWN = ACCESSES | {"barrier"}

# Bytes of a sector of global memory.
_SECTOR = 32

# Elements per row in the picture of an array of one dimension, up to numbers of elements.
_ROWS = ((1 << 10, 32), (1 << 13, 64), (1 << 16, 128))
_LONGEST_ROW = 512

#: An element of global memory: array and number.
Element: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded block.

    Attributes:
        data: What the page draws, as numbers, strings, lists and dicts: see ``record_block``.
        is_cut: Whether warps execute more instructions than are recorded.
    """

    data: dict[str, Any]
    is_cut: bool


class Patterns:
    """The distances between what warps and lanes access, each stored once.

    Attributes:
        found: The distances, by warp and by lane.
    """

    def __init__(self) -> None:
        self.found: list[dict[str, list[Any]]] = []
        self._numbers: dict[tuple[tuple[int, ...], tuple[int | None, ...]], int] = {}

    def place(self, numbers: Sequence[Sequence[int | None]]) -> list[int] | None:
        """Return a base and the number of a pattern; None if the warps do not access the same, each a constant further.

        Args:
            numbers: By warp and lane, what is accessed first; None for a lane that accesses nothing. The same lanes of
                all warps are active.
        """
        active = next(lane for lane, number in enumerate(numbers[0]) if number is not None)
        table = np.array([[0 if number is None else number for number in row] for row in numbers], np.int64)
        base = int(table[0, active])
        warps, lanes = table[:, active] - base, table[0] - base
        on = np.array([number is not None for number in numbers[0]])
        if ((base + warps[:, None] + lanes)[:, on] != table[:, on]).any():
            return None
        key = tuple(map(int, warps)), tuple(int(each) if is_on else None for each, is_on in zip(lanes, on, strict=True))
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            self.found.append({"warps": list(key[0]), "lanes": list(key[1])})
        return [base, self._numbers[key]]


def record_block(
    kernel: NativeKernel,
    outcome: Outcome,
    placed: Sequence[Placed],
    block: tuple[int, int, int],
    shared_bytes: int,
    file: str,
    extents: Sequence[int],
    constants: Mapping[str, int],
) -> Recording:
    """Return the recording of a block that was traced.

    ``data`` has the number of threads along each axis (``block``), the arrays that the block accesses (``globals`` and
    ``shared``, and their names by number in ``arrays``), ``patterns``, and ``timelines``: the numbers of warps that do
    the same, and their instructions. An instruction is ``[line, kind, array, base, pattern, units, ideal, width]``:

    - its line in the file, 0 if it is in another one;
    - ``"load"``, ``"store"``, ``"copy"``, ``"barrier"``, or ``"idle"`` for warps that do nothing;
    - the array's number, -1 for none;
    - base and pattern of what each lane accesses first, which is ``base + patterns[pattern].warps[warp] +
      patterns[pattern].lanes[lane]``, ``warp`` counted in the timeline: an element of an array in global memory, a word
      of 4 bytes of a shared array;
    - its wavefronts of shared memory or sectors of global memory, and their ideal number;
    - elements or words per lane.

    Where the words of a shared array hold elements of global memory, because one line loads and stores them, four
    numbers follow: base, pattern, array and number of these elements.

    Args:
        kernel: The kernel.
        outcome: Outcome of its run.
        placed: The arrays that it ran on.
        block: Number of threads per block along x, y and z.
        shared_bytes: Dynamic shared memory per block, in bytes.
        file: Name of the file whose lines are shown.
        extents: Whole numbers among the kernel's arguments, which may be extents of arrays.
        constants: Constants of the program by name, which may be extents, too.
    """
    kept, is_cut = _first_of_each_thread([each for each in outcome.events if KINDS[each.kind] in _SHOWN])
    events = list(events_of(kernel, replace(outcome, events=kept), placed, block))
    barriers = barrier_lines(kernel, outcome)
    arrays = _Arrays(kernel, placed, events, shared_bytes, extents, constants)
    asked = _by_warp(events, block)
    held = arrays.held(asked)
    lines = [line_in(kernel, line, file) for line in range(len(kernel.places.places) + 1)]
    alike: dict[object, list[int]] = defaultdict(list)
    for warp, own in enumerate(asked):
        alike[tuple(replace(each, addresses=(), elements=()) for each in own)].append(warp)
    patterns = Patterns()
    timelines: list[dict[str, list[Any]]] = []
    for group in alike.values():
        together = _timeline(group, asked, held, barriers, arrays, patterns, lines)
        for part in [group] if together else [[warp] for warp in group]:
            steps = together or _timeline(part, asked, held, barriers, arrays, patterns, lines) or []
            timelines.append({"warps": part, "steps": steps})
    timelines.sort(key=lambda each: min(each["warps"]))
    most = min(MOST_PER_WARP, max(50, MOST // len(timelines)))
    is_cut |= any(len(each["steps"]) > most for each in timelines)
    for each in timelines:
        del each["steps"][most:]
    data = {
        "block": list(block), "arrays": arrays.names, "globals": arrays.in_global, "shared": arrays.in_shared,
        "barriers": len(barriers), "patterns": patterns.found, "timelines": timelines,
    }  # fmt: skip
    return Recording(data, is_cut)


def _by_warp(events: Sequence[Event], block: tuple[int, int, int]) -> list[tuple[Request, ...]]:
    """Return the requests of each warp."""
    found: list[list[tuple[int, Event]]] = [[] for _ in range(-(-math.prod(block) // WARP))]
    for each in events:
        x, y, z = each.thread
        number = x + block[0] * (y + block[1] * z)
        found[number // WARP].append((number % WARP, each))
    return [requests(own) for own in found]


def _first_of_each_thread(events: Sequence[RawEvent]) -> tuple[list[RawEvent], bool]:
    """Return the first events of each thread, and whether there are more."""
    seen: Counter[int] = Counter()
    kept = []
    for each in events:
        if KINDS[each.kind] != "barrier":
            seen[each.thread] += 1
            if seen[each.thread] > MOST_PER_WARP:
                continue
        kept.append(each)
    return kept, len(kept) < len(events)


def line_in(kernel: NativeKernel, line: int, file: str) -> int:
    """Return the line of a file that a line of the kernel's text comes from; 0 if it comes from another file."""
    places = kernel.places.places
    place = places[line - 1] if 0 < line <= len(places) else None
    return place[1] if place and place[0] == file else 0


def _timeline(
    group: Sequence[int],
    asked: Sequence[Sequence[Request]],
    held: Mapping[tuple[int, int], list[Element | None]],
    barriers: Sequence[int],
    arrays: _Arrays,
    patterns: Patterns,
    lines: Sequence[int],
) -> list[list[Any]] | None:
    """Return the instructions of warps that do the same; None if one pattern does not say what they access."""
    steps: list[list[Any]] = []
    passed = 0
    for at, first in enumerate(asked[group[0]]):
        while passed < min(first.step, len(barriers)):
            steps.append(_barrier(lines, barriers[passed]))
            passed += 1
        place = patterns.place([arrays.numbers(asked[warp][at]) for warp in group])
        if place is None:
            return None
        step = [lines[first.line], first.kind, arrays.names.index(first.array), *place]
        step += [first.units, first.ideal_units, arrays.width(first)]
        steps.append(step + arrays.held_place([held.get((warp, at), []) for warp in group], first, patterns))
    steps += [_barrier(lines, line) for line in barriers[passed:]]
    return steps or [[0, "idle", -1, 0, -1, 0, 0, 0]]


def _barrier(lines: Sequence[int], line: int) -> list[Any]:
    return [lines[line], "barrier", -1, 0, -1, 0, 0, 0]


class _Arrays:
    """The arrays that a block accesses.

    Attributes:
        names: Their names.
        in_global: Those in global memory, arguments among them that it does not access, by name: ``shape``, ``columns``
            (elements per row of the picture), ``itemsize`` in bytes, and ``phase``, the first byte's distance from the
            begin of a sector.
        in_shared: Those in shared memory, by name: number of ``words``, the ``bank`` of the first, words per row
            (``pitch``, 0 if it is not known), and the words that no thread accesses (``unused``), as begins and ends.
    """

    def __init__(
        self,
        kernel: NativeKernel,
        placed: Sequence[Placed],
        events: Sequence[Event],
        shared_bytes: int,
        extents: Sequence[int],
        constants: Mapping[str, int],
    ) -> None:
        self.names = list(dict.fromkeys(each.array for each in events))
        self.in_global: dict[str, dict[str, Any]] = {}
        self.in_shared: dict[str, dict[str, Any]] = {}
        self._begins = {array.name: begin for begin, array in kernel.shared_offsets} if kernel.shared_offsets else {}
        for operand in placed:
            shape, phase = list(operand.array.shape), operand.begin % _SECTOR
            self.in_global[operand.name] = {"shape": shape, "itemsize": operand.itemsize, "phase": phase}
        variables = {each.name: each.bytes for each in kernel.variables}
        used: dict[str, set[int]] = defaultdict(set)
        for each in events:
            if each.space == "shared":
                begin = self._begins[each.array] // WORD_BYTES
                used[each.array].update(word - begin for word in _accessed_words(each.address, each.bytes))
            elif each.array not in self.in_global:
                shape = [variables.get(each.array, each.bytes) // each.bytes]
                phase = (each.address - each.element[0] * each.bytes) % _SECTOR
                self.in_global[each.array] = {"shape": shape, "itemsize": each.bytes, "phase": phase}
            if each.space != "shared":
                used[each.array].add(_flat(each.element, self.in_global[each.array]["shape"]))
        for name, of_global in self.in_global.items():
            of_global["columns"] = _columns(of_global["shape"], used[name], [*extents, *constants.values()])
        for begin, array in sorted(kernel.shared_offsets, key=lambda it: self._order(it[1].name)) if used else ():
            if array.name in used:
                size = shared_bytes if array.dynamic else array.bytes
                words = max(-(-size // WORD_BYTES), max(used[array.name]) + 1)
                pitch = _pitch(kernel.text, array.name, size, constants)
                self.in_shared[array.name] = {
                    "words": words, "bank": begin // WORD_BYTES % BANKS, "pitch": pitch,
                    "unused": list(_gaps(used[array.name], words)),
                }  # fmt: skip

    def _order(self, name: str) -> int:
        return self.names.index(name) if name in self.names else -1

    def numbers(self, request: Request) -> list[int | None]:
        """Return, by lane, the first element or word that a request accesses."""
        found: list[int | None] = [None] * WARP
        if request.space == "shared":
            begin = self._begins[request.array] // WORD_BYTES
            for lane, address in zip(request.lanes, request.addresses, strict=True):
                found[lane] = address // WORD_BYTES - begin
        else:
            shape = self.in_global[request.array]["shape"]
            for lane, element in zip(request.lanes, request.elements, strict=True):
                found[lane] = _flat(element, shape)
        return found

    def width(self, request: Request) -> int:
        """Return the elements or words that each lane accesses."""
        size = WORD_BYTES if request.space == "shared" else self.in_global[request.array]["itemsize"]
        return max(1, request.bytes // size)

    def held(self, asked: Sequence[Sequence[Request]]) -> dict[tuple[int, int], list[Element | None]]:
        """Return, by warp and number of a request to shared memory, the element in what each lane accesses first.

        What is stored is an element of global memory where the same line loads one element, or vector, before it.
        """
        found: dict[tuple[int, int], list[Element | None]] = {}
        loaded: dict[tuple[int, int, int], list[tuple[Element, int]]] = defaultdict(list)  # by warp, lane and line
        content: dict[int, Element] = {}
        every = [(each.step, warp, at, each) for warp, own in enumerate(asked) for at, each in enumerate(own)]
        for _, warp, at, each in sorted(every, key=lambda it: it[:3]):
            for lane, address, element in zip(each.lanes, each.addresses, each.elements, strict=True):
                key = warp, lane, each.line
                if each.space != "shared":
                    array = self.in_global[each.array]
                    if each.kind != "store":
                        first = each.array, _flat(element, array["shape"])
                        loaded[key].append((first, max(1, each.bytes // array["itemsize"])))
                    continue
                if each.kind != "load":
                    sources = loaded.pop(key, [])
                    for byte in range(address, address + each.bytes):
                        content.pop(byte, None)
                    if len(sources) == 1 and sources[0][0][0]:
                        (name, number), count = sources[0]
                        for more in range(count):
                            content[address + more * max(1, each.bytes // count)] = name, number + more
                else:
                    loaded[key].append((("", 0), 1))  # what is stored next depends on shared memory
                if address in content:
                    found.setdefault((warp, at), [None] * WARP)[lane] = content[address]
        return found

    def held_place(self, held: Sequence[Sequence[Element | None]], request: Request, patterns: Patterns) -> list[int]:
        """Return base, pattern, array and number of the elements that a request to shared memory accesses, if known."""
        names = {each[0] for row in held for each in row if each}
        known = [[each is not None for each in row] for row in held]
        if request.space != "shared" or len(names) != 1 or any(row != known[0] for row in known) or not any(known[0]):
            return []
        name = names.pop()
        if not name:
            return []
        place = patterns.place([[each[1] if each else None for each in row] for row in held])
        width = max(1, request.bytes // self.in_global[name]["itemsize"])
        return [*place, self.names.index(name), width] if place else []


def _accessed_words(address: int, size: int) -> range:
    return range(address // WORD_BYTES, -(-(address + size) // WORD_BYTES))


def _flat(element: Sequence[int], shape: Sequence[int]) -> int:
    """Return the number of an element in an array, row by row."""
    number = 0
    for index, extent in zip(element, shape, strict=True):
        number = number * extent + index
    return number


def _columns(shape: Sequence[int], used: set[int], extents: Sequence[int]) -> int:
    """Return the elements per row in the picture of an array.

    Args:
        shape: Its shape. An array of one dimension may be a matrix for the kernel.
        used: Numbers of the elements that the block accesses.
        extents: Numbers that may be the length of a row.
    """
    if len(shape) > 1:
        return max(1, shape[-1])
    count = math.prod(shape)
    usual = next((row for most, row in _ROWS if count <= most), _LONGEST_ROW)
    possible = [
        each for each in dict.fromkeys(extents) if 4 <= each <= _LONGEST_ROW and count % each == 0 and each < count
    ]
    return min([usual, *possible], key=lambda columns: len(_stretches(used, columns)))  # the first of the best


def _stretches(used: set[int], columns: int) -> set[tuple[int, int]]:
    """Return begin and length of the different stretches of elements in the rows of an array's picture."""
    found = set()
    begin = end = -1
    for number in (*sorted(used), -1):
        if number != end or number % columns == 0:
            if end > begin:
                found.add((begin % columns, end - begin))
            begin = number
        end = number + 1
    return found


def _gaps(used: set[int], words: int) -> Iterator[int]:
    """Yield begin and end of each range of words that are not used."""
    begin = 0
    for word in (*sorted(used), words):
        if word > begin:
            yield from (begin, word)
        begin = word + 1


def _pitch(text: str, name: str, size: int, constants: Mapping[str, int]) -> int:
    """Return the words per row of a shared array of several dimensions; 0 if it has one, or they are not known."""
    for statement in re.findall(r"\b__shared__\b[^;]*;", without_comments(text)):
        if found := re.search(rf"\b{re.escape(name)}\s*((?:\[[^]]*\]\s*)+)", statement):
            extents = [
                value(each, constants) if each.strip() else None for each in re.findall(r"\[([^]]*)\]", found[1])
            ]
            inner = extents[1:]
            if inner and extents[0] and all(isinstance(each, int) and each > 0 for each in inner):
                elements = math.prod(each for each in extents if isinstance(each, int))
                row = math.prod(each for each in inner if isinstance(each, int)) * (size // elements)
                return row // WORD_BYTES if row % WORD_BYTES == 0 else 0
    return 0
