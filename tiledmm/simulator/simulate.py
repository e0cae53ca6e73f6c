"""Products of NumPy arrays, computed by a kernel on the CPU."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm import geometry, passes
from tiledmm.architectures import find_target
from tiledmm.codegen import Specialization, render
from tiledmm.errors import AlignmentError, ConfigError, OperandTypeError
from tiledmm.ladder import find_variant
from tiledmm.model import Choice, Model, candidates
from tiledmm.operands import begin_together, describe, resolve
from tiledmm.problem import Span
from tiledmm.selection import kernel_of, may_split, select
from tiledmm.simulator import machine, toolchain
from tiledmm.simulator.debug_info import debug_info
from tiledmm.simulator.findings import NOT_WRITTEN, Region, finding
from tiledmm.simulator.lines import SourceLines
from tiledmm.simulator.report import Finding, LineCounts, Report, Traffic, line_counts, total
from tiledmm.variant import Numbers

# CuPy's allocations begin at multiples of this, and so do the simulator's: sectors are counted alike.
_ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Settings:
    """How a kernel is run.

    Attributes:
        checks: Whether every access is checked.
        counts: Whether traffic is counted.
        machine: Whether it is counted as the machine code has it, too. Needs NVRTC and nvdisasm.
        order: Order of threads between two barriers: ``"forward"``, ``"reverse"`` or ``"random"``.
        seed: For ``"random"``.
        target: What to be: ``"sm_75"`` has no cp.async, say.
        workers: Cores to use; None for all.
        progress: Called now and then with the blocks done and their number.
        traced_block: The block whose accesses are recorded one by one, or None.
        traced_arithmetic: Whether its floating-point operations are, too.
        max_steps: Accesses that a thread may make before it counts as running away; 0: any number.
    """

    checks: bool = True
    counts: bool = True
    machine: bool = False
    order: str = "forward"
    seed: int = 0
    target: str = "sm_90"
    workers: int | None = None
    progress: Callable[[int, int], None] | None = None
    traced_block: int | None = None
    traced_arithmetic: bool = False
    max_steps: int = 0

    def __post_init__(self) -> None:
        if self.order not in machine.ORDERS:
            raise ConfigError(f"order of threads is one of {', '.join(machine.ORDERS)}; got {self.order!r}")

    @property
    def instrumented(self) -> bool:
        """Whether accesses are seen at all."""
        return self.checks or self.counts or self.machine or self.traced_block is not None


@dataclass(frozen=True, slots=True)
class Event:
    """One access of one thread, or one floating-point operation.

    Attributes:
        step: Barriers of the block that came before it.
        thread: (x, y, z).
        kind: ``"load"``, ``"store"`` or ``"copy"`` (cp.async: two events, one in each memory); or ``"arithmetic"``,
            which has neither array nor element nor bytes.
        space: ``"shared"``, ``"global"`` or ``"registers"``.
        array: ``"A"``, ``"B"`` and ``"C"`` in global memory; in shared memory, the name that it has in the source.
        element: Index of the element in an operand; in a shared array, its number in elements of ``bytes``.
        bytes: What is moved.
        address: In bytes; in shared memory, from where the first array begins.
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


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated call: its result, what it did, and what was recorded: accesses, and the line of each barrier."""

    result: np.ndarray[Any, Any]
    report: Report
    events: tuple[Event, ...] = ()
    barriers: tuple[int, ...] = ()


def simulate(
    x1: Any,
    x2: Any,
    out: Any,
    keywords: dict[str, Any],
    *,
    variant: str,
    tile: int | None,
    source: Path | None,
    settings: Settings,
    config: Numbers | None = None,
    precision: str = "float32",
) -> Simulation:
    """Computes a product on the CPU.

    Args:
        x1, x2, out: NumPy arrays; ``out`` may be None.
        keywords: ``matmul``'s: casting, order, dtype, axes, axis, keepdims, signature.
        variant, tile, config, precision: The kernel, as ``matmul`` takes it.
        source: A file with CUDA C to run in place of the kernel's own.
        settings: How to run it.
    """
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ConfigError(f"a tuple for out has exactly one entry, for the one result; got {len(out)}")
        (out,) = out
    for name, x in (("x1", x1), ("x2", x2), *([] if out is None else [("out", out)])):
        if not isinstance(x, np.ndarray):
            kind = f"{type(x).__module__}.{type(x).__qualname__}"
            raise OperandTypeError(f"{name} must be a numpy.ndarray for the simulator, not {kind}")
    if out is not None and not out.flags.writeable:
        raise OperandTypeError("out is read-only")
    same = begin_together(x1, x2)
    product = resolve(describe(x1), describe(x2), None if out is None else describe(out), same_memory=same, **keywords)
    left, right = product.convert
    if product.convert != (None, None) or product.via_temporary:
        # Conversions that no kernel does, in passes of their own.
        x1 = x1 if left is None else x1.astype(left)
        x2 = x2 if right is None else x2.astype(right)
        target = np.empty(out.shape, product.compute.dtype) if product.via_temporary else out
        done = simulate(
            x1, x2, target, keywords, variant=variant, tile=tile, source=source, settings=settings, config=config,
            precision=precision,
        )  # fmt: skip
        if not product.via_temporary:
            return done
        np.copyto(out, done.result, casting=keywords.get("casting", "same_kind"))
        return replace(done, result=out)
    model = _model(may_split(precision))
    choice = select(**kernel_of(product, variant, tile, config, precision, model), model=model)
    return _Run(choice, source, settings).on(x1, x2, out)


@functools.lru_cache
def _model(splits: bool) -> Model:
    """What ``auto`` takes here: of an H100's kernels, those that can be simulated."""
    return Model(candidates=[each for each in candidates(splits) if find_variant(each.variant).simulated])


class _Run:
    """One product, by one kernel or several.

    What is reported is of the one that multiplies (the first part of C, where it is cut into parts), but for what is
    wrong, which is reported of all.
    """

    def __init__(self, choice: Choice, source: Path | None, settings: Settings) -> None:
        self.product, self.settings = choice.product, settings
        self.kernels: list[_Kernel] = []
        self.scratch: list[geometry.Scratch] = []
        for number, part in enumerate(choice.parts):
            if not part.specialization.variant.simulated:
                raise ConfigError(f"variant {part.specialization.variant.name!r} cannot be simulated")
            planned = passes.schedule(part.specialization, part.product.problem)
            # Names as the first part has them.
            names = {"A": "B", "B": "A"} if part.product.swapped != self.product.swapped else {}
            names |= {each.name: f"{each.name}{number or ''}" for each in planned.scratch}
            self.scratch += [replace(each, name=names[each.name]) for each in planned.scratch]
            for each in planned.launches:
                multiplying = number == 0 and each is planned.multiplying
                if multiplying:
                    self.main = len(self.kernels)
                named = replace(each, operands=tuple(names.get(name, name) for name in each.operands))
                found = names.get(passes.FINDINGS, "")
                self.kernels.append(_Kernel(named, source if multiplying else None, settings, found))

    def on(self, x1: Any, x2: Any, out: Any) -> Simulation:
        product = self.product
        for name, x in (("x1", x1), ("x2", x2), ("out", out)):
            if x is not None and x.ctypes.data % x.dtype.itemsize:
                raise AlignmentError(
                    f"{name} begins at an address that is not a multiple of its {x.dtype.itemsize}-byte elements; "
                    "a GPU cannot read it in place: copy it first (x.copy())"
                )
        result = np.empty(product.shape, product.result_type, order=product.order) if out is None else out  # type: ignore[call-overload]
        first, second = (x2, x1) if product.swapped else (x1, x2)
        spans = product.spans
        placed = [
            _Placed("A", first, spans[1 if product.swapped else 0]),
            _Placed("B", second, spans[0 if product.swapped else 1]),
            _Placed("C", result, spans[2]),
        ]
        if product.problem.is_empty:
            return Simulation(result, self._report([], placed))
        for scratch in self.scratch:
            rows = np.empty((*scratch.shape[:-1], scratch.pitch), scratch.element.dtype)
            placed.append(_Placed(scratch.name, rows[..., : scratch.shape[-1]], Span(0, rows.nbytes)))
        memory = machine.Memory([each.room for each in placed])
        try:
            for piece, each in enumerate(placed):
                each.place(memory, piece, filled=each.name in ("A", "B"))
            outcomes = []
            for offsets in product.problem.outer_offsets():
                self._forget_findings(placed)
                outcomes.append([self._launch(kernel, placed, offsets) for kernel in self.kernels])
            report = self._report(outcomes, placed)
            if self.settings.checks and not any(each.kind in _ENDS_A_RUN for each in report.findings):
                missing = (found for each in placed[2:] for found in self._not_written(each, each is placed[2]))
                report = replace(report, findings=(*report.findings, *missing))
            kernel, outcome = self.kernels[self.main], outcomes[0][self.main]
            events, barriers = tuple(kernel.events(outcome, placed)), kernel.barriers(outcome)
            result[...] = placed[2].view()
        finally:
            memory.release()
        return Simulation(result, report, events, barriers)

    def _launch(self, kernel: _Kernel, placed: list[_Placed], offsets: tuple[int, int, int]) -> machine.Outcome:
        starts = dict(zip("ABC", offsets, strict=True))
        arrays = {each.name: each for each in placed}
        operands = [arrays[name] for name in kernel.launch.operands]
        pointers = [
            each.origin + starts.get(each.name, 0) * each.itemsize + begin
            for each, begin in zip(operands, kernel.launch.begins, strict=True)
        ]
        if kernel.spec.condition == "does not split":
            operands[-1].begin_anew()  # the others' result, if there is one, gives way to this
        return kernel.run(operands, pointers, arrays.get(kernel.found))

    def _forget_findings(self, placed: list[_Placed]) -> None:
        """What is found of operands that are split is as it is before the first launch."""
        for kernel in self.kernels:
            for array in placed:
                if kernel.launch.findings and array.name == kernel.found:
                    array.memory[:] = passes.UNFOUND
                    array.begin_anew()
                    for begin in kernel.launch.findings:  # which all blocks look at, and write, as they come
                        array.cells[begin : begin + passes.FINDINGS_HEAD] = machine.ANYBODYS

    def _report(self, outcomes: list[list[machine.Outcome]], placed: list[_Placed]) -> Report:
        kernel, settings, problem = self.kernels[self.main], self.settings, self.product.problem
        of_kernel = [[each[i] for each in outcomes] for i in range(len(self.kernels))]
        done = of_kernel[self.main]
        counts = kernel.line_counts(done)
        found = [each for one, its in zip(self.kernels, of_kernel, strict=True) for each in one.findings(its, placed)]
        return Report(
            symbol=kernel.spec.symbol,
            target=kernel.target.name,
            sizes=(problem.m, problem.n, problem.k, problem.products),
            element_bytes=kernel.spec.a.itemsize,
            grid=(*kernel.launch.grid, 1) if outcomes else (0, 0, 0),
            block=(*kernel.spec.block, 1),
            findings=tuple(found),
            barriers=sum(each.barriers for each in done),
            flops=sum(each.flops for each in counts),
            source=total(each.source for each in counts),
            machine=total(each.machine or Traffic() for each in counts) if settings.machine else None,
            lines=counts,
            text=kernel.text,
            seconds=sum(each.seconds for its in of_kernel for each in its),
        )

    def _not_written(self, array: _Placed, is_result: bool) -> tuple[Finding, ...]:
        """Elements of the result, or of what launches pass on, that are as they were."""
        missing = np.argwhere(array.of_elements(array.written) == 0)
        kernels = [each for each in self.kernels if each.launch.operands[-1] == array.name]
        idle = not is_result and any(each.spec.condition == "splits" for each in kernels) and not array.written.any()
        if not len(missing) or not kernels or idle:
            return ()
        symbol = kernels[0].spec.symbol
        first = tuple(int(i) for i in missing[0])
        message = f"{symbol}: {NOT_WRITTEN}: {len(missing):,} of {array.array.size:,} elements, the first at {first}"
        nowhere = (0, 0, 0)
        return (Finding(NOT_WRITTEN, message, 0, "", nowhere, nowhere, None, None, None, None, len(missing)),)


class _Kernel:
    """One launch of a product, its kernel compiled for the CPU."""

    def __init__(self, launch: geometry.Launch, source: Path | None, settings: Settings, found: str) -> None:
        self.launch, self.spec, self.settings = launch, launch.specialization, settings
        self.found = found  # name of the memory for what is found of operands, if there is any
        self.target = find_target(settings.target)
        self.text = render(self.spec) if source is None else _read(source, self.spec)
        path = toolchain.build_kernel(
            self.text,
            self.spec.symbol,
            arch=self.target.capability[0] * 100 + self.target.capability[1] * 10,
            instrumented=settings.instrumented,
        )
        self.code = machine.Code.load(path)
        self.debug = debug_info(path)
        self.lines = SourceLines(self.debug, self.text)

    def run(self, operands: list[_Placed], pointers: list[int], found: _Placed | None) -> machine.Outcome:
        width, height = self.spec.block
        settings = self.settings
        reached = [each.operand(writable=each is operands[-1]) for each in operands]
        words = self.launch.words
        if found is not None and self.launch.findings:
            reached.append(found.operand(writable=self.spec.condition == "finds"))
            words = np.append(words, [found.begin + begin for begin in self.launch.findings])
        return machine.execute(
            self.code,
            grid=(*self.launch.grid, 1),
            block=(width, height, 1),
            arguments=(*(ctypes.c_void_p(pointer) for pointer in pointers), words),
            operands=reached,
            shared=self.shared,
            checks=settings.checks,
            counts=settings.counts or settings.machine,
            order=settings.order,
            seed=settings.seed,
            traced_block=settings.traced_block,
            traced_arithmetic=settings.traced_arithmetic,
            max_steps=settings.max_steps,
            describe=self._describe() if settings.machine else None,
            workers=settings.workers,
            progress=settings.progress,
        )

    def line_counts(self, outcomes: list[machine.Outcome]) -> tuple[LineCounts, ...]:
        """What each source line did."""
        sites = [site for each in outcomes for site in each.sites]
        lines = self.lines.of([site.pc for site in sites])
        return line_counts(sites, lines, self.lines.text, machine_code=self.settings.machine)

    def findings(self, outcomes: list[machine.Outcome], placed: list[_Placed]) -> list[Finding]:
        """What is wrong with it."""
        found = [raw for each in outcomes for raw in each.findings]
        lines = self.lines.of([pc for raw in found for pc in (raw.pc, raw.other_pc) if pc])
        shared = tuple(
            Region(array.name, offset, size)
            for array, (offset, size) in zip(self.debug.shared_arrays(), self._shared_offsets, strict=True)
        )
        operands = tuple(Region(each.name, each.begin, each.bytes, each.itemsize) for each in placed)
        named = (finding(raw, self.spec.symbol, lines, self.lines.text, shared, operands) for raw in found)
        return [each for each in named if each]

    @functools.cached_property
    def shared(self) -> list[tuple[int, int]]:
        """Distance from the anchor, and size, of each shared array."""
        anchor = self.debug.address("tiledmm_anchor")
        return [(array.offset - anchor, array.bytes) for array in self.debug.shared_arrays()]

    def _describe(self) -> Callable[[int, str], tuple[int, int, int]]:
        from tiledmm.simulator.widths import Widths

        widths = Widths(self.text, self.spec.symbol, self.target.name)

        def describe(place: int, kind: str) -> tuple[int, int, int]:
            line = self.lines.of([place])[place]
            return line, *widths.of(line, kind)

        return describe

    def events(self, outcome: machine.Outcome, placed: list[_Placed]) -> Iterator[Event]:
        """What the threads of the traced block did, in the order in which they did it here."""
        width, height = self.spec.block
        lines = self.lines.of(event.pc for event in outcome.events)
        shared = list(zip((array.name for array in self.debug.shared_arrays()), self._shared_offsets, strict=True))
        indices = {each.name: each.indices() for each in placed} if outcome.events else {}

        @functools.cache  # threads come to the same places again and again
        def find(space: str, address: int, size: int) -> tuple[str, tuple[int, ...]]:
            if space == "shared":
                name, begin = next((name, at) for name, (at, extent) in shared if at <= address < at + extent)
                return name, ((address - begin) // size,)
            operand = next(each for each in placed if each.begin <= address < each.begin + each.bytes)
            flat = indices[operand.name][(address - operand.begin) // operand.itemsize]
            return operand.name, tuple(int(i) for i in np.unravel_index(flat, operand.array.shape))

        for raw in outcome.events:
            kind, space = machine.KINDS[raw.kind], machine.SPACES[raw.space]
            if kind == "barrier":
                continue
            thread = (raw.thread % width, raw.thread // width % height, raw.thread // (width * height))
            if kind == "arithmetic":
                yield Event(raw.step, thread, kind, "registers", "", (), 0, 0, lines[raw.pc])
                continue
            name, element = find(space, raw.address, raw.bytes)
            yield Event(raw.step, thread, kind, space, name, element, raw.bytes, raw.address, lines[raw.pc])

    def barriers(self, outcome: machine.Outcome) -> tuple[int, ...]:
        """The line of each barrier that the traced block came to."""
        places = [raw.pc for raw in outcome.events if machine.KINDS[raw.kind] == "barrier"]
        lines = self.lines.of(places)
        return tuple(lines[place] for place in places)

    @property
    def _shared_offsets(self) -> list[tuple[int, int]]:
        """Where each shared array begins, seen from the first, and its size."""
        first = min((offset for offset, _ in self.shared), default=0)
        return [(offset - first, size) for offset, size in self.shared]


# After these a kernel does not go on.
_ENDS_A_RUN = frozenset(
    {"global access out of bounds", "write to an operand", "shared access out of bounds", "subscript out of bounds",
     "misaligned access", "warp not converged", "runaway thread", "trap"}
)  # fmt: skip


class _Placed:
    """An array in the simulator's memory, with the strides that it has."""

    def __init__(self, name: str, array: np.ndarray[Any, Any], span: Span) -> None:
        self.name, self.array, self.span = name, array, span
        self.itemsize = array.dtype.itemsize
        self.bytes = span.stop - span.start
        # As far from a boundary of CuPy's allocations as it is from its own memory's beginning.
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self.phase = (array.ctypes.data + span.start - owner.ctypes.data) % _ALIGNMENT if array.size else 0
        self.room = self.bytes + _ALIGNMENT
        self.begin = 0
        self.cells = np.zeros(0, np.uint64)
        self.before = np.zeros(0, np.bool_)

    @property
    def origin(self) -> int:
        """Address of the array's first element."""
        return self.begin - self.span.start

    def place(self, memory: machine.Memory, piece: int, *, filled: bool) -> None:
        """Gives it an address, and its elements (others are NaNs)."""
        self.begin = memory.addresses[piece] + self.phase
        self.memory = memory.bytes(piece, self.phase + self.bytes)[self.phase :]
        self.memory[:] = 255
        if filled:
            self.view()[...] = self.array
        else:
            self.cells = np.zeros(self.bytes // self.itemsize, np.uint64)
            self.before = np.zeros(self.cells.shape, np.bool_)
        dense = self.array.size * self.itemsize == self.bytes
        self.valid = None if dense else np.zeros(self.bytes // self.itemsize, np.uint8)
        if self.valid is not None:
            self.of_elements(self.valid)[...] = 1

    def begin_anew(self) -> None:
        """Lets what was written be written again."""
        self.before |= self.cells != 0
        self.cells[:] = 0

    @property
    def written(self) -> np.ndarray[Any, Any]:
        """Of each place, whether something was ever written there."""
        written: np.ndarray[Any, Any] = self.before | (self.cells != 0)
        return written

    def view(self) -> np.ndarray[Any, Any]:
        """The array there."""
        shape, strides = self.array.shape, self.array.strides
        array: np.ndarray[Any, Any] = np.ndarray(shape, self.array.dtype, self.memory.data, -self.span.start, strides)
        return array

    def of_elements(self, marks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Of marks by place in memory, those of the array's elements, in the array's shape."""
        strides = tuple(stride // self.itemsize * marks.itemsize for stride in self.array.strides)
        first = -self.span.start // self.itemsize * marks.itemsize
        array: np.ndarray[Any, Any] = np.ndarray(self.array.shape, marks.dtype, marks.data, first, strides)
        return array

    def indices(self) -> np.ndarray[Any, Any]:
        """For each place in memory, the number of the element there (of one that is there several times, the last)."""
        found = np.full(self.bytes // self.itemsize, -1, np.int64)
        self.of_elements(found)[...] = np.arange(self.array.size).reshape(self.array.shape)
        return found

    def operand(self, *, writable: bool) -> machine.Operand:
        return machine.Operand(
            begin=self.begin,
            bytes=self.bytes,
            granule=self.itemsize,
            valid=None if self.valid is None else self.valid.ctypes.data,
            cells=self.cells.ctypes.data if writable else None,
        )


def _read(path: Path, spec: Specialization) -> str:
    """A user's kernel, to be run as if it were this one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"source={str(path)!r} cannot be read: {error}") from None
    if spec.symbol not in text:
        raise ConfigError(
            f"{path} does not define {spec.symbol}, the kernel of this call (its types, tile and layout); "
            "write what tiledmm.source gives for them to a file, and change that"
        )
    return text
