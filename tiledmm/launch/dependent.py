"""Programmatic dependent launch: a launch whose blocks may begin before the one before it on its stream has ended.

That saves most of the time between two launches. CuPy has no launch attributes, so this is the driver's
``cuLaunchKernelEx``. A kernel launched so executes ``griddepcontrol.wait`` in every block before it accesses what the
launch before it accesses. The first launch of a product has no attribute: it begins when all others have ended.
CUDA Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy

from tiledmm.hardware.device import driver

#: The least compute capability with such launches.
LEAST_CAPABILITY = (9, 0)

# CUlaunchAttributeID: the attribute of a launch that need not wait for the one before it.
_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: an identifier, padding, and a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


# Streams for which a launch is kept prepared.
_MOST_STREAMS = 16


@functools.cache
def launch_function() -> Any:
    """The driver's ``cuLaunchKernelEx``; None if there is no driver, or one from before CUDA 11.8."""
    try:
        return driver().cuLaunchKernelEx
    except (OSError, AttributeError):
        return None


class DependentLaunch:
    """A launch of a kernel with its arguments, on the stream that is current when it is called.

    Args:
        function: The ``cupy.cuda.Function``.
        grid, block: Blocks of the grid and threads of a block, each along x and perhaps y.
        shared: Bytes of dynamic shared memory.
        arguments: The kernel's, each an array with one element, passed by value.
    """

    __slots__ = ("_config", "_held", "_on_stream")

    def __init__(
        self, function: Any, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Any]
    ) -> None:
        attribute = _Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 0, (1,))
        pointers = (ctypes.c_void_p * len(arguments))(*(each.ctypes.data for each in arguments))
        self._held = function, arguments, attribute, pointers  # as long as their addresses are
        self._config = functools.partial(
            _Config, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared, attributes=ctypes.pointer(attribute), count=1
        )
        self._on_stream: dict[int, Callable[[], int]] = {}

    def __call__(self) -> None:
        """Launches it.

        Raises:
            cupy.cuda.driver.CUDADriverError: If the driver refuses.
        """
        stream = cupy.cuda.get_current_stream().ptr
        launch = self._on_stream.get(stream)
        if launch is None:
            launch = self._prepared(stream)
        if status := launch():
            raise cupy.cuda.driver.CUDADriverError(status)

    def _prepared(self, stream: int) -> Callable[[], int]:
        """The driver's function and what it is called with: made once for each stream, which halves a call's time."""
        function, _, _, pointers = self._held
        if len(self._on_stream) >= _MOST_STREAMS:
            self._on_stream.clear()
        config = self._config(stream=stream)
        launch = functools.partial(
            launch_function(), ctypes.byref(config), ctypes.c_void_p(function.ptr), ctypes.byref(pointers), None
        )
        self._on_stream[stream] = launch
        return launch
