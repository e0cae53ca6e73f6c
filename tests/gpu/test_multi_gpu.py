"""Tests of one product on several devices: all that exist, or one device several times, which copies all the same."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

from tests.gpu.test_streams import CYCLES, SPIN
from tests.strategies import small_integers
from tiledmm import multi_gpu
from tiledmm.distributed import several
from tiledmm.errors import KeywordError, OperandTypeError, ShapeError

COUNT = cupy.cuda.runtime.getDeviceCount()
DEVICES = [[0], [0, 0], [0, 0, 0], [*range(COUNT)], [*range(COUNT)][::-1]]


@pytest.fixture
def equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each device an equal share, since products this small would otherwise stay on one device."""
    monkeypatch.setattr(several, "_expected_seconds", lambda *product: 0.0)


def operands(m: int, n: int, k: int, dtype: Any = "f4") -> tuple[Any, Any]:
    rng = np.random.default_rng(m + n + k)
    return small_integers(rng, (m, k), dtype), small_integers(rng, (k, n), dtype)


@pytest.mark.usefixtures("equal_shares")
@pytest.mark.parametrize("devices", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "c8", "i1", "i8"])
def test_products(devices: list[int], dtype: str) -> None:
    for m, n, k in ((1000, 1500, 300), (256, 256, 256), (3, 5, 7), (1, 3000, 64), (2, 2, 0), (0, 3, 4), (5, 0, 4)):
        left, right = operands(m, n, k, dtype)
        wanted = np.matmul(left.astype("c16" if dtype[0] == "c" else "f8"), right).real
        for a, b in ((left, right), (np.asfortranarray(left), right), (left, np.asfortranarray(right))):
            found = multi_gpu.matmul(cupy.asarray(a), cupy.asarray(b), devices=devices)
            if dtype[0] != "c":
                np.testing.assert_array_equal(found.get(), wanted.astype(dtype), err_msg=f"{m} {n} {k}")
            else:
                np.testing.assert_array_equal(found.get(), np.matmul(left.astype("c16"), right).astype(dtype))


@pytest.mark.usefixtures("equal_shares")
@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_views_and_out(devices: list[int]) -> None:
    left, right = operands(700, 900, 500)
    wide = cupy.zeros((1400, 1000), "f4")
    a = wide[::2, ::2]
    a[...] = cupy.asarray(left)
    out = cupy.full((900, 700), cupy.nan, "f4").T
    assert multi_gpu.matmul(a, cupy.asarray(right), out, devices=devices) is out
    np.testing.assert_array_equal(out.get(), left @ right)
    for shape in ((700, 900), (900, 700)):  # rows are contiguous, columns are; operands are read in place
        out = cupy.full(shape, cupy.nan, "f4")
        out = out if shape[0] == 700 else out.T
        multi_gpu.matmul(cupy.asarray(left), cupy.asarray(right), out, devices=devices)
        np.testing.assert_array_equal(out.get(), left @ right)
    square = cupy.asarray(left[:500])
    assert multi_gpu.matmul(square, square, square, devices=devices) is square
    np.testing.assert_array_equal(square.get(), left[:500] @ left[:500])


@pytest.mark.usefixtures("equal_shares")
@pytest.mark.parametrize("devices", [[0, 0], [*range(COUNT)]], ids=str)
def test_in_the_order_of_the_current_stream(devices: list[int]) -> None:
    left, right = operands(600, 1100, 500)
    a, b, zeros = cupy.asarray(left), cupy.asarray(right), cupy.zeros((600, 500), "f4")
    out = cupy.empty((600, 1100), "f4")
    multi_gpu.matmul(zeros, b, out, devices=devices)
    cupy.cuda.runtime.deviceSynchronize()
    for _ in range(3):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            SPIN((1,), (1,), (CYCLES // 10,))
            cupy.copyto(zeros, a)
            multi_gpu.matmul(zeros, b, out, devices=devices)
            zeros.fill(0)
            doubled = out * 2
            out.fill(0)
            stream.synchronize()
        np.testing.assert_array_equal(doubled.get(), 2 * (left @ right))


@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_shares_by_time(devices: list[int]) -> None:
    left, right = operands(5000, 4100, 3000)
    a, b = cupy.asarray(left), cupy.asarray(right)
    wanted = (a.astype("f8") @ b.astype("f8")).get()
    for _ in range(3):
        np.testing.assert_array_equal(multi_gpu.matmul(a, b, devices=devices).get(), wanted)


@pytest.mark.parametrize("devices", [[0], [0, 0], [*range(COUNT)]], ids=str)
def test_host_arrays(devices: list[int]) -> None:
    left, right = operands(700, 600, 500)
    np.testing.assert_array_equal(multi_gpu.matmul(left, right, devices=devices), left @ right)
    out = np.full((700, 600), np.nan, "f4")
    assert multi_gpu.matmul(left, right, out, devices=devices) is out
    np.testing.assert_array_equal(out, left @ right)
    assert multi_gpu.matmul(left[:0], right, devices=devices).shape == (0, 600)


def test_mistakes() -> None:
    a = cupy.ones((3, 4), "f4")
    for devices in ([], [-1], [COUNT], [0.5]):
        with pytest.raises(KeywordError, match="devices"):
            multi_gpu.matmul(a, a.T, devices=devices)
    with pytest.raises(ShapeError, match=r"4.*x2.*3"):
        multi_gpu.matmul(a, a, devices=[0])
    with pytest.raises(ShapeError, match=r"x2.*1"):
        multi_gpu.matmul(a, a[0], devices=[0])
    with pytest.raises(OperandTypeError, match="NumPy"):
        multi_gpu.matmul(a, np.ones((4, 3), "f4"), devices=[0])
    with pytest.raises(ShapeError, match="out"):
        multi_gpu.matmul(a, a.T, cupy.ones((3, 4), "f4"), devices=[0])
