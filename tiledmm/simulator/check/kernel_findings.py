"""Findings of one kernel: those of the runtime, converted from its records, and those that the host makes."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.debug.variables import Subscripts, subscripts_of
from tiledmm.simulator.build.linkage import OF_UNKNOWN_DEPTH
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.source_map import own_line
from tiledmm.simulator.check.asynchronous_kinds import COPY_TO_GLOBAL, OVERWRITTEN, UNFINISHED
from tiledmm.simulator.check.causes import Pair, one_for_each_cause, one_for_each_wait
from tiledmm.simulator.check.finding_kinds import (
    COPY,
    DEEP_CALLS,
    RACES,
    TIMEOUT,
    UNSET,
    UNWRITTEN,
)
from tiledmm.simulator.check.findings import Finding, Region, allocated_region, finding, nearest, show
from tiledmm.simulator.execute.grid import Geometry, Outcome, Writer
from tiledmm.simulator.execute.interface import SPACES, RawFinding
from tiledmm.simulator.execute.memory import Placed

#: Kinds for accesses to memory that asynchronous operations use.
IN_USE = frozenset({UNFINISHED, OVERWRITTEN})

Regions: TypeAlias = tuple[Region, ...]


class KernelFindings:
    """Factory of findings about one kernel, with their source lines.

    Args:
        kernel: The kernel.
    """

    def __init__(self, kernel: NativeKernel) -> None:
        self._kernel = kernel

    def wrong_result(self, kind: str, said: str, writer: Writer | None, geometry: Geometry) -> Finding:
        """Return a finding that reports what is wrong with an element of a result.

        Args:
            kind: Kind of the finding, such as ``WRONG_RESULT``.
            said: Sentence that says what is wrong with the element.
            writer: The thread that wrote the element last; None if no thread did.
            geometry: Grid and block of the launch.
        """
        if writer is None:
            return self._finding(kind, f"{said}; no thread wrote it", 0)
        block, thread = geometry.block_index(writer.block), geometry.thread_index(writer.thread)
        said = f"{said}; block {show(block)}, thread {show(thread)} wrote it"
        return self._finding(kind, said, self._kernel.lines.line(writer.pc), block=block, thread=thread)

    def of_launch(self, kind: str, said: str) -> Finding:
        """Return a finding about what the launch passes to the kernel.

        Args:
            kind: Kind of the finding, such as ``VIEW``.
            said: Sentence that says what is wrong.
        """
        return self._finding(kind, said, 0)

    def ended_early(self, kind: str, said: str) -> Finding:
        """Return a finding about an element that no thread has written, because the launch ended before.

        Args:
            kind, said: As for ``wrong_result``.
        """
        return self._finding(kind, said, 0)

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
        """Return a finding that the host makes.

        Args:
            kind: Kind of the finding.
            said: Sentence that says what is wrong.
            line: Source line of the finding; 0 if it has none.
            other: A second source line, such as that of a declaration; 0 if there is none.
            block, thread: Indices of the thread that the finding is about.
        """
        location, of_other = self._kernel.lines.location(line), self._kernel.lines.location(other) if other else None
        where = f"{self._kernel.title}, {location}" if line else self._kernel.title
        return Finding(
            kind=kind,
            message=f"{where}: {kind}: {said}",
            line=line,
            location=location if line else "",
            text=self._kernel.lines.text(line),
            block=block,
            thread=thread,
            other_line=other or None,
            other_location=of_other,
            other_text=self._kernel.lines.text(other) if other else None,
            other_block=None,
            other_thread=None,
            count=1,
        )

    def of(self, outcomes: list[Outcome], placed: Sequence[Placed], shared_bytes: int) -> list[Finding]:
        """Convert the runtime's records of a kernel's runs to findings.

        Args:
            outcomes: Outcomes of the runs.
            placed: The arrays that the kernel ran on.
            shared_bytes: Dynamic shared memory per block, in bytes.

        Returns:
            The findings, with those about memory that nothing has written last.
        """
        found = [raw for each in outcomes for raw in each.findings]
        late = [self._finding(TIMEOUT, f"the timeout came when {_done(each)}", 0) for each in outcomes if each.ran_out]
        if not found:
            return late
        base = self._kernel.native.base
        shared: Regions = tuple(
            self._region(array.name, offset, shared_bytes if array.dynamic else array.bytes)
            for offset, array in self._kernel.shared_offsets
        )
        operands: Regions = (
            *(Region(each.name, each.begin, each.bytes, each.element_at, each.note) for each in placed),
            *(self._region(each.name, base + each.address, each.bytes) for each in self._kernel.variables),
        )
        indirect = any(each.leads_to_pointers for each in self._kernel.parameters) or bool(self._kernel.variables)
        named = [
            (raw, finding(raw, self._kernel.title, self._kernel.lines, shared, operands, indirect=indirect))
            for raw in found
        ]
        done = "; ".join(_done(each) for each in outcomes if each.finished < each.blocks)
        pairs = [self._pair(raw, each, shared, operands) for raw, each in named if each and each.kind in RACES]
        races = [
            each
            for kind in dict.fromkeys(each.finding.kind for each in pairs)
            for each in one_for_each_cause(pair for pair in pairs if pair.finding.kind == kind)
        ]
        used = one_for_each_wait(
            (self._cause(raw, each, shared), raw.details[3] > 0, each)
            for raw, each in named
            if each and each.kind in IN_USE
        )
        # Where a barrier is missing, some threads read what nobody has written yet.
        early = {(each.array, line) for each in pairs for line in (each.finding.line, each.finding.other_line)}
        unwritten = [
            each
            for raw, each in named
            if each and each.kind in UNWRITTEN and (self._array(raw, shared, operands), each.line) not in early
        ]
        read = {each.other_line for _, each in named if each and each.kind == COPY}
        others = [
            replace(each, message=f"{each.message}; {done}") if each.kind == TIMEOUT else each
            for _, each in named
            if each and each.kind not in RACES | UNWRITTEN | IN_USE
            if each.kind != COPY or each.other_line or each.line not in read  # what is read is the same copy
        ]
        return [*races, *used, *others, *late, *unwritten]

    def _pair(self, raw: RawFinding, found: Finding, shared: Regions, operands: Regions) -> Pair:
        """Return the two accesses that a finding about a race is about."""
        first, last = sorted((self._outermost(raw.other_pc), self._outermost(raw.pc)))
        return Pair(found, self._array(raw, shared, operands), first, last, bool(raw.one_warp))

    def _cause(self, raw: RawFinding, found: Finding, shared: Regions) -> tuple[object, ...]:
        """Return what stands for the missing wait of an access to memory that asynchronous operations use.

        It is the array of mbarriers of a copy, the operation that reads, or else the one that overwrites.
        """
        if found.kind == UNFINISHED and raw.details[0] != COPY_TO_GLOBAL:
            region = nearest(shared, raw.details[1])
            return found.kind, raw.details[0], region.name if region else ""
        is_of_reader = found.kind == UNFINISHED or raw.details[1]
        return found.kind, raw.details[0], self._outermost(raw.other_pc if is_of_reader else raw.pc)

    def _outermost(self, place: int) -> int:
        """Return the line of a place in machine code, or of the outermost inlined call around it."""
        return (self._kernel.lines.line(place), *self._kernel.lines.calls(place))[-1]

    def _array(self, raw: RawFinding, shared: Regions, operands: Regions) -> str:
        """Return the name of the array that an access is in, or is closest to; an empty string if there is none."""
        allocated = allocated_region(raw, self._kernel.lines)
        region = nearest(allocated or (shared if SPACES[raw.space] == "shared" else operands), raw.address)
        return region.name if region else ""

    def deep_calls(self, outcome: Outcome) -> list[Finding]:
        """Return a warning if calls whose depth a compiler cannot know need more stack than a GPU gives to them."""
        size, place = outcome.deepest
        if not size or not self._kernel.debug.defines(OF_UNKNOWN_DEPTH):
            return []
        said = (
            f"recursive calls and calls through pointers use about {size:,} bytes of stack here; a GPU gives a thread "
            "1,024 bytes unless cudaDeviceSetLimit(cudaLimitStackSize, bytes) raises the limit"
        )
        return [self._finding(DEEP_CALLS, said, self._kernel.lines.line(place))]

    def _region(self, name: str, begin: int, size: int) -> Region:
        """Return the memory region of an array that the kernel's text declares.

        Args:
            name: The array's name.
            begin: Its address, or its offset in shared memory.
            size: Its size in bytes.
        """

        def element_at(offset: int) -> str:
            subscripts = self._subscripts.get(name)
            return name + subscripts(offset) if subscripts else ""

        return Region(name, begin, size, element_at)

    @functools.cached_property
    def _subscripts(self) -> dict[str, Subscripts]:
        """Functions that map a byte offset in an array to the element's subscripts, by the array's name in the text."""
        return subscripts_of(toolchain.typed_library(self._kernel.text, self._kernel.name, target=self._kernel.target))

    def of_declaration(self, kind: str, said: str, declaration: str) -> Finding:
        """Return a finding about what a GPU would not compile or launch, with the line of a declaration.

        Args:
            kind: Kind of the finding, such as ``LAUNCH_BOUNDS``.
            said: Sentence that says what is wrong.
            declaration: Regular expression of the declaration.
        """
        match = re.search(declaration, self._kernel.text)
        return self._finding(kind, said, self._kernel.text.count("\n", 0, match.start()) + 1 if match else 0)

    def unset_variables(self, declared: Mapping[str, int]) -> list[Finding]:
        """Return a finding for each variable that may be read before it is set, as the C++ compiler warns.

        Args:
            declared: Variables that a result depends on, each with the line of its declaration; empty if they are not
                known.
        """
        found = []
        # One for each variable: where it is read first.
        first = {(each.name, each.declared): each for each in reversed(self._kernel.may_be_unset)}
        for each in reversed(first.values()):
            name = each.name.split(".")[0]
            if declared and name not in declared:
                continue
            declaration = each.declared or declared.get(name, 0)
            at = f", declared at {self._kernel.lines.location(declaration)}" if declaration else ""
            said = f"{each.name}{at}: the result depends on its value"
            line = self._first_update(name, declaration) or own_line(each.lines, self._kernel.places.page)
            found.append(self._finding(UNSET, said, line, other=declaration))
        return found

    def _first_update(self, name: str, declared: int) -> int:
        """Return the line after a variable's declaration that first updates it, as in ``sum += x``; 0 if none does.

        Compilers warn of a later line, where the sum of a loop is used.
        """
        update = re.compile(rf"(?<![\w.>]){re.escape(name)}\s*(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
        lines = self._kernel.text.splitlines()
        if not declared or update.search(lines[declared - 1]):
            return 0
        following = enumerate(lines[declared:], declared + 1)
        first = next((line for line, text in following if re.search(rf"(?<![\w.>]){re.escape(name)}\b", text)), 0)
        return first if first and update.search(lines[first - 1]) else 0

    def depends(self, said: str, on: Finding) -> Finding:
        """Return a finding that says that another finding depends on an unset variable, whose name is not known.

        Args:
            said: Sentence that says so.
            on: The other finding, which gives the line, the block and the thread.
        """
        return replace(self._finding(UNSET, said, on.line, block=on.block, thread=on.thread), calls=on.calls)

    def depends_on(self, found: Finding, name: str, declared: int) -> Finding:
        """Return a copy of a finding whose message also names the unset variable that the result depends on.

        Args:
            found: The finding.
            name: The variable's name.
            declared: The line of its declaration.
        """
        location = self._kernel.lines.location(declared)
        message = f"{found.message}; the variable is {name}, declared at {location}"
        text = self._kernel.lines.text(declared)
        return replace(found, message=message, other_line=declared, other_location=location, other_text=text)

    def unset_result(self, what: str) -> Finding:
        """Return a finding about a result that depends on an unset variable whose name is not known.

        Args:
            what: The result, as the sentence names it.
        """
        return self._finding(UNSET, f"{what} depends on a variable that was not set", 0)

    def depends_on_shared(self, found: Finding) -> Finding:
        """Return a copy of a finding whose message says that the result depends on unwritten shared memory.

        Args:
            found: The finding.
        """
        said = "; the variable is in shared memory, where no thread has written these bits"
        return replace(found, kind=UNSET, message=found.message + said)


def _done(outcome: Outcome) -> str:
    return f"{outcome.finished:,} of {outcome.blocks:,} blocks had ended"
