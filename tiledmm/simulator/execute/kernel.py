"""One kernel run over a grid: its shared arrays, its variables, and how wide its accesses are in machine code."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tiledmm.simulator.build import kernel_flags
from tiledmm.simulator.build.addresses import Addresses
from tiledmm.simulator.build.machine_code import Disassembler, access_widths
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.translation.syntax import variables_in
from tiledmm.simulator.execute.clusters import whole_clusters
from tiledmm.simulator.execute.grid import Outcome, run_grid
from tiledmm.simulator.execute.interface import Operand
from tiledmm.simulator.execute.settings import Settings


def run_kernel(
    kernel: NativeKernel,
    arguments: Sequence[Any],
    operands: Sequence[Operand],
    *,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    settings: Settings,
    writers: bool = False,
    state: ModuleState | None = None,
    addresses: Addresses | None = None,
    cluster: tuple[int, int, int] | None = None,
) -> Outcome:
    """Run all blocks of a kernel on the CPU, and return findings, counts and events.

    Args:
        kernel: The kernel.
        arguments: ctypes objects or NumPy arrays that hold the arguments.
        operands: Global memory that the kernel may access, apart from its variables outside of functions.
        grid, block: Number of blocks, and of threads per block, along x, y and z.
        shared_bytes: Dynamic shared memory per block, in bytes.
        settings: Settings of the run.
        writers: Whether ``Outcome.writer`` is called afterwards.
        state: Values of the variables outside of functions, which the kernel reads and changes; None for their initial
            values in the source.
        addresses: Addresses of the arrays and of the variables, outside and while the kernel runs; None if no memory
            holds any.
        cluster: Number of blocks per cluster along x, y and z, zeros for no clusters; None for those of the kernel's
            ``__cluster_dims__``.
    """
    cluster = cluster or kernel.cluster
    anchor = kernel.debug.address("tiledmm_anchor")
    with _variables(kernel, state, addresses or Addresses(())) as variables:
        return run_grid(
            kernel.native,
            grid=grid,
            block=block,
            arguments=arguments,
            operands=[*operands, *variables],
            shared=[
                (
                    array.offset - anchor,
                    shared_bytes if array.dynamic else array.bytes,
                    0 if array.dynamic else kernel.alignments.get(array.name, 0),
                )
                for array in kernel.debug.shared_arrays()
            ],
            checks=bool(settings.checks),
            counts=settings.counts or settings.sass is not None,
            order=settings.order,
            seed=settings.seed,
            chosen=None if settings.cooperative else whole_clusters(settings.chosen, grid, cluster),
            cluster=cluster,
            traced_block=settings.traced_block,
            traced_arithmetic=settings.traced_arithmetic,
            max_steps=settings.max_steps,
            describe=_widths(kernel, settings.sass) if settings.sass else None,
            workers=settings.workers,
            progress=settings.progress,
            writers=writers,
            arch=kernel.arch,
            timeout=settings.timeout,
            guarded=settings.built in kernel_flags.GUARDED_BUILDS,
            clock_rate=settings.clock_rate,
            shared_fill=settings.shared_fill,
            cooperative=settings.cooperative,
            undefined=settings.undefined,
        )


@contextlib.contextmanager
def _variables(kernel: NativeKernel, state: ModuleState | None, addresses: Addresses) -> Iterator[list[Operand]]:
    """Give the variables outside of functions their values, and yield them as memory that the kernel may access.

    The library has one copy of the variables, so its lock is held within this context. Afterwards the values are copied
    back to ``state``.

    Args:
        kernel: The kernel.
        state: Values of the variables; None for their initial values in the source.
        addresses: Addresses that the values may hold.
    """
    if not kernel.variables:
        yield []
        return
    values = kernel.new_state() if state is None else state
    with kernel.native.lock:
        stamps, operands, constants = [], [], variables_in(kernel.text, "__constant__")
        for each in kernel.variables:
            address = kernel.native.base + each.address
            if each.name in values:
                given = values[each.name].copy()
                addresses.inward(given)
                ctypes.memmove(address, given.ctypes.data, each.bytes)
            granule = 4 if each.bytes % 4 == 0 else 1
            granules = each.bytes // granule if each.writable else 0
            stamps.append((np.zeros((granules, 2), np.uint64), np.zeros((granules, 4), np.uint64)))
            writes, reads = (words.ctypes.data if each.writable else None for words in stamps[-1])
            operands.append(
                Operand(address, each.bytes, granule, None, writes, reads, 1, constant=each.name in constants)
            )
        yield operands
        for each in kernel.variables:
            if each.name in values:
                ctypes.memmove(values[each.name].ctypes.data, kernel.native.base + each.address, each.bytes)
                addresses.outward(values[each.name])


def _widths(kernel: NativeKernel, disassemble: Disassembler) -> Callable[[int, str], tuple[int, int, int]]:
    """Return a function that looks up how wide a source line's accesses are in the GPU's machine code.

    It takes a place in the CPU's code and the kind of access there. It returns the source line, and the bytes of the
    line's widest access to shared and to global memory.

    Args:
        kernel: The kernel.
        disassemble: Function that compiles the kernel for the GPU and reads its accesses.
    """
    code = disassemble(kernel.text, kernel.name, kernel.target.name + kernel.target.features)
    widths = access_widths(code.accesses, kernel.places.page)

    def describe(place: int, kind: str) -> tuple[int, int, int]:
        line = kernel.lines.line(place)
        return line, widths.get((line, kind, "shared"), 0), widths.get((line, kind, "global"), 0)

    return describe
