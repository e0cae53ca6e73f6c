"""One launch: a kernel with its grid, its block and its arguments, and the memory that these are in."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator.build.addresses import WORD, Addresses, Range
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.parameters import POINTER, may_hold_pointers
from tiledmm.simulator.build.structures import argument_bytes, pointer_table
from tiledmm.simulator.execute.clusters import cluster_of, three_sizes
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.kernel import run_kernel
from tiledmm.simulator.execute.known_arrays import KNOWN, arrays_in
from tiledmm.simulator.execute.memory import GUARD_BYTES, Memory, bounds_of, owner_of
from tiledmm.simulator.execute.passed import Passed, aligned, is_reordered_view, place
from tiledmm.simulator.execute.reached import Holder, holder_of, member_at, reached_from
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.execute.tensor_maps import TensorMap, is_address_in_map

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)


class Launch:
    """A kernel with a grid, a block and arguments, which fit its parameters, and with the memory of its arrays.

    Args:
        kernel: The kernel.
        grid, block: Number of blocks, and of threads per block, along x, y and z; an int or a shorter sequence for
            fewer dimensions.
        arguments: One for each parameter.
        shared_bytes: Dynamic shared memory per block, in bytes.
        exact: Whether an argument that is a number must have the size that CuPy would pass for it.
        state: Values of the variables outside of functions, which the kernel reads and changes; None for their initial
            values in the source.
        held: Values from which ``state`` was made, in which arrays may be that the variables point to.
        cluster: Number of blocks per cluster along x, y and z; None for those of the kernel's ``__cluster_dims__``.
        dependent_on: Arrays that the launch before accesses, which may not have ended.

    Attributes:
        cluster: Number of blocks per cluster along x, y and z; zeros for a launch without clusters.
        arrays: The arguments that are arrays, by the number of their parameter.
        numbers: The bytes of the other arguments, by the number of their parameter.
        passed: The arrays among the arguments, in order, then those of which memory holds addresses.
        placed: The memory regions of the arrays.
        owner: For each array in ``passed``, the number of its region, and the distance in bytes from the region's first
            element to the array's.

    Raises:
        ConfigError: If grid, block, cluster or shared memory are beyond what the target has.
        OperandTypeError: If an argument is not what the parameter takes.
    """

    def __init__(
        self,
        kernel: NativeKernel,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any],
        shared_bytes: int,
        exact: bool,
        state: ModuleState | None = None,
        held: Iterable[Any] = (),
        cluster: int | Sequence[int] | None = None,
        dependent_on: Iterable[np.ndarray[Any, Any]] = (),
    ) -> None:
        self.kernel, self.parameters, self.shared_bytes = kernel, kernel.parameters, shared_bytes
        self.grid, self.block = three_sizes("grid", grid), three_sizes("block", block)
        _check_geometry(self.grid, self.block, shared_bytes, kernel.target)
        self.cluster = cluster_of(kernel, cluster, self.grid)
        if not isinstance(arguments, (tuple, list)):
            raise OperandTypeError(
                f"arguments must be a tuple with one entry per parameter; got {type(arguments).__name__}: write (x,) "
                "for one argument"
            )
        if len(arguments) != len(self.parameters):
            raise OperandTypeError(
                f"{kernel.name} has {len(self.parameters)} parameters "
                f"({', '.join(each.type for each in self.parameters)}); got {len(arguments)} arguments"
            )
        self.arrays: dict[int, np.ndarray[Any, Any]] = {}
        self.numbers: dict[int, bytes] = {}
        self._state, self._given, self._held = state, tuple(arguments), tuple(held)
        for at, (parameter, given) in enumerate(zip(self.parameters, arguments, strict=True)):
            is_by_pointer = isinstance(given, TensorMap) and parameter.kind == POINTER
            value = np.asarray(given) if is_by_pointer else given
            if isinstance(value, np.ndarray) and not parameter.takes_by_value(value, exact=exact):
                parameter.check_array(value)
                if any(owner_of(value) is each for each in (state or {}).values()):  # in the kernel's own memory
                    self.numbers[at] = np.uint64(value.ctypes.data).tobytes()
                else:
                    self.arrays[at] = value
            elif parameter.is_pointer_to_pointers and isinstance(value, (tuple, list)):
                self.arrays[at] = pointer_table(parameter, value)
            else:
                layout = functools.partial(kernel.parameter_layout, at)
                self.numbers[at] = argument_bytes(parameter, value, layout, exact=exact)
        self.passed = [*self._arguments(), *self._reached()]
        self.placed, self.owner = place(self.passed)
        for each, array in itertools.product(self.placed, dependent_on):
            each.pending |= np.may_share_memory(each.array, array)

    def _arguments(self) -> Iterator[Passed]:
        """Yield the arguments that are arrays."""
        for at, array in self.arrays.items():
            each = self.parameters[at]
            yield Passed(
                functools.partial(str, each.name), array, not each.read_only and array.flags.writeable,
                each.element_bytes or array.dtype.itemsize, each.may_lead_to_pointers(array.dtype),
            )  # fmt: skip

    def _reached(self) -> Iterator[Passed]:
        """Yield the arrays of which arguments, arrays or variables hold addresses.

        Raises:
            OperandTypeError: If a pointer among the arguments is an address of no array that is known.
        """
        variables = list((self._state or {}).values())
        structures = [each for each in (*self._given, *self._held) if not isinstance(each, np.ndarray)]
        given = [*arrays_in(structures), *(each for each in self._held if isinstance(each, np.ndarray))]
        for array in (*self.arrays.values(), *variables, *given):
            KNOWN.remember(array)
        for each in reached_from(self._holders(), {id(array) for array in variables}, given):
            array = each.array
            holds = may_hold_pointers(array.dtype)
            yield Passed(each.name, array, array.flags.writeable, array.dtype.itemsize, holds)
        for at, raw in self.numbers.items():
            parameter = self.parameters[at]
            address = int.from_bytes(raw, "little") if parameter.kind == POINTER else 0
            if address and KNOWN.at(address) is None:
                raise OperandTypeError(
                    f"parameter {parameter.name} is a {parameter.type}; got the address {address:#x}, which is in no "
                    "array that still exists"
                )

    def _holders(self) -> Iterator[Holder]:
        """Yield the memory in which addresses are looked for: arguments, arrays and variables."""
        for at, raw in self.numbers.items():
            if len(raw) >= WORD:
                yield Holder(np.frombuffer(raw, np.uint8), functools.partial(self._name_in_argument, at), of_given=True)
        for at, each in zip(self.arrays, self._arguments(), strict=True):
            if each.holds_pointers:
                is_table = not isinstance(self._given[at], np.ndarray)
                yield holder_of(each.array, each.name, each.pointee, of_given=is_table)
        for name, values in (self._state or {}).items():
            yield Holder(values, functools.partial(self.kernel.variable_path, name), of_given=bool(self._held))

    def _name_in_argument(self, at: int, offset: int) -> str:
        """Return the name of the pointer at an offset in an argument that is a structure or a pointer."""
        parameter, value = self.parameters[at], self._given[at]
        if parameter.kind == POINTER or (offset == WORD and is_address_in_map(self.numbers[at], offset)):
            return parameter.name
        if isinstance(value, (np.void, np.ndarray)) and (member := member_at(value.dtype, offset)):
            return parameter.name + member
        layout = self.kernel.parameter_layout(at)
        path = layout.path_at(offset) if layout else f"+{offset}"
        if layout and is_address_in_map(self.numbers[at], offset):
            path = path.rpartition(".")[0]  # of the map, and not of what is in it
        return parameter.name + path

    def views(self) -> Iterator[str]:
        """Yield a sentence about each array among the arguments whose elements are in another order than its memory."""
        numbers = {int(each) for each in self._given if isinstance(each, (int, np.integer))}
        for at, array in self.arrays.items():
            if is_reordered_view(array, numbers):
                name = self.parameters[at].name
                yield (
                    f"{name} is a view of shape {array.shape} with strides of {array.strides} bytes, but a kernel gets "
                    "only the address of its first element: if it assumes contiguous rows, pass "
                    f"numpy.ascontiguousarray({name})"
                )

    def contents(self) -> list[np.ndarray[Any, Any]]:
        """Return a copy of the contents of each memory region before the launch."""
        return [each.array.copy() for each in self.placed]

    def run(
        self,
        kernel: NativeKernel,
        settings: Settings,
        state: ModuleState | None,
        contents: Sequence[np.ndarray[Any, Any]] | None = None,
        *,
        writers: bool = False,
        moved: bool = False,
        unwritten_fill: Mapping[str, int] | None = None,
    ) -> Outcome:
        """Run the kernel on copies of the arrays, and return findings, counts and events.

        Afterwards ``result`` of each region in ``placed`` holds what the kernel left there.

        Args:
            kernel: The kernel, in this build or in another.
            settings: Settings of the run.
            state: Values of the variables outside of functions, which the kernel reads and changes; None for those of
                the launch, or if it has none for their initial values in the source.
            contents: Contents of the regions before the run; None for those of the arrays.
            writers: Whether ``Outcome.writer`` is called afterwards.
            moved: Whether the arrays are to lie at other addresses than in the run before.
            unwritten_fill: Value of each byte of elements that nobody has written, by the array's name; None for
                what is there.
        """
        values = state or self._state or kernel.new_state()
        between = Memory([1] if moved else [])
        memory = Memory([each.reserved_bytes for each in self.placed])
        try:
            for region, each in enumerate(self.placed):
                each.place(memory, region, filled=True, written=each.writable)
                if contents is not None:
                    each.view()[...] = contents[region]
                each.mark_unwritten((unwritten_fill or {}).get(each.name))
            addresses = self._addresses(kernel, self._state or values)
            for each in self.placed:
                if each.holds_pointers:
                    addresses.inward(each.memory, each.begin)
            arguments: dict[int, Any] = {at: aligned(raw) for at, raw in self.numbers.items()}
            for raw in arguments.values():
                addresses.inward(raw)
            for (region, distance), at in zip(self.owner, self.arrays, strict=False):
                arguments[at] = ctypes.c_void_p(self.placed[region].origin + distance)
            outcome = run_kernel(
                kernel,
                [arguments[at] for at in range(len(self.parameters))],
                [each.operand(writable=each.writable) for each in self.placed],
                grid=self.grid,
                block=self.block,
                shared_bytes=self.shared_bytes,
                settings=settings,
                writers=writers,
                state=values,
                addresses=addresses,
                cluster=self.cluster,
            )
            for each in self.placed:
                if each.holds_pointers:
                    addresses.outward(each.memory, each.begin)
                each.result = each.view().copy()
            for address, outside in addresses.beyond.items():
                if (owner := KNOWN.at(outside)) is not None:
                    KNOWN.remember_beyond(address, owner)
        finally:
            memory.release()
            between.release()
        return outcome

    def _addresses(self, kernel: NativeKernel, variables: ModuleState) -> Addresses:
        """Return the addresses of arrays and variables, outside and while the kernel runs.

        Args:
            kernel: The kernel.
            variables: The variables whose addresses are those outside, unlike those of copies.
        """
        ranges = [
            Range(bounds_of(each.array)[0], each.begin, each.bytes, GUARD_BYTES // 2)
            for each in self.placed
            if each.bytes
        ]
        begins = {each.outside: each.inside for each in ranges}
        for address, array in KNOWN.beyond().items():
            begin = bounds_of(array)[0]
            if begin in begins and not any(each.outside <= address <= each.outside + each.bytes for each in ranges):
                ranges.append(Range(address, begins[begin] + address - begin, 0, GUARD_BYTES // 2))
        return Addresses([*ranges, *kernel.ranges_of(variables)])


def _check_geometry(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, target: Architecture
) -> None:
    for what, sizes, limits in (("grid", grid, _MAX_GRID), ("block", block, _MAX_BLOCK)):
        if not all(1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
            raise ConfigError(
                f"{what} must be from 1 to {limits[0]} x {limits[1]} x {limits[2]}; got {' x '.join(map(str, sizes))}"
            )
    threads = block[0] * block[1] * block[2]
    if threads > target.max_threads_per_block:
        raise ConfigError(f"a block has at most {target.max_threads_per_block} threads; got {threads}")
    if not 0 <= shared_bytes <= target.max_shared_bytes:
        raise ConfigError(
            f"shared_bytes must be from 0 to {target.max_shared_bytes} on {target.name}; got {shared_bytes}"
        )
