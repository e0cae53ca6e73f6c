"""Events of one block of a kernel: accesses and operations of its threads, with source line and array.

Asynchronous operations are events, too: what happens to mbarriers, copies in flight, and groups of ``wgmma``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.interface import KINDS, SPACES
from tiledmm.simulator.execute.memory import Placed


#: Kinds of events that are accesses or floating-point operations. The others are of asynchronous operations.
ACCESSES = frozenset({"load", "store", "copy", "arithmetic"})

#: Bytes of an mbarrier.
BARRIER_BYTES = 8

# Kinds about an mbarrier, kinds that name a place in shared memory, and kinds whose `other` is one.
_OF_BARRIER = frozenset({"init", "arrive", "expect", "wait", "pass", "complete"})
_AT_PLACE = _OF_BARRIER | {"issue", "land", "issue store", "land store", "wgmma"}
_OF_TWO = {"issue": BARRIER_BYTES, "land": BARRIER_BYTES, "wgmma": 1}


@dataclass(frozen=True, slots=True)
class Event:
    """One access of one thread, one floating-point operation, or one step of an asynchronous operation.

    The kinds of asynchronous operations, and what ``bytes`` and ``value`` are:

    - ``"init"`` of an mbarrier: ``value`` arrivals per phase;
    - ``"arrive"``: ``value`` arrivals; ``"expect"``: ``bytes`` more to come in this phase;
    - ``"wait"``: the phase has not completed, and the thread begins to wait for it; ``"pass"``: the thread goes on;
      ``"complete"``: a phase completes, by the last arrival or the last bytes. ``value`` is the phase's number from 0;
    - ``"issue"`` of a copy (``cp.async.bulk``, TMA) to shared memory, and ``"land"``: ``bytes`` that ``other``, its
      mbarrier, counts;
    - ``"issue store"`` of a copy from shared to global memory, and ``"land store"``; ``"commit stores"``,
      ``"wait for stores"`` and ``"pass stores"`` for groups of these, whose number is ``value``;
    - ``"wgmma"``, once per warp: ``array`` and ``other`` are where its A and B are in shared memory (both are B if A is in
      registers); ``"commit wgmma"``: group ``value``; ``"wait for wgmma"`` and ``"pass wgmma"``: groups below ``value``;
    - ``"arrive at cluster"``, ``"wait for cluster"`` and ``"pass cluster"`` of the cluster's barrier, phase ``value``.

    Attributes:
        step: Number of barriers that the block has passed before it.
        thread: Index of the thread, (x, y, z).
        kind: ``"load"``, ``"store"`` or ``"copy"`` (cp.async: two events, one in each memory); ``"arithmetic"``,
            which has no array, element or bytes; or a kind of the list above.
        space: ``"shared"``, ``"global"`` or ``"registers"``.
        array: ``"A"``, ``"B"`` or ``"C"`` in global memory; in shared memory, the array's name in the source.
        element: Index of the element in an operand; in a shared array, its number in elements of ``bytes``.
        bytes: Bytes that are accessed.
        address: Byte address; in shared memory, the offset from the first array.
        line: Source line; 0 if unknown.
        calls: If the line is in a function that the kernel calls, the lines of the calls, from the innermost on. Only of
            asynchronous operations.
        rank: Rank in the cluster of the block whose shared memory it is.
        by: Rank in the cluster of the thread's block.
        value: Number that the kind needs; 0 for accesses.
        other: Name of a second place in shared memory, such as ``"full[1]"``; empty if there is none.
        other_address: The second place's offset.
    """

    step: int
    thread: tuple[int, int, int]
    kind: str
    space: str
    array: str
    element: tuple[int, ...]
    bytes: int
    address: int
    line: int
    calls: tuple[int, ...] = ()
    rank: int = 0
    by: int = 0
    value: int = 0
    other: str = ""
    other_address: int = 0

    @property
    def name(self) -> str:
        """The array with the element: ``"full[1]"``; the array's name alone if it is one element or no array's."""
        return _named(self.array, self.element)


def events_of(
    kernel: NativeKernel, outcome: Outcome, placed: Sequence[Placed], block: tuple[int, int, int]
) -> Iterator[Event]:
    """Yield the events of the traced block in the order in which they ran.

    Args:
        kernel: The kernel.
        outcome: Outcome of its run.
        placed: The arrays that it ran on.
        block: Number of threads per block along x, y and z.
    """
    width, height, _ = block
    lines = kernel.lines.of(event.pc for event in outcome.events)
    indices = {each.name: each.indices() for each in placed} if outcome.events else {}

    @functools.cache  # threads access the same elements again and again
    def find(space: str, address: int, size: int) -> tuple[str, tuple[int, ...]]:
        if space == "shared":
            found = (each for each in kernel.shared_offsets if each[0] <= address < each[0] + max(each[1].bytes, 1))
            # Dynamic shared memory is the last array, and as long as the launch says.
            begin, array = next(found, None) or kernel.shared_offsets[-1]
            return array.name, ((address - begin) // size,)
        operand = next((each for each in placed if each.begin <= address < each.begin + each.bytes), None)
        if operand is None:  # a variable outside of functions
            offset = address - kernel.native.base
            variable = next(
                (each for each in kernel.variables if each.address <= offset < each.address + each.bytes), None
            )
            return (variable.name, ((offset - variable.address) // size,)) if variable else ("", ())
        flat = indices[operand.name][(address - operand.begin) // operand.itemsize]
        return operand.name, tuple(int(i) for i in np.unravel_index(flat, operand.array.shape))

    @functools.cache
    def calls(place: int) -> tuple[int, ...]:
        return tuple(kernel.lines.calls(place))

    for raw in outcome.events:
        kind, space = KINDS[raw.kind], SPACES[raw.space]
        if kind == "barrier":
            continue
        thread = (raw.thread % width, raw.thread // width % height, raw.thread // (width * height))
        if kind == "arithmetic":
            yield Event(raw.step, thread, kind, "registers", "", (), 0, 0, lines[raw.pc])
        elif kind in ACCESSES:
            name, element = find(space, raw.address, raw.bytes)
            yield Event(
                raw.step, thread, kind, space, name, element, raw.bytes, raw.address, lines[raw.pc],
                rank=raw.rank, by=raw.by,
            )  # fmt: skip
        else:
            is_barrier = kind in _OF_BARRIER
            name, element = find("shared", raw.address, BARRIER_BYTES if is_barrier else 1) if kind in _AT_PLACE else ("", ())
            is_number = kind in ("init", "arrive")
            second = find("shared", raw.other, _OF_TWO[kind]) if kind in _OF_TWO else ("", ())
            yield Event(
                raw.step, thread, kind, "shared", name, element, 0 if is_number else raw.bytes, raw.address, lines[raw.pc],
                calls=calls(raw.pc), rank=raw.rank, by=raw.by,
                value=raw.bytes if is_number else 0 if kind in _OF_TWO else raw.other,
                other=_named(*second), other_address=raw.other if kind in _OF_TWO else 0,
            )  # fmt: skip


def _named(array: str, element: tuple[int, ...]) -> str:
    return array + "".join(f"[{index}]" for index in element)


def barrier_lines(kernel: NativeKernel, outcome: Outcome) -> tuple[int, ...]:
    """Return the source line of each barrier at which the traced block waited, in order."""
    places = [raw.pc for raw in outcome.events if KINDS[raw.kind] == "barrier"]
    lines = kernel.lines.of(places)
    return tuple(lines[place] for place in places)
