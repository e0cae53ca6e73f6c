"""A launch that is prepared for all arrays of one description: the addresses are what is left to fill in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cupy
import numpy as np

from tiledmm.kernels.launches import Launch, with_epilogue
from tiledmm.kernels.operands.operand_scan import SCAN_INIT
from tiledmm.kernels.tensor_maps import TensorMap
from tiledmm.launch.dependent import LEAST_CAPABILITY, DependentLaunch, launch_function
from tiledmm.launch.devices import current_device, device_model
from tiledmm.problem.epilogue import EpilogueCall

# Indices of what a launch's pointers may point into.
X1, X2, OUT, SCRATCH = range(4)

# RawKernel takes a size-1 NumPy array as a struct by value, and wraps it so at every launch (1.6 us on a 7 us launch);
# pointers it converts one by one. A wrapper made once serves as well; it is not a documented name, so a CuPy without it
# gets the array.
_PreparedArgument = getattr(cupy.cuda.function, "CNumpyArray", lambda array: array)


# Addresses of x1, x2, the result and scratch memory.
Addresses: TypeAlias = tuple[int, int, int, int]

# Addresses of the arrays that an epilogue reads, and its scalars.
Read: TypeAlias = tuple[tuple[int, ...], bytes]
NOTHING: Read = ((), b"")


def _by_value(array: Any) -> Any:
    return _PreparedArgument(array.view(f"V{array.nbytes}"))


def _is_dependent(launch: Launch) -> bool:
    """Whether a launch may begin before the one before it has ended, on the current device."""
    return (
        (launch.spec.waits == "first" or launch.is_independent)
        and device_model().gpu.arch.capability >= LEAST_CAPABILITY
        and launch_function() is not None
    )


class PreparedLaunch:
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
        spec = launch.spec
        self.function = raw.kernel
        self.grid: tuple[int, ...] = (launch.blocks,)
        if spec.variant.hopper.persistent:
            cluster = spec.config.cluster
            clusters = device_model().gpu.sms // cluster
            self.grid = (min(launch.blocks, clusters) * cluster,)
        self.block: tuple[int, int] = spec.block
        self.shared = spec.dynamic_shared_bytes
        self.kernel_args = launch.kernel_args
        self.epilogue = spec.epilogue
        self.scan = [scan + begin for begin in launch.scan]
        self.problem: Any = _by_value(launch.kernel_args)
        self.operands = operands
        self.maps: tuple[TensorMap, ...] = launch.maps
        self.fills: tuple[int, int] | None = None
        # The first of a sequence waits for whatever was launched before.
        self.dependent = not first and _is_dependent(launch)

    def at(self, addresses: Addresses, read: Read = NOTHING) -> Callable[[], Any]:
        """The launch with arrays at these addresses, and with what its epilogue reads."""
        pointers = np.array([addresses[array] + begin for array, begin in self.operands], np.uint64)
        arguments: list[Any] = [pointers[i : i + 1] for i in range(len(pointers))]
        for i, each in enumerate(self.maps):
            arguments[i] = _encoded(each, int(pointers[i]))
        scan = [addresses[SCRATCH] + begin for begin in self.scan]
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
        return functools.partial(_after_filling, addresses[SCRATCH] + begin, size, launched)


def fill(address: int, size: int) -> None:
    """Makes an operand scan what it is before decomposition."""
    stream = cupy.cuda.get_current_stream()
    cupy.cuda.runtime.memsetAsync(address, SCAN_INIT, size, stream.ptr)


def _after_filling(address: int, size: int, launch: Callable[[], Any]) -> None:
    fill(address, size)
    launch()


@functools.lru_cache(maxsize=1024)
def _encoded(described: TensorMap, pointer: int) -> Any:
    """The tensor map of a matrix at an address."""
    cupy.cuda.runtime.setDevice(current_device())  # the driver encodes in a context only; a new thread has none yet
    return described.encode(pointer)


def read_by(epilogue: EpilogueCall | None, offsets: Sequence[int] = ()) -> Read:
    """What an epilogue reads, so many elements on."""
    if epilogue is None:
        return NOTHING
    steps = offsets or (0,) * len(epilogue.arrays)
    addresses = (x.data.ptr + step * x.itemsize for x, step in zip(epilogue.arrays, steps, strict=True))
    return tuple(addresses), epilogue.scalars
