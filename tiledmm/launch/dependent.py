"""Programmatic dependent launch: a launch whose blocks may begin before the launch before it on its stream has ended.

This saves most of the time between two launches. CuPy has no launch attributes, so the driver's ``cuLaunchKernelEx`` is
called. Every block of such a kernel executes ``griddepcontrol.wait`` before it accesses memory that the launch before
it accesses. The first launch of a product is an ordinary one if its blocks access memory before they wait.

Source: CUDA Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import cupy

from tiledmm.hardware.device import driver
from tiledmm.launch.devices import current_device

#: Lowest compute capability that supports such launches.
LEAST_CAPABILITY = (9, 0)

# CUlaunchAttributeIDs of the blocks of a cluster, and of a launch that need not wait for the launch before it.
_CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6


class _Attribute(ctypes.Structure):
    """Structure ``CUlaunchAttribute`` of the driver: an identifier, padding, and a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):
    """Structure ``CUlaunchConfig`` of the driver."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


_DEPENDENT = ctypes.pointer(_Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 0, (1,)))

# CUresult of a call from a thread without a context.
_INVALID_CONTEXT = 201

# Maximum number of streams for which a launch is kept prepared.
_MOST_STREAMS = 16


@functools.cache
def launch_function() -> Any:
    """Return the driver's function ``cuLaunchKernelEx``; None without a driver, or with one older than CUDA 11.8."""
    try:
        return driver().cuLaunchKernelEx
    except (OSError, AttributeError):
        return None


class DependentLaunch:
    """Programmatic dependent launch of a kernel with its arguments, on the stream that is current when it is called.

    Args:
        function: The kernel, a ``cupy.cuda.Function``.
        grid: Blocks of the grid along x, y and z; trailing 1s may be left out.
        block: Threads per block along x, y and z; trailing 1s may be left out.
        shared: Dynamic shared memory per block, in bytes.
        arguments: Arguments of the kernel, each an array with one element, which is passed by value.
    """

    __slots__ = ("_config", "_held", "_on_stream")

    def __init__(
        self, function: Any, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Any]
    ) -> None:
        # All arguments in one buffer: to ask each array for its address takes longer.
        memory = ctypes.create_string_buffer(b"".join(each.tobytes() for each in arguments))
        begins = itertools.accumulate((each.nbytes for each in arguments[:-1]), initial=ctypes.addressof(memory))
        pointers = (ctypes.c_void_p * len(arguments))(*begins)
        self._held = function, memory, pointers  # referenced as long as their addresses are used
        self._config = functools.partial(
            _Config, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared, attributes=_DEPENDENT, count=1
        )
        self._on_stream: dict[int, Callable[[], int]] = {}

    def __call__(self) -> None:
        """Launch the kernel on the current stream.

        Raises:
            cupy.cuda.driver.CUDADriverError: If the driver rejects the launch.
        """
        stream = cupy.cuda.get_current_stream().ptr
        launch = self._on_stream.get(stream)
        if launch is None:
            launch = self._prepared(stream)
        status = launch()
        if status == _INVALID_CONTEXT:  # the driver's: a new thread has none until the runtime gives it the device's
            cupy.cuda.runtime.setDevice(current_device())
            status = launch()
        if status:
            raise cupy.cuda.driver.CUDADriverError(status)

    def _prepared(self, stream: int) -> Callable[[], int]:
        """Return a function that launches the kernel on a stream and returns the driver's status.

        The function is kept, which halves the time of later calls.

        Args:
            stream: Address of the stream.
        """
        function, _, pointers = self._held
        if len(self._on_stream) >= _MOST_STREAMS:
            self._on_stream.clear()
        config = self._config(stream=stream)
        launch = functools.partial(
            launch_function(), ctypes.byref(config), ctypes.c_void_p(function.ptr), ctypes.byref(pointers), None
        )
        self._on_stream[stream] = launch
        return launch


def resident_clusters(function: Any, cluster: int, threads: int, shared: int) -> int:
    """Return how many clusters of a kernel can be resident on the current device at the same time.

    They are fewer than the SMs would hold if SMs are left over in the groups (GPCs) within which clusters lie.

    Args:
        function: The kernel, a ``cupy.cuda.Function``.
        cluster: Number of blocks per cluster.
        threads: Number of threads per block.
        shared: Dynamic shared memory per block, in bytes.

    Raises:
        cupy.cuda.driver.CUDADriverError: If the driver rejects the kernel or the launch.
    """
    cupy.cuda.runtime.setDevice(current_device())  # gives a new thread the device's context
    attribute = _Attribute(_CLUSTER_DIMENSION, 0, (cluster, 1, 1))
    config = _Config((cluster, 1, 1), (threads, 1, 1), shared, None, attributes=ctypes.pointer(attribute), count=1)
    found = ctypes.c_int()
    status = driver().cuOccupancyMaxActiveClusters(
        ctypes.byref(found), ctypes.c_void_p(function.ptr), ctypes.byref(config)
    )
    if status:
        raise cupy.cuda.driver.CUDADriverError(status)
    return found.value
