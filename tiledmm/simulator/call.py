"""A kernel of the user's with its arguments: the memory that they are in, and what is found in the results."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError, ShapeError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator import execution
from tiledmm.simulator.compiled_kernel import CompiledKernel, Geometry, ModuleState
from tiledmm.simulator.finding_kinds import WRONG_RESULT
from tiledmm.simulator.findings import Finding
from tiledmm.simulator.kernel_findings import KernelFindings
from tiledmm.simulator.parameters import POINTER, Parameter
from tiledmm.simulator.placed import Placed, span_of
from tiledmm.simulator.settings import Settings

#: Relative tolerances of ``expected=`` by the bytes of a floating-point number, unless the caller names one.
TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-10}

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from what is expected; None for what follows from its type."""

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not (isinstance(value, Real) and value >= 0):
                raise ConfigError(f"{name} is a number from 0, or None; got {value!r}")

    def first_wrong(
        self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]
    ) -> tuple[tuple[int, ...], int] | None:
        """The index of the first wrong element, and how many there are; None if all are right."""
        wrong = np.argwhere(self._wrong(got, expected))
        return (tuple(int(i) for i in wrong[0]), len(wrong)) if len(wrong) else None

    def _wrong(self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if got.dtype.kind not in "fc":
            different: np.ndarray[Any, Any] = got != expected
            return different
        bytes_of_real = got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1)
        rtol = TOLERANCES.get(bytes_of_real, 1e-10) if self.rtol is None else self.rtol
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64 if got.dtype.kind == "f" else np.complex128))
        atol = (rtol * float(finite.mean()) if finite.size else 0.0) if self.atol is None else self.atol
        wrong: np.ndarray[Any, Any] = ~np.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
        return wrong


class Call:
    """A kernel with its arguments, which fit its parameters, and with the memory regions of its arrays."""

    def __init__(
        self,
        kernel: CompiledKernel,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any],
        shared_bytes: int,
        exact: bool,
    ) -> None:
        self.kernel, self.parameters, self.shared_bytes = kernel, kernel.parameters, shared_bytes
        self.said = KernelFindings(kernel)
        self.grid, self.block = _three("grid", grid), _three("block", block)
        _check_geometry(self.grid, self.block, shared_bytes, kernel.target)
        if not isinstance(arguments, (tuple, list)):
            raise OperandTypeError(
                f"arguments is a tuple with one for each parameter; got {type(arguments).__name__}: write (x,) for one"
            )
        if len(arguments) != len(self.parameters):
            raise OperandTypeError(
                f"{kernel.name} takes {len(self.parameters)} arguments "
                f"({', '.join(each.type for each in self.parameters)}); got {len(arguments)}"
            )
        # An array of no dimensions passes for a number.
        self.arrays: dict[int, np.ndarray[Any, Any]] = {}
        self.numbers: dict[int, Any] = {}
        for at, (parameter, value) in enumerate(zip(self.parameters, arguments, strict=True)):
            if isinstance(value, np.ndarray) and (parameter.kind == POINTER or value.ndim):
                parameter.check_array(value)
                self.arrays[at] = value
            else:
                self.numbers[at] = parameter.scalar(value, exact=exact)
        self.placed, self.owner = _place([(self.parameters[at], array) for at, array in self.arrays.items()])

    def expected(self, expected: Mapping[int | str, Any]) -> dict[int, np.ndarray[Any, Any]]:
        """What is expected of each array, by the number of its parameter."""
        names = [each.name for each in self.parameters]
        if not isinstance(expected, Mapping):
            raise OperandTypeError(f"expected= is a dict of arrays by number or name ({', '.join(names)})")
        wanted = {}
        for key, value in expected.items():
            at = names.index(key) if key in names else key
            if not isinstance(at, int) or at not in self.arrays:
                raise ConfigError(f"expected= names arrays by number or name ({', '.join(names)}); got {key!r}")
            right = np.asarray(value)
            if right.shape != self.arrays[at].shape:
                raise ShapeError(
                    f"expected[{key!r}] has shape {right.shape}, and the array has {self.arrays[at].shape}"
                )
            wanted[at] = right
        return wanted

    def contents(self) -> list[np.ndarray[Any, Any]]:
        """What the memory regions hold before the launch."""
        return [each.array.copy() for each in self.placed]

    def run(
        self,
        kernel: CompiledKernel,
        settings: Settings,
        state: ModuleState | None,
        contents: Sequence[np.ndarray[Any, Any]] | None = None,
        *,
        writers: bool = False,
    ) -> execution.Outcome:
        """Runs the kernel; the regions then have its results.

        Args:
            kernel: The kernel, compiled in this way or in another.
            settings: How to run it.
            state: What the variables outside of functions hold.
            contents: What the regions hold before, unless what the arrays do.
            writers: Whether it is asked afterwards who wrote an element.
        """
        memory = execution.Memory([each.reserved_bytes for each in self.placed])
        try:
            for region, each in enumerate(self.placed):
                each.place(memory, region, filled=True, written=each.writable)
                if contents is not None:
                    each.view()[...] = contents[region]
            arguments = dict(self.numbers)
            for at, (region, distance) in zip(self.arrays, self.owner, strict=True):
                arguments[at] = ctypes.c_void_p(self.placed[region].origin + distance)
            outcome = kernel.run(
                [arguments[at] for at in range(len(self.parameters))],
                [each.operand(writable=each.writable) for each in self.placed],
                grid=self.grid,
                block=self.block,
                shared_bytes=self.shared_bytes,
                settings=settings,
                writers=writers,
                state=state,
            )
            for each in self.placed:
                each.result = each.view().copy()
        finally:
            memory.release()
        return outcome

    def findings(self, outcome: execution.Outcome) -> list[Finding]:
        """What the runtime found."""
        return self.said.of([outcome], self.placed, self.shared_bytes)

    def wrong(
        self, outcome: execution.Outcome, wanted: dict[int, np.ndarray[Any, Any]], tolerance: Tolerance
    ) -> Iterator[Finding]:
        """A finding for each array that is not as expected."""
        for (at, array), (region, distance) in zip(self.arrays.items(), self.owner, strict=True):
            differs = tolerance.first_wrong(array, wanted[at]) if at in wanted else None
            if differs:
                first, count = differs
                name = self.parameters[at].name
                said = (
                    f"{count:,} of {array.size:,} elements of {name}; {name}[{', '.join(map(str, first))}] is "
                    f"{array[first]}, expected {wanted[at][first]}"
                )
                placed = self.placed[region]
                offset = distance + sum(i * stride for i, stride in zip(first, array.strides, strict=True))
                writer = outcome.writer(placed.writes, (offset - placed.start) // placed.granule)
                yield self.said.wrong_result(WRONG_RESULT, said, writer, Geometry(self.grid, self.block))


def _three(what: str, size: int | Sequence[int]) -> tuple[int, int, int]:
    """Sizes along x, y and z."""
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(each, (int, np.integer)) for each in sizes):
        raise ConfigError(f"{what} is one to three whole numbers; got {size!r}")
    return tuple(map(int, (*sizes, 1, 1)[:3]))  # type: ignore[return-value]


def _check_geometry(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, target: Architecture
) -> None:
    for what, sizes, limits in (("grid", grid, _MAX_GRID), ("block", block, _MAX_BLOCK)):
        if not all(1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
            raise ConfigError(
                f"{what} is from 1 to {limits[0]} x {limits[1]} x {limits[2]}; got {' x '.join(map(str, sizes))}"
            )
    threads = block[0] * block[1] * block[2]
    if threads > target.max_threads_per_block:
        raise ConfigError(f"a block has at most {target.max_threads_per_block} threads; got {threads}")
    if not 0 <= shared_bytes <= target.max_shared_bytes:
        raise ConfigError(f"shared_bytes is from 0 to {target.max_shared_bytes} on {target.name}; got {shared_bytes}")


def _place(
    arrays: Sequence[tuple[Parameter, np.ndarray[Any, Any]]],
) -> tuple[list[Placed], list[tuple[int, int]]]:
    """The regions of memory for arrays: views of one array that overlap are in one.

    Returns:
        The regions, and for each array its region and the distance of its first element from the region's.
    """
    placed: list[Placed] = []
    owner: list[tuple[int, int]] = []
    bounds = [_bounds(array) for _, array in arrays]
    known: dict[tuple[int, int], int] = {}
    for (parameter, array), mine in zip(arrays, bounds, strict=True):
        shared = any(mine[0] < other[1] and other[0] < mine[1] and mine != other for other in bounds)
        whole = _root(array) if shared else array
        at = known.setdefault(_bounds(whole), len(placed))
        if at == len(placed):
            placed.append(Placed(parameter.name, whole))
            placed[at].writable = False
            placed[at].pointee = parameter.element_bytes or array.dtype.itemsize
        placed[at].writable |= not parameter.read_only and array.flags.writeable
        owner.append((at, array.ctypes.data - placed[at].array.ctypes.data))
    return placed, owner


def _bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The first address of an array's elements, and the one behind the last."""
    start, stop = span_of(array)
    return array.ctypes.data + start, array.ctypes.data + stop


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that a view is of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
