"""A plan: the launches of a product, prepared once for all arrays of the same description, and run.

Kernels may need workspace: scratch memory for limbs, packed operands or partial sums. Where it cannot be had, a plan of
``auto`` hands the call to another plan, of the fastest kernels that need at most half as much, and so on down to none.
Later calls try the fastest again, because memory may be free by then, and after that what worked before: one allocation
fails per call. That takes milliseconds, in which CuPy also returns its free blocks to the driver.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cupy
import numpy as np

from tiledmm.compile.compilation import raw_kernels
from tiledmm.dependent_launch import LEAST_CAPABILITY, DependentLaunch, launch_function
from tiledmm.devices import as_cupys, current_device, device_model
from tiledmm.errors import AlignmentError
from tiledmm.problem.arrays import Allocate, is_same
from tiledmm.problem.epilogue import EpilogueCall
from tiledmm.schedule.launches import Launch, with_epilogue
from tiledmm.schedule.schedule import SCAN, SCAN_INIT
from tiledmm.schedule.tensor_maps import ALIGNMENT, TensorMap
from tiledmm.selection.choice import Choice
from tiledmm.selection.front_end import Within

# Addresses for which a plan keeps its kernels' arguments.
_KEPT_ARGUMENTS = 64

# The status of a CUDA call that found no memory.
_MEMORY_ALLOCATION = 2

# Indices of what a launch's pointers may point into.
_X1, _X2, _OUT, _SCRATCH = range(4)

# RawKernel takes a size-1 NumPy array as a struct by value, and wraps it so at every launch (1.6 us on a 7 us launch);
# pointers it converts one by one. A wrapper made once serves as well; it is not a documented name, so a CuPy without it
# gets the array.
_PreparedArgument = getattr(cupy.cuda.function, "CNumpyArray", lambda array: array)


# Addresses of x1, x2, the result and scratch memory.
_Addresses: TypeAlias = tuple[int, int, int, int]

# Addresses of the arrays that an epilogue reads, and its scalars.
_Read: TypeAlias = tuple[tuple[int, ...], bytes]
_NOTHING: _Read = ((), b"")


def _by_value(array: Any) -> Any:
    return _PreparedArgument(array.view(f"V{array.nbytes}"))


def _is_dependent(launch: Launch) -> bool:
    """Whether a launch may begin before the one before it has ended, on the current device."""
    return (
        (launch.specialization.waits == "first" or launch.is_independent)
        and device_model().gpu.arch.capability >= LEAST_CAPABILITY
        and launch_function() is not None
    )


class _Prepared:
    """A launch of a plan: kernel, grid, block and arguments.

    Attributes:
        operands: For each pointer the index of its array, and the offset in bytes.
        maps: Tensor maps of A and B, for a kernel that reads by TMA.
        scan: Offsets in bytes of both operands' scans in scratch memory, for a kernel that reads or writes them.
        dependent: Whether it may begin before the launch before it has ended.
        fills: Offset and bytes of scratch memory that are filled with ``SCAN_INIT`` right before it, or None.
        epilogue: What becomes of a sum before it is stored, or None.
    """

    __slots__ = (
        "block", "dependent", "epilogue", "fills", "function", "grid", "kernel_args", "maps", "operands", "problem",
        "scan", "shared",
    )  # fmt: skip

    def __init__(
        self, launch: Launch, raw: Any, operands: list[tuple[int, int]], scan: int = 0, first: bool = True
    ) -> None:
        specialization = launch.specialization
        self.function = raw.kernel
        self.grid: tuple[int, ...] = (launch.blocks,)
        if specialization.variant.persistent:
            cluster = specialization.config.cluster
            clusters = device_model().gpu.sms // cluster
            self.grid = (min(launch.blocks, clusters) * cluster,)
        self.block: tuple[int, int] = specialization.block
        self.shared = specialization.dynamic_shared_bytes
        self.kernel_args = launch.kernel_args
        self.epilogue = specialization.epilogue
        self.scan = [scan + begin for begin in launch.scan]
        self.problem: Any = _by_value(launch.kernel_args)
        self.operands = operands
        self.maps: tuple[TensorMap, ...] = launch.maps
        self.fills: tuple[int, int] | None = None
        # The first of a sequence waits for whatever was launched before.
        self.dependent = not first and _is_dependent(launch)

    def at(self, addresses: _Addresses, read: _Read = _NOTHING) -> Callable[[], Any]:
        """The launch with arrays at these addresses, and with what its epilogue reads."""
        pointers = np.array([addresses[array] + begin for array, begin in self.operands], np.uint64)
        arguments: list[Any] = [pointers[i : i + 1] for i in range(len(pointers))]
        for i, each in enumerate(self.maps):
            arguments[i] = _encoded(each, int(pointers[i]))
        scan = [addresses[_SCRATCH] + begin for begin in self.scan]
        kernel_args = self.kernel_args
        if self.epilogue is not None:
            kernel_args = with_epilogue(kernel_args, self.epilogue, *read)
        arguments.append(np.array([*kernel_args, *scan], np.int64) if scan else kernel_args)
        if self.dependent:
            return DependentLaunch(self.function, self.grid, self.block, self.shared, arguments)
        launched = functools.partial(
            self.function, self.grid, self.block, tuple(map(_by_value, arguments)), self.shared
        )
        if self.fills is None:
            return launched
        begin, size = self.fills
        return functools.partial(_after_filling, addresses[_SCRATCH] + begin, size, launched)


def _fill(address: int, size: int) -> None:
    """Makes an operand scan what it is before decomposition."""
    stream = cupy.cuda.get_current_stream()
    cupy.cuda.runtime.memsetAsync(address, SCAN_INIT, size, stream.ptr)


def _after_filling(address: int, size: int, launch: Callable[[], Any]) -> None:
    _fill(address, size)
    launch()


@functools.lru_cache(maxsize=1024)
def _encoded(described: TensorMap, pointer: int) -> Any:
    """The tensor map of a matrix at an address."""
    cupy.cuda.runtime.setDevice(current_device())  # the driver encodes in a context only; a new thread has none yet
    return described.encode(pointer)


class _NoWorkspaceError(Exception):
    """A plan's scratch memory cannot be had.

    Attributes:
        error: The allocator's own.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _allocated(allocate: Callable[..., Any], *arguments: int) -> Any:
    """Scratch memory.

    Raises:
        _NoWorkspaceError: If there is not as much. Pools say so by a ``MemoryError``, CUDA by a status.
    """
    try:
        return allocate(*arguments)
    except Exception as error:
        if isinstance(error, MemoryError) or getattr(error, "status", None) == _MEMORY_ALLOCATION:
            raise _NoWorkspaceError(error) from error
        raise


def _with_purpose(error: Exception, choice: Choice) -> Exception:
    """An allocator's error that says what the memory was for."""
    advice = "variant='auto', with a precision that names no kernel, takes one that needs less"
    error.args = (f"{str(error).rstrip('.')}: workspace of {choice}; {advice}",)
    return error


def _packed_within(within: Within, fits: Callable[[Choice], bool]) -> Choice | None:
    """As ``within``, for addresses that TMA cannot read from: where another kernel is to, its operands are packed."""
    return within(lambda choice: fits(choice.packed()))


class Plan:
    """One product on one device, ready to run on any arrays of the same description.

    Args:
        choice: The kernels.
        within: Finds other kernels, should there be no memory for the workspace of these. None: it is an error.
    """

    __slots__ = (
        "_aligned", "_is_empty", "_packing", "_sent", "_smaller", "_spans", "_within",
        "alignment", "choice", "launches", "product", "scans", "scratch_bytes",
    )  # fmt: skip

    def __init__(self, choice: Choice, within: Within | None = None) -> None:
        self.choice = choice
        self._within = within
        self._smaller: Plan | None = None
        self.product = product = choice.product
        self.alignment = max(each.itemsize for each in (product.a, product.b, product.c)) - 1
        self.launches: list[_Prepared] = []  # none if there is nothing to multiply
        self.scratch_bytes = 0
        self.scans: list[tuple[int, int]] = []  # offsets and bytes of scratch memory filled with SCAN_INIT before all
        self._is_empty = product.problem.is_empty
        self._spans = [(span.start, span.stop) for span in product.spans]
        self._aligned = [0, 0]  # bits of x1's and x2's address that are 0 where TMA can read them in place
        self._packing: Plan | None = None
        self._sent: dict[tuple[_Addresses, _Read], list[Callable[[], Any]]] = {}
        if self._is_empty or (product.problem.k == 0 and choice.needs_operands):
            return
        shares, schedules = choice.shares_workspace, choice.schedules
        kernels = iter(raw_kernels([launch.specialization for planned in schedules for launch in planned.launches]))
        for part, planned in zip(choice.parts, schedules, strict=True):
            arrays = {"A": _X1, "B": _X2, "C": _OUT}
            if part.product.is_transposed:
                arrays |= {"A": _X2, "B": _X1}
            offsets, scan, end = {}, None, 0 if shares else self.scratch_bytes
            for memory in planned.scratch:
                offsets[memory.name] = end
                if memory.name == SCAN:
                    scan = end, memory.bytes
                end += memory.aligned_bytes
            self.scratch_bytes = max(self.scratch_bytes, end)
            if scan and not shares:
                self.scans.append(scan)
            for i, each in enumerate(planned.launches):
                operands = [
                    (_SCRATCH, offsets[name] + begin) if name in offsets else (arrays[name], begin)
                    for name, begin in zip(each.operands, each.begins, strict=True)
                ]
                # What begins a part that shares its workspace waits until the part before no longer reads it.
                begins = shares and i == 0
                prepared = _Prepared(each, next(kernels), operands, scan[0] if scan else 0, begins or not self.launches)
                prepared.fills = scan if begins else None
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
        """Computes the product.

        Args:
            x1, x2: The operands, CuPy arrays or a ``ForeignArray``.
            out: Where the result goes, or None for a new array.
            epilogue: What the plan's epilogue reads.
            allocate: Makes a new array; None for CuPy's.

        Returns:
            ``out``, or the new array.

        Raises:
            MemoryError: CuPy's error, if there is no memory for the result, or none for workspace and no other kernel.
        """
        product, first, second = self.product, x1.data.ptr, x2.data.ptr
        if first & self._aligned[_X1] or second & self._aligned[_X2]:
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
                as_cupys(result).fill(0)  # sums of nothing
            elif product.problem.outer:
                for a, b, c, *others in product.problem.outer_offsets():
                    if product.is_transposed:
                        a, b = b, a
                    read = _read_by(epilogue, others)
                    self._launch(first + a * x1.itemsize, second + b * x2.itemsize, third + c * result.itemsize, read)
            elif len(self.launches) > 1 or self.launches[0].maps or self.launches[0].epilogue is not None:
                self._launch(first, second, third, _read_by(epilogue))
            else:
                left, right = (second, first) if product.is_transposed else (first, second)
                only = self.launches[0]
                only.function(only.grid, only.block, (left, right, third, only.problem), only.shared)
        except _NoWorkspaceError as failed:
            if (smaller := self._with_less_workspace()) is None:
                raise _with_purpose(failed.error, self.choice) from None
            smaller.run(x1, x2, result, epilogue)
            self._smaller = smaller._smaller or smaller  # the next call leaves out what has failed in between
        if out is not None and result is not out:
            as_cupys(out)[...] = result
            return out
        return result

    def calls(self, x1: Any, x2: Any, out: Any) -> list[Callable[[], None]]:
        """Each launch by itself, for measurements; the last ones have results once the first have run in order."""
        memory = cupy.cuda.alloc(max(self.scratch_bytes, 1))
        addresses = (x1.data.ptr, x2.data.ptr, out.data.ptr, memory.ptr)
        self._send(addresses)
        held = x1, x2, out, memory

        def call(launch: Callable[[], Any]) -> Callable[[], None]:
            return lambda: launch() if held else None

        return [call(each) for each in self._launches_at(addresses)]

    def _with_less_workspace(self) -> Plan | None:
        """The plan of the fastest kernels that need at most half as much: few attempts until none is needed."""
        if self._smaller is None and self._within is not None:
            most = self.scratch_bytes // 2
            choice = self._within(lambda choice: choice.workspace <= most)
            self._smaller = Plan(choice, self._within) if choice else None
        return self._smaller

    def _packed(self) -> Plan:
        """The same plan with operands packed first, for operands whose address TMA cannot read from."""
        if self._packing is None:
            self._packing = Plan(self.choice.packed(), self._within and functools.partial(_packed_within, self._within))
        return self._packing

    def _launch(self, x1: int, x2: int, out: int, read: _Read = _NOTHING) -> None:
        """All kernels of a product, on memory that begins at these addresses.

        Scratch memory is from CuPy's pool, which hands it out again to what comes later on the same stream. A graph
        that is being captured is launched any time later: there it is the graph's own.
        """
        if not self.scratch_bytes:
            self._send((x1, x2, out, 0), read)
            return
        stream = cupy.cuda.get_current_stream()
        if not stream.is_capturing():
            memory = _allocated(cupy.cuda.alloc, self.scratch_bytes)  # held until all kernels are launched
            self._send((x1, x2, out, memory.ptr), read)
            return
        scratch: int = _allocated(cupy.cuda.runtime.mallocAsync, self.scratch_bytes, stream.ptr)
        self._send((x1, x2, out, scratch), read)
        cupy.cuda.runtime.freeAsync(scratch, stream.ptr)

    def _send(self, addresses: _Addresses, read: _Read = _NOTHING) -> None:
        for begin, size in self.scans:
            _fill(addresses[_SCRATCH] + begin, size)
        for launch in self._launches_at(addresses, read):
            launch()

    def _launches_at(self, addresses: _Addresses, read: _Read = _NOTHING) -> list[Callable[[], Any]]:
        """The launches with their arguments, kept: CuPy's pool mostly returns the same addresses."""
        launches = self._sent.get((addresses, read))
        if launches is None:
            if len(self._sent) >= _KEPT_ARGUMENTS:
                self._sent.clear()
            launches = self._sent[addresses, read] = [each.at(addresses, read) for each in self.launches]
        return launches

    def _overlaps(self, x1: int, x2: int, out: int) -> bool:
        """Whether ``out`` may share memory with an operand, by the range of addresses that each spans."""
        first, second, third = self._spans[:3]
        start, stop = out + third[0], out + third[1]
        return (x1 + first[0] < stop and start < x1 + first[1]) or (x2 + second[0] < stop and start < x2 + second[1])

    def _spoils(self, epilogue: EpilogueCall, out: Any) -> bool:
        """Whether writing ``out`` may change what an epilogue reads later: not if it is read at the same place."""
        start, stop = (out.data.ptr + reach for reach in self._spans[2])
        for x, (begin, end) in zip(epilogue.arrays, self._spans[3:], strict=True):
            if x.data.ptr + begin < stop and start < x.data.ptr + end and not is_same(x, out):
                return True
        return False

    def _apart(self, out: Any) -> Any:
        """A new array with the shape and strides of ``out``."""
        span = self.product.spans[2]
        memory = cupy.cuda.alloc(span.stop - span.start) - span.start
        return cupy.ndarray(out.shape, out.dtype, memory, strides=out.strides)


def _check_alignment(names: Sequence[str], arrays: Sequence[Any]) -> None:
    for name, x in zip(names, arrays, strict=True):
        if x.data.ptr % x.dtype.itemsize:
            raise AlignmentError(
                f"{name} begins at an address that is not a multiple of its {x.dtype.itemsize}-byte elements; "
                "a GPU cannot read it in place: copy it first (x.copy())"
            )


def _read_by(epilogue: EpilogueCall | None, offsets: Sequence[int] = ()) -> _Read:
    """What an epilogue reads, so many elements on."""
    if epilogue is None:
        return _NOTHING
    steps = offsets or (0,) * len(epilogue.arrays)
    addresses = (x.data.ptr + step * x.itemsize for x, step in zip(epilogue.arrays, steps, strict=True))
    return tuple(addresses), epilogue.scalars
