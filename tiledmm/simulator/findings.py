"""From the runtime's records to messages that name source lines, blocks and threads."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tiledmm.simulator.debug.lines import SourceLines
from tiledmm.simulator.interface import SPACES, RawFinding

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
    "barrier not reached by threads that have ended",
    "lanes of a warp differ",
    "shuffle from a lane outside the mask",
    "shuffle of an undefined value",
    "shuffle of a wrong width",
    "access to another thread's local memory",
    "division by zero",
    "stack overflow",
    "call of a null pointer",
    "memory fault",
    "no end",
    "timeout",
    "call of exit or abort",
    "assertion failed",
    "copy that the instruction cannot make",
    "thread that waits for ever",
    "local access out of bounds",
    "element read before it is set",
    "shuffle from a lane that has ended",
    "conversion out of range",
    "alignment not declared",
    "volatile read that nothing orders",
    "shift out of range",
)

#: Those that are no errors on a GPU.
WARNINGS = frozenset(
    {"barrier not reached by threads that have ended", "shuffle of an undefined value", "alignment not declared",
     "volatile read that nothing orders"}
)  # fmt: skip

#: Kinds that the host finds: elements of the result that no thread wrote, and such that are not what is expected.
NOT_WRITTEN = "result not written"
WRONG_RESULT = "wrong result"
UNSET = "variable read before it is set"

#: What the runtime finds of elements of a thread's own arrays: an error if the result depends on them.
UNSET_ELEMENT = "element read before it is set"

#: Those of kernels that did not end.
ENDLESS = frozenset({"runaway thread", "no end", "timeout", "thread that waits for ever"})

#: And such that a GPU would not compile or launch.
LAUNCH_BOUNDS = "block beyond the launch bounds"
TOO_MUCH_SHARED = "too much shared memory"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a kernel.

    Attributes:
        kind: One of ``KINDS``, or of those that the host finds: ``NOT_WRITTEN``, ``WRONG_RESULT``, ``UNSET``,
            ``LAUNCH_BOUNDS`` and ``TOO_MUCH_SHARED``.
        message: One sentence with all that is known.
        line: Line of ``Report.text``, 0 if unknown.
        location: File and line: ``"tiled.cu.j2:57"``, or a line of the user's own file.
        text: The line's text.
        block, thread: Indices of the first occurrence, as (x, y, z).
        other_line, other_location, other_text, other_block, other_thread: The other party of a race, or of a barrier;
            the loop of a thread that does not end; or None.
        count: Number of occurrences.
        calls: Lines of the calls around it, from the innermost on, where the line is in a function of its own.
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

    @property
    def is_warning(self) -> bool:
        """Whether it is no error on a GPU."""
        return self.kind in WARNINGS

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
        element_at: Gives the element at an offset as a programmer writes it: ``"As[1][0]"``; its name alone, or
            nothing, where there is none.
    """

    name: str
    begin: int
    bytes: int
    element_at: Callable[[int], str] | None = None

    def holds(self, address: int) -> bool:
        """Whether an address is in the region."""
        return 0 <= address - self.begin < self.bytes

    def describe(self, address: int, space: str) -> str:
        """An address relative to this region, in words."""
        offset = address - self.begin
        what = f"{space} array {self.name} ({self.bytes:,} bytes)"
        if 0 <= offset < self.bytes:
            element = self.element_at(offset) if self.element_at else ""
            return (
                f"at {element}, byte {offset:,} of {what}"
                if element not in ("", self.name)
                else f"at byte {offset:,} of {what}"
            )
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
    raw: RawFinding, symbol: str, lines: SourceLines, shared: tuple[Region, ...], operands: tuple[Region, ...]
) -> Finding | None:
    """The finding in words; None if it is none after all.

    Args:
        raw: The runtime's record.
        symbol: The kernel's name.
        lines: Source lines of places in the code.
        shared, operands: Regions of shared and of global memory.
    """
    kind = KINDS[raw.kind]
    if kind == _BARRIER and raw.other_pc and not raw.bytes and lines.same_text(raw.pc, raw.other_pc):
        return None  # one barrier, which the C++ compiler duplicated
    if kind == _LANES and raw.bytes == _OTHER_PLACE and lines.same_text(raw.pc, raw.other_pc):
        return None  # and one shuffle
    line, other_line = lines.line(raw.pc), lines.line(raw.other_pc)
    callers = [place for place in raw.calls if place]
    calls = tuple(
        dict.fromkeys(each for each in (*lines.calls(raw.pc), *map(lines.line, callers)) if each and each != line)
    )
    if not line and calls:  # in a function of a header, such as min
        line, calls = calls[0], calls[1:]
    space = SPACES[raw.space]
    region = nearest(shared if space == "shared" else operands, raw.address)
    block, thread = _triple(raw.block), _triple(raw.thread)
    other_block, other_thread = _triple(raw.other_block), _triple(raw.other_thread)
    where = region.describe(raw.address, space) if region else f"at an address outside all arrays ({raw.address:#x})"
    what = f"{raw.bytes} byte{'s' if raw.bytes != 1 else ''} {where}"
    who = f"block {show(block)}, thread {show(thread)}"
    other_at = "the same line" if other_line == line else lines.location(other_line)
    said = _SENTENCES[kind].format(
        access=f"{'writes' if raw.writes else 'reads'} {what}",
        what=what,
        access_to=f"{'writes' if raw.writes else 'reads'} {raw.bytes}",
        gap=", which is none of its elements" if region and region.holds(raw.address) else "",
        other=f"thread {show(other_thread)}" + ("" if other_block == block else f" of block {show(other_block)}"),
        did="wrote" if raw.other_writes else "read",
        at=other_at,
        bytes=raw.bytes,
        address=raw.address - (1 << 64) * (raw.address >> 63),
        elsewhere=f"is at another one, at {other_at}" if raw.other_pc else "has ended without it",
        doing=f"is at {other_at}" if raw.other_pc else "has ended",
        value=struct.unpack("d", raw.address.to_bytes(8, sys.byteorder))[0],
        integer=f"{'a signed' if raw.bytes & 1 else 'an unsigned'} integer of {1 << (raw.bytes >> 1)} bits",
        unordered=_unordered(raw, other_block == block),
        for_what=", which is at another place" if raw.bytes == _OTHER_PLACE else ", for another mask or operation",
    )
    called = f"; called at {', '.join(map(lines.location, calls))}" if calls else ""
    times = f" ({raw.count:,} times)" if raw.count > 1 else ""
    loop = lines.loop(line) if kind in ENDLESS else 0
    if loop not in (0, line):
        said += f", in the loop at {lines.location(loop)}"
    second, other_line = kind in _OF_TWO or loop > 0, loop or other_line
    return Finding(
        kind=kind,
        message=f"{symbol}, {lines.location(line)}: {kind}: {who} {said}{called}{times}",
        line=line,
        location=lines.location(line),
        text=lines.text(line),
        block=block,
        thread=thread,
        other_line=other_line if second else None,
        other_location=lines.location(other_line) if second else None,
        other_text=lines.text(other_line) if second else None,
        other_block=other_block if kind in _OF_TWO else None,
        other_thread=other_thread if kind in _OF_TWO else None,
        count=raw.count,
        calls=calls,
    )


_BARRIER = "barrier not reached by all"
_LANES = "lanes of a warp differ"

# What lanes of a warp differ in (``native/warp_barriers.h``).
_OTHER_PLACE = 2

# What a finding says after "block (0, 0), thread (0, 0)".
_SENTENCES = {
    "global access out of bounds": "{access}{gap}",
    "write to an operand": "{access}, which is read-only",
    "shared access out of bounds": "{access}",
    "misaligned access": "{access}, an address that is not a multiple of {bytes}",
    "uninitialised shared memory": "reads {what}, which no thread of the block has written",
    "uninitialised result": "reads {what} before anything was written there",
    "race on shared memory": "{access}, which {other} {did} at {at} {unordered}",
    "race on global memory": "{access}, which {other} {did} at {at} {unordered}",
    _BARRIER: "waits at a barrier, and {other} {elsewhere}",
    "warp not converged": "waits for the lanes of its warp, and {other} {doing}",
    "copy not waited for": "{access}, to which a cp.async of {other} at {at} has not been waited for",
    "runaway thread": "made more accesses than the limit and did not end",
    "trap": "executed a trap",
    "subscript out of bounds": "uses the subscript {address} of an array of {bytes} elements",
    "barrier not reached by threads that have ended": "waits for {other}, which has ended, and counts as arrived",
    _LANES: "waits for lanes of its warp, and {other}, at {at}{for_what}",
    "shuffle from a lane outside the mask": "takes a value from lane {bytes}, which the mask does not have",
    "shuffle of an undefined value": "takes a value from lane {bytes}, which the mask does not have",
    "shuffle of a wrong width": "shuffles with a width of {bytes}, which is no power of two up to 32",
    "access to another thread's local memory": "{access}",
    "division by zero": "divides an integer by zero, or the least integer by -1",
    "stack overflow": "needs more local memory than a thread has (512 KiB)",
    "call of a null pointer": "calls a function through a pointer that is null or none of a function",
    "memory fault": "accesses the address {address:#x}",
    "no end": "has made no access to memory for seconds: a loop that does not end?",
    "timeout": "was running when the time was up",
    "call of exit or abort": "calls exit() or abort()",
    "assertion failed": "fails an assertion",
    "copy that the instruction cannot make": (
        "copies {bytes} bytes by cp.async, which copies 4, 8 or 16, from compute capability 8.0 on"
    ),
    "thread that waits for ever": (
        "reads the same again and again, and no thread that runs writes it (blocks run in the order of their numbers: "
        "one that waits for a later one never ends)"
    ),
    "local access out of bounds": "{access_to} bytes of its local memory that belong to no variable",
    "element read before it is set": "reads {bytes} bytes of a local array that nothing has set",
    "shuffle from a lane that has ended": "takes a value from lane {bytes}, which has ended: the value is undefined",
    "conversion out of range": (
        "converts {value:.9g} to {integer}, which C++ leaves undefined: a GPU saturates, and so does a cast here"
    ),
    "shift out of range": "shifts {integer} by {address}, which C++ leaves undefined",
    "alignment not declared": (
        "{access}, and the array is declared with a smaller alignment: a GPU may place it where the access fails "
        "(__align__({bytes}) prevents that)"
    ),
    "volatile read that nothing orders": (
        "{access}, which {other} {did} at {at}: whether it is there is a matter of luck, and volatile accesses order "
        "nothing else"
    ),
}

# Kinds with a second thread and place.
_OF_TWO = frozenset(
    {"race on shared memory", "race on global memory", _BARRIER, "warp not converged", "copy not waited for",
     "barrier not reached by threads that have ended", _LANES, "volatile read that nothing orders"}
)  # fmt: skip


def _unordered(raw: RawFinding, one_block: bool) -> str:
    if raw.unfenced:
        return "with no fence after the flag that it read"
    return "with no barrier in between" if one_block else "with nothing that orders the two"


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
