"""A stand-in GPU in host memory, for ``tiledmm.matmul`` from end to end on CuPy arrays that NumPy can read.

Fresh memory holds NaNs, and every allocation is surrounded by guard bytes. Kernels run in ``tests.kernels_in_numpy`` or
on the simulator. Needs CuPy, but no GPU.
"""

from __future__ import annotations

import bisect
import ctypes
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm.launch.plans
from tests.kernels_in_numpy import Argument, resident_clusters, run_in_numpy
from tests.simulator.unchecked import execute, execute_plain
from tests.strategies import Layout, lay_out, plain
from tiledmm.errors import UnsupportedTypeError
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels import tensor_maps
from tiledmm.kernels.spec import KernelSpec
from tiledmm.launch import by_cupy, devices, forms, plan, prepared
from tiledmm.selection import tuned
from tiledmm.selection.model import Model

#: Guard bytes before and after an allocation, and their value, which as a float is an ordinary but rare number.
_GUARD, _GUARDED = 4096, 0xA5

# Where CuPy's allocations begin.
_ALIGNMENT = 512


class Memory:
    """Allocations surrounded by guard bytes."""

    def __init__(self) -> None:
        self._buffers: dict[
            int, tuple[np.ndarray, int]
        ] = {}  # by address: all of it, and how many bytes were asked for
        self._begins: list[int] = []

    def allocate(self, size: int) -> int:
        """Allocate ``size`` bytes, each of them 255, and return their address."""
        room = np.full(size + 2 * _GUARD + _ALIGNMENT, _GUARDED, np.uint8)
        address = room.ctypes.data + _GUARD
        address += -address % _ALIGNMENT
        self._buffers[address] = room, size
        bisect.insort(self._begins, address)
        self.bytes(address, size)[:] = 255
        return address

    def free(self, address: int) -> None:
        """Free an allocation; raise an error if there is none at the address."""
        self._check(address)
        del self._buffers[address]
        self._begins.remove(address)

    @property
    def count(self) -> int:
        """Number of allocations."""
        return len(self._begins)

    def check(self) -> None:
        """Raise AssertionError if a guard byte was written."""
        for address in self._buffers:
            self._check(address)

    def _check(self, address: int) -> None:
        room, size = self._buffers[address]
        first = address - room.ctypes.data
        outside = np.concatenate((room[:first], room[first + size :]))
        assert (outside == _GUARDED).all(), f"{int((outside != _GUARDED).sum())} bytes were written outside of {size}"

    def allocation(self, address: int) -> tuple[int, np.ndarray]:
        """Return the address and bytes of the allocation that contains an address or precedes it."""
        begin = self._begins[max(bisect.bisect_right(self._begins, address) - 1, 0)]
        room, size = self._buffers[begin]
        first = begin - room.ctypes.data
        return begin, room[first : first + size]

    def bytes(self, address: int, size: int) -> np.ndarray:
        """Return ``size`` bytes from an address, which must all be in one allocation."""
        begin, room = self.allocation(address)
        first = address - begin
        assert first >= 0 and first + size <= len(room), f"{size} bytes at {first} of {len(room)}: out of bounds"
        return room[first : first + size]

    def view(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array within one allocation, with strides in elements."""
        kind = np.dtype(dtype)
        if 0 in shape:
            return np.empty(shape, kind)
        reach = [(size - 1) * stride * kind.itemsize for size, stride in zip(shape, strides, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + kind.itemsize
        assert address % kind.itemsize == 0, f"{address:#x} is no address of {kind}"
        whole = self.bytes(address + low, high - low)
        return np.ndarray(shape, kind, whole.data, -low, tuple(stride * kind.itemsize for stride in strides))


class HostArray(cupy.ndarray):
    """A CuPy array in host memory, which supports what a product needs."""

    owner: HostGpu

    @property
    def held(self) -> np.ndarray:
        """NumPy array over the same memory."""
        first = (ctypes.c_char * self.dtype.itemsize).from_address(self.data.ptr)
        return np.lib.stride_tricks.as_strided(np.frombuffer(first, self.dtype), self.shape, self.strides)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.size:
            self.held[key] = value.held

    def fill(self, value: Any) -> None:
        if self.size:
            self.held.fill(value)

    def astype(self, dtype: Any) -> Any:
        self.owner.copies += 1
        if not self.size:
            return self.owner.array(np.empty(self.shape, dtype))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)  # CuPy has one of its own
            converted = self.held.astype(dtype)
        order = sorted(range(self.ndim), key=lambda axis: (-converted.strides[axis], axis))  # as it was in memory
        return self.owner.array(converted, replace(plain(self.ndim), memory=tuple(order)))


class OutOfDeviceMemory(RuntimeError):
    """A stand-in for the ``CUDARuntimeError`` of a failed allocation, since CuPy's asks the driver for its message."""

    status = 2


class HostEvent:
    """A stand-in event.

    Attributes:
        after: Number of kernels that had been launched when it was recorded.
        done: Whether what was launched before it has ended.
        synchronized: How many times the host has waited for it.
    """

    def __init__(self, launched: list[KernelSpec]) -> None:
        self._launched = launched
        self.after, self.done, self.synchronized = -1, False, 0

    def record(self) -> None:
        self.after = len(self._launched)

    def synchronize(self) -> None:
        self.synchronized += 1
        self.done = True


class HostGpu:
    """A stand-in device with memory, a stream and a data sheet.

    Attributes:
        gpu: Data sheet of the GPU.
        memory: Memory with its allocations.
        launched: Kernels that ran, in order.
        most: Bytes of the largest possible allocation; None for no limit.
        failed: Number of failed allocations.
        capturing: Whether the stream is being captured in a graph.
        captured: Number of allocations on the stream itself, as graphs need them.
        copies: Number of conversions requested from CuPy.
        events: Events that were made, in order.
        waited: Those that the stream has waited for, in order.
    """

    def __init__(self, run: Callable[..., None] = run_in_numpy) -> None:
        self.gpu = REFERENCE_GPUS["sm_90"]
        self.memory = Memory()
        self.launched: list[KernelSpec] = []
        self.events: list[HostEvent] = []
        self.waited: list[HostEvent] = []
        self.capturing = False
        self.most: int | None = None
        self.captured = self.copies = self.failed = 0
        self._run = run
        self._models: dict[tuple[str, bool], Model] = {}

    # ---- arrays ----

    def array(self, values: Any, layout: Layout | None = None) -> HostArray:
        """Return an array with these values in a layout, with poisoned gaps between its elements."""
        values = np.asarray(values)
        xp = SimpleNamespace(full=self._full, asarray=np.asarray, empty=np.empty, broadcast_to=np.broadcast_to)
        placed, _ = lay_out(xp, values, layout or plain(values.ndim), poison=True)
        return self.over(placed) if placed.size else self._empty(values.shape, values.dtype)

    def over(self, x: np.ndarray) -> HostArray:
        """Return an array of this device over a NumPy array's memory."""
        memory = cupy.cuda.UnownedMemory(x.ctypes.data, max(x.nbytes, 1), x, 0)
        return self._made(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, 0), strides=x.strides)

    def _made(self, *arguments: Any, **keywords: Any) -> HostArray:
        made = HostArray(*arguments, **keywords)
        made.owner = self
        return made

    def _full(self, shape: Any, value: Any, dtype: Any) -> np.ndarray:
        kind = np.dtype(dtype)
        memory = self.memory.bytes(self.memory.allocate(size := int(np.prod(shape)) * kind.itemsize), size)
        array = memory.view(kind).reshape(shape)
        array[...] = value
        return array

    def _empty(self, shape: Any, dtype: Any = float, memory: Any = None, strides: Any = None, order: str = "C") -> Any:
        shape, kind = (shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype)
        if memory is None:
            memory = self._alloc(int(np.prod(shape)) * kind.itemsize)
        return self._made(shape, kind, memory, strides=strides, order=order)

    def _alloc(self, size: int) -> Any:
        if self.most is not None and size > self.most:
            self.failed += 1
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, self.most)
        address = self.memory.allocate(size)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, size, self, 0), 0)

    def surroundings(self, x: HostArray) -> np.ndarray:
        """Return a copy of an array's allocation in which the array's elements are zeroed."""
        reach = [min((size - 1) * step, 0) for size, step in zip(x.shape, x.strides, strict=True)]
        low = x.data.ptr + sum(reach)
        begin, room = self.memory.allocation(low)
        copied = room.copy()
        np.ndarray(x.shape, (np.void, x.itemsize), copied.data, x.data.ptr - begin, x.strides)[...] = bytes(x.itemsize)
        return copied

    # ---- in a device's place ----

    def become(self, target: str) -> None:
        """Become a target's reference machine, with empty memory."""
        self.gpu = REFERENCE_GPUS[target]
        self.memory, self.launched = Memory(), []
        self.most = None
        self.captured = self.copies = self.failed = 0
        tiledmm.launch.plans.forget_plans()

    def install(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
        """Make the package find this device, with an empty folder for its measurements and empty caches."""
        stream = SimpleNamespace(ptr=0, is_capturing=lambda: self.capturing, wait_event=self.waited.append)
        runtime = SimpleNamespace(
            memsetAsync=lambda address, value, size, stream: self.memory.bytes(address, size).fill(value),
            mallocAsync=self._malloc_async,
            freeAsync=lambda address, stream: self.memory.free(address),
            setDevice=lambda device: None,
        )
        cuda = SimpleNamespace(
            alloc=self._alloc,
            get_current_stream=lambda: stream,
            runtime=runtime,
            UnownedMemory=cupy.cuda.UnownedMemory,
            MemoryPointer=cupy.cuda.MemoryPointer,
            Event=self._event,
        )
        stands = SimpleNamespace(ndarray=_Constructor(self._empty), empty=self._empty, copyto=self._copyto, cuda=cuda)
        for module in (by_cupy, devices, forms, plan, prepared):
            monkeypatch.setattr(module, "cupy", stands)
        for module in (forms, plan):
            monkeypatch.setattr(module, "raw_kernels", lambda kernels: [self._raw_kernel(each) for each in kernels])
        monkeypatch.setattr(prepared, "_PreparedArgument", lambda array: array)
        monkeypatch.setattr(prepared, "launch_function", lambda: None)
        monkeypatch.setattr(prepared, "resident_clusters", lambda function, cluster, *told: resident_clusters(cluster))
        for module in (devices, prepared):
            monkeypatch.setattr(module, "current_device", lambda: 0)
            monkeypatch.setattr(module, "device_model", self._model)
        monkeypatch.setattr(tensor_maps.TensorMap, "encode", encode)
        # The folder of all that is kept has the simulator's compiled kernels, too.
        monkeypatch.setattr(tuned, "path_of", lambda gpu: cache / f"{gpu}.json")
        tuned.table_of.cache_clear()
        prepared._encoded.cache_clear()
        self.become(self.gpu.arch.name)

    def _malloc_async(self, size: int, stream: int) -> int:
        self.captured += 1
        if self.most is not None and size > self.most:
            self.failed += 1
            raise OutOfDeviceMemory
        return self.memory.allocate(size)

    def _event(self, disable_timing: bool) -> HostEvent:
        assert disable_timing, "timing takes longer"
        self.events.append(HostEvent(self.launched))
        return self.events[-1]

    def _copyto(self, target: HostArray, source: HostArray, casting: str) -> None:
        self.copies += 1
        if target.size:
            np.copyto(target.held, source.held, casting=casting)  # type: ignore[arg-type]

    def _model(self, ieee: bool = False) -> Model:
        key = self.gpu.name, ieee
        if key not in self._models:
            self._models[key] = Model(self.gpu, ieee=ieee)
        return self._models[key]

    def _raw_kernel(self, spec: KernelSpec) -> Any:
        variant, compute = spec.variant, spec.compute
        if not variant.operands.schemes and not variant.runs_on(self.gpu.arch.capability, compute):
            raise UnsupportedTypeError(f"{spec.symbol} is for other devices than {self.gpu.name}")

        def kernel(grid: tuple[int, ...], block: tuple[int, int], arguments: tuple[Any, ...], shared: int) -> None:
            assert block == spec.block and shared == spec.dynamic_shared_bytes
            if plain := spec.variant.plain:
                self.launched.append(spec)
                return execute_plain(plain, grid, arguments)
            assert grid[1:] in ((), (1,), (1, 1)) and 0 < grid[0] < 2**31
            self.launched.append(spec)
            with np.errstate(over="ignore", invalid="ignore"):
                self._run(self.memory, spec, grid[0], [*map(decoded, arguments)], self.gpu)

        return SimpleNamespace(kernel=kernel)


class _Constructor:
    """A stand-in for ``cupy.ndarray`` that passes ``isinstance`` and makes arrays in host memory."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._make(*arguments, **keywords)

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, cupy.ndarray)


_MAPS: dict[int, tuple[tensor_maps.TensorMap, int]] = {}


def encode(described: tensor_maps.TensorMap, pointer: int) -> Any:
    """Encode a tensor map as strictly as the driver's ``cuTensorMapEncodeTiled``, but as an index."""
    rank = len(described.sizes)
    assert pointer % 16 == 0 and rank == 5 and len(described.strides) == rank - 1
    assert all(0 < size <= 2**32 for size in described.sizes)
    assert all(step % 16 == 0 and 0 <= step < 2**40 for step in described.strides)
    assert described.box[0] * described.itemsize <= 128 and all(0 < side <= 256 for side in described.box)
    _MAPS[len(_MAPS)] = described, pointer
    return np.array([len(_MAPS) - 1, *[0] * 15], np.uint64).view("V128")


def decoded(argument: Any) -> Argument:
    """Decode a kernel's argument: an address, a tensor map and its address, or the members of ``Problem``."""
    if isinstance(argument, int):
        return argument
    words = argument.view(np.int64)
    if words.nbytes == 128 and int(words[0]) in _MAPS and not words[1:].any():
        return _MAPS[int(words[0])]
    return int(words[0]) if words.size == 1 else words


def run_on_simulator(memory: Memory, spec: KernelSpec, blocks: int, arguments: list[Argument], gpu: Any) -> None:
    """Simulate a kernel's CUDA C for compute capability 9.0."""
    execute(spec, blocks, [ctypes.c_void_p(x) if isinstance(x, int) else x for x in arguments])
