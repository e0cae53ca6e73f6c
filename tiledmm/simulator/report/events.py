"""Events of one block of a kernel: accesses and operations of its threads, with source line and array."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.interface import KINDS, SPACES
from tiledmm.simulator.execute.memory import Placed


@dataclass(frozen=True, slots=True)
class Event:
    """One access of one thread, or one floating-point operation.

    Attributes:
        step: Number of barriers that the block has passed before it.
        thread: Index of the thread, (x, y, z).
        kind: ``"load"``, ``"store"`` or ``"copy"`` (cp.async: two events, one in each memory); or ``"arithmetic"``,
            which has no array, element or bytes.
        space: ``"shared"``, ``"global"`` or ``"registers"``.
        array: ``"A"``, ``"B"`` or ``"C"`` in global memory; in shared memory, the array's name in the source.
        element: Index of the element in an operand; in a shared array, its number in elements of ``bytes``.
        bytes: Bytes that are accessed.
        address: Byte address; in shared memory, the offset from the first array.
        line: Source line; 0 if unknown.
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
            begin, array = next((at, each) for at, each in kernel.shared_offsets if at <= address < at + each.bytes)
            return array.name, ((address - begin) // size,)
        operand = next((each for each in placed if each.begin <= address < each.begin + each.bytes), None)
        if operand is None:  # a variable outside of functions
            offset = address - kernel.native.base
            variable = next(each for each in kernel.variables if each.address <= offset < each.address + each.bytes)
            return variable.name, ((offset - variable.address) // size,)
        flat = indices[operand.name][(address - operand.begin) // operand.itemsize]
        return operand.name, tuple(int(i) for i in np.unravel_index(flat, operand.array.shape))

    for raw in outcome.events:
        kind, space = KINDS[raw.kind], SPACES[raw.space]
        if kind == "barrier":
            continue
        thread = (raw.thread % width, raw.thread // width % height, raw.thread // (width * height))
        if kind == "arithmetic":
            yield Event(raw.step, thread, kind, "registers", "", (), 0, 0, lines[raw.pc])
            continue
        name, element = find(space, raw.address, raw.bytes)
        yield Event(raw.step, thread, kind, space, name, element, raw.bytes, raw.address, lines[raw.pc])


def barrier_lines(kernel: NativeKernel, outcome: Outcome) -> tuple[int, ...]:
    """Return the source line of each barrier at which the traced block waited, in order."""
    places = [raw.pc for raw in outcome.events if KINDS[raw.kind] == "barrier"]
    lines = kernel.lines.of(places)
    return tuple(lines[place] for place in places)
