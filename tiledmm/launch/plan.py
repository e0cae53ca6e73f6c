"""Plan: the launches of a product, prepared once for all arrays of the same description, and run for each call.

Kernels may need workspace: scratch memory for limbs, packed operands or partial sums. If it cannot be allocated, a
plan of ``auto`` passes the call on to another plan, which has the fastest kernels that need at most half as much
workspace, and so on until none is needed. Later calls try the fastest kernels again, because memory may have become
free, and then the plan that worked last. So only one allocation fails per call. A failed allocation takes
milliseconds, in which CuPy also returns its free blocks to the driver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import cupy

from tiledmm.compile.compilation import raw_kernels
from tiledmm.errors import AlignmentError
from tiledmm.kernels.launches import Form
from tiledmm.kernels.operands.operand_scan import SCAN
from tiledmm.kernels.tensor_maps import ALIGNMENT
from tiledmm.launch.allocation import NoFormError, NoWorkspaceError, allocated, is_out_of_memory
from tiledmm.launch.devices import as_cupys
from tiledmm.launch.prepared import (
    FORMS,
    NOTHING,
    OUT,
    SCRATCH,
    X1,
    X2,
    Addresses,
    PreparedLaunch,
    Read,
    fill,
    read_by,
)
from tiledmm.problem.arrays import Allocate, is_same
from tiledmm.problem.epilogue import EpilogueCall
from tiledmm.problem.prepared import PreparedOperand
from tiledmm.schedule.forms import places_of_scan
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import Within, packed_within, unprepared_within

# Maximum number of sets of addresses for which a plan keeps the arguments of its kernels. A dozen addresses of results
# in CuPy's pool, with a dozen sets of operands, are more than a hundred.
_KEPT_ARGUMENTS = 1024


class Plan:
    """Kernels of a product on one device, ready to run on any arrays of the same description.

    Args:
        choice: The kernels.
        within: Function that returns other kernels if there is no memory for the workspace of these. None: ``run``
            then raises an error.
    """

    __slots__ = (
        "_aligned", "_forms", "_is_empty", "_is_prepared", "_packing", "_sent", "_smaller", "_spans", "_unprepared",
        "_within", "alignment", "choice", "launches", "product", "scans", "scratch_bytes",
    )  # fmt: skip

    def __init__(self, choice: Choice, within: Within | None = None) -> None:
        self.choice = choice
        self._within = within
        self._smaller: Plan | None = None
        self.product = product = choice.product
        self.alignment = max(each.itemsize for each in (product.a, product.b, product.c)) - 1
        self.launches: list[PreparedLaunch] = []  # empty if there is nothing to multiply
        self.scratch_bytes = 0
        self.scans: list[tuple[int, int]] = []  # offsets and bytes of scratch memory to fill with SCAN_INIT first
        self._is_empty, self._is_prepared = product.problem.is_empty, any(product.prepared)
        self._spans = [(span.start, span.stop) for span in product.spans]
        self._aligned = [0, 0]  # bits that must be 0 in x1's and x2's address for TMA to read them in place
        self._packing: Plan | None = None
        self._unprepared: Plan | None = None
        self._forms: dict[tuple[int, Form], int] = {}  # forms of x1 and x2, with their indices in ``Addresses``
        self._sent: dict[tuple[Addresses, Read], list[Callable[[], Any]]] = {}
        if self._is_empty or (product.problem.k == 0 and choice.needs_operands):
            return
        shares, schedules = choice.shares_workspace, choice.schedules
        kernels = iter(raw_kernels([launch.spec for planned in schedules for launch in planned.launches]))
        for part, planned in zip(choice.parts, schedules, strict=True):
            arrays = {"A": X1, "B": X2, "C": OUT}
            if part.product.is_transposed:
                arrays |= {"A": X2, "B": X1}
            places = {name: (array, 0) for name, array in arrays.items()}
            scan, end = None, 0 if shares else self.scratch_bytes
            for memory in planned.scratch:
                places[memory.name] = SCRATCH, end
                if memory.name == SCAN:
                    scan = end, memory.bytes
                end += memory.aligned_bytes
            self.scratch_bytes = max(self.scratch_bytes, end)
            if scan and not shares:
                self.scans.append(scan)
            for reuse in planned.forms:
                form = arrays["AB"[reuse.operand]], reuse.form
                places |= reuse.form.places(self._forms.setdefault(form, FORMS + len(self._forms)))
            for i, each in enumerate(planned.launches):
                operands = [
                    (places[name][0], places[name][1] + begin)
                    for name, begin in zip(each.operands, each.begins, strict=True)
                ]
                # The first launch of a part that shares its workspace waits until the part before no longer reads that.
                begins = shares and i == 0
                prepared = PreparedLaunch(
                    each, next(kernels), operands, places_of_scan(planned, each, places), begins or not self.launches
                )
                prepared.fills = scan if begins else None
                prepared.is_usual &= not self._is_prepared
                self.launches.append(prepared)
                for name in ("A", "B"):
                    if each.maps and name in each.operands:
                        self._aligned[arrays[name]] = ALIGNMENT - 1

    def run(
        self,
        x1: Any,
        x2: Any,
        out: Any,
        epilogue: EpilogueCall | None = None,
        allocate: Allocate | None = None,
    ) -> Any:
        """Compute the product of two arrays.

        Args:
            x1, x2: The operands: CuPy arrays, a ``ForeignArray``, or a ``PreparedOperand``.
            out: The array for the result; None for a new one.
            epilogue: The arrays and numbers that the plan's epilogue reads.
            allocate: Function that allocates a new array; None for CuPy's.

        Returns:
            ``out``, or the new array.

        Raises:
            PreparedOperandError: If the array of a prepared operand is checked and has changed, or if a graph is
                captured before its forms have been made.
            MemoryError: CuPy's error, if there is no memory for the result, or none for the workspace and no kernel
                that needs less.
            AlignmentError: If an address is not a multiple of the element size.
        """
        product, first, second = self.product, x1.data.ptr, x2.data.ptr
        if first & self._aligned[X1] or second & self._aligned[X2]:
            return self._packed().run(x1, x2, out, epilogue, allocate)
        if out is None:
            if allocate is None:
                result = cupy.ndarray(product.shape, product.result_type, order=product.order)
            else:
                result = allocate(product.shape, product.result_type, product.order)
        elif self.launches and (
            self._overlaps(first, second, out.data.ptr) or (epilogue and self._spoils(epilogue, out))
        ):
            result = self._apart(out)
        else:
            result = out
        if self._is_empty:
            return result
        third = result.data.ptr
        if (first | second | third) & self.alignment:
            _check_alignment(("x1", "x2", "out"), (x1, x2, result))
        if product.epilogue is not None and epilogue is not None:
            _check_alignment(product.epilogue.names, epilogue.arrays)
        try:
            if not self.launches:
                as_cupys(result).fill(0)  # a sum of no terms
            elif product.problem.outer:
                steps = []
                for a, b, c, *others in product.problem.outer_offsets():
                    if product.is_transposed:
                        a, b = b, a
                    begin = first + a * x1.itemsize, second + b * x2.itemsize, third + c * result.itemsize
                    steps.append((*begin, read_by(epilogue, others)))
                self._launch(steps, x1, x2)
            elif len(self.launches) > 1 or not self.launches[0].is_usual:
                self._launch([(first, second, third, read_by(epilogue))], x1, x2)
            else:
                left, right = (second, first) if product.is_transposed else (first, second)
                only = self.launches[0]
                only.function(only.grid, only.block, (left, right, third, only.problem), only.shared)
        except NoFormError:
            self._without_forms().run(x1, x2, result, epilogue)
        except NoWorkspaceError as failed:
            smaller = self._with_less_workspace()
            if smaller is None:
                raise failed.with_purpose(self.choice) from None
            smaller.run(x1, x2, result, epilogue)
            self._smaller = smaller._smaller or smaller  # the next call skips the plans in between, which failed
        if out is not None and result is not out:
            as_cupys(out)[...] = result
            return out
        return result

    def launch_functions(self, x1: Any, x2: Any, out: Any) -> list[Callable[[], None]]:
        """Return one function per launch of the product, so that launches can be timed one by one.

        The result in ``out`` is correct once all functions were called in order.
        """
        memory = cupy.cuda.alloc(max(self.scratch_bytes, 1))
        addresses = (x1.data.ptr, x2.data.ptr, out.data.ptr, memory.ptr, *self._addresses_of_forms(x1, x2))
        self._send(addresses)
        held = x1, x2, out, memory

        def call(launch: Callable[[], Any]) -> Callable[[], None]:
            return lambda: launch() if held else None

        return [call(each) for each in self._launches_at(addresses)]

    def _with_less_workspace(self) -> Plan | None:
        """Return the plan of the fastest kernels that need at most half as much workspace; None if there are none.

        Halving the limit keeps the number of attempts small.
        """
        if self._smaller is None and self._within is not None:
            most = self.scratch_bytes // 2
            choice = self._within(lambda choice: choice.workspace <= most)
            self._smaller = Plan(choice, self._within) if choice else None
        return self._smaller

    def _packed(self) -> Plan:
        """Return the plan that packs operands first, for operands from whose addresses TMA cannot read."""
        if self._packing is None:
            self._packing = Plan(self.choice.with_packing(), self._within and packed_within(self._within))
        return self._packing

    def make_forms(self, x1: Any, x2: Any) -> None:
        """Make the forms of prepared operands that this product reads, without computing it.

        Args:
            x1, x2: The operands, as for ``run``. An operand that is not prepared is not read.

        Raises:
            MemoryError: CuPy's error, if there is no memory for a form.
        """
        if x1.data.ptr & self._aligned[X1] or x2.data.ptr & self._aligned[X2]:
            self._packed().make_forms(x1, x2)
            return
        try:
            self._addresses_of_forms(x1, x2)
        except NoFormError as failed:
            raise failed.error from None

    def _without_forms(self) -> Plan:
        """Return the plan of the same kernels that prepares its operands in each product."""
        if self._unprepared is None:
            self._unprepared = Plan(self.choice.unprepared(), self._within and unprepared_within(self._within))
        return self._unprepared

    def _addresses_of_forms(self, x1: Any, x2: Any) -> tuple[int, ...]:
        """Return the addresses of the forms of prepared operands, which are made if necessary.

        Work that is launched after this call may read the operands and their forms.

        Raises:
            PreparedOperandError: As for ``run``.
            NoFormError: If there is no memory for a form.
        """
        operands = x1, x2  # in the order of their indices
        for x in operands:
            if isinstance(x, PreparedOperand):
                x.forms.read()
        try:
            return tuple(operands[array].forms.address(form) for array, form in self._forms)
        except Exception as error:
            if is_out_of_memory(error):
                raise NoFormError(error) from error
            raise

    def _launch(self, steps: Sequence[tuple[int, int, int, Read]], x1: Any, x2: Any) -> None:
        """Launch all kernels of a product once per step, in stream order.

        Scratch memory is allocated once and before anything is launched, so that nothing has been written if that
        fails. It is from CuPy's pool, which may reuse it for later work on the same stream. A graph that is being
        captured may run at any later time, so its scratch memory is allocated and freed by the graph itself.

        Args:
            steps: For each step, the addresses of x1, x2 and the result, and what the epilogue reads.
            x1, x2: The operands.

        Raises:
            NoWorkspaceError: If the scratch memory cannot be allocated.
            NoFormError: If a form of a prepared operand cannot be allocated.
        """
        forms = self._addresses_of_forms(x1, x2) if self._is_prepared else ()
        scratch, captured = 0, None
        if self.scratch_bytes:
            stream = cupy.cuda.get_current_stream()
            if stream.is_capturing():
                scratch, captured = allocated(cupy.cuda.runtime.mallocAsync, self.scratch_bytes, stream.ptr), stream
            else:
                memory = allocated(cupy.cuda.alloc, self.scratch_bytes)  # referenced until all kernels are launched
                scratch = memory.ptr
        for first, second, out, read in steps:
            self._send((first, second, out, scratch, *forms), read)
        if captured is not None:
            cupy.cuda.runtime.freeAsync(scratch, captured.ptr)

    def _send(self, addresses: Addresses, read: Read = NOTHING) -> None:
        for begin, size in self.scans:
            fill(addresses[SCRATCH] + begin, size)
        for launch in self._launches_at(addresses, read):
            launch()

    def _launches_at(self, addresses: Addresses, read: Read = NOTHING) -> list[Callable[[], Any]]:
        """Return functions that launch the product's kernels on arrays at the given addresses.

        They are kept for later calls, because CuPy's pool often returns the same addresses.

        Args:
            addresses: Addresses of x1, x2, the result, scratch memory and forms.
            read: What the epilogue reads.
        """
        launches = self._sent.get((addresses, read))
        if launches is None:
            launches = [each.at(addresses, read) for each in self.launches]
            if len(self._sent) >= _KEPT_ARGUMENTS:
                with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread changes it, too
                    del self._sent[next(iter(self._sent))]  # the oldest
            self._sent[addresses, read] = launches
        return launches

    def _overlaps(self, x1: int, x2: int, out: int) -> bool:
        """Return whether ``out`` may share memory with an operand, by the ranges of addresses that they span.

        Args:
            x1, x2, out: Addresses of the arrays' first elements.
        """
        first, second, third = self._spans[:3]
        start, stop = out + third[0], out + third[1]
        return (x1 + first[0] < stop and start < x1 + first[1]) or (x2 + second[0] < stop and start < x2 + second[1])

    def _spoils(self, epilogue: EpilogueCall, out: Any) -> bool:
        """Return whether writing ``out`` may change elements that the epilogue reads later.

        It does not if ``out`` is the array that is read, because each element is read before it is written.
        """
        start, stop = (out.data.ptr + reach for reach in self._spans[2])
        for x, (begin, end) in zip(epilogue.arrays, self._spans[3:], strict=True):
            if x.data.ptr + begin < stop and start < x.data.ptr + end and not is_same(x, out):
                return True
        return False

    def _apart(self, out: Any) -> Any:
        """Return a new array with the shape, the strides and the type of ``out``, which shares no memory with it."""
        span = self.product.spans[2]
        memory = cupy.cuda.alloc(span.stop - span.start) - span.start
        return cupy.ndarray(out.shape, out.dtype, memory, strides=out.strides)


def _check_alignment(names: Sequence[str], arrays: Sequence[Any]) -> None:
    for name, x in zip(names, arrays, strict=True):
        if x.data.ptr % x.dtype.itemsize:
            raise AlignmentError(
                f"the address of {name} is not a multiple of {x.dtype.itemsize}, the bytes of its elements, so a GPU "
                f"cannot read it in place; copy it first ({name}.copy())"
            )
