"""The current GPU as streaming products see it: tests have another one, which runs on the host.

Functions that take ``rows`` take a matrix of layout T transposed: its rows are contiguous.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import cupy
import numpy as np

from tiledmm import api, devices
from tiledmm.problem.arrays import Array
from tiledmm.problem.epilogue import EpilogueKeywords, resolve_epilogue
from tiledmm.problem.keywords import KernelKeywords, Precision, UfuncKeywords
from tiledmm.selection.front_end import choose, resolve_call

_HostArray: TypeAlias = np.ndarray[Any, Any]


class Device:
    """The current GPU: its memory, its streams, copies to and from it, and products on it.

    Its memory is one allocation, with the workspace of products at its beginning: so a limit is kept whatever CuPy's
    pool does.

    Attributes:
        name: Its name.
    """

    def __init__(self) -> None:
        self._id: int = devices.current_device()
        self.name: str = devices.device_model().gpu.name
        self._streams: list[Any] = []
        self._memory: Any = None
        self._workspace = 0

    def activate(self) -> None:
        """Makes it the current device of another thread."""
        cupy.cuda.Device(self._id).use()

    def free_bytes(self) -> int:
        """Bytes of device memory that can be had: what is free, and what CuPy's pool keeps, within its limit."""
        pool = cupy.get_default_memory_pool()
        free = int(cupy.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())
        return min(free, pool.get_limit() - pool.used_bytes()) if pool.get_limit() else free

    def workspace(self, a: Array, b: Array, out: Array, has_addend: bool, precision: str) -> int:
        """Bytes of workspace of ``product`` of such arrays."""
        epilogue = resolve_epilogue(a.dtype, "same_kind", EpilogueKeywords(out, 1, 1)) if has_addend else None
        call = resolve_call(a, b, out, UfuncKeywords(), precision, epilogue=epilogue)
        return choose(call, KernelKeywords(precision=precision), devices.device_model).workspace

    def allocate(self, workspace: int, size: int) -> None:
        """Takes all memory: so many bytes for workspace, and so many for panels and tiles."""
        self._memory, self._workspace = cupy.cuda.alloc(workspace + size), workspace
        # The pool hands out memory that the current stream may still be using.
        cupy.cuda.get_current_stream().synchronize()

    def rows(self, begin: int, shape: tuple[int, int], pitch: int, dtype: Any) -> Any:
        """A matrix at a byte of the memory behind the workspace, its rows contiguous and ``pitch`` bytes apart."""
        memory = self._memory + (self._workspace + begin)
        return cupy.ndarray(shape, dtype, memory, (pitch, np.dtype(dtype).itemsize))

    def page_locked(self, size: int) -> _HostArray:
        """Page-locked host memory."""
        return np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)

    def is_page_locked(self, x: _HostArray) -> bool:
        """Whether an array is in page-locked host memory, as far as CUDA knows."""
        runtime = cupy.cuda.runtime
        try:
            ends = x.ctypes.data, x[-1:, -1:].ctypes.data
            return all(runtime.pointerGetAttributes(end).type == runtime.memoryTypeHost for end in ends)
        except runtime.CUDARuntimeError:  # memory that CUDA does not know is an error to old runtimes
            return False

    def stream(self) -> Any:
        """A new stream."""
        self._streams.append(cupy.cuda.Stream(non_blocking=True))
        return self._streams[-1]

    def record(self, stream: Any) -> Any:
        """An event after all that a stream was given so far."""
        event = cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def wait(self, stream: Any, event: Any) -> None:
        """Lets a stream wait for an event."""
        stream.wait_event(event)

    def synchronize(self, event: Any) -> None:
        """Waits for an event on the host."""
        event.synchronize()

    def copy_in(self, rows: Any, host: _HostArray, stream: Any) -> None:
        """Copies page-locked rows to the device."""
        kind = cupy.cuda.runtime.memcpyHostToDevice
        _copy(_place(rows.data.ptr, rows), _place(host.ctypes.data, host), host, kind, stream)

    def copy_out(self, host: _HostArray, rows: Any, stream: Any) -> None:
        """Copies rows from the device into page-locked memory."""
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        _copy(_place(host.ctypes.data, host), _place(rows.data.ptr, rows), host, kind, stream)

    def product(self, a: Any, b: Any, out: Any, addend: Any, precision: Precision, stream: Any) -> None:
        """``a @ b``, plus the addend if it is not None, into ``out``."""
        with stream, cupy.cuda.using_allocator(self._scratch):
            if addend is None:
                api.matmul(a, b, out=out, precision=precision)
            else:
                api.gemm(a, b, addend, beta=1, out=out, precision=precision)

    def _scratch(self, size: int) -> Any:
        """The workspace of a product: the same for all, which follow each other on one stream."""
        if size > self._workspace:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, self._workspace)
        return self._memory

    def close(self) -> None:
        """Waits for all streams, then gives the memory back."""
        for stream in self._streams:
            stream.synchronize()
        self._memory = None


def _place(address: int, rows: Any) -> tuple[int, int]:
    """Where rows begin, and the bytes from one to the next; where there is one row only, its own, as CUDA checks it."""
    return address, rows.strides[0] if rows.shape[0] > 1 else rows.shape[1] * rows.itemsize


def _copy(to: tuple[int, int], begin: tuple[int, int], rows: _HostArray, kind: int, stream: Any) -> None:
    height, width = rows.shape
    cupy.cuda.runtime.memcpy2DAsync(*to, *begin, width * rows.itemsize, height, kind, stream.ptr)
