"""Bank accesses: which lanes of a warp access which bank of shared memory, for each source line that accesses it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tiledmm.hardware.banks import ideal_wavefronts, wavefronts
from tiledmm.simulator.report.events import Event
from tiledmm.simulator.report.requests import BANKS, WARP, WORD_BYTES, words_by_bank


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane's access to shared memory.

    Attributes:
        lane: Number of the lane in its warp.
        thread: Index of the thread, (x, y, z).
        address: Offset in shared memory, in bytes.
        banks: Banks that hold the bytes.
    """

    lane: int
    thread: tuple[int, int, int]
    address: int
    banks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BankAccess:
    """The first access of the first warp of a block at one source line.

    Attributes:
        line: Line of the rendered kernel.
        location: Template and line that it comes from: ``"tiled.cu.j2:57"``.
        text: The line's text.
        kind: ``"load"``, ``"store"`` or ``"copy"`` (cp.async).
        array: The shared array.
        bytes: Bytes that each lane accesses.
        lanes: Active lanes.
        wavefronts: Wavefronts that shared memory needs.
        ideal_wavefronts: Wavefronts without bank conflicts.
    """

    line: int
    location: str
    text: str
    kind: str
    array: str
    bytes: int
    lanes: tuple[Lane, ...]
    wavefronts: int
    ideal_wavefronts: int

    @property
    def conflicts(self) -> int:
        """Excess wavefronts: wavefronts that are needed only because of bank conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def banks(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """For each bank, the 4-byte words that are accessed in it, each with the lanes that access it."""
        return words_by_bank(((lane.lane, lane.address) for lane in self.lanes), self.bytes)


def bank_accesses(
    events: Iterable[Event],
    block: tuple[int, int, int],
    text: str,
    locations: Sequence[str],
    widths: Mapping[tuple[int, str, str], int],
) -> tuple[BankAccess, ...]:
    """Return the accesses to shared memory by a block's first warp, in source order.

    There is one for each source line, array, and kind of access (load, store or copy): the first.

    Args:
        events: Accesses of the block's threads.
        block: Number of threads per block along x, y and z.
        text: The kernel's source.
        locations: File and line of each line of the source.
        widths: Bytes of the widest access in machine code, by line, kind and memory, as ``access_widths`` returns them.
            An access to contiguous and aligned elements gets this width; without an entry it has the source's.
    """
    width, height, _ = block
    lanes: dict[tuple[int, str, str], dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        x, y, z = event.thread
        number = x + width * (y + height * z)
        if event.space == "shared" and number < WARP:
            lanes[event.line, event.kind, event.array][number].append(event)
    return tuple(
        _access(
            line,
            locations[line - 1] if line else "",
            text.splitlines()[line - 1].strip() if line else "",
            kind,
            array,
            by_lane,
            widths.get((line, kind, "shared"), 0),
        )
        for (line, kind, array), by_lane in sorted(lanes.items(), key=lambda item: item[0][0])
    )


def _access(
    line: int, location: str, text: str, kind: str, array: str, by_lane: dict[int, list[Event]], sass_bytes: int
) -> BankAccess:
    """Return the first access of a warp at a source line to an array.

    Args:
        line, location, text: The source line.
        kind: ``"load"``, ``"store"`` or ``"copy"``.
        array: Name of the array.
        by_lane: Events of each lane at the line.
        sass_bytes: Bytes per lane of the access in machine code, which is used if the lane's elements are contiguous
            and aligned; 0 if not known.
    """
    first = {lane: events[0] for lane, events in by_lane.items()}
    size = next(iter(first.values())).bytes
    while size < sass_bytes and all(_reaches(events, 2 * size) for events in by_lane.values()):
        size *= 2
    addresses = [first[lane].address if lane in first else None for lane in range(WARP)]
    return BankAccess(
        line=line,
        location=location,
        text=text,
        kind=kind,
        array=array,
        bytes=size,
        lanes=tuple(
            Lane(lane, event.thread, event.address, tuple(_banks_of(event.address, size)))
            for lane, event in sorted(first.items())
        ),
        wavefronts=wavefronts(addresses, size, store=kind != "load"),
        ideal_wavefronts=ideal_wavefronts(addresses, size, store=kind != "load"),
    )


def _reaches(events: Iterable[Event], size: int) -> bool:
    """Return whether a lane's events cover all ``size`` bytes from its first address on.

    The result is False if that address is not a multiple of ``size``.
    """
    touched = {event.address: event.bytes for event in events}
    at = start = next(iter(touched))
    while at in touched and at < start + size:
        at += touched[at]
    return start % size == 0 and at >= start + size


def _banks_of(address: int, size: int) -> Iterable[int]:
    return (word % BANKS for word in range(address // WORD_BYTES, -(-(address + size) // WORD_BYTES)))
