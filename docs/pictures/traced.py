"""Elements that a block touches in one iteration of its loop along K, from the accesses that the simulator recorded."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.split_variants import BLOCK_TILE_BYTES
from tiledmm.simulator import Event, Trace
from tiledmm.simulator.report.requests import WARP

# The names of scratch memory that holds an operand's limbs.
_LIMBS = "limbs of "

#: Row and column; before them, the number of the product in a batch, or of the limb of A or B.
Element = tuple[int, ...]


@dataclass
class Touched:
    """Elements that are touched, by matrix."""

    A: set[Element] = field(default_factory=set)
    B: set[Element] = field(default_factory=set)
    C: set[Element] = field(default_factory=set)

    def of(self, matrix: str) -> set[Element]:
        """Return the elements of A, B or C."""
        found: set[Element] = getattr(self, matrix)
        return found


@dataclass
class Iteration:
    """An iteration of a block's loop along K, with one of its warps.

    Attributes:
        block: Elements in the block's products. An element of C belongs to the thread that sums it, whichever thread
            writes it in the end; so, too, for the others.
        lanes: Elements that each lane of the warp multiplies. (With ``ldmatrix``, lanes also read for each other.)
        first: Elements that each lane reads first from each matrix, or from each of its limbs.
        fetched: Elements that the block reads meanwhile from global memory for a later iteration.
        lane: Index of the lane to highlight.
    """

    lane: int
    block: Touched = field(default_factory=Touched)
    lanes: list[Touched] = field(default_factory=lambda: [Touched() for _ in range(WARP)])
    first: list[Touched] = field(default_factory=lambda: [Touched() for _ in range(WARP)])
    fetched: Touched = field(default_factory=Touched)

    @property
    def warp(self) -> Touched:
        """Elements that the warp's lanes touch together."""
        return together(self.lanes)

    @property
    def thread(self) -> Touched:
        """Elements that the highlighted lane touches."""
        return self.lanes[self.lane]


def together(parts: Iterable[Touched]) -> Touched:
    """Return the union of several sets of touched elements."""
    found = Touched()
    for part in parts:
        for matrix in "ABC":
            found.of(matrix).update(part.of(matrix))
    return found


def iteration(recorded: Trace, kernel: KernelSpec, number: int, *, warp: int = 1, lane: int = 9) -> Iteration:
    """Return what a block does in one iteration.

    These are the elements that it reads from shared memory between two barriers, traced back to where they were loaded
    from. In a kernel without shared tiles, it is an equal share of what each thread reads from A and from B.

    Args:
        recorded: Recorded block of the kernel.
        kernel: Specialization of the kernel.
        number: Index of the iteration.
        warp, lane: Warp of the block, and lane of the warp.
    """
    found, itemsize = Iteration(lane), kernel.a.itemsize
    tiles = kernel.config.stages > 0
    # split_tensor_core keeps there, behind its tiles, which tile of C the block computes.
    end = kernel.shared_bytes - BLOCK_TILE_BYTES if kernel.variant.name == "split_tensor_core" else math.inf
    events = [event for event in recorded.events if _matrix(event) or (tiles and _is_in_tiles(event, end))]
    steps = sorted({event.step for event in events if _is_read(event)})
    # Lanes that conflict may be recorded one after the other.
    last = max((event.step for event in events if _matrix(event) == "C"), default=-1)
    rearranges = kernel.variant.tensor_cores and any(event.step == last and _is_write(event) for event in events)
    turns = _turns(events, last) if rearranges else {}
    events.sort(key=lambda event: (event.step, *turns.get(id(event), (0, _is_read(event)))))
    # Without tiles: how often each thread reads from a matrix in an iteration.
    reads = Counter((_matrix(event), event.thread) for event in events)
    share = {key: count * kernel.config.bk // recorded.sizes[2] for key, count in reads.items()}

    def touch(thread: tuple[int, int, int], matrix: str, elements: Iterable[Element]) -> None:
        own, its = set(elements), _lane(thread, recorded)
        found.block.of(matrix).update(own)
        if its[0] == warp:
            mine, first = found.lanes[its[1]].of(matrix), found.first[its[1]].of(matrix)
            if {each[:-2] for each in own}.isdisjoint(each[:-2] for each in first):
                first.update(own)
            mine.update(own)

    carried: dict[tuple[int, ...], deque[tuple[str, Element]]] = defaultdict(deque)  # by a thread, not yet stored
    held: dict[int, tuple[str, Element]] = {}  # by their places in shared memory
    sums: dict[int, tuple[int, int, int]] = {}  # whose sums an epilogue rearranges, by their places in shared memory
    passed: dict[tuple[int, ...], deque[tuple[int, int, int]]] = defaultdict(deque)  # read by a thread, not yet written
    times: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for event in events:
        matrix = _matrix(event)
        if matrix == "C":
            for element in _elements(event, "N", kernel.c.itemsize):
                owners = passed[event.thread]
                touch(owners.popleft() if owners else event.thread, matrix, [element])
        elif matrix:
            elements = _elements(event, kernel.layout["AB".index(matrix)], itemsize)
            carried[event.thread].extend((matrix, element) for element in elements)
            if steps and event.step == steps[number]:
                found.fetched.of(matrix).update(elements)
            if not steps and times[matrix, event.thread] // share[matrix, event.thread] == number:
                touch(event.thread, matrix, elements)
            times[matrix, event.thread] += 1
        else:
            rearranged = rearranges and event.step == last
            size = kernel.c.itemsize if rearranged else itemsize
            places = range(event.address, event.address + event.bytes, size)
            if rearranged and _is_read(event):
                passed[event.thread].extend(sums[place] for place in places)
            elif rearranged:
                sums.update((place, event.thread) for place in places)
            elif not _is_read(event):
                waiting = carried[event.thread]  # none if zeros are stored, beyond the end of K
                held.update((place, waiting.popleft()) for place in places if waiting)
            elif event.step == steps[number]:
                touch(event.thread, held[event.address][0], [held[place][1] for place in places])
    if not tiles:  # threads that share k have parts of the same sums, and one of them writes
        for each in found.lanes:
            rows, columns = {row for row, _ in each.A}, {col for _, col in each.B}
            each.C = {(row, col) for row, col in found.block.C if row in rows and col in columns}
    for matrix in "AB":
        found.fetched.of(matrix).difference_update(found.block.of(matrix))
    return found


def _is_in_tiles(event: Event, end: float) -> bool:
    return event.space == "shared" and event.address < end


def _is_read(event: Event) -> bool:
    return event.space == "shared" and event.kind == "load"


def _is_write(event: Event) -> bool:
    return event.space == "shared" and event.kind == "store"


def _turns(events: list[Event], step: int) -> dict[int, tuple[int, int]]:
    """Sort an epilogue's accesses into turns of three kinds: writing sums to shared memory, reading them, writing C."""
    found: dict[int, tuple[int, int]] = {}
    turn: Counter[tuple[int, int, int]] = Counter()
    before: dict[tuple[int, int, int], int] = {}
    for event in events:
        if event.step == step:
            now = 0 if _is_write(event) else 1 if _is_read(event) else 2
            turn[event.thread] += now == 0 and before.get(event.thread, 0) > 0
            before[event.thread] = now
            found[id(event)] = turn[event.thread], now
    return found


def _lane(thread: tuple[int, int, int], recorded: Trace) -> tuple[int, int]:
    """Return the numbers of the warp and of the lane."""
    x, y, z = thread
    width, height, _ = recorded.block
    return divmod(x + width * (y + height * z), WARP)


def _matrix(event: Event) -> str:
    """Return ``"A"``, ``"B"`` or ``"C"`` for a matrix or its limbs; empty for anything else."""
    name = event.array.removeprefix(_LIMBS)
    return name if name in ("A", "B", "C") else ""


def _elements(event: Event, letter: str, itemsize: int) -> list[Element]:
    """Return the elements of one access, which are contiguous in memory."""
    count = event.bytes // itemsize
    if event.array.startswith(_LIMBS):  # the limb's number, then rows; the batch is one
        limb, _, line, first = event.element
        along = [(line, first + i) for i in range(count)]
        return [(limb, *(place[::-1] if letter == "T" else place)) for place in along]
    *batch, row, col = event.element
    return [(*batch, row + i, col) if letter == "T" else (*batch, row, col + i) for i in range(count)]
