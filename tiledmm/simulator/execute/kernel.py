"""One kernel run over a grid: its shared arrays, its variables, and how wide its accesses are in machine code."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tiledmm.simulator.build import kernel_flags
from tiledmm.simulator.build.machine_code import Disassembler, access_widths
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.translation.syntax import variables_in
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
) -> Outcome:
    """Run every block of a launch.

    Args:
        kernel: The kernel.
        arguments: ctypes objects or NumPy arrays that hold the arguments.
        operands: The memory that the kernel may access.
        grid, block: Blocks, and threads of a block, along x, y and z.
        shared_bytes: Size of dynamic shared memory.
        settings: How to run it.
        writers: Whether it is asked afterwards who wrote an element.
        state: What the variables outside of functions hold, before and afterwards; None for a new module's.
    """
    anchor = kernel.debug.address("tiledmm_anchor")
    with _variables(kernel, state) as variables:
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
        )


@contextlib.contextmanager
def _variables(kernel: NativeKernel, state: ModuleState | None) -> Iterator[list[Operand]]:
    """Yield the variables outside of functions, with the values of ``state``, as memory that the kernel may access."""
    if not kernel.variables:
        yield []
        return
    values = kernel.new_state() if state is None else state
    with kernel.native.lock:
        stamps, operands, constants = [], [], variables_in(kernel.text, "__constant__")
        for each in kernel.variables:
            address = kernel.native.base + each.address
            if each.name in values:
                ctypes.memmove(address, values[each.name].ctypes.data, each.bytes)
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


def _widths(kernel: NativeKernel, disassemble: Disassembler) -> Callable[[int, str], tuple[int, int, int]]:
    """Return what gives the source line of a place, and the widest accesses there to shared and to global memory."""
    code = disassemble(kernel.text, kernel.name, kernel.target.name)
    widths = access_widths(code.accesses, kernel.places.page)

    def describe(place: int, kind: str) -> tuple[int, int, int]:
        line = kernel.lines.line(place)
        return line, widths.get((line, kind, "shared"), 0), widths.get((line, kind, "global"), 0)

    return describe
