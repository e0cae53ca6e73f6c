"""Products of NumPy arrays, computed by CUDA C kernels on the CPU."""

from __future__ import annotations

import copy
import functools
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, cast

import numpy as np

from tiledmm.codegen.rendering import has_kernel
from tiledmm.errors import AlignmentError, ConfigError, KeywordValueError, OperandTypeError
from tiledmm.hardware.architectures import find_compile_target
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.launches import Form, Launch, Scratch
from tiledmm.kernels.operands.operand_scan import SCAN_HEAD, SCAN_INIT
from tiledmm.kernels.tensor_maps import ALIGNMENT
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import is_same
from tiledmm.problem.call import resolve_call
from tiledmm.problem.casting import loop_type
from tiledmm.problem.epilogue import EpilogueCall, EpilogueKeywords, resolve_epilogue
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.problem.prepared import PreparedOperand, array_of
from tiledmm.schedule.forms import places_of_scan
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import choose
from tiledmm.selection.model import H100, Model
from tiledmm.simulated.forms import HostForms
from tiledmm.simulated.product_report import ProductReport
from tiledmm.simulated.scheduled_launch import EpilogueMemory, ScheduledLaunch, Source
from tiledmm.simulator.check.finding_kinds import NOT_WRITTEN, UNSET_ELEMENT
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.schedules import SEEDS, at_seed, preemptive
from tiledmm.simulator.check.unset import VALUES
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.memory import BEFORE, Memory, Placed
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.events import Event, barrier_lines, events_of


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulated product.

    Attributes:
        result: The product.
        report: Counts and findings of its kernels.
        events: Accesses of the traced block of the kernel that multiplies; empty if no block is traced.
        barriers: Source line of each barrier of the traced block, in the order in which it waited at them.
        written: Bytes that the kernels left in the arrays that they write; only if ``Settings.build`` names a build,
            else empty.
        synchronizes: Whether threads used atomics, volatile accesses, fences or named barriers.
    """

    result: np.ndarray[Any, Any]
    report: ProductReport
    events: tuple[Event, ...] = ()
    barriers: tuple[int, ...] = ()
    written: tuple[np.ndarray[Any, np.dtype[np.uint8]], ...] = ()
    synchronizes: bool = False


def simulate_product(
    x1: Any,
    x2: Any,
    out: Any,
    ufunc: UfuncKeywords,
    kernel: KernelKeywords,
    settings: Settings,
    source: str | PathLike[str] | None = None,
    epilogue_keywords: EpilogueKeywords | None = None,
    *,
    prints: bool = False,
) -> Simulation:
    """Compute a product on the CPU, and return it with its report.

    Args:
        x1, x2, out: NumPy arrays; ``out`` may be None, and an operand a ``PreparedOperand`` of a NumPy array.
        ufunc, kernel: The keywords of ``matmul``.
        settings: Settings of the run, such as checks and the target architecture.
        source: CUDA C, or the path of a file with it. The kernels that it defines are run in place of the product's
            kernels of the same names.
        epilogue_keywords: The further keywords of ``gemm``; None for ``matmul``.
        prints: Whether the kernels' output is written to ``sys.stdout``: that of the first run only, before any other.

    Raises:
        OperandTypeError: If an operand is not a NumPy array.
        PreparedOperandError: If the array of a prepared operand is checked and has changed.
        KeywordValueError: If ``out`` is read-only.
        ConfigError: If the kernel cannot be simulated, or if ``source`` cannot be read or defines no kernel of the
            product.
        TiledmmError: If ``tiledmm.matmul`` or ``tiledmm.gemm`` raises it for such arguments.
    """
    prepared = x1, x2
    for name, x in (("x1", array_of(x1)), ("x2", array_of(x2)), *([] if out is None else [("out", out)])):
        if not isinstance(x, np.ndarray) or isinstance(x, np.ma.MaskedArray):
            kind = f"{type(x).__module__}.{type(x).__qualname__}"
            raise OperandTypeError(f"{name} must be a numpy.ndarray for the simulator, not {kind}")
    if out is not None and not out.flags.writeable:
        raise KeywordValueError("out is read-only")
    epilogue = EpilogueCall()
    if epilogue_keywords is not None:
        epilogue = resolve_epilogue(loop_type(x1.dtype, x2.dtype, ufunc.dtype), ufunc.casting, epilogue_keywords)
    call = resolve_call(x1, x2, out, ufunc, epilogue)
    model = functools.partial(_model, settings.target)
    choice, text = choose(call, kernel, model, tuned=False), None if source is None else Source.read(source)
    forms = [_forms_of(x) for x in prepared]
    x1, x2 = map(array_of, prepared)
    left, right = call.product.convert
    x1 = x1 if left is None else x1.astype(left)
    x2 = x2 if right is None else x2.astype(right)
    choice = _with_aligned_operands(choice, x1, x2)
    run = _ProductRun(choice, text, settings, forms)
    if call.product.via_temporary:
        done = run.on(x1, x2, np.empty(out.shape, call.product.compute.result.dtype), epilogue)
        np.copyto(out, done.result, casting=ufunc.casting)  # type: ignore[arg-type]
        done = replace(done, result=out)
    else:
        done = run.on(x1, x2, out, epilogue)
    if prints:
        sys.stdout.write(done.report.output)
    if settings.checks == "full" and done.report.ok and run.launches:
        choice = choice.unprepared()
        found = _closer(choice, text, settings, x1, x2, epilogue)
        if done.synchronizes and not found:
            found = _in_other_orders(choice, text, settings, x1, x2, epilogue)
        done = replace(done, report=replace(done.report, findings=tuple(found)))
    return done


def _forms_of(x: Any) -> HostForms | None:
    """Return the forms of a prepared operand, for reading; None for any other operand.

    Raises:
        PreparedOperandError: If its array is checked and has changed.
    """
    if not isinstance(x, PreparedOperand):
        return None
    x.forms.read()
    return cast(HostForms, x.forms)


def _closer(
    choice: Choice, source: Source | None, settings: Settings, x1: Any, x2: Any, epilogue: EpilogueCall
) -> list[Finding]:
    """Run a product again with its kernels in other builds, and return the findings that only these builds give.

    Returns:
        Accesses outside of a thread's variables. If there are none, the uses of variables that were read before they
        were set, but only if the product depends on their values.
    """
    runs = {build: _ProductRun(choice, source, settings.alone(build)) for build in ("guarded", "checked", "zeroed")}
    done = {build: run.on(x1, x2, None, epilogue) for build, run in runs.items()}
    guarded = done["guarded"].report.findings
    outside = [each for each in guarded if each.kind != UNSET_ELEMENT]
    if outside:
        return outside
    checked = runs["checked"]
    filled = (run.on(x1, x2, None, epilogue) for value in VALUES if (run := checked.filled(value)))
    if not any(_differ(done["checked"], other) for other in itertools.chain([done["zeroed"]], filled)):
        return []
    launches = checked.launches
    found = [each for launch in launches for each in launch.kernel_findings.unset_variables({})]
    found += [each for each in guarded if each.kind == UNSET_ELEMENT]
    return found or [launches[checked.main].kernel_findings.unset_result("the product")]


def _in_other_orders(
    choice: Choice, source: Source | None, settings: Settings, x1: Any, x2: Any, epilogue: EpilogueCall
) -> list[Finding]:
    """Run a product again in other orders of threads, and return the errors of the first in which there are any."""
    for seed in SEEDS:
        report = _ProductRun(choice, source, preemptive(settings, seed)).on(x1, x2, None, epilogue).report
        if report.findings:
            return at_seed(report.findings, seed)
    return []


def _differ(one: Simulation, other: Simulation) -> bool:
    """Return whether two runs left different bytes in the arrays that their kernels wrote."""
    return not all(map(np.array_equal, one.written, other.written))


@functools.lru_cache
def _model(target: str, ieee: bool) -> Model:
    """Return the model with which ``auto`` selects kernels for a target architecture.

    It contains only variants that can be simulated, with their rates on an H100.

    Args:
        target: The target architecture, such as ``"sm_90"``.
        ieee: Whether to choose only kernels whose products are multiply-adds in the elements' own type.
    """
    rates = H100.rates.only(lambda variant: find_variant(variant).simulated)
    return Model(REFERENCE_GPUS[find_compile_target(target).name], rates, ieee=ieee)


def _with_aligned_operands(choice: Choice, x1: Any, x2: Any) -> Choice:
    """Return a choice whose kernels pack the operands if TMA would read one at an address that is not aligned."""
    for part in choice.parts:
        if not part.spec.variant.hopper.tma:
            continue
        arrays = {"A": x2, "B": x1} if part.product.is_transposed else {"A": x1, "B": x2}
        planned = part.schedule
        launches = (each for each in planned.launches if each.maps)
        names = {name for each in launches for name in each.operands} & arrays.keys()
        if any(Placed(name, arrays[name]).offset % ALIGNMENT for name in names):
            return choice.with_packing()
    return choice


class _ProductRun:
    """A product that can be run by the kernels of its schedule.

    Counts are of the kernel that multiplies (for the first part of C, if C is divided into parts); findings are of all
    kernels.

    Args:
        choice: The kernels.
        source: CUDA C of the user; None for none.
        settings: Settings of the run.
        forms: Forms of x1 and of x2; None for operands that are not prepared.
    """

    def __init__(
        self,
        choice: Choice,
        source: Source | None,
        settings: Settings,
        forms: Sequence[HostForms | None] = (None, None),
    ) -> None:
        self.product, self.settings = choice.product, settings
        self._forms: dict[tuple[HostForms, Form], dict[str, str]] = {}  # names of the arrays in this product
        self._needs_operands = choice.needs_operands
        self._spans = [(each.start, each.stop) for each in choice.product.spans]
        self.launches: list[ScheduledLaunch] = []
        self.scratch: list[Scratch] = []
        for number, part in enumerate(choice.parts):
            if not (variant := part.spec.variant).simulated:
                raise ConfigError(
                    f"variant {variant.name!r} cannot be simulated, because it calls cupy.matmul, which needs a GPU: "
                    "numpy.matmul computes the product on the CPU"
                )
            planned = part.schedule
            # Operands have the names of the first part.
            names = {"A": "B", "B": "A"} if part.product.is_transposed != self.product.is_transposed else {}
            names |= {each.name: f"{each.name}{number or ''}" for each in planned.scratch}
            self.scratch += [replace(each, name=names[each.name]) for each in planned.scratch]
            for reuse in planned.forms:
                held = forms[reuse.operand ^ part.product.is_transposed]
                assert held is not None
                names |= self._names_of(held, reuse.form, names, number, source)
            places = {name: (own, 0) for name, own in names.items()}
            for each in planned.launches:
                multiplying = number == 0 and each is planned.multiplying
                if multiplying:
                    self.main = len(self.launches)
                self._add(each, names, places_of_scan(planned, each, places), source)
        if source and not any(has_kernel(source.text, each.spec.symbol) for each in self.launches):
            symbols = ", ".join(dict.fromkeys(each.spec.symbol for each in self.launches))
            raise ConfigError(
                f"{source.name} defines none of the kernels of this product, which for its types, tile and layout are "
                f"{symbols}: edit the text that tiledmm.source returns for these"
            )

    def _names_of(
        self, held: HostForms, form: Form, names: Mapping[str, str], number: int, source: Source | None
    ) -> dict[str, str]:
        """Return the names of a form's arrays in this product. Add its launches if no product has made it yet.

        Args:
            held: Forms of the operand.
            form: The form.
            names: Names of the operands in this product.
            number: Number of the part of C.
            source: CUDA C of the user; None for none.
        """
        own = self._forms.get((held, form))
        if own is None:
            own = self._forms[held, form] = {each.name: f"{each.name}{number or ''}" for each in form.memory}
            if form not in held.made:
                scan = [] if form.scan is None else [(own[form.scan.name], 0)] * 2
                for each in form.launches:
                    self._add(each, {**names, **own}, scan if each.scan else [], source)
        return own

    def _add(
        self, launch: Launch, names: Mapping[str, str], scan: Sequence[tuple[str, int]], source: Source | None
    ) -> None:
        """Add a launch whose arrays have other names in this product."""
        named = replace(launch, operands=tuple(names.get(name, name) for name in launch.operands))
        self.launches.append(ScheduledLaunch(named, source, self.settings, scan))

    def filled(self, value: str) -> _ProductRun | None:
        """Return a copy of this run whose kernels give a value to variables that may be read before they are set.

        Args:
            value: One of ``check.unset.VALUES``.

        Returns:
            The copy; None if no kernel has such variables.
        """
        launches = [each.filled(value) for each in self.launches]
        if not any(launches):
            return None
        same = copy.copy(self)
        same.launches = [new or old for new, old in zip(launches, self.launches, strict=True)]
        return same

    def on(self, x1: Any, x2: Any, out: Any, epilogue: EpilogueCall) -> Simulation:
        product = self.product
        for name, x in (("x1", x1), ("x2", x2), ("out", out)):
            if x is not None and x.ctypes.data % x.dtype.itemsize:
                raise AlignmentError(
                    f"the address of {name} is not a multiple of its element size, {x.dtype.itemsize} bytes, so a GPU "
                    f"cannot access it: pass a copy ({name}.copy())"
                )
        result = np.empty(product.shape, product.result_type, order=product.order) if out is None else out  # type: ignore[call-overload]
        first, second = (x2, x1) if product.is_transposed else (x1, x2)
        placed = [
            Placed("A", first, self._spans[1 if product.is_transposed else 0]),
            Placed("B", second, self._spans[0 if product.is_transposed else 1]),
            Placed("C", result, self._spans[2]),
        ]
        if product.problem.is_empty or (product.problem.k == 0 and self._needs_operands):
            result.fill(0)  # a sum of no terms
            return Simulation(result, self._report([], placed))
        read, in_place = self._read_by_epilogue(epilogue, out, placed[2])
        placed += [_placed(scratch.name, scratch) for scratch in self.scratch]
        kept: list[Placed] = []  # what earlier products have made
        for (held, form), names in self._forms.items():
            made = held.made.get(form)
            arrays = [_placed(names[each.name], each, made and made[i]) for i, each in enumerate(form.memory)]
            placed += arrays
            kept += arrays if made else []
        regions = [*placed, *(each for each in read if each is not placed[2])]
        memory = Memory([each.reserved_bytes for each in regions])
        try:
            for region, each in enumerate(regions):
                if in_place and each is placed[2]:
                    each.place(memory, region, filled=True, written=True)
                else:
                    each.place(memory, region, filled=each not in placed[2:] or each in kept)
            outcomes = []
            for offsets in product.problem.outer_offsets():
                self._reset_scan(placed)
                addresses = [
                    each.origin + offset * each.itemsize for each, offset in zip(read, offsets[3:], strict=True)
                ]
                read_by_epilogue = EpilogueMemory(read, addresses, epilogue.scalars)
                outcomes.append([self._run(launch, placed, offsets, read_by_epilogue) for launch in self.launches])
            report = self._report(outcomes, placed)
            if self.settings.checks and not any(each.kind in _ENDS_A_RUN for each in report.findings):
                written_to = (each for each in placed[2:] if each not in kept)
                missing = (found for each in written_to for found in self._not_written(each, each is placed[2]))
                report = replace(report, findings=(*report.findings, *missing))
            if not report.findings:
                self._keep(placed)
            main, outcome = self.launches[self.main], outcomes[0][self.main]
            events = tuple(events_of(main.kernel, outcome, placed, main.block))
            barriers = barrier_lines(main.kernel, outcome)
            result[...] = placed[2].view()
            # Runs that are compared also differ in what one launch leaves for the next.
            written = tuple(each.memory.copy() for each in placed[2:]) if self.settings.build else ()
        finally:
            memory.release()
        synchronizes = any(each.synchronizes for its in outcomes for each in its)
        return Simulation(result, report, events, barriers, written, synchronizes)

    def _keep(self, placed: Sequence[Placed]) -> None:
        """Keep the arrays of the forms that this product has made."""
        arrays = {each.name: each for each in placed}
        for (held, form), names in self._forms.items():
            if form not in held.made:
                contents = [arrays[names[each.name]].memory.tobytes() for each in form.memory]
                held.made[form] = [
                    np.frombuffer(content, each.element.dtype).reshape(*each.shape[:-1], each.pitch)
                    for each, content in zip(form.memory, contents, strict=True)
                ]

    def _read_by_epilogue(self, epilogue: EpilogueCall, out: Any, result: Placed) -> tuple[list[Placed], bool]:
        """Return the arrays that the epilogue reads, and whether the result is one of them."""
        names = epilogue.epilogue.names if epilogue.epilogue else ()
        each = zip(names, epilogue.arrays, self._spans[3:], strict=True)
        read = [result if is_same(array, out) else Placed(name, array, span) for name, array, span in each]
        return read, result in read

    def _run(
        self, launch: ScheduledLaunch, placed: list[Placed], offsets: tuple[int, ...], read_by_epilogue: EpilogueMemory
    ) -> Outcome:
        starts = dict(zip("ABC", offsets[:3], strict=True))
        arrays = {each.name: each for each in placed}
        operands = [arrays[name] for name in launch.entry.operands]
        pointers = [
            each.origin + starts.get(each.name, 0) * each.itemsize + begin
            for each, begin in zip(operands, launch.entry.begins, strict=True)
        ]
        # This launch replaces the result of the others, or the zeros in it, or what nobody reads above the diagonal.
        half = launch.spec.config.triangle and operands[-1].name != "C"
        if launch.spec.condition == "unless decomposed" or launch.spec.variant.plain or half:
            operands[-1].allow_rewriting()
        # A launch whose blocks wait first may begin before those before it have ended, also those of another product.
        for each in (*placed, *read_by_epilogue.arrays):
            each.pending = launch.spec.waits == "first"
        scan = [(arrays[name], begin) for name, begin in launch.scan]
        return launch.run(operands, pointers, scan, read_by_epilogue)

    def _reset_scan(self, placed: list[Placed]) -> None:
        """Fill the scratch memory of the operand scan with its initial value, as before the first launch.

        The operand scan is what kernels record about the operands' values. Its first bytes count as written before the
        launch.
        """
        arrays = {each.name: each for each in placed}
        written = {each for launch in self.launches if launch.spec.condition == "scan" for each in launch.scan}
        for name in {name for name, _ in written}:
            arrays[name].memory[:] = SCAN_INIT
            arrays[name].allow_rewriting()
        for name, begin in written:
            arrays[name].writes[begin : begin + SCAN_HEAD, 0] = BEFORE

    def _report(self, outcomes: list[list[Outcome]], placed: list[Placed]) -> ProductReport:
        main, settings, problem = self.launches[self.main], self.settings, self.product.problem
        of_launch = [[each[i] for each in outcomes] for i in range(len(self.launches))]
        found = [each for one, its in zip(self.launches, of_launch, strict=True) for each in one.findings(its, placed)]
        return ProductReport.of(
            main.kernel,
            of_launch[self.main],
            found,
            grid=main.grid if outcomes else (0, 0, 0),
            block=main.block,
            sass=settings.sass is not None,
            sizes=(problem.m, problem.n, problem.k, problem.products),
            element_bytes=main.spec.a.itemsize,
            seconds=sum(each.seconds for its in of_launch for each in its),
            output="".join(each.output for its in outcomes for each in its),
        )

    def _not_written(self, array: Placed, is_result: bool) -> tuple[Finding, ...]:
        """Return a finding if an array has elements that no launch wrote; else an empty tuple.

        Args:
            array: The result, or an array that passes data to the next launch.
            is_result: Whether it is the result.
        """
        missing = np.argwhere(array.of_elements(array.written) == 0)
        launches = [each for each in self.launches if each.entry.operands[-1] == array.name]
        conditional = any(each.spec.condition == "if decomposed" for each in launches)
        idle = not is_result and conditional and not array.written.any()
        # Kernels that compute a triangle do not write intermediate results above the diagonal, and nothing reads them.
        half = not is_result and any(each.spec.config.triangle for each in launches)
        if not len(missing) or not launches or idle or half:
            return ()
        symbol = launches[0].spec.symbol
        first = tuple(int(i) for i in missing[0])
        message = f"{symbol}: {NOT_WRITTEN}: {len(missing):,} of {array.array.size:,} elements, the first at {first}"
        nowhere = (0, 0, 0)
        return (Finding(NOT_WRITTEN, message, 0, "", "", nowhere, nowhere, None, None, None, None, None, len(missing)),)


def _placed(name: str, scratch: Scratch, rows: Any = None) -> Placed:
    """Return an array of scratch memory, or of a form, in the simulator's memory.

    Args:
        name: Name of the array in this product.
        scratch: Description of the array.
        rows: Its content, with the padding of its rows; None for none yet.
    """
    if rows is None:
        rows = np.empty((*scratch.shape[:-1], scratch.pitch), scratch.element.dtype)
    return Placed(name, rows[..., : scratch.shape[-1]], (0, rows.nbytes))


# After these the kernel does not continue.
_ENDS_A_RUN = frozenset(
    {"global access out of bounds", "write to an operand", "shared access out of bounds", "subscript out of bounds",
     "misaligned access", "warp not converged", "runaway thread", "trap"}
)  # fmt: skip
