"""Runs a compiled kernel on the CPU, one worker per core."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_uint8, c_uint64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm.simulator.interface import (
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
from tiledmm.simulator.workers import cores, work

#: Places in a kernel's code that access memory (``native/state.h``).
SITES = 1 << 14

#: Instead of the writer of an element: it was written before the launch (``native/state.h``).
BEFORE = 1

#: A thread that neither accesses memory nor waits for that long is taken for one that never will.
STALL_SECONDS = 10.0

#: The same where a kernel is built as ``"guarded"``: at accesses to a shared variable by its name, which a thread may
#: wait for, GCC calls nothing then. Only local memory is looked at, and the rest has been.
GUARDED_STALL_SECONDS = 1.0

#: Inaccessible memory around each operand: an index that is wrong by less never reaches another operand.
GUARD_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote an element.

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
        """Who wrote an element of an array last; None if nobody did, or if that was not recorded."""
        if element >= len(writes) or not writes[element, 0]:
            return None
        stamp = int(writes[element, 0])
        return Writer(stamp >> 32, stamp >> 22 & 0x3FF, self.places.get(stamp >> 8 & 0x3FFF, 0))


class Memory:
    """Global memory of a run: regions with inaccessible memory around them."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._library = runtime()
        count = len(sizes)
        addresses = (c_uint64 * count)()
        self._reserved = c_uint64()
        self._base = self._library.tiledmm_reserve(
            c_uint64(count), (c_uint64 * count)(*sizes), c_uint64(GUARD_BYTES), addresses, byref(self._reserved)
        )
        if not self._base:
            raise MemoryError(f"no {sum(sizes)} bytes of memory for the operands")
        self.addresses = list(addresses)

    def bytes(self, region: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The first ``size`` bytes of a region. Not to be used after ``release``."""
        return np.ctypeslib.as_array((c_uint8 * size).from_address(self.addresses[region]))

    def release(self) -> None:
        """Gives the memory back."""
        if self._base:
            self._library.tiledmm_release(self._base, self._reserved)
            self._base = None


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel compiled for the CPU and loaded."""

    path: Path
    loaded: Any  # the functions, by name
    base: int  # address of offset 0 of the file
    text: tuple[int, int]  # the addresses of its machine code: the first, and the one behind the last
    constants: tuple[int, int]  # the same of its constants without names
    initial: dict[str, bytes]  # what its variables outside of functions hold before any launch
    lock: threading.Lock = field(default_factory=threading.Lock)  # for these

    @classmethod
    def load(cls, path: Path) -> Code:
        """Loads a library that ``toolchain.build_kernel`` made."""
        return _load(path)


@functools.lru_cache(maxsize=256)
def _load(path: Path) -> Code:
    from tiledmm.simulator.debug.debug_info import debug_info

    library = ctypes.CDLL(str(path))
    debug = debug_info(path)
    base = (ctypes.cast(library.tiledmm_run_thread, c_void_p).value or 0) - debug.address("tiledmm_run_thread")
    begin, end = debug.text
    variables = (each for each in debug.variables() if each.writable)
    initial = {each.name: ctypes.string_at(base + each.address, each.bytes) for each in variables}
    first, last = debug.constants
    return Code(path, library, base, (base + begin, base + end), (base + first, base + last), initial)


def execute(
    code: Code,
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
    """Runs every block of a launch.

    Args:
        code: The kernel.
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
    library = runtime()
    pointers = (c_void_p * len(arguments))(*(_address(argument) for argument in arguments))
    blocks = grid[0] * grid[1] * grid[2]

    def answer(pc: int, kind: int, into: Any) -> None:
        if describe is not None:
            into[0], into[1], into[2] = describe(pc - code.base, KINDS[kind])

    launch = NativeLaunch(
        run_thread=ctypes.cast(code.loaded.tiledmm_run_thread, c_void_p).value,
        anchor=ctypes.cast(code.loaded.tiledmm_anchor_address, c_void_p).value,
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
        code=code.text[0],
        code_end=code.text[1],
        guarded=guarded,
        constants=code.constants[0],
        constants_end=code.constants[1],
        arch=arch,
        stall=round(1000 * (GUARDED_STALL_SECONDS if guarded else STALL_SECONDS)),
        describe=DESCRIBE(answer) if describe is not None else DESCRIBE(0),
    )
    run = library.tiledmm_begin(byref(launch))
    try:
        begun = time.perf_counter()
        work(library, run, min(workers or cores(), blocks), blocks, progress, timeout)
        seconds = time.perf_counter() - begun
        outcome = Outcome(
            findings=_copies(library.tiledmm_findings, run, RawFinding),
            sites=_copies(library.tiledmm_counts, run, RawSite) if launch.counts else [],
            events=_copies(library.tiledmm_trace, run, RawEvent),
            barriers=library.tiledmm_barriers(run),
            blocks=blocks,
            seconds=seconds,
            places={site: pc - code.base for site in range(SITES) if (pc := library.tiledmm_place(run, site))}
            if writers
            else {},
            output=_output(library, run),
        )
    finally:
        library.tiledmm_end(run)
    for each in (*outcome.findings, *outcome.sites, *outcome.events):
        each.pc -= code.base
    for found in outcome.findings:
        if found.other_pc:
            found.other_pc -= code.base
        for i, place in enumerate(found.calls):
            found.calls[i] = max(place - code.base, 0)
    return outcome


def _output(library: Any, run: int) -> str:
    """What the kernel printed."""
    text = c_char_p()
    size = library.tiledmm_output(run, byref(text))
    return ctypes.string_at(text, size).decode(errors="replace")


def _copies(function: Any, run: int, kind: Any) -> list[Any]:
    pointer = POINTER(kind)()
    count = function(run, byref(pointer))
    return [kind.from_buffer_copy(pointer[i]) for i in range(count)]


def _address(argument: Any) -> int:
    if isinstance(argument, np.ndarray):
        return int(argument.ctypes.data)
    return ctypes.addressof(argument)
