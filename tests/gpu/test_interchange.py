"""Tests of arrays of torch, JAX and Numba on a GPU: results in place, of the same kind, in stream order."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from benchmarks.support.libraries import installed, supported
from tests.gpu.test_streams import CYCLES, SPIN
from tests.strategies import small_integers
from tests.training import training_losses
from tiledmm.elements import ELEMENTS
from tiledmm.errors import OperandTypeError
from tiledmm.interchange.calls import stream_at


def integers(seed: int, *shape: int, dtype: Any = "f4") -> np.ndarray:
    return small_integers(np.random.default_rng(seed), shape, dtype)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_all_libraries_that_are_here() -> None:
    """Check the table in ``docs/interchange.md`` for each library."""
    found = {library.name: supported(library) for library in installed()}
    for name, row in found.items():
        assert row["out"] == (name != "JAX"), name
        assert row["stream"] in (None, True), name
        assert {"float32", "float16", "complex64", "int8", "int32"} <= {*row["types"]}, name
    assert all({*ELEMENTS} == {*found[name]["types"]} for name in ("CuPy", "PyTorch") if name in found)


# ---- torch ----


@pytest.mark.parametrize("dtype", [
    "float32", "float16", "bfloat16", "float64", "complex64", "complex128", "int8", "uint8", "int32", "int64", "bool",
])  # fmt: skip
def test_tensors_of_every_type(torch: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    a, b = (torch.from_numpy(integers(seed, *shape)).to(kind).cuda() for seed, shape in ((1, (70, 50)), (2, (50, 60))))
    found = tiledmm.matmul(a, b)
    assert isinstance(found, torch.Tensor) and found.dtype == kind and found.device == a.device
    wide = torch.complex128 if kind.is_complex else torch.float64
    wanted = a.to(wide) @ b.to(wide)
    assert torch.equal(found, wanted != 0 if dtype == "bool" else wanted.to(kind))
    out = torch.zeros((70, 60), dtype=kind, device="cuda")
    assert tiledmm.matmul(a, b, out=out) is out and torch.equal(out, found)
    turned = tiledmm.matmul(b.T, a.T)
    assert torch.equal(turned, found.T)


def test_views_of_tensors(torch: Any) -> None:
    x = torch.from_numpy(integers(3, 40, 60)).cuda()
    row = x[:1].expand(30, 60)
    assert torch.equal(tiledmm.matmul(row, x.T), row @ x.T)
    assert torch.equal(tiledmm.matmul(x[::2, 1::3], x.T[1::3]), x[::2, 1::3] @ x.T[1::3])
    z = torch.complex(x, 2 * x)
    assert torch.equal(tiledmm.matmul(z.conj(), z.T), z.conj() @ z.T), "conjugated when it is read"
    assert torch.equal(tiledmm.matmul(z.conj().imag, x.T), z.conj().imag @ x.T), "negated when it is read"
    assert tiledmm.matmul(x[:0], x.T).shape == (0, 40)
    batch = torch.from_numpy(integers(4, 3, 1, 40, 60)).cuda()
    assert torch.equal(tiledmm.matmul(batch, x.T), batch @ x.T)


def test_gemm_of_tensors(torch: Any) -> None:
    a, b, c, bias = (
        torch.from_numpy(integers(i, *s)).cuda() for i, s in enumerate(((20, 30), (30, 40), (20, 40), (40,)))
    )
    found = tiledmm.gemm(a, b, c, alpha=2, beta=-1, bias=bias, activation="relu")
    assert torch.equal(found, torch.relu(2 * (a @ b) - c + bias))
    wanted = c + a @ b
    assert tiledmm.gemm(a, b, c, beta=1, out=c) is c and torch.equal(c, wanted)


def test_products_are_on_the_librarys_stream(torch: Any) -> None:
    """Check a product on a stream that is busy when the operand is written and when the product is called."""
    a, b = (torch.from_numpy(integers(seed, 200, 200)).cuda() for seed in (5, 6))
    zeros = torch.zeros_like(a)
    tiledmm.matmul(zeros, b)  # compiled: nothing below waits for that
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        with stream_at(side.cuda_stream):
            SPIN((1,), (1,), (CYCLES,))
        zeros.copy_(a)
        found = tiledmm.matmul(zeros, b)
        zeros.zero_()
        doubled = found * 2
    torch.cuda.synchronize()
    assert torch.equal(doubled, 2 * (a @ b))


def test_streams_of_several_libraries(torch: Any) -> None:
    """Check that a product waits for earlier work on CuPy's stream, and later work for the product."""
    left, right = integers(7, 200, 200), integers(8, 200, 200)
    a, b, zeros = torch.from_numpy(left).cuda(), cupy.asarray(right), cupy.zeros((200, 200), "f4")
    tiledmm.matmul(a, zeros)
    cupy.cuda.runtime.deviceSynchronize()
    for _ in range(5):
        with cupy.cuda.Stream(non_blocking=True):
            SPIN((1,), (1,), (CYCLES // 10,))
            cupy.copyto(zeros, b)
            found = tiledmm.matmul(a, zeros)
            zeros.fill(0)
        assert np.array_equal(found.cpu().numpy(), left @ right)


def test_tensors_that_are_refused(torch: Any) -> None:
    x = torch.ones((3, 3), device="cuda")
    with pytest.raises(OperandTypeError, match=r"x2.*'cpu'"):
        tiledmm.matmul(x, torch.ones((3, 3)))
    with pytest.raises(OperandTypeError, match=r"x1.*gradients"):
        tiledmm.matmul(x.clone().requires_grad_(), x)
    with torch.no_grad():
        tiledmm.matmul(x.clone().requires_grad_(), x)
    with pytest.raises(OperandTypeError, match="to_dense"):
        tiledmm.matmul(x.to_sparse(), x)


def test_gradients_are_products_of_ours(torch: Any) -> None:
    from torch import library

    ours = pytest.importorskip("tiledmm.torch")
    for left, right in (((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5))):
        for kind in (torch.float64, torch.complex128):
            operands = [torch.randn(shape, dtype=kind, device="cuda", requires_grad=True) for shape in (left, right)]
            assert torch.autograd.gradcheck(ours.matmul, operands)
            assert torch.autograd.gradgradcheck(ours.matmul, operands)
            library.opcheck(ours._product, (*operands, "full"))


def test_a_training_step(torch: Any) -> None:
    ours = pytest.importorskip("tiledmm.torch")
    wanted = training_losses(torch, "cuda")
    with ours.replacing():
        assert training_losses(torch, "cuda") == pytest.approx(wanted, rel=1e-4)


# ---- Numba ----


def test_numbas_arrays() -> None:
    cuda = pytest.importorskip("numba.cuda")
    left, right = integers(9, 70, 50), integers(10, 50, 60)
    a, b = cuda.to_device(left), cuda.to_device(np.asfortranarray(right))
    found = tiledmm.matmul(a, b)
    assert cuda.is_cuda_array(found) and not isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(found.copy_to_host(), left @ right)
    out = cuda.device_array((70, 60), np.float32)
    assert tiledmm.matmul(a, cupy.asarray(right), out=out) is out
    np.testing.assert_array_equal(out.copy_to_host(), left @ right)
    stream = cuda.stream()
    on_stream = cuda.to_device(left, stream=stream)
    np.testing.assert_array_equal(tiledmm.matmul(on_stream, b).copy_to_host(), left @ right)


# ---- JAX ----


@pytest.fixture
def jax() -> Any:
    module = pytest.importorskip("jax")
    if module.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    return module


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "complex64"])
def test_jaxs_arrays(jax: Any, dtype: str) -> None:
    a, b = (jax.numpy.asarray(integers(i, *s), dtype=dtype) for i, s in ((11, (70, 50)), (12, (50, 60))))
    found = tiledmm.matmul(a, b)
    assert isinstance(found, jax.Array) and found.dtype == a.dtype
    np.testing.assert_array_equal(np.asarray(found, "c16"), np.asarray(a, "c16") @ np.asarray(b, "c16"))


def test_what_jax_cannot(jax: Any) -> None:
    x = jax.numpy.ones((3, 3))
    with pytest.raises(OperandTypeError, match=r"out.*JAX"):
        tiledmm.matmul(x, x, out=x)
    with pytest.raises(OperandTypeError, match="x1"):
        jax.jit(tiledmm.matmul)(x, x)


@pytest.mark.slow
def test_a_thousand_products_behind_busy_streams(torch: Any) -> None:
    a = torch.from_numpy(integers(13, 64, 64)).cuda()
    b, wanted = torch.zeros_like(a), a @ a
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), stream_at(side.cuda_stream):
        for _ in range(1000):
            SPIN((1,), (1,), (np.int64(100_000),))
            b.copy_(a)
            found = tiledmm.matmul(a, b)
            b.zero_()
            wrong = (found != wanted).sum()
            assert int(wrong) == 0
