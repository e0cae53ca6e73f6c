"""From the runtime's records to messages that name source lines, blocks and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tiledmm.simulator.execution import SPACES, RawFinding

#: Kinds of findings, in the order of ``FindingKind`` in ``native/interface.h``.
KINDS = (
    "global access out of bounds",
    "write to an operand",
    "shared access out of bounds",
    "misaligned access",
    "uninitialised shared memory",
    "uninitialised result",
    "race on shared memory",
    "race on global memory",
    "barrier not reached by all",
    "warp not converged",
    "copy not waited for",
    "runaway thread",
    "trap",
    "subscript out of bounds",
)

#: Kinds that the host finds: elements of the result that no thread wrote, and such that are not what is expected.
NOT_WRITTEN = "result not written"
WRONG_RESULT = "wrong result"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a kernel.

    Attributes:
        kind: One of ``KINDS``, or ``NOT_WRITTEN``, or ``WRONG_RESULT``.
        message: One sentence with all that is known.
        line: Line of ``Report.text``, 0 if unknown.
        location: File and line: ``"tiled.cu.j2:57"``, or a line of the user's own file.
        text: The line's text.
        block, thread: Indices of the first occurrence, as (x, y, z).
        other_line, other_location, other_text, other_block, other_thread: The other party of a race, or of a barrier;
            or None.
        count: Number of occurrences.
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

    def __str__(self) -> str:
        """The message, and the lines that it names."""
        return "\n".join([self.message, *_quotes(self)])


@dataclass(frozen=True, slots=True)
class Region:
    """A named region of memory.

    Attributes:
        name: Name in messages: ``"A"``, ``"As"``.
        begin: Address; for a shared array, the offset in shared memory.
        bytes: Size in bytes.
    """

    name: str
    begin: int
    bytes: int

    def describe(self, address: int, space: str) -> str:
        """An address relative to this region, in words."""
        offset = address - self.begin
        what = f"{space} array {self.name} ({self.bytes:,} bytes)"
        if 0 <= offset < self.bytes:
            return f"at byte {offset:,} of {what}"
        if offset < 0:
            return f"{-offset:,} bytes before {what}"
        return (
            f"{offset - self.bytes:,} bytes behind the end of {what}" if offset > self.bytes else f"just behind {what}"
        )


def nearest(regions: tuple[Region, ...], address: int) -> Region | None:
    """The region that holds an address, or is closest to it."""

    def distance(region: Region) -> int:
        return max(region.begin - address, address - (region.begin + region.bytes - 1), 0)

    return min(regions, key=distance, default=None)


def finding(
    raw: RawFinding,
    symbol: str,
    lines: dict[int, int],
    text: Callable[[int], str],
    location: Callable[[int], str],
    shared: tuple[Region, ...],
    operands: tuple[Region, ...],
) -> Finding | None:
    """The finding in words; None if it is none after all.

    Args:
        raw: The runtime's record.
        symbol: The kernel's name.
        lines: Source line of each place in the code.
        text: Gives a line's text.
        location: Gives a line's file and line.
        shared, operands: Regions of shared and of global memory.
    """
    kind = KINDS[raw.kind]
    line, other_line = lines.get(raw.pc, 0), lines.get(raw.other_pc, 0)
    block, thread = _triple(raw.block), _triple(raw.thread)
    other_block, other_thread = _triple(raw.other_block), _triple(raw.other_thread)
    space = SPACES[raw.space]
    region = nearest(shared if space == "shared" else operands, raw.address)
    where = region.describe(raw.address, space) if region else f"at an address outside all arrays ({raw.address:#x})"
    who = f"block {show(block)}, thread {show(thread)}"
    other = f"thread {show(other_thread)}"
    access = "writes" if raw.writes else "reads"
    size = f"{raw.bytes} byte{'s' if raw.bytes != 1 else ''}"
    other_at = "the same line" if other_line == line else location(other_line)
    second = True
    if kind in ("global access out of bounds", "shared access out of bounds"):
        inside = region is not None and 0 <= raw.address - region.begin < region.bytes
        gap = ", which is none of its elements" if inside and space == "global" else ""
        said, second = f"{who} {access} {size} {where}{gap}", False
    elif kind == "write to an operand":
        said, second = f"{who} writes {size} {where}, which is read-only", False
    elif kind == "misaligned access":
        said, second = f"{who} {access} {size} {where}, an address that is not a multiple of {raw.bytes}", False
    elif kind == "uninitialised shared memory":
        said, second = f"{who} reads {size} {where}, which no thread of the block has written", False
    elif kind == "uninitialised result":
        said, second = f"{who} reads {size} {where} before anything was written there", False
    elif kind == "race on shared memory":
        did = "wrote" if raw.other_writes else "read"
        said = f"{who} {access} {size} {where}, which {other} {did} at {other_at} with no barrier in between"
    elif kind == "race on global memory":
        if other_block == block:
            said = f"{who} {access} {size} {where}, which {other} wrote at {other_at} with no barrier in between"
        else:
            said = f"{who} {access} {size} {where}, which {other} of block {show(other_block)} wrote at {other_at}"
    elif kind == "barrier not reached by all":
        if raw.other_pc and other_line == line:
            return None  # one barrier, which the C++ compiler duplicated
        ended = "has ended without it" if not raw.other_pc else f"is at another one, at {other_at}"
        said = f"{who} waits at a barrier, and {other} {ended}"
    elif kind == "warp not converged":
        doing = "is elsewhere" if not raw.other_pc else f"is at {other_at}"
        said = f"{who} waits for the lanes of its warp, and {other} {doing}"
    elif kind == "copy not waited for":
        said = f"{who} {access} {size} {where}, to which a cp.async of {other} at {other_at} has not been waited for"
    elif kind == "runaway thread":
        said, second = f"{who} made more accesses than the limit and did not end", False
    elif kind == "subscript out of bounds":
        subscript = raw.address - (1 << 64) * (raw.address >> 63)
        said, second = f"{who} uses the subscript {subscript} of an array of {raw.bytes} elements", False
    else:
        said, second = f"{who} executed __trap()", False
    times = f" ({raw.count:,} times)" if raw.count > 1 else ""
    return Finding(
        kind=kind,
        message=f"{symbol}, {location(line)}: {kind}: {said}{times}",
        line=line,
        location=location(line),
        text=text(line),
        block=block,
        thread=thread,
        other_line=other_line if second else None,
        other_location=location(other_line) if second else None,
        other_text=text(other_line) if second else None,
        other_block=other_block if second else None,
        other_thread=other_thread if second else None,
        count=raw.count,
    )


def _triple(values: Any) -> tuple[int, int, int]:
    return values[0], values[1], values[2]


def show(index: tuple[int, int, int]) -> str:
    """An index of a block or thread, without its z where that is 0."""
    return "(" + ", ".join(map(str, index if index[2] else index[:2])) + ")"


def describe_findings(symbol: str, findings: Iterable[Finding]) -> str:
    """A paragraph for each finding."""
    paragraphs = list(map(str, findings))
    head = f"{symbol}: {len(paragraphs)} finding{'s' if len(paragraphs) > 1 else ''}"
    return "\n\n".join([head, *paragraphs])


def _quotes(finding: Finding) -> Iterator[str]:
    lines = {finding.location: finding.text, finding.other_location: finding.other_text}
    quoted = {location: text.strip() for location, text in lines.items() if location and text}
    width = max(map(len, quoted), default=0)
    for location, text in quoted.items():
        yield f"  {location:{width}} | {text}"
