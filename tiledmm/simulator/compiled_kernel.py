"""A kernel compiled for the CPU, with its counts, findings and events by source line and array."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tiledmm.codegen.page import first_line_of_page
from tiledmm.codegen.source_map import SourceMap
from tiledmm.errors import CompilationError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator import execution
from tiledmm.simulator.compiler import toolchain
from tiledmm.simulator.debug.debug_info import SharedArray, Variable, debug_info
from tiledmm.simulator.debug.elements import Subscripts, subscripts_of
from tiledmm.simulator.debug.lines import SourceLines, own_line
from tiledmm.simulator.findings import LAUNCH_BOUNDS, TOO_MUCH_SHARED, UNSET, Finding, Region, finding, show
from tiledmm.simulator.parameters import Parameter, parameters_of
from tiledmm.simulator.placed import Placed
from tiledmm.simulator.settings import Settings
from tiledmm.simulator.traffic import LineCounts, line_counts
from tiledmm.simulator.translation import unset
from tiledmm.simulator.translation.alignments import declared_alignments
from tiledmm.simulator.translation.declarations import kernels_in, short_name, variables_in


@dataclass(frozen=True, slots=True)
class Event:
    """One access of one thread, or one floating-point operation.

    Attributes:
        step: Number of barriers of the block before it.
        thread: Index of the thread, (x, y, z).
        kind: ``"load"``, ``"store"`` or ``"copy"`` (cp.async: two events, one in each memory); or ``"arithmetic"``,
            which has no array, element or bytes.
        space: ``"shared"``, ``"global"`` or ``"registers"``.
        array: ``"A"``, ``"B"`` or ``"C"`` in global memory; in shared memory, the array's name in the source.
        element: Index of the element in an operand; in a shared array, its number in elements of ``bytes``.
        bytes: Bytes that are accessed.
        address: Byte address; in shared memory, the offset from the first array.
        line: Source line, 0 if unknown.
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


#: The values of a module's variables outside of functions: bytes by name.
ModuleState: TypeAlias = dict[str, np.ndarray[Any, np.dtype[np.uint8]]]


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
        build: How it is compiled, one of ``toolchain.BUILDS``.
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
        self._arch = target.capability[0] * 100 + target.capability[1] * 10
        library = toolchain.kernel_library(text, name, arch=self._arch, build=build)
        with library as path:
            self.code = execution.Code.load(path)
            self.debug = debug_info(path)
        self.lines = SourceLines(self.debug, text, places)

    def run(
        self,
        arguments: Sequence[Any],
        operands: Sequence[execution.Operand],
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
                counts=settings.counts or settings.sass,
                order=settings.order,
                seed=settings.seed,
                traced_block=settings.traced_block,
                traced_arithmetic=settings.traced_arithmetic,
                max_steps=settings.max_steps,
                describe=self._describe() if settings.sass else None,
                workers=settings.workers,
                progress=settings.progress,
                writers=writers,
                arch=self._arch,
                timeout=settings.timeout,
                guarded=settings.built == "guarded",
            )

    @contextlib.contextmanager
    def _module(self, state: ModuleState | None) -> Iterator[list[execution.Operand]]:
        """The variables outside of functions, with the values of ``state``, as memory that the kernel may access."""
        if not self.variables:
            yield []
            return
        values = self.new_state() if state is None else state
        with self.code.lock:  # the library has one copy of them
            stamps, operands = [], []
            for each in self.variables:
                address = self.code.base + each.address
                if each.name in values:
                    ctypes.memmove(address, values[each.name].ctypes.data, each.bytes)
                granule = 4 if each.bytes % 4 == 0 else 1
                granules = each.bytes // granule if each.writable else 0
                stamps.append((np.zeros((granules, 2), np.uint64), np.zeros((granules, 4), np.uint64)))
                writes, reads = (words.ctypes.data if each.writable else None for words in stamps[-1])
                operands.append(
                    execution.Operand(address, each.bytes, granule, valid=None, writes=writes, reads=reads, defined=1)
                )
            yield operands
            for each in self.variables:
                if each.name in values:
                    ctypes.memmove(values[each.name].ctypes.data, self.code.base + each.address, each.bytes)

    def wrong_result(self, kind: str, said: str, writer: execution.Writer | None, geometry: Geometry) -> Finding:
        """A finding for an element of a result.

        Args:
            kind: What kind of.
            said: What is wrong, in words.
            writer: Who wrote it; None if nobody did.
            geometry: Grid and block.
        """
        if writer is None:
            return self._finding(kind, f"{said}; no thread wrote it", 0)
        block, thread = geometry.block_index(writer.block), geometry.thread_index(writer.thread)
        said = f"{said}; block {show(block)}, thread {show(thread)} wrote it"
        return self._finding(kind, said, self.lines.line(writer.pc), block=block, thread=thread)

    def _finding(
        self,
        kind: str,
        said: str,
        line: int,
        *,
        other: int = 0,
        block: tuple[int, int, int] = (0, 0, 0),
        thread: tuple[int, int, int] = (0, 0, 0),
    ) -> Finding:
        """A finding that the host makes, at a line, and perhaps another."""
        location, of_other = self.lines.location(line), self.lines.location(other) if other else None
        return Finding(
            kind=kind,
            message=f"{self.name}, {location}: {kind}: {said}" if line else f"{self.name}: {kind}: {said}",
            line=line,
            location=location if line else "",
            text=self.lines.text(line),
            block=block,
            thread=thread,
            other_line=other or None,
            other_location=of_other,
            other_text=self.lines.text(other) if other else None,
            other_block=None,
            other_thread=None,
            count=1,
        )

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
    def _may_be_unset(self) -> list[toolchain.UnsetVariable]:
        return toolchain.unset_variables(self.text, self.name, arch=self._arch)

    def filled(self, value: str) -> CompiledKernel | None:
        """The same kernel, with a value in the variables that may be read before they are set; None if there are none.

        Args:
            value: One of ``unset.VALUES``.
        """
        text = unset.filled(self.text, [(each.name, each.declared) for each in self._may_be_unset], value)
        if text == self.text:
            return None
        try:
            return CompiledKernel(text, self.places, self.name, self.target, build="checked")
        except CompilationError:  # a type that has no such value
            return None

    def unset_variables(self) -> list[Finding]:
        """A finding for each variable that may be read before it is set, as far as the C++ compiler sees that."""
        found = []
        for each in self._may_be_unset:
            at = f", declared at {self.lines.location(each.declared)}" if each.declared else ""
            said = f"{each.name}{at}: the result depends on what is there"
            line = own_line(each.lines, first_line_of_page(self.text))
            found.append(self._finding(UNSET, said, line, other=each.declared))
        return found

    def depends(self, said: str, on: Finding) -> Finding:
        """A finding, at the place of another, that this one depends on a variable which the compiler does not name."""
        return replace(self._finding(UNSET, said, on.line, block=on.block, thread=on.thread), calls=on.calls)

    def unset_result(self, what: str) -> Finding:
        """A finding for a result that depends on a variable which the compiler does not name."""
        return self._finding(UNSET, f"{what} depends on a variable that was not set", 0)

    def new_state(self) -> ModuleState:
        """The bytes of each variable as the text initializes it."""
        return {name: np.frombuffer(raw, np.uint8).copy() for name, raw in self.code.initial.items()}

    def refusals(self, block: tuple[int, int, int]) -> list[Finding]:
        """What a GPU would not compile or launch: findings whose lines are those of the declarations."""
        found = []
        threads, most = block[0] * block[1] * block[2], self.code.loaded.tiledmm_max_threads()
        if most and threads > most:
            said = f"a block of {threads} threads, and the kernel's __launch_bounds__ has {most}"
            found.append(self._refusal(LAUNCH_BOUNDS, said, r"__launch_bounds__"))
        # An array of another kernel of the text has that kernel's name in its own.
        own = short_name(self.name)
        others = [f"{len(kernel)}{kernel}" for kernel in kernels_in(self.text) if kernel != own]
        arrays = [
            each
            for each in self.debug.shared_arrays()
            if not each.dynamic and not any(kernel in each.symbol for kernel in others)
        ]
        size, limit = sum(each.bytes for each in arrays), self.target.static_shared_bytes
        if size > limit:
            largest = max(arrays, key=lambda each: each.bytes).name
            said = f"{size:,} bytes of static shared memory, and a block has {limit:,}; dynamic memory may be more"
            found.append(self._refusal(TOO_MUCH_SHARED, said, rf"__shared__[^;]*\b{largest}\b"))
        return found

    def _refusal(self, kind: str, said: str, declaration: str) -> Finding:
        match = re.search(declaration, self.text)
        return self._finding(kind, said, self.text.count("\n", 0, match.start()) + 1 if match else 0)

    def line_counts(self, outcomes: list[execution.Outcome], *, sass: bool) -> tuple[LineCounts, ...]:
        """Counts by source line."""
        sites = [site for each in outcomes for site in each.sites]
        lines = self.lines.of([site.pc for site in sites])
        return line_counts(sites, lines, self.lines.text, self.lines.location, sass=sass)

    def findings(self, outcomes: list[execution.Outcome], placed: Sequence[Placed], shared_bytes: int) -> list[Finding]:
        """Findings, in words.

        Args:
            outcomes: What ``run`` returned.
            placed: The arrays that it ran on.
            shared_bytes: Size of dynamic shared memory.
        """
        found = [raw for each in outcomes for raw in each.findings]
        if not found:
            return []
        base = self.code.base
        shared = tuple(
            self._region(array.name, offset, shared_bytes if array.dynamic else array.bytes)
            for offset, array in self._shared_offsets
        )
        operands = (
            *(Region(each.name, each.begin, each.bytes, each.element_at) for each in placed),
            *(self._region(each.name, base + each.address, each.bytes) for each in self.variables),
        )
        named = (finding(raw, self.name, self.lines, shared, operands) for raw in found)
        # A missing barrier is a race first of all, and only then memory that nobody has written yet.
        return sorted((each for each in named if each), key=lambda each: each.kind.startswith("uninitialised"))

    def _region(self, name: str, begin: int, size: int) -> Region:
        """An array that the kernel's text declares."""

        def element_at(offset: int) -> str:
            subscripts = self._subscripts.get(name)
            return name + subscripts(offset) if subscripts else ""

        return Region(name, begin, size, element_at)

    @functools.cached_property
    def _subscripts(self) -> dict[str, Subscripts]:
        """For arrays that the text declares, by name, the subscripts of a byte."""
        return subscripts_of(toolchain.typed_library(self.text, self.name, arch=self._arch))

    def _describe(self) -> Callable[[int, str], tuple[int, int, int]]:
        from tiledmm.simulator.widths import Widths

        widths = Widths(self.text, self.name, self.target.name)

        def describe(place: int, kind: str) -> tuple[int, int, int]:
            line = self.lines.line(place)
            return line, *widths.of(line, kind)

        return describe

    def events(
        self, outcome: execution.Outcome, placed: Sequence[Placed], block: tuple[int, int, int]
    ) -> Iterator[Event]:
        """Events of the traced block of ``block`` threads along x, y and z, in the order in which these ran here."""
        width, height, _ = block
        lines = self.lines.of(event.pc for event in outcome.events)
        indices = {each.name: each.indices() for each in placed} if outcome.events else {}

        @functools.cache  # threads access the same elements again and again
        def find(space: str, address: int, size: int) -> tuple[str, tuple[int, ...]]:
            if space == "shared":
                begin, array = next((at, each) for at, each in self._shared_offsets if at <= address < at + each.bytes)
                return array.name, ((address - begin) // size,)
            operand = next(each for each in placed if each.begin <= address < each.begin + each.bytes)
            flat = indices[operand.name][(address - operand.begin) // operand.itemsize]
            return operand.name, tuple(int(i) for i in np.unravel_index(flat, operand.array.shape))

        for raw in outcome.events:
            kind, space = execution.KINDS[raw.kind], execution.SPACES[raw.space]
            if kind == "barrier":
                continue
            thread = (raw.thread % width, raw.thread // width % height, raw.thread // (width * height))
            if kind == "arithmetic":
                yield Event(raw.step, thread, kind, "registers", "", (), 0, 0, lines[raw.pc])
                continue
            name, element = find(space, raw.address, raw.bytes)
            yield Event(raw.step, thread, kind, space, name, element, raw.bytes, raw.address, lines[raw.pc])

    def barriers(self, outcome: execution.Outcome) -> tuple[int, ...]:
        """The source line of each barrier of the traced block."""
        places = [raw.pc for raw in outcome.events if execution.KINDS[raw.kind] == "barrier"]
        lines = self.lines.of(places)
        return tuple(lines[place] for place in places)

    @functools.cached_property
    def _shared_offsets(self) -> list[tuple[int, SharedArray]]:
        """The shared arrays, each with its offset from the first."""
        arrays = self.debug.shared_arrays()
        return [(array.offset - arrays[0].offset, array) for array in arrays]
