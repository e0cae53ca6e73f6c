"""Tests of ``tiledmm.gemm`` from call to result, on a stand-in GPU that simulates the kernels' CUDA C.

Needs CuPy, but no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import tiledmm
from tests.conftest import slow_unless
from tests.host_gpu import HostGpu, run_on_simulator
from tests.strategies import tight
from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.kernels import launches
from tiledmm.launch import by_cupy, plans
from tiledmm.problem.epilogue import EpilogueCall, EpilogueKeywords, resolve_epilogue
from tiledmm.problem.keywords import UfuncKeywords

pytestmark = pytest.mark.cupy


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostGpu]:
    gpu = HostGpu(run_on_simulator)
    with pytest.MonkeyPatch.context() as patch:
        gpu.install(patch, tmp_path_factory.mktemp("cache"))
        yield gpu


@pytest.fixture
def gpu(device: HostGpu) -> HostGpu:
    device.become("sm_80")  # whose kernels run on the simulator
    return device


def integers(seed: int, *shape: int, dtype: str = "float32") -> Any:
    """Return integers so small that sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        pytest.param(dtype, layout, marks=slow_unless(i % 3 == j))
        for i, dtype in enumerate(("float32", "float16", "float64", "complex64", "int32", "int8"))
        for j, layout in enumerate("NTG")
    ],
)
def test_alpha_beta_and_bias(gpu: HostGpu, dtype: str, layout: str) -> None:
    a, b, c, bias = (
        integers(i, *shape, dtype=dtype) for i, shape in enumerate(((50, 20), (20, 70), (50, 70), (50, 1)))
    )
    out = gpu.array(np.zeros((50, 70), dtype), tight(layout))
    x1, x2, addend, each = (gpu.array(x) for x in (a, b, c, bias))
    found = tiledmm.gemm(x1, x2, addend, alpha=2, beta=-3, bias=each, out=out)
    assert found is out
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out.held, (2 * (a @ b) - 3 * c + bias).astype(dtype))
    gpu.memory.check()


def test_in_place_and_what_overlaps(gpu: HostGpu) -> None:
    a, b, c = integers(1, 40, 300), integers(2, 300, 40), integers(3, 40, 41)
    for kernel in ({}, {"variant": "warp_tiled", "config": {"split_k": 3}}, {"variant": "split_tensor_core"}):
        room = gpu.array(c)
        out = room[:, :40]
        tiledmm.gemm(gpu.array(a), gpu.array(b), out, beta=1, out=out, **kernel)
        np.testing.assert_array_equal(room.held, np.c_[a @ b + c[:, :40], c[:, 40:]])
        room = gpu.array(c)
        tiledmm.gemm(gpu.array(a), gpu.array(b), room[:, 1:], beta=1, out=room[:, :40], **kernel)
        np.testing.assert_array_equal(room.held, np.c_[a @ b + c[:, 1:], c[:, 40:]])
    gpu.memory.check()


def test_a_plan_is_kept_for_any_scalars(gpu: HostGpu) -> None:
    a, b, c = integers(1, 20, 8), integers(2, 8, 9), integers(3, 20, 9)
    arrays = [gpu.array(x) for x in (a, b, c)]
    out = gpu.array(np.zeros((20, 9), "f4"))
    for alpha, beta in ((2, 3), (-1, 0.5), (7, 7)):
        tiledmm.gemm(*arrays, alpha=alpha, beta=beta, out=out)
        np.testing.assert_array_equal(out.held, alpha * (a @ b) + beta * c)
    assert len(plans._plans) == 1
    np.testing.assert_array_equal(tiledmm.gemm(*arrays).held, a @ b)
    np.testing.assert_array_equal(tiledmm.gemm(*arrays, alpha=0, beta=1).held, c)
    assert len(plans._plans) == 3


def test_factors_on_the_device(gpu: HostGpu) -> None:
    a, b, c = integers(1, 20, 8), integers(2, 8, 9), integers(3, 20, 9)
    alpha, beta, scale = np.array(3.0), np.array(2, np.float32), integers(4, 9)
    x1, x2, addend = (gpu.array(x) for x in (a, b, c))
    found = tiledmm.gemm(x1, x2, addend, alpha=gpu.array(alpha), beta=gpu.array(beta), casting="same_kind")
    np.testing.assert_array_equal(found.held, 3 * (a @ b) + 2 * c)
    np.testing.assert_array_equal(tiledmm.gemm(x1, x2, alpha=gpu.array(scale)).held, scale * (a @ b))


def test_batches_beyond_what_a_kernel_addresses_and_parts(gpu: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    a = integers(1, 2, 1, 3, 1, 2, 9, 5)
    b, c = integers(2, 1, 2, 1, 3, 2, 5, 7), integers(3, 2, 2, 3, 3, 1, 9, 7)
    wanted = a @ b + 2 * c
    np.testing.assert_array_equal(tiledmm.gemm(*map(gpu.array, (a, b, c)), beta=2, variant="tiled").held, wanted)
    monkeypatch.setattr(launches, "MOST_TILES", 3)
    gpu.become("sm_80")
    a, b, c, bias = integers(1, 3, 70, 20), integers(2, 3, 20, 40), integers(3, 70, 40), integers(4, 40)
    for kernel in ({"variant": "tiled", "tile": 32}, {"variant": "warp_tiled", "tile": 32}):
        found = tiledmm.gemm(*map(gpu.array, (a, b, c)), beta=2, bias=gpu.array(bias), **kernel)
        np.testing.assert_array_equal(found.held, a @ b + 2 * c + bias)


def test_conversions_that_no_kernel_does(gpu: HostGpu) -> None:
    a, b, c = integers(1, 20, 8), integers(2, 8, 9), integers(3, 20, 9)
    out = gpu.array(np.zeros((20, 9), "i4"))
    tiledmm.gemm(*map(gpu.array, (a, b, c)), beta=1, out=out, casting="unsafe")
    np.testing.assert_array_equal(out.held, (a @ b + c).astype("i4"))


def test_nothing_to_multiply(gpu: HostGpu) -> None:
    c, bias = integers(3, 20, 9), integers(4, 9)
    a, b = gpu.array(np.zeros((20, 0), "f4")), gpu.array(np.zeros((0, 9), "f4"))
    for variant in ("auto", "tiled", "split_tensor_core"):
        found = tiledmm.gemm(a, b, gpu.array(c), beta=2, bias=gpu.array(bias), activation="relu", variant=variant)
        np.testing.assert_array_equal(found.held, np.maximum(2 * c + bias, 0))
    assert tiledmm.gemm(gpu.array(np.zeros((0, 4), "f4")), gpu.array(np.zeros((4, 3), "f4")), alpha=2).shape == (0, 3)


@pytest.mark.parametrize(
    "activation",
    [None, "gelu_tanh", *(pytest.param(name, marks=pytest.mark.slow) for name in ("relu", "silu", "sigmoid", "tanh"))],
)
def test_cublas_computes_the_same(gpu: HostGpu, activation: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_cupy, "cupy", np)
    monkeypatch.setattr(by_cupy, "cupy_matmul", np.matmul)
    a, b, c, bias = integers(1, 5, 4) / 8, integers(2, 4, 6) / 8, integers(3, 5, 6), integers(4, 6)
    spoilt, ufunc = np.full((5, 6), np.nan, "f4"), UfuncKeywords()
    for keywords in ({"alpha": 2, "beta": -1, "c": c}, {"bias": bias}, {"c": spoilt}, {"alpha": 0, "bias": bias}):
        called = EpilogueKeywords(**keywords, activation=activation)
        found = by_cupy.cupy_gemm(a, b, resolve_epilogue(a.dtype, "same_kind", called), None, ufunc)
        arrays = {name: gpu.array(x) if isinstance(x, np.ndarray) else x for name, x in keywords.items()}
        ours = tiledmm.gemm(gpu.array(a), gpu.array(b), activation=activation, **arrays)
        np.testing.assert_allclose(ours.held, found, rtol=1e-5, atol=1e-6)
    x, y = a + 1j * a[::-1], b.T + 2j
    for keywords in ({"adjoint_a": True, "adjoint_b": True}, {"adjoint_a": True}, {"adjoint_b": True}):
        first, second = (x.T if "adjoint_a" in keywords else x), (y if "adjoint_b" in keywords else y.T)
        called = resolve_epilogue(x.dtype, "same_kind", EpilogueKeywords(**keywords))
        found = by_cupy.cupy_gemm(first, second, called, None, ufunc)
        ours = tiledmm.gemm(gpu.array(first.copy()), gpu.array(second.copy()), **keywords)
        np.testing.assert_allclose(ours.held, found, rtol=1e-5, atol=1e-6)
    with pytest.raises(ConfigError, match="tile"):
        tiledmm.gemm(gpu.array(a), gpu.array(b), variant="cublas", tile=16)


@pytest.mark.parametrize("number", [lambda x: x, lambda x: np.full((), x, "f4")], ids=["numbers", "arrays"])
def test_cublas_takes_factors_and_writes_to_out(number: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_cupy, "cupy", np)
    monkeypatch.setattr(by_cupy, "cupy_matmul", np.matmul)
    monkeypatch.setattr(by_cupy, "ndarray", np.ndarray)
    a, b, c, out = integers(1, 5, 4), integers(2, 4, 6), integers(3, 5, 6), np.zeros((5, 6), "f8")
    for alpha, beta in ((1, 0), (1, 1), (2, -1), (0, 2)):
        called = EpilogueCall(EpilogueKeywords(c=c, alpha=number(alpha), beta=number(beta)))
        assert by_cupy.cupy_gemm(a, b, called, out, UfuncKeywords()) is out
        np.testing.assert_array_equal(out, alpha * (a @ b) + beta * c)
        found = by_cupy.cupy_gemm(a, b, called, None, UfuncKeywords(dtype="float64"))
        assert found.dtype == np.float64
    with pytest.raises(TypeError):
        by_cupy.cupy_gemm(a, b, called, np.zeros((5, 6), "i4"), UfuncKeywords())


def test_arrays_of_other_libraries(gpu: HostGpu) -> None:
    x = gpu.array(integers(1, 4, 4))
    with pytest.raises(OperandTypeError, match=r"^bias "):
        tiledmm.gemm(x, x, bias=np.ones(4, "f4"))
