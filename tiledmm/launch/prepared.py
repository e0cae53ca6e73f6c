"""Launches that are prepared for all arrays of one description, so that only the addresses have to be filled in."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cupy
import numpy as np

from tiledmm.kernels.launches import Launch, with_epilogue
from tiledmm.kernels.operands.operand_scan import SCAN_INIT
from tiledmm.kernels.tensor_maps import TensorMap
from tiledmm.launch.dependent import LEAST_CAPABILITY, DependentLaunch, launch_function, resident_clusters
from tiledmm.launch.devices import current_device, device_model
from tiledmm.problem.epilogue import EpilogueCall

# Indices of the arrays that a launch's pointers may point into, in ``Addresses``. The last is that of the first form.
X1, X2, OUT, SCRATCH, FORMS = range(5)

# RawKernel passes a NumPy array of size 1 as a struct by value. It wraps the array at every launch (1.6 us of 7 us),
# and converts pointers one by one. The wrapper can also be made once. Its name is not documented, so a CuPy that does
# not have it gets the array.
_PreparedArgument = getattr(cupy.cuda.function, "CNumpyArray", lambda array: array)


# Addresses of x1, x2, the result, scratch memory, and the forms of prepared operands.
Addresses: TypeAlias = tuple[int, ...]

# Addresses of the arrays that an epilogue reads, and its scalars as bytes.
Read: TypeAlias = tuple[tuple[int, ...], bytes]
NOTHING: Read = ((), b"")


def _by_value(array: Any) -> Any:
    return _PreparedArgument(array.view(f"V{array.nbytes}"))


def _is_dependent(launch: Launch, first: bool) -> bool:
    """Return whether a launch may begin on the current device before the preceding launch has ended.

    Args:
        launch: The launch.
        first: Whether it is the first of its product. The preceding launch may then have written its operands.
    """
    return (
        (launch.spec.waits == "first" or (launch.is_independent and not first))
        and device_model().gpu.arch.capability >= LEAST_CAPABILITY
        and launch_function() is not None
    )


class PreparedLaunch:
    """Launch of a plan: its kernel, grid and block, and all arguments except addresses.

    Attributes:
        operands: Index of the array that each pointer points into, and the pointer's offset in bytes.
        maps: Tensor maps of A and B for a kernel that reads by TMA; else empty.
        scan: Indices of the arrays that hold both operands' scans, and the offsets of these in bytes, for a kernel that
            reads or writes them; else empty.
        launch: The launch in the product's schedule.
        is_usual: True if the kernel's arguments are three pointers and its ``Problem``.
        dependent: True if the launch may begin before the launch before it has ended, perhaps that of another product.
        fills: Offset and size in bytes of scratch memory that is filled with ``SCAN_INIT`` right before the launch;
            None for none.
        epilogue: Operations on each sum before it is stored; None for none.
    """

    __slots__ = (
        "block", "dependent", "epilogue", "fills", "function", "grid", "is_usual", "kernel_args", "launch", "maps",
        "operands", "problem", "scan", "shared",
    )  # fmt: skip

    def __init__(
        self,
        launch: Launch,
        raw: Any,
        operands: list[tuple[int, int]],
        scan: Sequence[tuple[int, int]],
        first: bool,
    ) -> None:
        spec = launch.spec
        self.launch = launch
        self.function = raw.kernel
        cluster, resident = spec.config.blocks_per_cluster, 0
        if spec.variant.hopper.persistent:
            resident = device_model().gpu.sms
            if cluster > 1:  # SMs are left over where their number in a group is no multiple of the cluster
                threads = math.prod(spec.block)
                resident = resident_clusters(raw.kernel, cluster, threads, spec.dynamic_shared_bytes)
        self.grid = launch.grid(resident)
        self.block: tuple[int, ...] = spec.block
        self.shared = spec.dynamic_shared_bytes
        self.kernel_args = launch.kernel_args
        self.epilogue = spec.epilogue
        self.scan = scan
        self.problem: Any = _by_value(launch.kernel_args)
        self.operands = operands
        self.maps: tuple[TensorMap, ...] = launch.maps
        self.is_usual = not self.maps and self.epilogue is None and spec.variant.plain is None
        self.fills: tuple[int, int] | None = None
        self.dependent = _is_dependent(launch, first)

    def at(self, addresses: Addresses, read: Read = NOTHING) -> Callable[[], Any]:
        """Return a function that launches the kernel on arrays at the given addresses.

        Args:
            addresses: Addresses of x1, x2, the result, scratch memory and forms.
            read: What the epilogue reads: the addresses of its arrays, and its scalars as bytes.
        """
        pointers = np.array([addresses[array] + begin for array, begin in self.operands], np.uint64)
        arguments: list[Any] = [pointers[i : i + 1] for i in range(len(pointers))]
        for i, each in enumerate(self.maps):
            arguments[i] = _encoded(each, int(pointers[i]))
        scan = [addresses[array] + begin for array, begin in self.scan]
        kernel_args = self.kernel_args
        if self.epilogue is not None:
            kernel_args = with_epilogue(kernel_args, self.epilogue, *read)
        problem = np.array([*kernel_args, *scan], np.int64) if scan else kernel_args
        arguments = self.launch.arguments(arguments, problem)
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
    """Fill the memory of an operand scan with the value that it has before operands are decomposed.

    Args:
        address: Address of the memory.
        size: Size in bytes.
    """
    stream = cupy.cuda.get_current_stream()
    cupy.cuda.runtime.memsetAsync(address, SCAN_INIT, size, stream.ptr)


def _after_filling(address: int, size: int, launch: Callable[[], Any]) -> None:
    fill(address, size)
    launch()


@functools.lru_cache(maxsize=1024)
def _encoded(described: TensorMap, pointer: int) -> Any:
    """Return the encoded tensor map of a matrix at an address, which is kept for later launches."""
    cupy.cuda.runtime.setDevice(current_device())  # the driver encodes only in a context, and a new thread has none
    return described.encode(pointer)


def read_by(epilogue: EpilogueCall | None, offsets: Sequence[int] = ()) -> Read:
    """Return what an epilogue reads: the addresses of its arrays, and its scalars as bytes.

    Args:
        epilogue: The arrays and numbers of the epilogue; None for none.
        offsets: Distance of each address from the first element of its array, in elements; empty for 0.
    """
    if epilogue is None:
        return NOTHING
    steps = offsets or (0,) * len(epilogue.arrays)
    addresses = (x.data.ptr + step * x.itemsize for x, step in zip(epilogue.arrays, steps, strict=True))
    return tuple(addresses), epilogue.scalars
