"""Tests of products from host memory by the kernels themselves, simulated on a stand-in GPU.

They check ``cuda_device``: addresses, pitches, and allocation of workspace. Stream operations run at once. Needs CuPy,
but no GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

from tests.conftest import missing_simulator
from tests.host_gpu import HostGpu, run_on_simulator
from tests.strategies import small_integers
from tiledmm import out_of_core
from tiledmm.distributed import cuda_device, tiling_choice
from tiledmm.launch import devices, plan

pytestmark = [
    pytest.mark.cupy,
    pytest.mark.skipif(bool(reason := missing_simulator()), reason=str(reason)),
]


class Stream:
    """A stand-in for a stream or event without pending work."""

    ptr = 0

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def record(self, stream: Stream) -> None:
        pass

    def wait_event(self, event: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass


class Gpu:
    """A stand-in GPU in place of CuPy's.

    Attributes:
        allocated: Sizes, in bytes, of allocations of device memory.
        workspaces: Sizes, in bytes, of the products' workspaces.
    """

    def __init__(self, host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host, self.allocated, self.workspaces = host, list[int](), list[int]()
        runtime = SimpleNamespace(
            memcpy2DAsync=self._copy, memcpyHostToDevice=1, memcpyDeviceToHost=2, memoryTypeHost=1,
            memGetInfo=lambda: (1 << 28, 1 << 30), pointerGetAttributes=lambda address: SimpleNamespace(type=0),
            CUDARuntimeError=cupy.cuda.runtime.CUDARuntimeError,
        )  # fmt: skip
        cuda = SimpleNamespace(
            alloc=self._alloc, using_allocator=self._using_allocator, get_current_stream=Stream, Stream=Stream,
            Event=Stream, Device=lambda device: SimpleNamespace(use=lambda: None), alloc_pinned_memory=bytearray,
            memory=cupy.cuda.memory, runtime=runtime,
        )  # fmt: skip
        pool = SimpleNamespace(free_bytes=lambda: 0, get_limit=lambda: 1 << 26, used_bytes=lambda: 1 << 20)
        stands = SimpleNamespace(ndarray=devices.cupy.ndarray, get_default_memory_pool=lambda: pool, cuda=cuda)
        monkeypatch.setattr(cuda_device, "cupy", stands)

    def _alloc(self, size: int) -> Any:
        self.allocated.append(size)
        return self.host._alloc(size)

    @contextlib.contextmanager
    def _using_allocator(self, allocate: Any) -> Iterator[None]:
        def alloc(size: int) -> Any:
            self.workspaces.append(size)
            return allocate(size)

        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(plan.cupy.cuda, "alloc", alloc)
            yield

    def _copy(self, to: int, to_pitch: int, begin: int, pitch: int, width: int, height: int, *_: Any) -> None:
        assert min(to_pitch, pitch) >= width > 0
        for row in range(height):
            ctypes.memmove(to + row * to_pitch, begin + row * pitch, width)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gpu:
    host = HostGpu(run_on_simulator)
    host.install(monkeypatch, tmp_path)
    host.become("sm_80")  # whose kernels run on the simulator
    return Gpu(host, monkeypatch)


@pytest.mark.parametrize(
    ("dtype", "shape", "limit", "layouts"),
    [
        ("float32", (40, 36, 34), 7_000, "NNN"),
        pytest.param("float32", (61, 53, 47), 20_000, "TTN", marks=pytest.mark.slow),
        pytest.param("float16", (70, 60, 150), 15_000, "NTN", marks=pytest.mark.slow),
        ("float64", (33, 29, 67), 20_000, "TNT"),
        pytest.param("complex64", (40, 30, 120), 20_000, "NNT", marks=pytest.mark.slow),
        pytest.param("complex128", (40, 30, 120), 30_000, "NTT", marks=pytest.mark.slow),
        ("float32", (20, 30, 3000), 300_000, "NNN"),
    ],
)
def test_products(
    dtype: str, shape: tuple[int, int, int], limit: int, layouts: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (m, n, k), rng = shape, np.random.default_rng(93)
    monkeypatch.setattr(tiling_choice, "STEP_BYTES", 10 if k < 1000 else 1 << 20)  # many steps, or long ones
    laid = {"N": np.ascontiguousarray, "T": np.asfortranarray}
    bound = 4 if k < 1000 else 2
    sizes = ((m, k), (k, n), (m, n))
    a, b, out = (laid[x](small_integers(rng, size, dtype, bound)) for x, size in zip(layouts, sizes, strict=True))
    counts: list[int] = []
    out_of_core.matmul(a, b, out, memory=limit, progress=lambda done, total: counts.append(total))
    wide = np.complex128 if dtype.startswith("c") else np.float64
    np.testing.assert_array_equal(out, (a.astype(wide) @ b.astype(wide)).astype(dtype))
    assert any("addend" in str(each) for each in gpu.host.launched) and (counts[0] > 1 or k > 1000)
    (allocated,) = gpu.allocated
    assert allocated <= limit
    if k > 1000:
        assert gpu.workspaces, "split-K"
    gpu.host.memory.check()


def test_without_a_limit(gpu: Gpu) -> None:
    a = small_integers(np.random.default_rng(94), (30, 30), "float32")
    assert cuda_device.Device().free_bytes() == (1 << 26) - (1 << 20), "the pool's limit holds"
    np.testing.assert_array_equal(out_of_core.matmul(a, a), a @ a)
