"""Findings: messages that name source lines, blocks and threads, made from the runtime's records."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tiledmm.simulator.build.debug.source_lines import SourceLines
from tiledmm.simulator.check.asynchronous_kinds import (
    ASYNCHRONOUS,
    CONTINUING_FAULTS,
    ENDED_BLOCK,
    EXCHANGES,
    Words,
    fault_of,
    has_other_line,
    has_other_thread,
    sentence,
)
from tiledmm.simulator.check.finding_kinds import (
    BARRIER,
    BARRIERS,
    CONTINUES,
    COPY,
    ENDLESS,
    FREES,
    KINDS,
    LANES,
    OF_TWO,
    OTHER_PLACE,
    OUTSIDE,
    RANGES,
    RULES,
    SENTENCES,
    WARNINGS,
)
from tiledmm.simulator.check.lanes import masks_in_words
from tiledmm.simulator.execute.interface import SPACES, RawFinding
from tiledmm.simulator.execute.memory import GUARD_BYTES

#: Bytes of an mbarrier: an array of one is named without a subscript.
MBARRIER_BYTES = 8

#: Bytes by which an access may miss an array and still be said to be beside it (``build/native/state.h``).
REACH = 64 << 20

#: What ``RawFinding.unfenced`` is if the scope of an mbarrier's order is too small.
IN_BLOCK_ONLY = 3

#: What the message says about an element that an index would have reached if it had more bits.
OVERFLOWED = "by an index that overflows 32 bits"

#: Addresses up to here are of elements of a null pointer: the operating system gives them to nobody.
NULL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning about a kernel.

    If two accesses race, ``line``, ``thread`` and ``block`` are those of the later access in the simulated
    order, and ``other_line``, ``other_thread`` and ``other_block`` those of the earlier access.

    Attributes:
        kind: One of ``KINDS``, or of the kinds that the host finds: ``NOT_WRITTEN``, ``WRONG_RESULT``, ``UNSET``,
            ``LAUNCH_BOUNDS`` and ``TOO_MUCH_SHARED``.
        message: One sentence with the kernel, the line, the kind, the threads and the addresses.
        line: Line of ``Report.text``, 0 if unknown. In a race it is the line of the later access.
        location: File and line: ``"tiled.cu.j2:57"``, or a line of the user's own file.
        text: Text of the line.
        block, thread: Indices (x, y, z) of the block and the thread, at the first occurrence. In a race this is the
            thread that made the later access.
        other_line, other_location, other_text, other_block, other_thread: The same of the second thread: in a race, of
            the earlier access; at a barrier, of a thread that does not wait there. For a thread that does not end, the
            line of its loop; for a variable that is not set, the line of its declaration. None if there is no second
            line or thread.
        count: Number of occurrences.
        calls: If the line is in a function that the kernel calls, the lines of the calls, from the innermost on.
        seed: Seed of the order ``"preemptive"`` of threads in which it was found; None if it was found in the launch
            itself.
        also: Other lines with the same cause: those of other accesses that the same barrier would order.
        fault: Number of the rule that is broken, of a kind that is about several; 0 of other kinds.
    """

    kind: str
    message: str
    line: int
    location: str
    text: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    other_line: int | None
    other_location: str | None
    other_text: str | None
    other_block: tuple[int, int, int] | None
    other_thread: tuple[int, int, int] | None
    count: int
    calls: tuple[int, ...] = ()
    seed: int | None = None
    also: tuple[int, ...] = ()
    fault: int = 0

    @property
    def ends_launch(self) -> bool:
        """Whether the launch ended with it, so that elements may be left that no thread has written."""
        return self.kind not in CONTINUES and self.fault not in CONTINUING_FAULTS.get(self.kind, ())

    @property
    def is_warning(self) -> bool:
        """Whether the finding is only a warning, because its kind is not an error on a GPU."""
        return self.kind in WARNINGS

    def __str__(self) -> str:
        """Return the message and, below it, the source lines that it names."""
        return "\n".join([self.message, *_quotes(self)])


@dataclass(frozen=True, slots=True)
class Region:
    """A named region of memory.

    Attributes:
        name: Name in messages: ``"A"``, ``"As"``.
        begin: Address; for a shared array, the offset in shared memory.
        bytes: Size in bytes.
        element_at: Function that returns the element at an offset in bytes, as a programmer writes it: ``"As[1][0]"``.
            Where there is no element it returns the array's name, or an empty string.
        note: What else is to be known about the array; empty if nothing is.
        title: What a message calls it, if not an array of its name; empty for an array.
    """

    name: str
    begin: int
    bytes: int
    element_at: Callable[[int], str] | None = None
    note: str = ""
    title: str = ""

    def holds(self, address: int) -> bool:
        """Return whether an address is in the region."""
        return 0 <= address - self.begin < self.bytes

    def distance(self, address: int) -> int:
        """Return the distance of an address from the region in bytes; 0 for an address in the region."""
        return max(self.begin - address, address - (self.begin + self.bytes - 1), 0)

    def describe(self, address: int, space: str) -> str:
        """Return a phrase that says where an address is, seen from this region.

        For example ``"at As[1][0], byte 128 of shared array As (4,096 bytes)"`` or ``"4 bytes before shared array As
        (4,096 bytes)"``.

        Args:
            address: The address; in shared memory, an offset.
            space: ``"shared"`` or ``"global"``.
        """
        offset = address - self.begin
        what = f"{self.title or f'{space} array {self.name}'} ({_bytes(self.bytes)}{', ' * bool(self.note)}{self.note})"
        if 0 <= offset < self.bytes:
            element = self.element_at(offset) if self.element_at else ""
            return (
                f"at {element}, byte {offset:,} of {what}"
                if element not in ("", self.name)
                else f"at byte {offset:,} of {what}"
            )
        if offset < 0:
            return f"{_bytes(-offset)} before {what}"
        if offset == self.bytes:
            return f"just past the end of {what}"
        return f"{_bytes(offset - self.bytes)} past the end of {what}"


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' if count != 1 else ''}"


def nearest(regions: tuple[Region, ...], address: int) -> Region | None:
    """Return the region that holds an address or is closest to it; None if there are no regions."""
    return min(regions, key=lambda region: region.distance(address), default=None)


def _double(bits: int) -> float:
    """Return the number in double precision that has the given bits."""
    number: float = struct.unpack("d", bits.to_bytes(8, sys.byteorder))[0]
    return number


def _signed(address: int) -> int:
    """Return the signed 64-bit number that has the same bits as an unsigned one."""
    return address - (1 << 64) * (address >> 63)


def _where(raw: RawFinding, space: str, regions: tuple[Region, ...], *, indirect: bool) -> str:
    """Return a phrase that says where an access is: in which array, or how far from the nearest array.

    Args:
        raw: The runtime's record.
        space: ``"shared"`` or ``"global"``.
        regions: The arrays of this memory.
        indirect: Whether the kernel reads pointers from memory, whose addresses may have nothing to do with the arrays.
    """
    address = _signed(raw.address)
    region, note = nearest(regions, address), ""
    if KINDS[raw.kind] in OUTSIDE:
        for at, index in ((address, ""), (address - (raw.bytes << 32), ", by an unsigned index below 0")):
            close = nearest(regions, at)
            if close and close.distance(at) <= REACH:
                region, address, note = close, at, index
                break
            if abs(at) < NULL_BYTES and indirect and raw.bytes > 1 and at % raw.bytes == raw.bytes - 1:
                return f"at the address {at:#x}, through a pointer that was not set: all its bits are ones"
            if abs(at) < NULL_BYTES:
                return f"at the address {at:#x}, through a null pointer{index}"
        else:
            inside = address + (raw.bytes << 32)  # 2 ** 31 and more is negative in 32 bits
            if owner := next((each for each in regions if each.holds(inside)), None):
                region, address, note = owner, inside, f", {OVERFLOWED}"
            elif indirect and region and region.distance(address) > GUARD_BYTES:
                return (
                    f"at the address {raw.address:#x}, through a pointer to no array: it was not set, or its array is "
                    "not on the device or has been freed"
                )
    if region is None:
        return f"at an address outside all arrays ({address:#x})"
    if space == "shared" and not region.bytes:
        note += ": the launch has no dynamic shared memory (shared_bytes=, or a RawKernel's shared_mem=, is its size)"
    return region.describe(address, space) + note


def finding(
    raw: RawFinding,
    symbol: str,
    lines: SourceLines,
    shared: tuple[Region, ...],
    operands: tuple[Region, ...],
    *,
    indirect: bool = False,
) -> Finding | None:
    """Convert a record of the runtime to a finding.

    Args:
        raw: The runtime's record.
        symbol: The kernel's name.
        lines: Source lines of the kernel's instructions.
        shared, operands: Regions of shared and of global memory.
        indirect: Whether the kernel reads pointers from memory.

    Returns:
        The finding; None if the record is no error, because two barriers or shuffles are one in the source, which the
        C++ compiler duplicated.
    """
    kind = KINDS[raw.kind]
    if kind == BARRIER and raw.other_pc and not raw.bytes and lines.same_text(raw.pc, raw.other_pc):
        return None  # one barrier, which the C++ compiler duplicated
    if kind == LANES and raw.bytes == OTHER_PLACE and lines.same_text(raw.pc, raw.other_pc):
        return None  # and one shuffle
    line, other_line = lines.line(raw.pc), lines.line(raw.other_pc)
    callers = [place for place in raw.calls if place]
    calls = tuple(
        dict.fromkeys(each for each in (*lines.calls(raw.pc), *map(lines.line, callers)) if each and each != line)
    )
    if not line and calls:  # in a function of a header, such as min
        line, calls = calls[0], calls[1:]
    space = SPACES[raw.space]
    regions = allocated_region(raw, lines) or (shared if space == "shared" else operands)
    block, thread = _triple(raw.block), _triple(raw.thread)
    other_block, other_thread = _triple(raw.other_block), _triple(raw.other_thread)
    where = _where(raw, space, regions, indirect=indirect)
    what = f"{_bytes(raw.bytes)}{',' if where[0].isdigit() else ''} {where}"
    who = f"block {show(block)}, thread {show(thread)}"
    other_at = "the same line" if other_line == line else lines.location(other_line)
    other = f"thread {show(other_thread)}" + ("" if other_block == block else f" of block {show(other_block)}")
    if kind in ASYNCHRONOUS:
        words = Words(
            access=f"{'writes' if raw.writes else 'reads'} {what}",
            what=what,
            where=where,
            other=other,
            other_block=f"block {show(other_block)}",
            at="the same line"
            if other_at == "the same line" and calls == lines.calls(raw.other_pc)
            else _place(raw.other_pc, lines),
            expected=owner.describe(raw.details[2], "global") if (owner := nearest(operands, raw.details[2])) else "",
            barrier=lambda offset: _name(offset, shared),
            place=lambda place: _place(place, lines),
        )
        said = sentence(raw, kind, words)
    else:
        said = SENTENCES[kind].format(
            access=f"{'writes' if raw.writes else 'reads'} {what}",
            what=what,
            access_to=f"{'writes' if raw.writes else 'reads'} {raw.bytes}",
            free=FREES.get(raw.bytes, "").format(
                other=f"thread {show(other_thread)}", at=other_at, address=raw.address
            ),
            gap=", which is not one of its elements"
            if not raw.allocation and any(each.holds(raw.address) for each in regions)
            else "",
            other=other,
            did="wrote" if raw.other_writes else "read",
            at=other_at,
            bytes=raw.bytes,
            address=_signed(raw.address),
            elsewhere=f"is at another one, at {other_at}" if raw.other_pc else "has ended without reaching it",
            doing=f"is at {other_at}" if raw.other_pc else "has ended",
            value=_double(raw.address),
            integer=f"{'a signed' if raw.bytes & 1 else 'an unsigned'} integer of {1 << min(raw.bytes >> 1, 7)} bits",
            rule=RULES.get(raw.bytes, ""),
            barriers=BARRIERS.get(raw.bytes, ""),
            fast=RANGES.get(raw.bytes, "").format(value=_double(raw.address)),
            unordered=_unordered(raw, other_block == block, lines, {line, other_line}),
            uncommitted=_uncommitted(raw, lines) if raw.uncommitted else "has not been waited for",
            for_what=_for_what(raw),
            at_exchange=f" at {EXCHANGES[raw.details[0]]}" if raw.details[0] in EXCHANGES else "",
        )
    own = kind == LANES and not raw.bytes  # the mask of the lane's own call
    if own:
        said = "waits for lanes of its warp with a mask that does not include its own lane"
    if kind == COPY and not raw.other_pc:  # found when the thread ended
        said = f"copies {what} by cp.async, and the copy {_uncommitted(raw, lines)}"
    said += masks_in_words(raw, kind)
    called = f"; called at {', '.join(map(lines.location, calls))}" if calls else ""
    loop = lines.loop(line) if kind in ENDLESS else 0
    if loop not in (0, line):
        said += f", in the loop at {lines.location(loop)}"
    of_two = (kind in OF_TWO and not own) or (kind in ASYNCHRONOUS and has_other_thread(raw, kind))
    second = ((of_two or (kind in ASYNCHRONOUS and has_other_line(raw, kind))) and raw.other_pc > 0) or loop > 0
    other_line = loop or other_line
    return Finding(
        kind=kind,
        message=f"{symbol}, {lines.location(line)}: {kind}: {who} {said}{called}{times(raw.count)}",
        line=line,
        location=lines.location(line),
        text=lines.text(line),
        block=block,
        thread=thread,
        other_line=other_line if second else None,
        other_location=lines.location(other_line) if second else None,
        other_text=lines.text(other_line) if second else None,
        other_block=other_block if of_two or kind == ENDED_BLOCK else None,
        other_thread=other_thread if of_two else None,
        count=raw.count,
        calls=calls,
        fault=fault_of(raw, kind),
    )


def _name(offset: int, shared: tuple[Region, ...]) -> str:
    """Return the name of the element of a shared array at an offset, such as ``"full[1]"``."""
    region = nearest(shared, offset)
    if region is None or not region.holds(offset):
        return f"at {offset:#x}"
    if region.bytes == MBARRIER_BYTES:
        return region.name
    element = region.element_at(offset - region.begin) if region.element_at else ""
    if element and (element != region.name or offset == region.begin):
        return element
    return f"at byte {offset - region.begin:,} of {region.name}"


def _place(place: int, lines: SourceLines) -> str:
    """Return the line of a place in machine code, and the line of the outermost inlined call around it."""
    location, calls = lines.location(lines.line(place)), lines.calls(place)
    return f"{location} (called at {lines.location(calls[-1])})" if calls else location


def _for_what(raw: RawFinding) -> str:
    """Return what a message says of a lane that waits for something else than others."""
    if raw.bytes == OTHER_PLACE:
        return "is at another place"
    ours, theirs = raw.details[0], raw.details[1]
    return (
        f"is at {EXCHANGES[theirs]}"
        if theirs in EXCHANGES and ours != theirs
        else "waits with another mask or operation"
    )


def allocated_region(raw: RawFinding, lines: SourceLines) -> tuple[Region, ...]:
    """Return the memory that malloc or new returned, in or behind which an access is; empty if it is elsewhere.

    Args:
        raw: The runtime's record.
        lines: Source lines of the kernel's instructions.
    """
    if not raw.allocation:
        return ()
    where = lines.location(lines.line(raw.allocated_at))
    return (Region(f"malloc at {where}", raw.allocation, raw.allocated, title=f"the memory allocated at {where}"),)


def times(count: int) -> str:
    """Return what a message ends with that says how often something happened; empty for once."""
    return f" ({count:,} times)" if count > 1 else ""


def _unordered(raw: RawFinding, one_block: bool, lines: SourceLines, both: set[int]) -> str:
    """Return what a message says of the order of two accesses, which are at two lines, or at one."""
    if raw.unfenced == IN_BLOCK_ONLY:
        return "with an mbarrier in between whose scope is the block: its arrive and its wait need .cluster"
    if raw.unfenced:
        between = "before its next atomic" if raw.unfenced == 2 else "after this thread read the flag"
        return f"with no fence {between}"
    if raw.one_warp:
        return "with no barrier in between; both threads are in one warp, and __syncwarp() would order them"
    if not one_block:
        return "with nothing that orders the two"
    if lines.loop(min(both)) and _has_barrier(lines, min(both), max(both)):
        return "in another iteration, with no barrier in between: one is missing at the end of the loop's body"
    return "with no barrier in between"


def _has_barrier(lines: SourceLines, first: int, last: int) -> bool:
    """Return whether a barrier is between two lines, and no condition before it. A more indented one may have one."""
    texts = [lines.text(line).expandtabs() for line in range(first, last)]
    indents = [len(text) - len(text.lstrip()) for text in texts]
    return any(
        text.lstrip().startswith("__syncthreads") and indent <= indents[0]
        for text, indent in zip(texts, indents, strict=True)
    )


def _uncommitted(raw: RawFinding, lines: SourceLines) -> str:
    """Return what a message says of a copy that is in no group."""
    at = f" before the wait at {lines.location(lines.line(raw.waited_at))}" if raw.waited_at else ""
    return f"has not been committed: a commit is missing{at}, and waits apply to committed copies only"


def _triple(values: Any) -> tuple[int, int, int]:
    return values[0], values[1], values[2]


def show(index: tuple[int, int, int]) -> str:
    """Return the index of a block or thread as text, such as ``(1, 0)``; z is left out if it is 0."""
    return "(" + ", ".join(map(str, index if index[2] else index[:2])) + ")"


def describe_findings(symbol: str, findings: Iterable[Finding]) -> str:
    """Return a text about all findings of a kernel: a line with their number, then a paragraph for each.

    Args:
        symbol: The kernel's name.
        findings: The findings.
    """
    paragraphs = list(map(str, findings))
    head = f"{symbol}: {len(paragraphs)} finding{'s' if len(paragraphs) > 1 else ''}"
    return "\n\n".join([head, *paragraphs])


def _quotes(finding: Finding) -> Iterator[str]:
    lines = {finding.location: finding.text, finding.other_location: finding.other_text}
    quoted = {location: text.strip() for location, text in lines.items() if location and text}
    width = max(map(len, quoted), default=0)
    for location, text in quoted.items():
        yield f"  {location:{width}} | {text}"
