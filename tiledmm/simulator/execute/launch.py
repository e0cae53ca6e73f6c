"""One launch: a kernel with its grid, its block and its arguments, and the memory that these are in."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.parameters import POINTER, Parameter
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.kernel import run_kernel
from tiledmm.simulator.execute.memory import Memory, Placed, span_of
from tiledmm.simulator.execute.settings import Settings

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

    Attributes:
        arrays: The arguments that are arrays, by the number of their parameter.
        numbers: The other arguments as ctypes objects, by the number of their parameter.
        placed: The memory regions of the arrays.
        owner: For each array, the number of its region, and the distance in bytes from the region's first element to
            the array's.

    Raises:
        ConfigError: If grid, block or shared memory are beyond what the target has.
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
    ) -> None:
        self.kernel, self.parameters, self.shared_bytes = kernel, kernel.parameters, shared_bytes
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
    ) -> Outcome:
        """Run the kernel on copies of the arrays, and return findings, counts and events.

        Afterwards ``result`` of each region in ``placed`` holds what the kernel left there.

        Args:
            kernel: The kernel, in this build or in another.
            settings: Settings of the run.
            state: Values of the variables outside of functions, which the kernel reads and changes; None for their
                initial values in the source.
            contents: Contents of the regions before the run; None for those of the arrays.
            writers: Whether ``Outcome.writer`` is called afterwards.
        """
        memory = Memory([each.reserved_bytes for each in self.placed])
        try:
            for region, each in enumerate(self.placed):
                each.place(memory, region, filled=True, written=each.writable)
                if contents is not None:
                    each.view()[...] = contents[region]
            arguments = dict(self.numbers)
            for at, (region, distance) in zip(self.arrays, self.owner, strict=True):
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
                state=state,
            )
            for each in self.placed:
                each.result = each.view().copy()
        finally:
            memory.release()
        return outcome


def _three(what: str, size: int | Sequence[int]) -> tuple[int, int, int]:
    """Return three sizes, along x, y and z; sizes that are not given are 1.

    Args:
        what: ``"grid"`` or ``"block"``, for the message of an error.
        size: One to three whole numbers.

    Raises:
        ConfigError: If ``size`` is something else.
    """
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
    """Assign arrays to memory regions; views that overlap share the region of the array that owns their memory.

    Returns:
        The regions, and for each array the number of its region and the distance in bytes from the region's first
        element to the array's.
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
    """Return the addresses of the first byte of an array's elements and of the byte after the last."""
    start, stop = span_of(array)
    return array.ctypes.data + start, array.ctypes.data + stop


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns a view's memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
