"""Requests of a warp: its lanes' accesses side by side, and the wavefronts or sectors that serve them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tiledmm.hardware.banks import SECTOR_BYTES, ideal_wavefronts, sectors, wavefronts
from tiledmm.simulator.report.events import Event

WARP = 32
BANKS = 32
WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Request:
    """One access of a warp, or one floating-point operation of its lanes.

    Attributes:
        step, line, kind, space, array, bytes: As in the :class:`Event` of each lane.
        lanes: Active lanes, by their number in the warp.
        addresses: Byte address of each lane.
        elements: Index of the element of each lane.
        units: Wavefronts in shared memory, or sectors in global memory; 0 for arithmetic.
        ideal_units: Wavefronts without bank conflicts, or sectors of contiguous bytes.
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
        """For each bank, the 4-byte words that are accessed in it, each with the lanes that access it.

        Empty for global memory.
        """
        if self.space != "shared":
            return {}
        return words_by_bank(zip(self.lanes, self.addresses, strict=True), self.bytes)


def words_by_bank(lanes: Iterable[tuple[int, int]], size: int) -> dict[int, dict[int, tuple[int, ...]]]:
    """Return, for each bank, the 4-byte words that are accessed in it, each with the lanes that access it.

    Args:
        lanes: Number and byte address of each lane.
        size: Bytes that each lane accesses.
    """
    words: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, address in lanes:
        for word in range(address // WORD_BYTES, -(-(address + size) // WORD_BYTES)):
            words[word % BANKS][word].append(lane)
    return {bank: {word: tuple(who) for word, who in sorted(words[bank].items())} for bank in sorted(words)}


def requests(events: Iterable[tuple[int, Event]]) -> tuple[Request, ...]:
    """Combine the accesses of one warp's lanes to requests, and return them in the order in which they ran.

    Between two barriers, the n-th accesses of all lanes at a source line are one request. The simulator counts the
    requests of divergent lanes in the same way.

    Args:
        events: Pairs of a lane's number and its event. The events of one lane are in the order in which they ran.
    """
    position: Counter[tuple[int, int]] = Counter()  # in a lane's step
    times: Counter[tuple[object, ...]] = Counter()
    combined: dict[tuple[int, object], dict[int, Event]] = defaultdict(dict)
    last: dict[tuple[int, object], int] = {}
    for lane, event in events:
        place = (event.step, event.line, event.kind, event.space, event.array, event.bytes)
        times[lane, place] += 1
        key = (event.step, (place, times[lane, place]))
        combined[key][lane] = event
        position[lane, event.step] += 1
        last[key] = max(last.get(key, 0), position[lane, event.step])
    # A lane with a shorter path is ahead of the others: the lane with the most events decides the order.
    return tuple(_request(combined[key]) for key in sorted(combined, key=lambda key: (key[0], last[key])))


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
