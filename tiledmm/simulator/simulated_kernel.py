"""One launch of a product on the CPU: a kernel, with its counts, findings and events by source line and array."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiledmm.codegen.rendering import render
from tiledmm.codegen.source_map import file_map, source_map
from tiledmm.codegen.specialization import Specialization
from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import find_target
from tiledmm.schedule import launches as geometry
from tiledmm.simulator import execution, toolchain
from tiledmm.simulator.debug_info import debug_info
from tiledmm.simulator.findings import Finding, Region, finding
from tiledmm.simulator.lines import SourceLines
from tiledmm.simulator.placed import Placed
from tiledmm.simulator.traffic import LineCounts, line_counts


@dataclass(frozen=True, slots=True)
class Settings:
    """How a kernel is run.

    Attributes:
        checks: Whether every access is checked.
        counts: Whether traffic is counted.
        sass: Whether traffic is also counted as in the machine code (SASS). Needs NVRTC and nvdisasm.
        order: The order in which threads run between two barriers: ``"forward"``, ``"reverse"`` or ``"random"``.
        seed: Seed of the order ``"random"``.
        target: The target architecture: ``"sm_75"``, say, has no cp.async.
        workers: Cores to use; None for all.
        progress: Called from time to time with the number of finished blocks and of all blocks.
        traced_block: The block whose accesses are recorded one by one, or None.
        traced_arithmetic: Whether its floating-point operations are recorded, too.
        max_steps: Accesses after which a thread counts as running away; 0 for no limit.
    """

    checks: bool = True
    counts: bool = True
    sass: bool = False
    order: str = "forward"
    seed: int = 0
    target: str = "sm_90"
    workers: int | None = None
    progress: Callable[[int, int], None] | None = None
    traced_block: int | None = None
    traced_arithmetic: bool = False
    max_steps: int = 0

    def __post_init__(self) -> None:
        if self.order not in execution.ORDERS:
            raise ConfigError(f"order of threads is one of {', '.join(execution.ORDERS)}; got {self.order!r}")

    @property
    def instrumented(self) -> bool:
        """Whether the runtime sees accesses at all."""
        return self.checks or self.counts or self.sass or self.traced_block is not None


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


class SimulatedKernel:
    """One launch of a product, its kernel compiled for the CPU."""

    def __init__(self, launch: geometry.Launch, source: Path | None, settings: Settings, scan: str) -> None:
        self.launch, self.spec, self.settings = launch, launch.specialization, settings
        self.scan = scan  # name of the operand scan's memory, if there is any
        self.target = find_target(settings.target)
        self.text = render(self.spec) if source is None else _read(source, self.spec)
        self.places = source_map(self.spec) if source is None else file_map(source.name, self.text)
        arch = self.target.capability[0] * 100 + self.target.capability[1] * 10
        library = toolchain.kernel_library(
            self.text, self.spec.symbol, arch=arch, instrumented=settings.instrumented
        )  # fmt: skip
        with library as path:
            self.code = execution.Code.load(path)
            self.debug = debug_info(path)
        self.lines = SourceLines(self.debug, self.text, self.places)

    def run(self, operands: list[Placed], pointers: list[int], scan: Placed | None) -> execution.Outcome:
        """Runs the kernel on arrays, from the given address in each; ``scan`` is the operand scan's memory."""
        width, height = self.spec.block
        settings = self.settings
        reached = [each.operand(writable=each is operands[-1]) for each in operands]
        kernel_args = self.launch.kernel_args
        if scan is not None and self.launch.scan:
            reached.append(scan.operand(writable=self.spec.condition == "scan"))
            kernel_args = np.append(kernel_args, [scan.begin + begin for begin in self.launch.scan])
        return execution.execute(
            self.code,
            grid=(self.launch.blocks, 1, 1),
            block=(width, height, 1),
            arguments=(*(ctypes.c_void_p(pointer) for pointer in pointers), kernel_args),
            operands=reached,
            shared=self.shared,
            checks=settings.checks,
            counts=settings.counts or settings.sass,
            order=settings.order,
            seed=settings.seed,
            traced_block=settings.traced_block,
            traced_arithmetic=settings.traced_arithmetic,
            max_steps=settings.max_steps,
            describe=self._describe() if settings.sass else None,
            workers=settings.workers,
            progress=settings.progress,
        )

    def line_counts(self, outcomes: list[execution.Outcome]) -> tuple[LineCounts, ...]:
        """Counts by source line."""
        sites = [site for each in outcomes for site in each.sites]
        lines = self.lines.of([site.pc for site in sites])
        return line_counts(sites, lines, self.lines.text, self.lines.location, sass=self.settings.sass)

    def findings(self, outcomes: list[execution.Outcome], placed: list[Placed]) -> list[Finding]:
        """Findings, in words."""
        found = [raw for each in outcomes for raw in each.findings]
        lines = self.lines.of([pc for raw in found for pc in (raw.pc, raw.other_pc) if pc])
        shared = tuple(
            Region(array.name, offset, size)
            for array, (offset, size) in zip(self.debug.shared_arrays(), self._shared_offsets, strict=True)
        )
        operands = tuple(Region(each.name, each.begin, each.bytes) for each in placed)
        named = (
            finding(raw, self.spec.symbol, lines, self.lines.text, self.lines.location, shared, operands)
            for raw in found
        )
        return [each for each in named if each]

    @functools.cached_property
    def shared(self) -> list[tuple[int, int]]:
        """Offset from the anchor, and size, of each shared array."""
        anchor = self.debug.address("tiledmm_anchor")
        return [(array.offset - anchor, array.bytes) for array in self.debug.shared_arrays()]

    def _describe(self) -> Callable[[int, str], tuple[int, int, int]]:
        from tiledmm.simulator.widths import Widths

        widths = Widths(self.text, self.spec.symbol, self.target.name)

        def describe(place: int, kind: str) -> tuple[int, int, int]:
            line = self.lines.of([place])[place]
            return line, *widths.of(line, kind)

        return describe

    def events(self, outcome: execution.Outcome, placed: list[Placed]) -> Iterator[Event]:
        """Events of the traced block, in the order in which its threads ran here."""
        width, height = self.spec.block
        lines = self.lines.of(event.pc for event in outcome.events)
        shared = list(zip((array.name for array in self.debug.shared_arrays()), self._shared_offsets, strict=True))
        indices = {each.name: each.indices() for each in placed} if outcome.events else {}

        @functools.cache  # threads access the same elements again and again
        def find(space: str, address: int, size: int) -> tuple[str, tuple[int, ...]]:
            if space == "shared":
                name, begin = next((name, at) for name, (at, extent) in shared if at <= address < at + extent)
                return name, ((address - begin) // size,)
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

    @property
    def _shared_offsets(self) -> list[tuple[int, int]]:
        """Offset from the first shared array, and size, of each."""
        first = min((offset for offset, _ in self.shared), default=0)
        return [(offset - first, size) for offset, size in self.shared]


def _read(path: Path, spec: Specialization) -> str:
    """The user's text of this kernel."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"source={str(path)!r} cannot be read: {error}") from None
    if spec.symbol not in text:
        raise ConfigError(
            f"{path} does not define {spec.symbol}, the kernel of this call (its types, tile and layout); "
            "write what tiledmm.source gives for these to a file, and edit that"
        )
    return text
