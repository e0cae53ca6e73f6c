"""Which parts of a product go where on several GPUs, on the host: their streams and events are for ``tests/gpu``."""

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
from tiledmm.distributed import several
from tiledmm.errors import KeywordTypeError, KeywordValueError, OperandTypeError, ShapeError, UnsupportedTypeError

pytestmark = pytest.mark.cupy


class Array(np.ndarray):
    """What stands for a CuPy array on device 0."""

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
    """Three devices, whose memory is the host's."""
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
    """In rows, in columns, or in neither, with a margin around it."""
    rows, cols = x.shape
    wide = {"N": np.empty((rows, cols + 3)), "T": np.empty((cols, rows + 5)).T, "G": np.empty((2 * rows, 2 * cols))}
    made = wide[layout].astype(x.dtype, order="K").view(Array)
    made = made[::2, ::2] if layout == "G" else made[:rows, :cols]
    made[...] = x
    return made


@pytest.mark.parametrize("layouts", ["".join(each) for each in itertools.product("NTG", repeat=3)])
def test_layouts(layouts: str) -> None:
    rng = np.random.default_rng(1)
    for numbers in ([0, 1], [1, 2], [2, 0, 1], [0], [0, 0]):
        for m, n, k in ((600, 1100, 50), (3, 5, 7), (1, 300, 2), (700, 1, 1)):
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
    found = {}
    for linked, microseconds in ((0, 1000), (1, 1000), (1, 100)):

        def seconds(m: int, n: int, *others: Any, us: float = microseconds) -> float:
            return 1e-6 * us * m * n / x.size

        monkeypatch.setattr(several, "_expected_seconds", seconds)
        monkeypatch.setattr(several.cupy.cuda.runtime, "deviceCanAccessPeer", lambda one, other, yes=linked: yes)
        each = several.fractions(numbers, x, x, x, "full")
        found[linked, microseconds] = each[numbers.index(0)] if 0 in numbers else None
        assert sum(each) == pytest.approx(1)
        np.testing.assert_array_equal(multi_gpu.matmul(x, x, devices=numbers), x @ x)
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


def test_mistakes() -> None:
    x = laid_out(np.ones((3, 4)), "N")
    for numbers in ([], [3], [-1], [0.5]):
        error = KeywordTypeError if numbers == [0.5] else KeywordValueError
        with pytest.raises(error, match="numbers of devices, from 0 to 2"):
            multi_gpu.matmul(x, x.T, devices=numbers)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="4 columns and x2 3 rows"):
        multi_gpu.matmul(x, x, devices=[0])
    with pytest.raises(ShapeError, match="out has shape"):
        multi_gpu.matmul(x, x.T, x, devices=[0])
    with pytest.raises(UnsupportedTypeError, match="float32; the product is of float64"):
        multi_gpu.matmul(x, x.T, laid_out(np.ones((3, 3), "f4"), "N"), devices=[0])
    with pytest.raises(OperandTypeError, match="NumPy arrays alone"):
        multi_gpu.matmul(x, [[1.0]], devices=[0])
