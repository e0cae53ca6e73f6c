"""Tests on the host of how products are divided among GPUs; their streams and events are tested in ``tests/gpu``."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

from tests.strategies import small_integers
from tiledmm import multi_gpu
from tiledmm.distributed import several, streaming
from tiledmm.errors import KeywordTypeError, KeywordValueError, OperandTypeError, ShapeError, UnsupportedTypeError

pytestmark = pytest.mark.cupy


class Array(np.ndarray):
    """A stand-in for a CuPy array on device 0."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data, device_id=0)


class Stream(contextlib.nullcontext):  # type: ignore[type-arg]
    ptr = 0

    def __init__(self, non_blocking: bool = True) -> None:
        super().__init__(self)

    def record(self) -> str:
        return "event"

    def wait_event(self, event: str) -> None:
        assert event == "event"


def copy(to: int, to_pitch: int, begin: int, pitch: int, width: int, height: int, kind: int, stream: int) -> None:
    assert width <= to_pitch and width <= pitch and kind == 4
    for row in range(height):
        ctypes.memmove(to + row * to_pitch, begin + row * pitch, width)


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make up three devices in host memory."""
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 3, deviceCanAccessPeer=lambda one, other: 0, memcpyDefault=4, memcpy2DAsync=copy
    )
    cuda = SimpleNamespace(
        runtime=runtime, Stream=Stream, get_current_stream=Stream, Device=lambda number: contextlib.nullcontext()
    )
    stands = SimpleNamespace(
        cuda=cuda,
        ndarray=Array,
        empty=lambda shape, dtype: np.full(shape, np.nan, dtype).view(Array),
        ascontiguousarray=lambda x: np.ascontiguousarray(x).view(Array),
        may_share_memory=np.may_share_memory,
    )
    monkeypatch.setattr(several, "cupy", stands)
    monkeypatch.setattr(several, "np", SimpleNamespace(ndarray=type(None)))  # none of these are host arrays
    monkeypatch.setattr(several.devices, "current_device", lambda: 0)
    monkeypatch.setattr(several, "api", SimpleNamespace(matmul=lambda a, b, out, precision: np.matmul(a, b, out=out)))
    monkeypatch.setattr(several, "_expected_seconds", lambda *product: 0.0)
    several._kept.__dict__.clear()


def laid_out(x: np.ndarray, layout: str) -> Array:
    """Copy a matrix to rows, columns or neither, with a margin around it."""
    rows, cols = x.shape
    wide = {"N": np.zeros((rows, cols + 3)), "T": np.zeros((cols, rows + 5)).T, "G": np.zeros((2 * rows, 2 * cols))}
    made = wide[layout].astype(x.dtype, order="K").view(Array)
    made = made[::2, ::2] if layout == "G" else made[:rows, :cols]
    made[...] = x
    return made


@pytest.mark.parametrize(
    "layouts", ["NTG", "TGN", "GNT", *(pytest.param(3 * letter, marks=pytest.mark.slow) for letter in "NTG")]
)
def test_layouts(layouts: str) -> None:
    rng = np.random.default_rng(1)
    for numbers in ([1, 2], [2, 0, 1], [0, 0]):
        for m, n, k in ((600, 1100, 6), (3, 5, 7), (1, 300, 2), (700, 1, 1)):
            left, right = small_integers(rng, (m, k), "f8"), small_integers(rng, (k, n), "f8")
            a, b = laid_out(left, layouts[0]), laid_out(right, layouts[1])
            np.testing.assert_array_equal(multi_gpu.matmul(a, b, devices=numbers), left @ right)
            out = laid_out(np.full((m, n), np.nan), layouts[2])
            assert multi_gpu.matmul(a, b, out, devices=numbers) is out
            np.testing.assert_array_equal(out, left @ right)


@pytest.mark.parametrize("numbers", [[0, 1], [2, 0, 1], [1, 2], [0]])
def test_who_must_copy_gets_less(numbers: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimpleNamespace(gpu=SimpleNamespace(nvlink=450e9))
    monkeypatch.setattr(several.devices, "device_model", lambda: model)
    x = laid_out(np.ones((1200, 1200)), "N")
    y, found = laid_out(np.ones((1200, 3)), "N"), {}
    for linked, microseconds in ((0, 1000), (1, 1000), (1, 100)):

        def seconds(m: int, n: int, *others: Any, us: float = microseconds) -> float:
            return 1e-6 * us * m * n / x.size

        monkeypatch.setattr(several, "_expected_seconds", seconds)
        monkeypatch.setattr(several.cupy.cuda.runtime, "deviceCanAccessPeer", lambda one, other, yes=linked: yes)
        each = several.fractions(numbers, x, x, x, "full")
        found[linked, microseconds] = each[numbers.index(0)] if 0 in numbers else None
        assert sum(each) == pytest.approx(1)
        np.testing.assert_array_equal(multi_gpu.matmul(x, y, devices=numbers), x @ y)
    equal = 1 / len(numbers)
    if len(numbers) > 1 and 0 in numbers:
        assert equal < found[1, 1000] < min(found[0, 1000], found[1, 100])
    else:
        assert set(found.values()) <= {None, equal}


@pytest.mark.parametrize("shape", [(0, 5, 4), (5, 0, 4), (5, 4, 0), (1, 3, 2), (3, 1, 1)])
def test_few_or_no_rows_and_columns(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    m, n, k = shape
    monkeypatch.setattr(several.devices, "device_model", lambda: SimpleNamespace(gpu=SimpleNamespace(nvlink=450e9)))
    monkeypatch.setattr(several, "_expected_seconds", lambda m, n, *others: 1e-6 + 1e-9 * m * n)
    a, b = (laid_out(np.ones(size), "N") for size in ((m, k), (k, n)))
    np.testing.assert_array_equal(multi_gpu.matmul(a, b, devices=[0, 1]), np.full((m, n), k))


def test_out_may_be_an_operand() -> None:
    x = laid_out(small_integers(np.random.default_rng(2), (520, 520), "f8"), "N")
    wanted = np.asarray(x) @ np.asarray(x)
    assert multi_gpu.matmul(x, x, x, devices=[0, 1]) is x
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("begin", [0, 1, 600])
def test_out_may_overlap_an_operand(operand: int, begin: int) -> None:
    """Check that C may overlap A or B although other devices still read them when C's first rows are written."""
    rng = np.random.default_rng(3)
    memory = small_integers(rng, (1300 * 600,), "f8").view(Array)
    arrays = [memory[: 600 * 600].reshape(600, 600), laid_out(small_integers(rng, (600, 600), "f8"), "N")]
    a, b = arrays[::-1] if operand else arrays
    wanted, out = np.asarray(a) @ np.asarray(b), memory[begin : begin + 600 * 600].reshape(600, 600)
    for numbers in ([1, 2], [0, 1], [0, 0, 1]):
        before = memory.copy()
        assert multi_gpu.matmul(a, b, out, devices=numbers) is out
        np.testing.assert_array_equal(out, wanted)
        memory[...] = before


REPEATED = {
    "one row for all": (0, 8), "one column for all": (8, 0), "one element for all": (0, 0),
    "rows that overlap": (16, 8), "columns that overlap": (8, 24),
    "rows backward": (-4000, 8), "columns backward": (8, -4000), "all backward": (-4000, -8),
}  # fmt: skip


@pytest.mark.parametrize("strides", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("operand", [0, 1])
def test_rows_that_are_not_one_after_the_other(strides: tuple[int, int], operand: int) -> None:
    """Check operands with overlapping rows, which two-dimensional copies do not support."""
    rng = np.random.default_rng(4)
    memory = small_integers(rng, (600 * 1000,), "f8")  # around all that a copy of rows one after the other would read
    x = np.lib.stride_tricks.as_strided(memory[300_000:], (530, 300), strides).view(Array)
    other = laid_out(small_integers(rng, (300, 520) if operand == 0 else (270, 530), "f8"), "N")
    a, b = (x, other) if operand == 0 else (other, x)
    for numbers in ([1, 2], [0, 1]):
        np.testing.assert_array_equal(multi_gpu.matmul(a, b, devices=numbers), np.asarray(a) @ np.asarray(b))


# ---- order ----


class Clocked(contextlib.AbstractContextManager["Clocked"]):
    """A stream that tracks which operations precede its next one."""

    def __init__(self, gpu: Gpus, device: int) -> None:
        self.gpu, self.device, self.known, self.ptr = gpu, device, set[int](), len(gpu.streams)
        gpu.streams.append(self)

    def __enter__(self) -> Clocked:
        self.gpu.current.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        self.gpu.current.pop()

    def record(self) -> frozenset[int]:
        return frozenset(self.known)

    def wait_event(self, event: frozenset[int]) -> None:
        self.known |= event


class Gpus:
    """A set of devices that checks that operations on the same memory are ordered and on the right device.

    Attributes:
        done: Per operation, the arrays that it touches, and whether it writes them.
        allocated: Each array of a device's pool, and the stream on which it is freed.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.streams: list[Clocked] = []
        self.done: list[list[tuple[np.ndarray, bool]]] = []
        self.allocated: list[tuple[np.ndarray, Clocked]] = []
        self.at, self.devices = [0], dict[int, int]()
        self.current = [Clocked(self, 0)]
        cuda = several.cupy.cuda
        for name, value in {
            "Stream": lambda non_blocking: Clocked(self, self.at[-1]), "Device": self._device,
            "get_current_stream": lambda: self.current[-1],
        }.items():  # fmt: skip
            monkeypatch.setattr(cuda, name, value)
        monkeypatch.setattr(cuda.runtime, "memcpy2DAsync", self._copy)
        monkeypatch.setattr(several.cupy, "empty", self._empty)
        monkeypatch.setattr(several.cupy, "ascontiguousarray", self._contiguous)
        monkeypatch.setattr(several, "api", SimpleNamespace(matmul=self._multiply))
        monkeypatch.setattr(several.devices, "current_device", lambda: self.at[-1])

    @contextlib.contextmanager
    def _device(self, number: int) -> Any:
        self.at.append(number)
        yield
        self.at.pop()

    def touch(self, stream: Clocked, *arrays: tuple[np.ndarray, bool]) -> None:
        """Perform an operation on a stream, and check that it does not race with operations that may be unfinished."""
        arrays = tuple((np.asarray(x), writes) for x, writes in arrays)
        for number, others in enumerate(self.done):
            if number not in stream.known:
                for (x, writes), (other, wrote) in itertools.product(arrays, others):
                    assert not (writes or wrote) or not np.shares_memory(x, other), f"a race with operation {number}"
        stream.known.add(len(self.done))
        self.done.append([*arrays])

    def _empty(self, shape: tuple[int, int], dtype: Any) -> Array:
        made = np.full(shape, np.nan, dtype).view(Array)
        self.devices[made.ctypes.data] = self.at[-1]
        self.touch(self.current[-1], (made, True))  # as who had that memory before
        self.allocated.append((made, self.current[-1]))
        return made

    def _contiguous(self, x: Array) -> Array:
        made = self._empty(x.shape, x.dtype)
        self.touch(self.current[-1], (x, False), (made, True))
        made[...] = x
        return made

    def _multiply(self, a: Array, b: Array, out: Array, precision: str) -> None:
        assert precision == "ieee"
        assert self.current[-1].device == self.at[-1]
        for x in (a, b, out):
            whole = [each for each, _ in self.allocated if np.may_share_memory(each, x)]
            assert self.at[-1] == (self.devices[whole[0].ctypes.data] if whole else 0), (
                "an operand is on another device"
            )
        self.touch(self.current[-1], (a, False), (b, False), (out, True))
        np.matmul(a, b, out=out)

    def _copy(
        self, to: int, to_pitch: int, begin: int, pitch: int, width: int, height: int, kind: int, ptr: int
    ) -> None:
        def rows(address: int, step: int) -> np.ndarray:
            memory = (ctypes.c_char * (step * (height - 1) + width)).from_address(address)
            return np.lib.stride_tricks.as_strided(np.frombuffer(memory, np.uint8), (height, width), (step, 1))

        self.touch(self.streams[ptr], (rows(begin, pitch), False), (rows(to, to_pitch), True))
        copy(to, to_pitch, begin, pitch, width, height, kind, ptr)


@pytest.mark.parametrize(
    ("numbers", "layouts"), [([0, 1], "NNN"), ([1, 2], "NTN"), ([2, 0, 1], "GGG"), ([1, 1, 2], "TNT")]
)
def test_all_that_touches_the_same_memory_is_in_order(
    numbers: list[int], layouts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus, rng = Gpus(monkeypatch), np.random.default_rng(5)
    mine = gpus.current[0]
    # The second product uses the streams of the first, as far as they are on the same devices; the third all of them.
    for shape, order in (((600, 1100, 50), 1), ((700, 550, 30), -1), ((600, 550, 20), 1)):
        m, n, k = shape
        left, right = small_integers(rng, (m, k), "f8"), small_integers(rng, (k, n), "f8")
        a, b, out = laid_out(left, layouts[0]), laid_out(right, layouts[1]), laid_out(np.zeros((m, n)), layouts[2])
        gpus.touch(mine, (a, True), (b, True), (out, True))  # what was done before
        assert multi_gpu.matmul(a, b, out, devices=numbers[::order], precision="ieee") is out
        np.testing.assert_array_equal(out, left @ right)
        gpus.touch(mine, (a, True), (b, True), (out, True))  # what is done afterwards
        for memory, stream in gpus.allocated:
            gpus.touch(stream, (memory, True))  # who gets that memory next
    assert {stream.device for stream in gpus.streams} == {0, *numbers}


def test_devices_copy_to_each_other_where_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "_linked", set())
    at, enabled = [0], list[tuple[int, int]]()

    class Error(RuntimeError):
        status = 704

    @contextlib.contextmanager
    def device(number: int) -> Any:
        at.append(number)
        yield
        at.pop()

    def enable(other: int) -> None:
        enabled.append((at[-1], other))
        if other == 2:
            raise Error

    runtime = several.cupy.cuda.runtime
    monkeypatch.setattr(several.cupy.cuda, "Device", device)
    monkeypatch.setattr(runtime, "deviceCanAccessPeer", lambda one, other: {one, other} != {0, 1})
    monkeypatch.setattr(runtime, "deviceEnablePeerAccess", enable, raising=False)
    monkeypatch.setattr(runtime, "CUDARuntimeError", Error, raising=False)
    for number, home in ((1, 0), (2, 0), (2, 0), (0, 0), (1, 2)):
        several._let_copy(number, home)
    assert enabled == [(2, 0), (0, 2), (1, 2), (2, 1)], "once each, both ways, and not where they cannot"
    Error.status = 1
    monkeypatch.setattr(several, "_linked", set())
    with pytest.raises(Error):
        several._let_copy(0, 2)


# ---- NumPy's arrays ----


class OnDevice:
    """A stand-in for CuPy's class where NumPy's arrays are meant."""


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int, str]]:
    """Record device, rows, memory and precision of each share that is computed."""
    found: list[tuple[int, int, int, str]] = []
    at = [0]

    @contextlib.contextmanager
    def device(number: int) -> Any:
        at[0] = number
        yield

    def multiply(a: Any, b: Any, out: Any, memory: int, precision: str, told: Any, journal: Any) -> None:
        assert journal is None and told(1, 2) is None
        found.append((at[0], len(a), memory, precision))
        out[...] = a @ b

    class Threads(contextlib.nullcontext):  # type: ignore[type-arg]
        """An executor that runs everything at once, so that there is one current device."""

        def __init__(self, count: int, name: str) -> None:
            super().__init__(self)

        def submit(self, function: Any, *arguments: Any) -> Any:
            function(*arguments)
            return SimpleNamespace(result=lambda: None)

    monkeypatch.setattr(several, "np", np)
    monkeypatch.setattr(several.cupy, "ndarray", OnDevice)
    monkeypatch.setattr(several.cupy.cuda, "Device", device)
    monkeypatch.setattr(several, "ThreadPoolExecutor", Threads)
    monkeypatch.setattr(several, "Device", lambda: SimpleNamespace(free_bytes=lambda: 10_000 * (1 + at[0])))
    monkeypatch.setattr(streaming, "multiply", multiply)
    return found


def test_host_arrays_are_computed_by_rows(shares: list[tuple[int, int, int, str]]) -> None:
    rng = np.random.default_rng(6)
    a, b = small_integers(rng, (1200, 40), "f8"), small_integers(rng, (40, 30), "f8")
    found = multi_gpu.matmul(a, b, devices=[2, 0, 2], precision="ieee")
    np.testing.assert_array_equal(found, a @ b)
    assert found.dtype == np.float64 and sorted(rows for _, rows, *_ in shares) == [256, 432, 512]
    share = streaming.SHARE
    memory = {2: int(share * 30_000) // 2, 0: int(share * 10_000)}
    assert [(number, *others) for number, _, *others in shares] == [(n, memory[n], "ieee") for n in (2, 0, 2)]
    out = np.full((1200, 30), np.nan)
    assert multi_gpu.matmul(a, b, out, devices=[1]) is out
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("shape", [(0, 5, 4), (5, 0, 4), (5, 4, 0)])
def test_host_arrays_without_elements(shape: tuple[int, int, int], shares: list[Any]) -> None:
    m, n, k = shape
    out = np.full((m, n), np.nan)
    assert multi_gpu.matmul(np.ones((m, k)), np.ones((k, n)), out, devices=[0, 1]) is out
    assert not out.any() and not shares


def test_more_devices_than_rows_of_host_arrays(shares: list[Any]) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(multi_gpu.matmul(a, b, devices=[0, 1, 2]), a @ b)
    assert all(rows for _, rows, *_ in shares)


def test_what_is_not_in_one_place(shares: list[Any]) -> None:
    x = np.ones((3, 3))
    for arrays in ((x, OnDevice()), (OnDevice(), x), (x, x, OnDevice()), (x, [[1.0]])):
        with pytest.raises(OperandTypeError):
            multi_gpu.matmul(*arrays, devices=[0])
    for pair in ((x, x.astype("f4")), (x.astype("i4"), x.astype("i4")), (x > 0, x > 0)):
        with pytest.raises(UnsupportedTypeError):
            multi_gpu.matmul(*pair, devices=[0])
    assert not shares


def test_arrays_on_different_devices() -> None:
    class There(Array):
        @property
        def data(self) -> Any:  # type: ignore[override]
            return SimpleNamespace(ptr=self.ctypes.data, device_id=1)

    x = laid_out(np.ones((3, 3)), "N")
    for name, arrays in (("x2", (x, x.view(There))), ("out", (x, x, x.view(There)))):
        with pytest.raises(OperandTypeError, match=f"x1.*0.*{name}.*1"):
            multi_gpu.matmul(*arrays, devices=[0])


def test_mistakes() -> None:
    x = laid_out(np.ones((3, 4)), "N")
    for numbers in ([], [3], [-1], [0.5]):
        error = KeywordTypeError if numbers == [0.5] else KeywordValueError
        with pytest.raises(error, match="0 to 2"):
            multi_gpu.matmul(x, x.T, devices=numbers)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"4.*3"):
        multi_gpu.matmul(x, x, devices=[0])
    for out in (x, x[:, :2]):
        with pytest.raises(ShapeError, match="out"):
            multi_gpu.matmul(x, x.T, out, devices=[0])
    with pytest.raises(UnsupportedTypeError, match=r"float32.*float64"):
        multi_gpu.matmul(x, x.T, laid_out(np.ones((3, 3), "f4"), "N"), devices=[0])
    for arrays, name in (((x[0], x.T), "x1"), ((x, x.T[:, 0]), "x2"), ((x[None], x.T), "x1"), ((x, x.T[None]), "x2")):
        with pytest.raises(ShapeError, match=name):
            multi_gpu.matmul(*arrays, devices=[0])
    with pytest.raises(OperandTypeError):
        multi_gpu.matmul(x, [[1.0]], devices=[0])
