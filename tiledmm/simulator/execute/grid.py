"""The blocks of a grid, run by a kernel's library on the CPU, one worker per core."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from ctypes import byref, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.execute.answers import copies, deepest_of, output_of, places_of
from tiledmm.simulator.execute.interface import (
    DESCRIBE,
    KINDS,
    ORDER_SOME,
    ORDERS,
    VOLATILE,
    NativeLaunch,
    NativeSharedArray,
    Operand,
    RawEvent,
    RawFinding,
    RawSite,
    runtime,
)
from tiledmm.simulator.execute.workers import cores, work

#: For shared memory that keeps what the last block left there.
AS_LEFT = 256

#: Seconds without an access to memory or a barrier after which a thread counts as one that never ends.
STALL_SECONDS = 10.0

#: The same in seconds for a kernel built as ``"guarded"``, in which GCC does not call the runtime at accesses to a
#: shared variable by its name, which a thread may wait for. This build serves only to check local memory.
GUARDED_STALL_SECONDS = 1.0


#: Number of workers, and so of blocks at a time, in the order ``"preemptive"``, in which they run in turn.
PREEMPTIVE_WORKERS = 6


@dataclass(frozen=True, slots=True)
class Geometry:
    """Number of blocks and of threads per block along x, y and z, and the indices that follow from them."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    def block_index(self, number: int) -> tuple[int, int, int]:
        """Return the index (x, y, z) of a block, given its number in the grid."""
        return _index(number, self.grid)

    def thread_index(self, number: int) -> tuple[int, int, int]:
        """Return the index (x, y, z) of a thread, given its number in the block."""
        return _index(number, self.block)


def _index(number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


@dataclass(frozen=True, slots=True)
class Writer:
    """The thread that wrote an element last.

    Attributes:
        block: Number of its block in the grid.
        thread: Number of the thread in the block.
        pc: Place of the write in machine code, as an offset in the kernel's library.
    """

    block: int
    thread: int
    pc: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Findings, counts and events of a kernel's run. Places in code are offsets in the kernel's library.

    Attributes:
        findings: The runtime's records of findings.
        sites: Counts of each instruction that accesses memory, computes or waits; empty if nothing was counted.
        events: Accesses of the traced block; empty if no block was traced.
        barriers: Number of barriers that blocks waited at, summed over all blocks.
        blocks: Number of blocks that were to run.
        finished: Number of blocks that have ended.
        steps: Number of accesses to memory of all threads.
        most_steps: Number of accesses of the thread that made most.
        deepest: Bytes of the deepest stack of a thread at an access, and the access's place; (0, 0) if none is deep.
        ran_out: Whether the time was up while no thread ran, so that no finding says so.
        seconds: Time that the run took, in seconds.
        output: Text that the kernel printed.
        synchronizes: Whether threads used atomics, volatile accesses, fences or named barriers. Without these, a kernel
            that has no race gives the same result in each order of threads.
        places: Place in code of each site, by its number in the records of writes; empty if writers were not recorded.
    """

    findings: list[RawFinding]
    sites: list[RawSite]
    events: list[RawEvent]
    barriers: int
    blocks: int
    finished: int
    ran_out: bool
    deepest: tuple[int, int]
    steps: int
    most_steps: int
    seconds: float
    output: str = ""
    synchronizes: bool = False
    places: dict[int, int] = field(default_factory=dict)

    def writer(self, writes: np.ndarray[Any, Any], element: int) -> Writer | None:
        """Return the thread that wrote an element of an array last.

        Args:
            writes: The array's records of writes, ``Placed.writes``.
            element: Index of the element in ``writes``.

        Returns:
            The thread; None if no thread wrote the element, or if writes were not recorded.
        """
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
    chosen: Sequence[int] | None = None,
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
    clock_rate: int = 1,
    shared_fill: int | None = None,
    cooperative: bool = False,
    undefined: tuple[int, int] | None = None,
    cluster: tuple[int, int, int] = (0, 0, 0),
) -> Outcome:
    """Run all blocks of a launch on the CPU, and return findings, counts and events.

    Args:
        library: The kernel's library.
        grid, block: Number of blocks, and of threads per block, along x, y and z.
        arguments: ctypes objects or NumPy arrays that hold the kernel's arguments.
        operands: Global memory that the kernel may access.
        shared: For each shared array, its offset from the library's anchor, its size, and its declared alignment, which
            is 0 if it is not known; all in bytes.
        checks, counts: Whether accesses are checked and counted; either needs a kernel that is built as ``"checked"``.
        order, seed: The order in which threads run between two barriers.
        chosen: Numbers of the blocks that run; None for all blocks of the grid.
        traced_block: Number of the block whose accesses are recorded one by one; None for no block.
        traced_arithmetic: Whether its floating-point operations are also recorded.
        max_steps: Maximum number of accesses of a thread; a thread that makes more is ended with a finding. 0 for no
            limit.
        describe: Function that is called with a place in code and the kind of access there. It returns a number, by
            which accesses are grouped, and the bytes of the widest access in the GPU's machine code to shared and to
            global memory. None if traffic is counted by the source only.
        workers: Number of CPU cores to use; None for all.
        progress: Function that is called from time to time with the number of finished blocks and of all blocks.
        writers: Whether ``Outcome.writer`` is called afterwards.
        arch: Value of ``__CUDA_ARCH__``.
        timeout: Seconds after which the launch ends with a finding; None for no limit.
        guarded: Whether the kernel was built as one of ``kernel_flags.GUARDED_BUILDS``.
        clock_rate: Ticks of the kernel's clock per access to memory, in units of the usual number.
        shared_fill: What each byte of shared memory is when a block begins; None for what the block before it left.
        cooperative: Whether all blocks of the grid are resident, so that they can wait for each other; ``chosen`` is
            None then.
        undefined: Place in code of a shuffle, and what each byte of its undefined values is; None for NaN.
        cluster: Number of blocks per cluster along x, y and z; zeros for a launch without clusters. With several blocks
            per cluster, ``chosen`` contains whole clusters, as ``clusters.whole_clusters`` returns them.

    Raises:
        MemoryError: If there is no memory for the stacks of a block's threads, or if there are fewer threads of the
            operating system than blocks that wait for each other.
    """
    native = runtime()
    pointers = (c_void_p * len(arguments))(*(_address(argument) for argument in arguments))
    blocks = grid[0] * grid[1] * grid[2] if chosen is None else len(chosen)
    together = max(cluster[0] * cluster[1] * cluster[2], 1)  # blocks that need a thread of the operating system each
    if order == "preemptive":
        workers = 1 if cooperative or together > 1 else PREEMPTIVE_WORKERS
    workers = min(workers or cores(), blocks // together)
    needed = blocks if cooperative else workers * together

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
        chosen=None if chosen is None else (c_uint64 * blocks)(*chosen),
        chosen_count=blocks,
        max_steps=max_steps,
        code=library.text[0],
        code_end=library.text[1],
        guarded=guarded,
        workers=workers,
        uses=bool(ORDER_SOME & library.imports)
        + 2 * bool(VOLATILE & library.imports)
        + 4 * ("tiledmm_wgmma" in library.imports)
        + 8 * ("tiledmm_barrier_invalidate" in library.imports),
        clock_rate=clock_rate,
        shared_fill=AS_LEFT if shared_fill is None else shared_fill,
        constants=library.constants[0],
        constants_end=library.constants[1],
        arch=arch,
        stall=round(1000 * (GUARDED_STALL_SECONDS if guarded else STALL_SECONDS)),
        cooperative=cooperative,
        describe=DESCRIBE(answer) if describe is not None else DESCRIBE(0),
        undefined_at=library.base + undefined[0] if undefined else 0,
        undefined_fill=undefined[1] if undefined else 0,
        cluster=cluster,
    )
    run = native.tiledmm_begin(byref(launch))
    try:
        begun = time.perf_counter()
        work(native, run, needed, blocks, progress, timeout, all_needed=cooperative or together > 1)
        seconds = time.perf_counter() - begun
        outcome = Outcome(
            findings=copies(native.tiledmm_findings, run, RawFinding),
            sites=copies(native.tiledmm_counts, run, RawSite) if launch.counts else [],
            events=copies(native.tiledmm_trace, run, RawEvent),
            barriers=native.tiledmm_barriers(run),
            blocks=blocks,
            finished=native.tiledmm_blocks_done(run),
            deepest=deepest_of(native, run, library.base),
            ran_out=bool(native.tiledmm_ran_out(run)),
            steps=native.tiledmm_steps(run, byref(most := c_uint64())),
            most_steps=most.value,
            seconds=seconds,
            places=places_of(native, run, library.base) if writers else {},
            output=output_of(native, run),
            synchronizes=bool(native.tiledmm_synchronizes(run)),
        )
    finally:
        native.tiledmm_end(run)
    for each in (*outcome.findings, *outcome.sites, *outcome.events):
        each.pc -= library.base
    for found in outcome.findings:
        if found.other_pc:
            found.other_pc -= library.base
        if found.allocated_at:
            found.allocated_at -= library.base
        if found.waited_at:
            found.waited_at -= library.base
        for i, place in enumerate(found.calls):
            found.calls[i] = max(place - library.base, 0)
    return outcome


def _address(argument: Any) -> int:
    if isinstance(argument, np.ndarray):
        return int(argument.ctypes.data)
    return ctypes.addressof(argument)
