"""A kernel compiled for the CPU, with its parameters, its variables and its counts by source line."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tiledmm.errors import CompilationError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator import execution
from tiledmm.simulator.compiler import kernel_flags, toolchain
from tiledmm.simulator.debug.aggregates import aggregates_of
from tiledmm.simulator.debug.debug_info import SharedArray, Variable, debug_info
from tiledmm.simulator.debug.lines import SourceLines
from tiledmm.simulator.interface import Operand
from tiledmm.simulator.parameters import Parameter, parameters_of
from tiledmm.simulator.settings import Settings
from tiledmm.simulator.source_map import SourceMap
from tiledmm.simulator.traffic import LineCounts, line_counts
from tiledmm.simulator.translation import unset
from tiledmm.simulator.translation.alignments import declared_alignments
from tiledmm.simulator.translation.declarations import variables_in
from tiledmm.simulator.widths import Disassembler, access_widths

#: The values of a module's variables outside of functions: bytes by name.
ModuleState: TypeAlias = dict[str, np.ndarray[Any, np.dtype[np.uint8]]]

# A line of the kernel's text, as the toolchain calls it.
_LINE = re.compile(r"(?:\./)?\bkernel\.cu:(\d+)")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Blocks of a grid and threads of a block along x, y and z, and their indices by number."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    def block_index(self, number: int) -> tuple[int, int, int]:
        """The index of a block."""
        return _index(number, self.grid)

    def thread_index(self, number: int) -> tuple[int, int, int]:
        """The index of a thread in its block."""
        return _index(number, self.block)


def _index(number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


class CompiledKernel:
    """One kernel for one target architecture.

    Args:
        text: CUDA C.
        places: File and line of each of its lines.
        name: The kernel's name, with its template arguments.
        target: The architecture.
        build: How it is compiled, one of ``kernel_flags.BUILDS``.

    Attributes:
        arch: Value of ``__CUDA_ARCH__``.
    """

    def __init__(
        self,
        text: str,
        places: SourceMap,
        name: str,
        target: Architecture,
        *,
        build: str,
    ) -> None:
        self.text, self.places, self.name, self.target = text, places, name, target
        self.arch = target.capability[0] * 100 + target.capability[1] * 10
        library = toolchain.kernel_library(text, name, arch=self.arch, build=build)
        try:
            with library as path:
                self.code = execution.Code.load(path)
                self.debug = debug_info(path)
        except CompilationError as error:
            raise CompilationError(_LINE.sub(lambda at: places.location(int(at[1])), str(error))) from None
        self.lines = SourceLines(self.debug, text, places)

    def run(
        self,
        arguments: Sequence[Any],
        operands: Sequence[Operand],
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        settings: Settings,
        writers: bool = False,
        state: ModuleState | None = None,
    ) -> execution.Outcome:
        """Runs every block of a launch.

        Args:
            arguments: ctypes objects or NumPy arrays that hold the arguments.
            operands: The memory that the kernel may access.
            grid, block: Blocks, and threads of a block, along x, y and z.
            shared_bytes: Size of dynamic shared memory.
            settings: How to run it.
            writers: Whether it is asked afterwards who wrote an element.
            state: What the variables outside of functions hold, before and afterwards; None for a new module's.
        """
        with self._module(state) as variables:
            return execution.execute(
                self.code,
                grid=grid,
                block=block,
                arguments=arguments,
                operands=[*operands, *variables],
                shared=[
                    (
                        array.offset - self.debug.address("tiledmm_anchor"),
                        shared_bytes if array.dynamic else array.bytes,
                        0 if array.dynamic else self._alignments.get(array.name, 0),
                    )
                    for array in self.debug.shared_arrays()
                ],
                checks=bool(settings.checks),
                counts=settings.counts or settings.sass is not None,
                order=settings.order,
                seed=settings.seed,
                traced_block=settings.traced_block,
                traced_arithmetic=settings.traced_arithmetic,
                max_steps=settings.max_steps,
                describe=self._describe(settings.sass) if settings.sass else None,
                workers=settings.workers,
                progress=settings.progress,
                writers=writers,
                arch=self.arch,
                timeout=settings.timeout,
                guarded=settings.built in kernel_flags.GUARDED_BUILDS,
            )

    @contextlib.contextmanager
    def _module(self, state: ModuleState | None) -> Iterator[list[Operand]]:
        """The variables outside of functions, with the values of ``state``, as memory that the kernel may access."""
        if not self.variables:
            yield []
            return
        values = self.new_state() if state is None else state
        with self.code.lock:  # the library has one copy of them
            stamps, operands, constants = [], [], variables_in(self.text, "__constant__")
            for each in self.variables:
                address = self.code.base + each.address
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
            for each in self.variables:
                if each.name in values:
                    ctypes.memmove(values[each.name].ctypes.data, self.code.base + each.address, each.bytes)

    def rebuilt(self, build: str) -> CompiledKernel:
        """The same kernel, compiled in another way."""
        return CompiledKernel(self.text, self.places, self.name, self.target, build=build)

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the kernel."""
        return parameters_of(self.code, self.text, self.name)

    @functools.cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables outside of functions: the kernel can write those that are not ``__constant__``."""
        constants = variables_in(self.text, "__constant__")
        return tuple(
            replace(each, writable=each.writable and each.name not in constants) for each in self.debug.variables()
        )

    @functools.cached_property
    def _alignments(self) -> dict[str, int]:
        return declared_alignments(self.text)

    @functools.cached_property
    def may_be_unset(self) -> list[toolchain.UnsetVariable]:
        """The variables that may be read before they are set, as far as the C++ compiler sees that."""
        return toolchain.unset_variables(self.text, self.name, arch=self.arch)

    @functools.cached_property
    def aggregates(self) -> list[tuple[str, int]]:
        """A thread's own structures and arrays that are declared without a value, and the lines of that."""
        try:
            library = toolchain.typed_library(self.text, self.name, arch=self.arch)
        except CompilationError:  # asm statements, and what only optimizers fold
            return []
        found = aggregates_of(library, "kernel.cu")
        return [each for each in found if unset.filled_aggregates(self.text, [each], unset.VALUES[0]) != self.text]

    def filled(self, value: str) -> CompiledKernel | None:
        """The same kernel, with a value in the variables that may be read before they are set; None if there are none.

        Args:
            value: One of ``unset.VALUES``.
        """
        text = unset.filled(self.text, [(each.name, each.declared) for each in self.may_be_unset], value)
        return self._edited(unset.filled_aggregates(text, self.aggregates, value)) or self._edited(text)

    def filled_alone(self, aggregate: tuple[str, int], value: str) -> CompiledKernel | None:
        """The same kernel, with a value in one of its aggregates."""
        return self._edited(unset.filled_aggregates(self.text, [aggregate], value))

    def _edited(self, text: str) -> CompiledKernel | None:
        """The same kernel with another text; None if that is no other, or does not compile."""
        if text == self.text:
            return None
        try:
            return CompiledKernel(text, self.places, self.name, self.target, build="checked")
        except CompilationError:  # a type that has no such value
            return None

    def new_state(self) -> ModuleState:
        """The bytes of each variable as the text initializes it."""
        return {name: np.frombuffer(raw, np.uint8).copy() for name, raw in self.code.initial.items()}

    def line_counts(self, outcomes: list[execution.Outcome], *, sass: bool) -> tuple[LineCounts, ...]:
        """Counts by source line."""
        sites = [site for each in outcomes for site in each.sites]
        lines = self.lines.of([site.pc for site in sites])
        return line_counts(sites, lines, self.lines.text, self.lines.location, sass=sass)

    def _describe(self, disassemble: Disassembler) -> Callable[[int, str], tuple[int, int, int]]:
        code = disassemble(self.text, self.name, self.target.name)
        widths = access_widths(code.accesses, self.places.page)

        def describe(place: int, kind: str) -> tuple[int, int, int]:
            line = self.lines.line(place)
            return line, widths.get((line, kind, "shared"), 0), widths.get((line, kind, "global"), 0)

        return describe

    @functools.cached_property
    def shared_offsets(self) -> list[tuple[int, SharedArray]]:
        """The shared arrays, each with its offset from the first."""
        arrays = self.debug.shared_arrays()
        return [(array.offset - arrays[0].offset, array) for array in arrays]
