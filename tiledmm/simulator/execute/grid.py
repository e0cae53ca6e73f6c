"""The blocks of a grid, run by a kernel's library on the CPU, one worker per core."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.execute.interface import (
    DESCRIBE,
    KINDS,
    ORDERS,
    NativeLaunch,
    NativeSharedArray,
    Operand,
    RawEvent,
    RawFinding,
    RawSite,
    runtime,
)
from tiledmm.simulator.execute.workers import cores, work

#: Places in a kernel's code that access memory (``build/native/state.h``).
SITES = 1 << 14

#: A thread that neither accesses memory nor waits for that long is taken for one that never will.
STALL_SECONDS = 10.0

#: The same where a kernel is built as ``"guarded"``: at accesses to a shared variable by its name, which a thread may
#: wait for, GCC calls nothing then. Only local memory is looked at, and the rest has been.
GUARDED_STALL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Geometry:
    """Blocks of a grid and threads of a block along x, y and z, and their indices by number."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    def block_index(self, number: int) -> tuple[int, int, int]:
        """Return the index of a block, given its number."""
        return _index(number, self.grid)

    def thread_index(self, number: int) -> tuple[int, int, int]:
        """Return the index of a thread in its block, given its number."""
        return _index(number, self.block)


def _index(number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


@dataclass(frozen=True, slots=True)
class Writer:
    """The thread that wrote an element.

    Attributes:
        block, thread: Their numbers.
        pc: The place in the code.
    """

    block: int
    thread: int
    pc: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of a run. Places in code are offsets in the kernel's library."""

    findings: list[RawFinding]
    sites: list[RawSite]
    events: list[RawEvent]
    barriers: int
    blocks: int
    seconds: float
    output: str = ""
    places: dict[int, int] = field(default_factory=dict)

    def writer(self, writes: np.ndarray[Any, Any], element: int) -> Writer | None:
        """Return who wrote an element of an array last; None if nobody did, or if that was not recorded."""
        if element >= len(writes) or not writes[element, 0]:
            return None
        stamp = int(writes[element, 0])
        return Writer(stamp >> 32, stamp >> 22 & 0x3FF, self.places.get(stamp >> 8 & 0x3FFF, 0))


def run_grid(
    library: Library,
    *,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: Sequence[Any],
    operands: Sequence[Operand],
    shared: Sequence[tuple[int, ...]],
    checks: bool,
    counts: bool,
    order: str = "forward",
    seed: int = 0,
    traced_block: int | None = None,
    traced_arithmetic: bool = False,
    max_steps: int = 0,
    describe: Callable[[int, str], tuple[int, int, int]] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    writers: bool = False,
    arch: int = 900,
    timeout: float | None = None,
    guarded: bool = False,
) -> Outcome:
    """Run every block of a launch.

    Args:
        library: The kernel.
        grid, block: Blocks, and threads of a block, along x, y and z.
        arguments: ctypes objects or NumPy arrays that hold the kernel's arguments.
        operands: The arrays that the kernel may access.
        shared: Offset from the anchor, size, and declared alignment, if that is known, of each shared array.
        checks, counts: Whether accesses are checked and counted; the kernel must be built as ``"checked"`` for either.
        order, seed: The order in which threads run between two barriers.
        traced_block: The block whose accesses are recorded one by one.
        traced_arithmetic: Whether its floating-point operations are recorded, too.
        max_steps: Accesses after which a thread counts as running away; 0 for no limit.
        describe: For a place in the code: its group, and the widest access in machine code to shared and global memory.
        workers: Cores to use; None for all.
        progress: Called from time to time with the number of finished blocks and of all blocks.
        writers: Whether ``Outcome.writer`` is asked afterwards.
        arch: Value of ``__CUDA_ARCH__``.
        timeout: Seconds after which the launch ends with a finding; None for no limit.
        guarded: Whether the kernel was built as one of ``kernel_flags.GUARDED_BUILDS``.
    """
    native = runtime()
    pointers = (c_void_p * len(arguments))(*(_address(argument) for argument in arguments))
    blocks = grid[0] * grid[1] * grid[2]

    def answer(pc: int, kind: int, into: Any) -> None:
        if describe is not None:
            into[0], into[1], into[2] = describe(pc - library.base, KINDS[kind])

    launch = NativeLaunch(
        run_thread=ctypes.cast(library.functions.tiledmm_run_thread, c_void_p).value,
        anchor=ctypes.cast(library.functions.tiledmm_anchor_address, c_void_p).value,
        arguments=pointers,
        grid=grid,
        block=block,
        operands=(Operand * len(operands))(*operands),
        arrays=(NativeSharedArray * len(shared))(*(NativeSharedArray(*each) for each in shared)),
        operand_count=len(operands),
        array_count=len(shared),
        checks=checks,
        counts=counts or traced_block is not None,
        order=ORDERS.index(order),
        trace=0 if traced_block is None else 1 + traced_arithmetic,
        seed=seed,
        traced_block=traced_block or 0,
        max_steps=max_steps,
        code=library.text[0],
        code_end=library.text[1],
        guarded=guarded,
        constants=library.constants[0],
        constants_end=library.constants[1],
        arch=arch,
        stall=round(1000 * (GUARDED_STALL_SECONDS if guarded else STALL_SECONDS)),
        describe=DESCRIBE(answer) if describe is not None else DESCRIBE(0),
    )
    run = native.tiledmm_begin(byref(launch))
    try:
        begun = time.perf_counter()
        work(native, run, min(workers or cores(), blocks), blocks, progress, timeout)
        seconds = time.perf_counter() - begun
        outcome = Outcome(
            findings=_copies(native.tiledmm_findings, run, RawFinding),
            sites=_copies(native.tiledmm_counts, run, RawSite) if launch.counts else [],
            events=_copies(native.tiledmm_trace, run, RawEvent),
            barriers=native.tiledmm_barriers(run),
            blocks=blocks,
            seconds=seconds,
            places={site: pc - library.base for site in range(SITES) if (pc := native.tiledmm_place(run, site))}
            if writers
            else {},
            output=_output(native, run),
        )
    finally:
        native.tiledmm_end(run)
    for each in (*outcome.findings, *outcome.sites, *outcome.events):
        each.pc -= library.base
    for found in outcome.findings:
        if found.other_pc:
            found.other_pc -= library.base
        for i, place in enumerate(found.calls):
            found.calls[i] = max(place - library.base, 0)
    return outcome


def _output(native: Any, run: int) -> str:
    """Return what the kernel printed."""
    text = c_char_p()
    size = native.tiledmm_output(run, byref(text))
    return ctypes.string_at(text, size).decode(errors="replace")


def _copies(function: Any, run: int, kind: Any) -> list[Any]:
    pointer = POINTER(kind)()
    count = function(run, byref(pointer))
    return [kind.from_buffer_copy(pointer[i]) for i in range(count)]


def _address(argument: Any) -> int:
    if isinstance(argument, np.ndarray):
        return int(argument.ctypes.data)
    return ctypes.addressof(argument)
