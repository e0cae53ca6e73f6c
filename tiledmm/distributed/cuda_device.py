"""The operations on a GPU that out-of-core products need. Tests replace ``Device`` by a class that runs on the host.

Where a parameter is named ``rows``, its rows are contiguous: a matrix of layout T is passed transposed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import cupy
import numpy as np

from tiledmm import api
from tiledmm.launch import devices
from tiledmm.problem.arrays import Array
from tiledmm.problem.call import resolve_call
from tiledmm.problem.epilogue import EpilogueKeywords, resolve_epilogue
from tiledmm.problem.keywords import KernelKeywords, Precision, UfuncKeywords
from tiledmm.selection.choose import choose

_HostArray: TypeAlias = np.ndarray[Any, Any]


class Device:
    """The current GPU: its memory, its streams, copies to and from it, and products on it.

    All memory is one allocation, which begins with the workspace of products. So the limit on memory holds, whatever
    CuPy's pool does.

    Attributes:
        name: Name of the GPU.
    """

    def __init__(self) -> None:
        self._id: int = devices.current_device()
        self.name: str = devices.device_model().gpu.name
        self._streams: list[Any] = []
        self._memory: Any = None
        self._workspace = 0

    def activate(self) -> None:
        """Make this GPU the current device of the calling thread."""
        cupy.cuda.Device(self._id).use()

    def free_bytes(self) -> int:
        """Return the number of bytes of device memory that can be allocated.

        It includes unused memory in CuPy's pool, and it does not exceed the limit of the pool.
        """
        pool = cupy.get_default_memory_pool()
        free = int(cupy.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())
        return min(free, pool.get_limit() - pool.used_bytes()) if pool.get_limit() else free

    def workspace(self, a: Array, b: Array, out: Array, has_addend: bool, precision: str) -> int:
        """Return the bytes of workspace that the product of two arrays needs.

        Args:
            a, b, out: Shapes, strides and types of the operands and the result.
            has_addend: Whether a third array is added to the product.
            precision: Precision, as for ``tiledmm.matmul``.
        """
        epilogue = resolve_epilogue(a.dtype, "same_kind", EpilogueKeywords(out, 1, 1)) if has_addend else None
        call = resolve_call(a, b, out, UfuncKeywords(), epilogue)
        return choose(call, KernelKeywords(precision=precision), devices.device_model).workspace

    def allocate(self, workspace: int, size: int) -> None:
        """Allocate ``workspace`` bytes for the workspace of products, then ``size`` bytes for panels and tiles."""
        self._memory, self._workspace = cupy.cuda.alloc(workspace + size), workspace
        # CuPy's pool may return memory that the current stream is still using.
        cupy.cuda.get_current_stream().synchronize()

    def rows(self, begin: int, shape: tuple[int, int], pitch: int, dtype: Any) -> Any:
        """Return a matrix in the allocated memory, whose rows are contiguous.

        Args:
            begin: Offset of the matrix from the end of the workspace, in bytes.
            shape: Rows and columns.
            pitch: Distance between the beginnings of two rows, in bytes.
            dtype: Type of the elements.
        """
        memory = self._memory + (self._workspace + begin)
        return cupy.ndarray(shape, dtype, memory, (pitch, np.dtype(dtype).itemsize))

    def page_locked(self, size: int) -> _HostArray:
        """Allocate page-locked host memory, and return it as an array of ``size`` bytes."""
        return np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)

    def is_page_locked(self, x: _HostArray) -> bool:
        """Return whether CUDA reports the first and the last element of an array as page-locked host memory."""
        runtime = cupy.cuda.runtime
        try:
            ends = x.ctypes.data, x[-1:, -1:].ctypes.data
            return all(runtime.pointerGetAttributes(end).type == runtime.memoryTypeHost for end in ends)
        except runtime.CUDARuntimeError:  # old runtimes raise this for memory that CUDA does not manage
            return False

    def stream(self) -> Any:
        """Create and return a stream. ``close`` will wait for its work."""
        self._streams.append(cupy.cuda.Stream(non_blocking=True))
        return self._streams[-1]

    def record(self, stream: Any) -> Any:
        """Return an event that happens when the work that a stream has been given so far is done."""
        event = cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def wait(self, stream: Any, event: Any) -> None:
        """Make later work on a stream wait for an event."""
        stream.wait_event(event)

    def synchronize(self, event: Any) -> None:
        """Block the host until an event has happened."""
        event.synchronize()

    def copy_in(self, rows: Any, host: _HostArray, stream: Any) -> None:
        """Start a copy of rows from page-locked host memory to the device."""
        kind = cupy.cuda.runtime.memcpyHostToDevice
        _copy(_place(rows.data.ptr, rows), _place(host.ctypes.data, host), host, kind, stream)

    def copy_out(self, host: _HostArray, rows: Any, stream: Any) -> None:
        """Start a copy of rows from the device into page-locked host memory."""
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        _copy(_place(host.ctypes.data, host), _place(rows.data.ptr, rows), host, kind, stream)

    def product(self, a: Any, b: Any, out: Any, addend: Any, precision: Precision, stream: Any) -> None:
        """Launch ``out = a @ b`` on a stream, or ``out = a @ b + addend`` if the addend is not None."""
        with stream, cupy.cuda.using_allocator(self._scratch):
            if addend is None:
                api.matmul(a, b, out=out, precision=precision)
            else:
                api.gemm(a, b, addend, beta=1, out=out, precision=precision)

    def _scratch(self, size: int) -> Any:
        """Return a pointer to the workspace. CuPy calls this method to allocate ``size`` bytes.

        Every call returns the same memory, because products follow each other on one stream.

        Raises:
            cupy.cuda.memory.OutOfMemoryError: If the workspace is smaller than ``size``.
        """
        if size > self._workspace:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, self._workspace)
        return self._memory

    def close(self) -> None:
        """Wait for the work of all streams, then release the device memory."""
        for stream in self._streams:
            stream.synchronize()
        self._memory = None


def _place(address: int, rows: Any) -> tuple[int, int]:
    """Return the two arguments of CUDA's 2-D copies that describe rows in memory: their address, and their pitch.

    The pitch is the distance between the beginnings of two rows, in bytes. For a single row it is the width of the row,
    because CUDA checks the pitch even then.
    """
    return address, rows.strides[0] if rows.shape[0] > 1 else rows.shape[1] * rows.itemsize


def _copy(to: tuple[int, int], begin: tuple[int, int], rows: _HostArray, kind: int, stream: Any) -> None:
    height, width = rows.shape
    cupy.cuda.runtime.memcpy2DAsync(*to, *begin, width * rows.itemsize, height, kind, stream.ptr)
