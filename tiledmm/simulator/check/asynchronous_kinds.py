"""Sentences of findings about Hopper's asynchronous operations: mbarriers, bulk copies, clusters and wgmma.

Most records have a number that says which rule is broken, and ``details`` (``build/native/asynchronous.cpp``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiledmm.simulator.execute.interface import RawFinding

UNFINISHED, OVERWRITTEN, NO_FENCE = "copy not complete", "memory in use overwritten", "no proxy fence"
DEADLOCK, BAD_BARRIER, UNEXPECTED = "deadlock", "misuse of an mbarrier", "bytes that no phase expects"
BAD_COPY, IN_FLIGHT, BAD_WGMMA = "bulk copy that cannot be made", "register of a wgmma in flight", "misuse of wgmma"
ENDED_BLOCK, BAD_CLUSTER, BAD_REGISTERS = "block that has ended", "misuse of a cluster", "misuse of setmaxnreg"
OTHER_WARPS = "memory overwritten that other warps' wgmma read"

#: Faults of each kind that has several, by number: what the message says after the thread.
FAULTS = {
    BAD_BARRIER: {
        1: "uses the mbarrier {barrier}, which no thread has initialised, or which was invalidated",
        2: "passes a number of arrivals to the mbarrier {barrier} that is not from 1 to 1,048,575",
        3: (
            "arrives at the mbarrier {barrier}, whose phase needs fewer arrivals than come: {other} initialised it at "
            "{at}"
        ),
        4: "expects more than 1,048,575 bytes in one phase of the mbarrier {barrier}, which is the most that it counts",
        5: (
            "{verb} bytes of the mbarrier {barrier} by an ordinary access, which {other} initialised at {at}: until "
            "mbarrier.inval, only instructions for mbarriers may access it"
        ),
        6: (
            "uses the mbarrier {barrier}, which {other} initialised at {at}, and nothing orders the two: a barrier of "
            "the block (of the cluster, if another block uses it) after the initialisation would"
        ),
        7: (
            "issues a copy that completes on the mbarrier {barrier}, whose initialisation by {other} at {at} no fence "
            "makes visible to the copy: fence.mbarrier_init or fence.proxy.async by that thread would"
        ),
        8: (
            "{uses} the mbarrier {barrier} of another block: only arrivals and expected bytes may be of another block "
            "of the cluster"
        ),
        9: "initialises the mbarrier {barrier}, which {other} initialised at {at}, with no mbarrier.inval in between",
        10: "waits for the mbarrier {barrier} with a token that mbarrier.arrive did not return",
        11: "waits for the mbarrier {barrier} with a parity that is neither 0 nor 1",
        12: (
            "expects bytes in a phase of the mbarrier {barrier} for which all arrivals have come, the last at {at}: "
            "the phase may complete before"
        ),
        13: "invalidates the mbarrier {barrier}, which {other} uses at {at}: nothing orders the use before",
    },
    BAD_COPY: {
        1: "{copies} shared memory {where}, an address that is not a multiple of 16",
        2: "{copies} global memory {where}, an address that is not a multiple of 16",
        3: "copies a number of bytes that is zero or not a multiple of 16",
        4: "copies to one block's shared memory, and passes an mbarrier in another's: both must be in one block",
        5: "copies to blocks of a multicast mask that the cluster does not have",
        6: "issues a bulk copy and ends without cp.async.bulk.commit_group, so that no wait applies to it",
        7: (
            "issues a bulk copy that reads shared memory, and its block ends without a wait for the copy: "
            "cp.async.bulk.wait_group.read 0 is missing"
        ),
        8: "copies {what_to}, and the block ends before any thread has waited for the copy's mbarrier",
        9: (
            "copies with a tensor map at {address:#x}, where there is none: pass the address of a parameter const "
            "__grid_constant__ CUtensorMap, for which the launch has an argument of simulator.tensor_map"
        ),
        10: "copies by an instruction for another number of dimensions than the tensor map has ({dimensions})",
        11: (
            "copies a box whose first coordinate is not at a multiple of 16 bytes (the coordinate times the bytes of "
            "an element), which is an illegal instruction"
        ),
        12: "stores a box at a negative coordinate, which is an illegal instruction: only loads may begin outside",
        13: "reduces to a tensor of 8-bit or 16-bit integers, which is an illegal instruction",
        14: "copies a box {to_from} shared memory {where}, an address that is not a multiple of 128",
    },
    BAD_WGMMA: {
        1: (
            "executes wgmma without a wgmma.fence after it last wrote registers of the sums or of A, or before its "
            "first wgmma"
        ),
        2: "executes wgmma with other descriptors, or another scale-d, than lane 0 of its warp",
        3: (
            "executes an instruction for a warpgroup, but its block has no four whole warps there: the number of "
            "threads must be a multiple of 128"
        ),
        4: "ends while a wgmma that it has issued is in flight: wgmma.wait_group is missing after the commit",
        5: "ends while a wgmma that it has issued is in no group: wgmma.commit_group and wgmma.wait_group are missing",
        6: (
            "executes wgmma that {other}, whose warp belongs to the same warpgroup, does not execute: all four warps "
            "must"
        ),
        7: (
            "reads an operand by a descriptor that does not fit the tile that {other} {wrote} at {at}: for row {mn} "
            "and k = {k} (from 0), it leads to the element {where}; by the order of the others, the one {expected} "
            "belongs there (swizzle, offsets or major-ness differ)"
        ),
        8: (
            "reads an operand by a descriptor whose offsets are too small: for row {mn} and k = {k} (from 0), it leads "
            "to the same 16 bytes as for row {mn_before} and k = {k_before}, {where}"
        ),
        9: (
            "reads 16 bytes {where} for k = {mn} (from 0), which the wgmma before with the same sums, at {at}, has "
            "read for k = {k}: from one to the next, the descriptor must advance by all of a wgmma's k"
        ),
        10: (
            "reads an operand by a descriptor that begins {where}, {mn} bytes behind the begin of a row of {k} bytes "
            "of its swizzle, so that its rows end in the next ones"
        ),
    },
    BAD_CLUSTER: {
        1: "arrives twice at the barrier of the cluster, without barrier.cluster.wait in between",
        2: "executes barrier.cluster.wait without barrier.cluster.arrive before it",
        3: "addresses the shared memory of the block of rank {rank}, which the cluster does not have",
    },
    BAD_REGISTERS: {
        1: "executes setmaxnreg.dec with more registers than it has ({address})",
        2: "executes setmaxnreg.inc with fewer registers than it has ({address})",
    },
}  # fmt: skip

#: Faults after which a launch goes on, of kinds whose other faults end it.
CONTINUING_FAULTS = {
    BAD_BARRIER: {3, 4, 5, 6, 7, 9, 11, 12, 13},
    BAD_COPY: {6, 7, 8},
    BAD_WGMMA: {1, 2, 4, 5, 6, 7, 8, 9, 10},
}

#: Faults of an mbarrier with a second thread.
_OF_TWO = {3, 5, 6, 7, 9, 12, 13}

#: Exchanges of a warp that messages name, by their numbers (``Fiber::kind`` in ``build/native/state.h``).
EXCHANGES = {
    101: "mma", 102: "ldmatrix", 103: "stmatrix", 104: "wgmma", 105: "wgmma.fence", 106: "wgmma.commit_group",
    107: "wgmma.wait_group", 108: "setmaxnreg", 109: "barrier.cluster.arrive.aligned",
    110: "barrier.cluster.wait.aligned",
}  # fmt: skip

#: What ``details`` of a copy that is not complete begin with if it copies to global memory.
COPY_TO_GLOBAL = 2

# What a thread waits for (enum Wait in ``build/native/state.h``), in a deadlock.
_PHASE, _CLUSTER, _WARPGROUP, _REGISTERS = range(4)

_IN_FLIGHT = {1: "the wgmma of the warp of {other} at {at}", 2: "the bulk copy of {other} at {at}"}
_WAIT = {1: "wgmma.wait_group", 2: "cp.async.bulk.wait_group.read"}


@dataclass(frozen=True, slots=True)
class Words:
    """Phrases about a record, for its sentence.

    Attributes:
        access: What the access reads or writes, and where: ``"reads 4 bytes at As[0], byte 0 of shared array As ..."``.
        what: The same without the verb.
        where: Where the address is.
        other: The other thread, with its block if that is another one.
        other_block: The other thread's block.
        at: The place of the other thread.
        expected: Where the address in ``details[2]`` is, of an operand of wgmma.
        barrier: Function that returns the name of the mbarrier at an offset in shared memory.
        place: Function that returns the line of a place in machine code, and of the call that leads to it.
    """

    access: str
    what: str
    where: str
    other: str
    other_block: str
    at: str
    expected: str
    barrier: Callable[[int], str]
    place: Callable[[int], str]


def fault_of(raw: RawFinding, kind: str) -> int:
    """Return the number of the rule that is broken; 0 for a kind that is about one rule."""
    return int(raw.bytes) & 0xFF if kind in FAULTS else 0


def has_other_thread(raw: RawFinding, kind: str) -> bool:
    """Return whether a record of one of these kinds is also about a second thread, whose index is known."""
    if kind == UNFINISHED:
        return bool(raw.details[0] != 1)
    if kind in (OVERWRITTEN, OTHER_WARPS):
        return bool(raw.details[0] or not raw.details[1])
    if kind == BAD_WGMMA:
        return raw.bytes in (6, 7)
    return kind == NO_FENCE or (kind == BAD_BARRIER and raw.bytes in _OF_TWO)


def has_other_line(raw: RawFinding, kind: str) -> bool:
    """Return whether a record of one of these kinds is also about a second line."""
    if kind == BAD_WGMMA and raw.bytes == 9:
        return True
    return kind in {UNFINISHED, OVERWRITTEN, OTHER_WARPS, DEADLOCK, UNEXPECTED, IN_FLIGHT} or has_other_thread(
        raw, kind
    )


def sentence(raw: RawFinding, kind: str, words: Words) -> str:
    """Return what a finding about asynchronous operations says after its block and thread.

    Args:
        raw: The runtime's record.
        kind: Kind of the finding.
        words: Phrases about the record.
    """
    if kind in FAULTS:
        return _fault(raw, kind, words)
    return _SENTENCES[kind](raw, words)


def _fault(raw: RawFinding, kind: str, words: Words) -> str:
    rank = (raw.address >> 24) - 1 if raw.address >> 24 else raw.address
    return FAULTS[kind].get(fault_of(raw, kind), "").format(
        barrier=words.barrier(raw.address) if kind == BAD_BARRIER else "",
        other=words.other, at=words.at, where=words.where, address=raw.address, rank=rank, dimensions=raw.bytes >> 8,
        verb="writes" if raw.writes else "reads", copies="copies to" if raw.writes else "copies from",
        to_from="to" if raw.writes else "from",
        uses="initialises or invalidates" if raw.writes else "waits for",
        what_to=f"to shared memory {words.where}", mn=raw.details[0], k=raw.details[1], expected=words.expected,
        mn_before=raw.details[2], k_before=raw.details[3], wrote="wrote" if raw.details[3] else "copied",
    )  # fmt: skip


def _phase(number: int) -> str:
    return f"phase {number:,} (parity {number & 1})"


def _unfinished(raw: RawFinding, words: Words) -> str:
    others_waited, barrier, phase, last = raw.details
    if others_waited == COPY_TO_GLOBAL:
        return (
            f"{words.access}, to which the bulk copy of {words.other} at {words.at} still copies: no thread has waited "
            "for it by cp.async.bulk.wait_group (without .read)"
        )
    known = barrier != 0xFFFFFFFF
    name = f"the mbarrier {words.barrier(barrier)}" if known else "its mbarrier, which was invalidated"
    if others_waited:
        said = f"{words.access}, to which the copy at {words.at} has copied: other threads have waited for {name}, "
        said += "but this thread has not, and no barrier orders it after them"
    else:
        of_phase = f"{_phase(phase)} of " if known else ""
        said = f"{words.access}, to which the copy of {words.other} at {words.at} still copies: no thread has waited "
        said += f"for {of_phase}{name}"
    if not last:
        return said
    waited, at_once = (last & 0xFFFFFFFF) - 1, last >> 32
    place = words.place(raw.waited_at)
    if at_once:
        return f"{said}; the wait at {place} returned at once, because {_phase(waited)} was complete"
    return f"{said}; the last wait of this thread, at {place}, was for {_phase(waited)}"


def _overwritten(raw: RawFinding, words: Words) -> str:
    in_flight, reader = raw.details[0], raw.details[1]
    if in_flight:
        who = _IN_FLIGHT.get(reader, _IN_FLIGHT[1]).format(other=words.other, at=words.at)
        return f"{words.access}, which {who} still reads: no thread has waited for it by {_WAIT.get(reader, _WAIT[1])}"
    if reader:
        what = "wgmma" if reader == 1 else "bulk copy"
        return (
            f"{words.access}, which the {what} at {words.at} has read: a thread has waited for it, but nothing orders "
            "this thread after that wait (a barrier, or an mbarrier at which that thread arrives afterwards, would)"
        )
    return (
        f"{words.access}, which {words.other} read at {words.at}, and nothing orders the two (a barrier, or an "
        "mbarrier that counts an arrival of that thread after its read, would)"
    )


def _other_warps(raw: RawFinding, words: Words) -> str:
    return (
        f"{words.access}, which the wgmma of another warp of the warpgroup, at {words.at}, may still read: by the PTX "
        "ISA, wgmma.wait_group waits for the wgmma of its own warp (NVIDIA's libraries rely on it for all four warps)"
    )


def _no_fence(raw: RawFinding, words: Words) -> str:
    return (
        f"{words.access} by an asynchronous operation, which {words.other} wrote at {words.at} with no "
        "fence.proxy.async in between: execute it in that thread after its writes, before the barrier"
    )


def _deadlock(raw: RawFinding, words: Words) -> str:
    what, number = raw.details[0] & 0xFF, raw.details[0] >> 8
    threads = f" ({raw.details[3]:,} threads)" if raw.details[3] > 1 else ""
    if what == _CLUSTER:
        here, every = raw.details[1] & 0xFFFFFFFF, raw.details[1] >> 32
        return (
            f"waits forever at the barrier of the cluster, at which {here:,} of {every:,} threads have arrived{threads}"
        )
    if what == _WARPGROUP:
        return f"waits forever for groups of wgmma that not all four warps of its warpgroup have committed{threads}"
    if what == _REGISTERS:
        return (
            f"waits forever in setmaxnreg.inc for {raw.details[2]} registers per thread: its warp needs {number:,} "
            f"more, and {raw.details[1]:,} are free{threads}"
        )
    missing, every = raw.details[1] & 0xFFFFFFFF, raw.details[1] >> 32
    bytes_ = raw.details[2] - (raw.details[2] >> 63 << 64)
    causes = []
    if missing:
        causes.append(f"{missing:,} of {every:,} arrival{'s are' if every > 1 else ' is'} missing")
    if bytes_ > 0:
        causes.append(f"the phase expects {bytes_:,} bytes more than were copied")
    if bytes_ < 0:
        causes.append(f"{-bytes_:,} bytes more were copied than the phase expects")
    said = f"waits forever for {_phase(number)} of the mbarrier {words.barrier(raw.address)}: {' and '.join(causes)}"
    if raw.other_pc:
        last = (
            "bytes were last expected" if bytes_ > 0 else "it was last used" if bytes_ < 0 else "the last arrival was"
        )
        if bytes_ == 0 and missing == every and not number:
            last = "it was initialised"
        said += f"; {last} at {words.at}"
    return said + threads


def _unexpected(raw: RawFinding, words: Words) -> str:
    name, phase = words.barrier(raw.address), raw.details[1]
    expected = f"bytes were last expected at {words.at}" if raw.other_pc else "no thread has expected bytes there"
    if raw.details[0] == 1:
        return (
            f"copies {raw.bytes:,} bytes that {_phase(phase)} of the mbarrier {name} should count, but the phase "
            f"completed without them ({expected}): expect_tx must come before the phase's last arrival"
        )
    return (
        f"copies {raw.bytes:,} bytes, with which {_phase(phase)} of the mbarrier {name} counts {raw.details[2]:,} "
        f"bytes more than it expects ({expected}): it cannot complete"
    )


def _in_flight(raw: RawFinding, words: Words) -> str:
    what = "a sum" if raw.details[0] else "a register of A"
    verb = "writes" if raw.writes else "reads"
    wait = "wgmma.wait_group" if raw.details[1] else "wgmma.commit_group and wgmma.wait_group"
    return f"{verb} {what} of the wgmma at {words.at}, which is in flight: {wait} must come first"


def _ended(raw: RawFinding, words: Words) -> str:
    if raw.details[0] == 2:
        return (
            "copies from its block's shared memory to another block, and its block may end before the copy reads it: "
            "the block must wait for the other one, such as by barrier.cluster"
        )
    verb = "writes" if raw.writes else "reads"
    if raw.details[0] == 1:
        return (
            f"{verb} shared memory of {words.other_block}, which may end before: nothing makes that block wait for "
            "this access (barrier.cluster before it ends would)"
        )
    return f"{verb} shared memory of {words.other_block}, which has ended: barrier.cluster must keep it until then"


_SENTENCES: dict[str, Callable[[RawFinding, Words], str]] = {
    UNFINISHED: _unfinished, OVERWRITTEN: _overwritten, NO_FENCE: _no_fence, DEADLOCK: _deadlock,
    UNEXPECTED: _unexpected, IN_FLIGHT: _in_flight, ENDED_BLOCK: _ended, OTHER_WARPS: _other_warps,
}  # fmt: skip

#: All kinds whose sentences are made here.
ASYNCHRONOUS = frozenset(_SENTENCES) | frozenset(FAULTS)
