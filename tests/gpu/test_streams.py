"""Tests of streams, graphs, threads and devices."""

from __future__ import annotations

import threading
from collections.abc import Callable

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import SMALLEST, to_device
from tests.strategies import small_integers
from tiledmm.errors import OperandTypeError
from tiledmm.launch import plans

# Holds a stream back for long enough that whoever does not wait for it reads what was there before.
SPIN = cupy.RawKernel(
    """
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}
""",
    "spin",
)
CYCLES = np.int64(400_000_000)  # some 0.2 s


def operands(seed: int, shape: tuple[int, int, int] = (70, 50, 60)) -> tuple[np.ndarray, np.ndarray]:
    m, n, k = shape
    rng = np.random.default_rng(seed)
    return small_integers(rng, (m, k), "f4"), small_integers(rng, (k, n), "f4")


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_the_current_stream_is_used(variant: str, tile: int | None) -> None:
    left, right = operands(40)
    x1, x2, zeros = to_device(left), to_device(right), to_device(np.zeros_like(left))
    tiledmm.matmul(zeros, x2, variant=variant, tile=tile)  # compiled and loaded: nothing below waits for that
    cupy.copyto(cupy.empty_like(zeros), x1)
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        SPIN((1,), (1,), (CYCLES,))
        cupy.copyto(zeros, x1)
        result = tiledmm.matmul(zeros, x2, variant=variant, tile=tile)
        stream.synchronize()
    np.testing.assert_array_equal(result.get(), left @ right)


def test_a_stream_that_waits_for_anothers_event() -> None:
    left, right = operands(41)
    x1, x2, zeros = to_device(left), to_device(right), to_device(np.zeros_like(left))
    tiledmm.matmul(zeros, x2)
    cupy.copyto(cupy.empty_like(zeros), x1)
    cupy.cuda.runtime.deviceSynchronize()
    producer, consumer = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with producer:
        SPIN((1,), (1,), (CYCLES,))
        cupy.copyto(zeros, x1)
        ready = producer.record()
    with consumer:
        consumer.wait_event(ready)
        result = tiledmm.matmul(zeros, x2)
        consumer.synchronize()
    np.testing.assert_array_equal(result.get(), left @ right)


def test_overlapping_out_on_a_stream() -> None:
    left, _ = operands(42, (50, 50, 50))
    x, zeros = to_device(left), to_device(np.zeros_like(left))
    tiledmm.matmul(zeros, zeros, out=zeros)
    cupy.copyto(cupy.empty_like(zeros), x)
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        SPIN((1,), (1,), (CYCLES,))
        cupy.copyto(zeros, x)
        tiledmm.matmul(zeros, zeros, out=zeros)
        stream.synchronize()
    np.testing.assert_array_equal(zeros.get(), left @ left)


def captured(call: Callable[[], object]) -> tuple[cupy.cuda.Stream, cupy.cuda.Graph]:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            call()
        finally:
            graph = stream.end_capture()
    return stream, graph


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_graph_capture_with_a_plan_that_is_there(variant: str, tile: int | None) -> None:
    left, right = operands(43)
    x1, x2 = to_device(left), to_device(right)
    out = cupy.full((70, 50), np.nan, np.float32)
    keywords = {"out": out, "variant": variant, "tile": tile}
    tiledmm.matmul(x1, x2, **keywords)
    out.fill(np.nan)
    cupy.cuda.runtime.deviceSynchronize()
    stream, graph = captured(lambda: tiledmm.matmul(x1, x2, **keywords))
    assert np.isnan(out.get()).all(), "captured, not run"
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), left @ right)
    x1 *= 2
    cupy.cuda.runtime.deviceSynchronize()
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), 2 * left @ right)


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_graph_capture_of_a_new_product_after_precompile(
    variant: str, tile: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_plans", {})
    tiledmm.precompile(variant, tiles=None if tile is None else [tile], layouts=["NN"])
    left, right = operands(44, (33, 34, 35))
    x1, x2, out = to_device(left), to_device(right), cupy.full((33, 34), np.nan, np.float32)
    cupy.cuda.runtime.deviceSynchronize()
    stream, graph = captured(lambda: tiledmm.matmul(x1, x2, out=out, variant=variant, tile=tile))
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), left @ right)


def test_graph_capture_of_several_launches() -> None:
    # Batch dimensions beyond three are launches of their own.
    rng = np.random.default_rng(45)
    x = to_device(small_integers(rng, (2, 3, 2, 3, 2, 3, 5, 6), "f4"))
    x1, x2 = x[::-1, :, ::-1, :, ::-1, :], x[:, :1, :, :1, :, :1].swapaxes(-1, -2)
    out = cupy.empty((2, 3, 2, 3, 2, 3, 5, 5), np.float32)
    tiledmm.matmul(x1, x2, out=out)
    expected = out.get()
    np.testing.assert_array_equal(expected, x1.get() @ x2.get())
    out.fill(np.nan)
    cupy.cuda.runtime.deviceSynchronize()
    stream, graph = captured(lambda: tiledmm.matmul(x1, x2, out=out))
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), expected)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(number)`` in threads that begin together; raise the first error here."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_share_a_plan() -> None:
    def work(number: int) -> None:
        left, right = operands(50 + number)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            x1, x2 = to_device(left), to_device(right)
            out = cupy.empty((70, 50), np.float32)
            for _ in range(100):
                out.fill(np.nan)
                tiledmm.matmul(x1, x2, out=out)
                result = tiledmm.matmul(x1, x2)
            stream.synchronize()
            np.testing.assert_array_equal(out.get(), left @ right)
            np.testing.assert_array_equal(result.get(), left @ right)

    in_threads(8, work)


def test_threads_that_compile_at_once() -> None:
    types = ("int16", "uint16", "uint32", "uint64", "int64", "int32", "uint8", "int8")

    def work(number: int) -> None:
        for dtype in (types[number], types[0], types[(number + 3) % 8]):
            left, right = (x.astype(dtype) for x in operands(60 + number))
            with cupy.cuda.Stream(non_blocking=True) as stream:
                for tile in (8, 16):
                    result = tiledmm.matmul(to_device(left), to_device(right), variant="tiled_padded", tile=tile)
                    stream.synchronize()
                    np.testing.assert_array_equal(result.get(), left @ right)

    in_threads(8, work)


# ---- several devices ----


@pytest.fixture
def devices() -> int:
    count = cupy.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip("needs two devices")
    return count


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_every_device_computes_its_own(devices: int, variant: str, tile: int | None) -> None:
    left, right = operands(70)
    for _ in range(2):
        for device in range(devices):
            with cupy.cuda.Device(device):
                result = tiledmm.matmul(to_device(left), to_device(right), variant=variant, tile=tile)
                assert result.device.id == device
                np.testing.assert_array_equal(result.get(), left @ right)
                kernel = tiledmm.kernel(variant, tile=tile)
                assert kernel.blocks_per_sm >= 1


def test_arrays_of_another_device_are_refused(devices: int) -> None:
    left, right = operands(71)
    with cupy.cuda.Device(1):
        far = to_device(left)
    with cupy.cuda.Device(0):
        near, out = to_device(right), cupy.zeros((70, 50), np.float32)
        with pytest.raises(OperandTypeError, match="device 1"):
            tiledmm.matmul(far, near)
        near_left = to_device(left)
        with cupy.cuda.Device(1):
            far_out = cupy.zeros((70, 50), np.float32)
        with pytest.raises(OperandTypeError, match=r"out.*device 1"):
            tiledmm.matmul(near_left, near, out=far_out)
        # A plan for arrays of this device is not taken for those of the other.
        tiledmm.matmul(near_left, near, out=out)
        with pytest.raises(OperandTypeError):
            tiledmm.matmul(far, near, out=out)
    np.testing.assert_array_equal(out.get(), left @ right)


def test_threads_on_several_devices(devices: int) -> None:
    def work(number: int) -> None:
        left, right = operands(80 + number)
        with cupy.cuda.Device(number % devices):
            for _ in range(20):
                result = tiledmm.matmul(to_device(left), to_device(right))
            assert result.device.id == number % devices
            np.testing.assert_array_equal(result.get(), left @ right)

    in_threads(8, work)
