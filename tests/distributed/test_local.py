"""Tests of one process's work on its blocks, with NumPy arrays and a stand-in for CuPy's."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiledmm.distributed import local
from tiledmm.errors import OperandTypeError


class ndarray(np.ndarray):
    """An array on a device, by default the first one."""

    device: Any = None

    def __array_finalize__(self, other: Any) -> None:
        self.device = getattr(other, "device", None)


ndarray.__module__ = "cupy"


class Cupy:
    """A stand-in for the parts of CuPy that blocks need, which records calls with their device.

    Attributes:
        calls: Names of calls, with the current device.
        stream: Handle of the current stream.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.current, self.stream = 0, 0
        stream = SimpleNamespace(synchronize=lambda: self.log("synchronize"))
        runtime = SimpleNamespace(streamLegacy=1)
        self.cuda = SimpleNamespace(runtime=runtime, get_current_stream=lambda: self._with_handle(stream))

    def _with_handle(self, stream: Any) -> Any:
        stream.ptr = self.stream
        return stream

    def log(self, name: str) -> None:
        self.calls.append((name, self.current))

    def device(self, number: int) -> Any:
        cupy = self

        class Device:
            def __enter__(self) -> None:
                self.before, cupy.current = cupy.current, number

            def __exit__(self, *_: Any) -> None:
                cupy.current = self.before

        return Device()

    def array(self, x: Any, device: int = 1) -> Any:
        made = np.array(x).view(ndarray)
        made.device = self.device(device)
        return made

    def empty(self, shape: Any, dtype: Any) -> Any:
        self.log("empty")
        return self.array(np.full(shape, 77, dtype), self.current)

    def asnumpy(self, x: Any) -> Any:
        self.log("asnumpy")
        return np.array(x)

    def asarray(self, x: Any) -> Any:
        self.log("asarray")
        return self.array(x, self.current)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Cupy:
    made = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", made)  # type: ignore[misc]
    return made


@pytest.fixture
def asked(cupy: Cupy, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record name, precision, result type and device of this package's products."""
    found: list[tuple[Any, ...]] = []

    def matmul(a: Any, b: Any, *, out: Any = None, precision: str = "full") -> Any:
        c = np.matmul(a, b, dtype=a.dtype if out is None else out.dtype)
        found.append(("matmul", precision, c.dtype.name, cupy.current))
        if out is None:
            return c
        out[...] = c
        return out

    def gemm(a: Any, b: Any, c: Any, *, beta: int, out: Any, precision: str = "full") -> Any:
        assert beta == 1 and c is out
        found.append(("gemm", precision, c.dtype.name, cupy.current))
        out[...] = c + np.matmul(a, b, dtype=c.dtype)
        return out

    monkeypatch.setattr(local, "api", SimpleNamespace(matmul=matmul, gemm=gemm))
    return found


def chunks(dtype: Any, count: int) -> tuple[list[Any], list[Any], Any]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 16, shape).astype(dtype) for shape in ((6, 20 * count), (20 * count, 5)))
    wide = a.astype("f8") @ b.astype("f8") if a.dtype.kind not in "bc" else a @ b
    return np.hsplit(a, count), np.vsplit(b, count), wide.astype(dtype)


@pytest.mark.parametrize("precision", ["full", "ieee", "tf32"])
@pytest.mark.parametrize(
    ("dtype", "sums"),
    [("float32", "float32"), ("float16", "float32"), (ml_dtypes.bfloat16, "float32"), ("float64", "float64"),
     ("complex64", "complex64"), ("int16", "int16")],
)  # fmt: skip
def test_products_of_cupys_arrays_are_added_in_place(
    dtype: Any, sums: str, precision: str, cupy: Cupy, asked: list[Any]
) -> None:
    left, right, wanted = chunks(dtype, 3)
    found = local.sum_of_products(map(cupy.array, left), map(cupy.array, right), precision)
    assert type(found) is ndarray and found.dtype == wanted.dtype and np.array_equal(found, wanted)
    assert asked == [("matmul", precision, sums, 1), *[("gemm", precision, sums, 1)] * 2]
    assert cupy.calls == [("empty", 1)] and cupy.current == 0


def test_products_of_bools_are_any_of_alls(cupy: Cupy, asked: list[Any]) -> None:
    a, b = np.zeros((2, 2, 3), bool), np.ones((2, 3, 2), bool)
    a[0, 0], a[1, 1] = True, True
    found = local.sum_of_products(map(cupy.array, a), map(cupy.array, b), "full")
    assert found.dtype == bool and found.all()
    assert [name for name, *_ in asked] == ["matmul", "matmul"] and {device for *_, device in asked} == {1}


def test_products_of_numpys_arrays_are_added_in_place() -> None:
    for dtype in ("float32", "float16", ml_dtypes.bfloat16, "float64", "complex64", "int16", "bool"):
        left, right, wanted = chunks(dtype, 3)
        found = local.sum_of_products(left, right, "full")
        assert type(found) is np.ndarray and found.dtype == wanted.dtype and np.array_equal(found, wanted)


def test_chunks_of_two_libraries_are_refused(cupy: Cupy) -> None:
    a, b = np.ones((2, 2)), np.ones((2, 2))
    for left, right in (([cupy.array(a)], [b]), ([a], [cupy.array(b)])):
        with pytest.raises(OperandTypeError, match="numpy"):
            local.sum_of_products(left, right, "full")
    with pytest.raises(ValueError):
        local.sum_of_products([a, a], [b], "full")


def test_arrays_have_a_kind(cupy: Cupy) -> None:
    class Own(ndarray):
        pass

    assert local.kind(np.ones(2)) == "numpy" and local.kind(cupy.array([1])) == "cupy"
    for x in (np.ma.ones(2), np.recarray((1,), "f4"), Own((2,)), [1], np.float32(1), SimpleNamespace()):
        with pytest.raises(OperandTypeError, match=type(x).__name__):
            local.kind(x)


def test_memory_is_that_of_another_array(cupy: Cupy) -> None:
    x = cupy.array(np.ones((2, 3), "f2"), 3)
    found = local.empty((4, 5), x)
    assert (found.shape, found.dtype, cupy.calls) == ((4, 5), np.float16, [("empty", 3)])
    assert local.empty((4, 5), x, np.dtype("f8")).dtype == np.float64
    assert local.allocate_sums((4, 5), x).dtype == np.float32
    assert local.nothing("cupy", np.dtype("i2")).shape == (0, 0)
    local.copy(found, np.ones((4, 5), "f2"))
    assert (found == 1).all()
    host = np.ones((2, 3), "i2")
    assert type(local.empty((4, 5), host)) is np.ndarray and local.empty((4, 5), host).dtype == np.int16
    assert local.empty((4, 5), host, "f8").dtype == np.float64 and local.allocate_sums((1, 1), host).dtype == np.int16
    nothing = local.nothing("numpy", np.dtype("i2"))
    assert type(nothing) is np.ndarray and (nothing.shape, nothing.dtype) == ((0, 0), np.int16)


def test_copies_between_host_and_device_wait(cupy: Cupy) -> None:
    x = cupy.array(np.arange(6.0).reshape(2, 3).T, 2)
    host = local.to_host(x)
    assert type(host) is np.ndarray and host.flags.c_contiguous and np.array_equal(host, x)
    on_device = local.from_host(host, x)
    assert type(on_device) is ndarray and np.array_equal(on_device, x)
    assert cupy.calls == [("asnumpy", 2), ("asarray", 2), ("synchronize", 2)]
    for y in (np.ones((2, 3)), np.ones((3, 2)).T):
        assert local.to_host(y).flags.c_contiguous and local.from_host(y, y) is y
    for dtype in ("float32", ml_dtypes.bfloat16, "bool", "complex128"):
        y = np.ones((2, 3), dtype)
        assert local.as_bytes(y).nbytes == y.nbytes and bytes(local.as_bytes(y)) == y.tobytes()


@pytest.mark.parametrize(("stream", "waits"), [(0, False), (1, False), (2, True), (4711, True)])
def test_an_array_is_handed_over_once_it_is_written(stream: int, waits: bool, cupy: Cupy) -> None:
    """Check that only streams other than the legacy default stream (0 or 1) are synchronized."""
    cupy.stream = stream
    local.hand_over(cupy.array([1.0], 2))
    local.hand_over(np.ones(2))
    assert cupy.calls == [("synchronize", 2)] * waits
