"""Tests of each call that the device of streaming products makes to CuPy. Needs CuPy, but no GPU."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

from tiledmm.distributed import cuda_device
from tiledmm.launch import devices
from tiledmm.problem.arrays import Array
from tiledmm.selection.model import H100, H100_IEEE

pytestmark = pytest.mark.cupy


class Stream:
    def __init__(self, cupys: Cupy, number: int, options: dict[str, Any]) -> None:
        self.log, self.ptr, self.options = cupys.log, number, options
        self.cupys = cupys

    def synchronize(self) -> None:
        self.log.append(("synchronize", self.ptr))

    def wait_event(self, event: Any) -> None:
        self.log.append(("wait", self.ptr, event))

    def __enter__(self) -> None:
        self.before, self.cupys.current = self.cupys.current, self.ptr

    def __exit__(self, *_: Any) -> None:
        self.cupys.current = self.before


class Cupy:
    """A stand-in for the parts of CuPy that the device uses.

    Attributes:
        log: Recorded calls.
        current: Current stream.
        types: Memory type that CUDA reports, by address; other addresses are errors.
        limit: Limit of the pool in bytes; 0 for no limit.
    """

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.current, self.limit, self.types = 0, 0, dict[int, int]()
        self.allocators: list[Any] = []
        own = cupy.cuda.runtime
        self.runtime = SimpleNamespace(
            memcpy2DAsync=lambda *each: self.log.append(("copy", *each)), memcpyHostToDevice=1, memcpyDeviceToHost=2,
            memoryTypeHost=1, memGetInfo=lambda: (3000, 9000), pointerGetAttributes=self._attributes,
            CUDARuntimeError=KeyError,
        )  # fmt: skip
        assert own.memcpyHostToDevice == 1 and own.memcpyDeviceToHost == 2 and own.memoryTypeHost == 1
        numbers = iter(range(11, 99))
        self.cuda = SimpleNamespace(
            runtime=self.runtime, Stream=lambda **options: Stream(self, next(numbers), options),
            memory=cupy.cuda.memory,
            Device=lambda number: SimpleNamespace(use=lambda: self.log.append(("use", number))),
            get_current_stream=lambda: Stream(self, 7, {}), using_allocator=self._using, alloc=self._alloc,
            alloc_pinned_memory=bytearray,
        )  # fmt: skip

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: 500, used_bytes=lambda: 1200, get_limit=lambda: self.limit)

    def _attributes(self, address: int) -> Any:
        return SimpleNamespace(type=self.types[address])

    def _alloc(self, size: int) -> int:
        self.log.append(("alloc", size))
        return 100_000

    @contextlib.contextmanager
    def _using(self, allocate: Any) -> Any:
        self.allocators.append(allocate)
        yield
        self.allocators.pop()

    def ndarray(self, *made: Any) -> tuple[Any, ...]:
        return made


@pytest.fixture
def cupys(monkeypatch: pytest.MonkeyPatch) -> Cupy:
    made = Cupy()
    monkeypatch.setattr(cuda_device, "cupy", made)
    monkeypatch.setattr(devices, "current_device", lambda: 5)
    monkeypatch.setattr(devices, "device_model", lambda ieee=False: H100_IEEE if ieee else H100)
    return made


@pytest.fixture
def device(cupys: Cupy) -> cuda_device.Device:
    return cuda_device.Device()


def test_it_is_the_current_device_in_other_threads_too(device: Any, cupys: Cupy, monkeypatch: Any) -> None:
    monkeypatch.setattr(devices, "current_device", lambda: 6)
    device.activate()
    assert cupys.log == [("use", 5)] and device.name == H100.gpu.name


@pytest.mark.parametrize(("limit", "free"), [(0, 3500), (10_000, 3500), (4000, 2800), (1200, 0)])
def test_free_memory_is_that_of_the_device_and_of_the_pool_within_its_limit(
    limit: int, free: int, device: Any, cupys: Cupy
) -> None:
    cupys.limit = limit
    assert device.free_bytes() == free


def test_memory_is_one_allocation_with_the_workspace_at_its_beginning(device: Any, cupys: Cupy) -> None:
    device.allocate(1024, 5000)
    assert cupys.log == [("alloc", 6024), ("synchronize", 7)]
    assert device.rows(512, (3, 4), 64, np.float32) == ((3, 4), np.float32, 101_536, (64, 4))
    assert device.rows(0, (3, 4), 32, np.dtype("c16")) == ((3, 4), np.dtype("c16"), 101_024, (32, 16))
    page_locked = device.page_locked(100)
    assert page_locked.nbytes == 100 and page_locked.dtype == np.uint8


@pytest.mark.parametrize("precision", ["full", "ieee", "tf32"])
def test_products_run_on_their_stream_in_the_devices_memory(
    precision: str, device: Any, cupys: Cupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def told(name: str) -> Any:
        def product(*arrays: Any, **keywords: Any) -> None:
            (allocate,) = cupys.allocators
            assert allocate(1024) == 100_000
            with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
                allocate(1025)
            asked.append((name, arrays, keywords, cupys.current))

        return product

    monkeypatch.setattr(cuda_device, "api", SimpleNamespace(matmul=told("matmul"), gemm=told("gemm")))
    device.allocate(1024, 5000)
    stream = device.stream()
    device.product("a", "b", "c", None, precision, stream)
    device.product("a", "b", "c", "d", precision, stream)
    assert asked == [
        ("matmul", ("a", "b"), {"out": "c", "precision": precision}, stream.ptr),
        ("gemm", ("a", "b", "d"), {"beta": 1, "out": "c", "precision": precision}, stream.ptr),
    ]
    assert cupys.current == 0 and not cupys.allocators


def test_copies_have_their_direction_stream_and_pitches(device: Any, cupys: Cupy) -> None:
    host = np.zeros((9, 20), np.float32)[::2, :7]
    rows = SimpleNamespace(data=SimpleNamespace(ptr=4096), shape=(5, 7), strides=(64, 4), itemsize=4)
    stream = device.stream()
    device.copy_in(rows, host, stream)
    device.copy_out(host, rows, stream)
    address = host.ctypes.data
    assert cupys.log == [
        ("copy", 4096, 64, address, 160, 28, 5, 1, stream.ptr), ("copy", address, 160, 4096, 64, 28, 5, 2, stream.ptr),
    ]  # fmt: skip
    cupys.log.clear()
    one = SimpleNamespace(data=SimpleNamespace(ptr=4096), shape=(1, 7), strides=(3, 4), itemsize=4)
    device.copy_in(one, host[:1], stream)
    assert cupys.log == [("copy", 4096, 28, address, 28, 28, 1, 1, stream.ptr)], "CUDA checks the pitch of one row"


def test_a_matrix_is_page_locked_if_both_its_ends_are(device: Any, cupys: Cupy) -> None:
    x = np.zeros((4, 5), np.float32)
    first, last = x.ctypes.data, x[3:, 4:].ctypes.data
    for types, locked in (
        ({first: 1, last: 1}, True), ({first: 1, last: 0}, False), ({first: 0, last: 1}, False),
        ({first: 2, last: 2}, False), ({first: 1}, False), ({}, False),
    ):  # fmt: skip
        cupys.types = types
        assert device.is_page_locked(x) is locked


def test_streams_wait_for_events_and_are_waited_for_at_the_end(
    device: Any, cupys: Cupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def event(disable_timing: bool) -> Any:
        assert disable_timing
        return SimpleNamespace(
            record=lambda stream: cupys.log.append(("record", stream.ptr)),
            synchronize=lambda: cupys.log.append(("synchronize event",)),
        )

    cupys.cuda.Event = event
    streams = [device.stream() for _ in range(3)]
    assert all(stream.options == {"non_blocking": True} for stream in streams)
    recorded = device.record(streams[0])
    device.wait(streams[1], recorded)
    device.synchronize(recorded)
    device.close()
    assert cupys.log == [
        ("record", 11), ("wait", 12, recorded), ("synchronize event",), *[("synchronize", ptr) for ptr in (11, 12, 13)],
    ]  # fmt: skip


def test_the_workspace_is_that_of_the_product_that_will_run(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    choose = cuda_device.choose

    def chosen(call: Any, kernel: Any, models: Any) -> Any:
        asked.append((kernel.precision, call.multiplied.epilogue))
        return choose(call, kernel, models)

    monkeypatch.setattr(cuda_device, "choose", chosen)

    def array(rows: int, cols: int, dtype: str = "f4") -> Array:
        return Array.allocated((rows, cols), np.dtype(dtype))

    wide = [device.workspace(array(3000, 4000), array(4000, 3000), array(3000, 3000), add, "full") for add in (0, 1)]
    ieee = device.workspace(array(3000, 4000), array(4000, 3000), array(3000, 3000), False, "ieee")
    device.workspace(array(64, 64, "f2"), array(64, 64, "f2"), array(64, 64), True, "full")
    device.workspace(array(64, 64), array(64, 64), array(64, 64), False, "tf32")
    assert min(wide) > 3000 * 4000 * 4 and ieee not in wide, "operands are decomposed, or not"
    assert [precision for precision, _ in asked] == ["full", "full", "ieee", "full", "tf32"]
    assert [epilogue is not None for _, epilogue in asked] == [False, True, False, True, False]
    assert asked[1][1].names == ("addend",) and asked[1][1].scalars == ()
