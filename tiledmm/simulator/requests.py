"""What a warp does at once: its lanes' accesses put side by side, with what the memories answer them in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tiledmm.hardware.banks import ideal_wavefronts, sectors, wavefronts
from tiledmm.simulator.simulated_kernel import Event

WARP = 32
BANKS = 32
WORD_BYTES = 4
SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class Request:
    """One access of a warp, or one floating-point operation of its lanes.

    Attributes:
        step, line, kind, space, array, bytes: As each lane's :class:`Event` has them.
        lanes: Those that take part, by their number in the warp.
        addresses: Where each of them goes, in bytes.
        elements: Which element that is.
        units: Wavefronts that shared memory serves it in, or sectors of global memory that it touches; 0 of arithmetic.
        ideal_units: The same without bank conflicts, or had the bytes lain side by side.
    """

    step: int
    line: int
    kind: str
    space: str
    array: str
    bytes: int
    lanes: tuple[int, ...]
    addresses: tuple[int, ...]
    elements: tuple[tuple[int, ...], ...]
    units: int
    ideal_units: int

    @property
    def banks(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """For each bank that is hit: each word asked of it, and the lanes that ask for it. Empty for other memory."""
        if self.space != "shared":
            return {}
        return words_by_bank(zip(self.lanes, self.addresses, strict=True), self.bytes)


def words_by_bank(lanes: Iterable[tuple[int, int]], size: int) -> dict[int, dict[int, tuple[int, ...]]]:
    """For each bank that is hit: each word asked of it, and the lanes that ask for it.

    Args:
        lanes: Number and byte address of each.
        size: Bytes that each of them moves.
    """
    found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, address in lanes:
        for word in range(address // WORD_BYTES, -(-(address + size) // WORD_BYTES)):
            found[word % BANKS][word].append(lane)
    return {bank: {word: tuple(who) for word, who in sorted(found[bank].items())} for bank in sorted(found)}


def requests(events: Iterable[tuple[int, Event]]) -> tuple[Request, ...]:
    """The accesses of one warp's lanes, put side by side.

    Between two barriers the n-th of a lane at a line goes with the n-th of the others there, as the simulator counts
    lanes that took different ways.

    Args:
        events: What the lanes did, each in its own order, with the number of the lane.
    """
    position: Counter[tuple[int, int]] = Counter()  # of a lane, in a step
    times: Counter[tuple[object, ...]] = Counter()
    found: dict[tuple[int, object], dict[int, Event]] = defaultdict(dict)
    last: dict[tuple[int, object], int] = {}
    for lane, event in events:
        place = (event.step, event.line, event.kind, event.space, event.array, event.bytes)
        times[lane, place] += 1
        key = (event.step, (place, times[lane, place]))
        found[key][lane] = event
        position[lane, event.step] += 1
        last[key] = max(last.get(key, 0), position[lane, event.step])
    # A lane that took a shorter way is ahead of the others: the one that is furthest says when.
    return tuple(_request(found[key]) for key in sorted(found, key=lambda key: (key[0], last[key])))


def _request(by_lane: dict[int, Event]) -> Request:
    lanes = tuple(sorted(by_lane))
    event = by_lane[lanes[0]]
    addresses = [by_lane[lane].address if lane in by_lane else None for lane in range(WARP)]
    units = ideal = 0
    if event.space == "shared":
        units = wavefronts(addresses, event.bytes, store=event.kind != "load")
        ideal = ideal_wavefronts(addresses, event.bytes, store=event.kind != "load")
    elif event.space == "global":
        units = sectors(addresses, event.bytes)
        ideal = -(-len(lanes) * event.bytes // SECTOR_BYTES)
    return Request(
        step=event.step,
        line=event.line,
        kind=event.kind,
        space=event.space,
        array=event.array,
        bytes=event.bytes,
        lanes=lanes,
        addresses=tuple(by_lane[lane].address for lane in lanes),
        elements=tuple(by_lane[lane].element for lane in lanes),
        units=units,
        ideal_units=ideal,
    )
