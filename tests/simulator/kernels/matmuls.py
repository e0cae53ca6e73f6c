"""Matrix products, from the tutorials' first to warp tiles and cp.async."""

from __future__ import annotations

import numpy as np

from tests.simulator.kernels.launch import Launch, kernel, small, unset, zeros

INT = np.int32


@kernel
def matmul_naive(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 33, 20), small(rng, 20, 18)
    return Launch((3, 2), (16, 16), [a, b, unset(33, 18), 33, 18, 20], {"C": a @ b})


@kernel
def matmul_coalesced(rng: np.random.Generator) -> Launch:
    a, b, c = small(rng, 33, 20), small(rng, 20, 18), small(rng, 33, 18)
    arguments = [a, b, c.copy(), 33, 18, 20, 0.5, 2.0]
    return Launch((3, 2), 256, arguments, {"C": np.float32(0.5) * (a @ b) + 2 * c})


@kernel
def matmul_shared(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 33, 37), small(rng, 37, 18)
    return Launch((2, 3), (16, 16), [a, b, unset(33, 18), 33, 18, 37], {"C": a @ b})


@kernel
def matmul_dynamic(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 2, 32, 32)
    return Launch((4, 4), (8, 8), [a, b, unset(32, 32), 32, 8], {"C": a @ b}, shared_bytes=512)


@kernel
def sgemm_1d_tile(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 64, 24), small(rng, 24, 32)
    arguments = [a, b, unset(64, 32), 64, 32, 24]
    return Launch((1, 2), 256, arguments, {"C": a @ b}, name="sgemm_1d_tile<32, 32, 8, 4>")


@kernel
def sgemm_2d_tile(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 64, 24), small(rng, 24, 32)
    return Launch((1, 2), 64, [a, b, unset(64, 32), 32, 24], {"C": a @ b})


@kernel
def sgemm_vectorized(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 64, 24), small(rng, 24, 32)
    return Launch((1, 2), 64, [a, b, unset(64, 32), 64, 32, 24], {"C": a @ b})


@kernel
def sgemm_warp_tile(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 64, 16), small(rng, 16, 64)
    return Launch((1, 2), 64, [a, b, unset(64, 64), 64, 16], {"C": a @ b})


@kernel
def sgemm_double_buffered(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 32, 64), small(rng, 64, 32)
    return Launch((2, 2), (16, 16), [a, b, unset(32, 32), 32, 64], {"C": a @ b})


@kernel
def sgemm_cp_async(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 32, 64), small(rng, 64, 32)
    return Launch((2, 2), 64, [a, b, unset(32, 32), 32, 64], {"C": a @ b})


@kernel
def pipeline_copy(rng: np.random.Generator) -> Launch:
    x = small(rng, 2, 5, 64)
    expected = np.ascontiguousarray(x.sum(axis=1)[:, ::-1])
    return Launch(2, 64, [x, unset(2, 64), 5], {"out": expected})


@kernel
def cp_async_stages(rng: np.random.Generator) -> Launch:
    x = small(rng, 9, 32, dtype=INT)
    expected = sum(np.roll(x[t], -t) for t in range(9)).astype(INT)
    return Launch(1, 32, [x, unset(32, dtype=INT), 9], {"out": expected})


@kernel
def hgemm(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 33, 37, dtype=np.float16, bound=3), small(rng, 37, 18, dtype=np.float16, bound=3)
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    return Launch((2, 3), (16, 16), [a, b, unset(33, 18, dtype=np.float16), 33, 18, 37], {"C": expected})


@kernel
def wmma_gemm(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 32, 48, dtype=np.float16), small(rng, 48, 32, dtype=np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    return Launch((2, 2), 32, [a, b, unset(32, 32), 32, 48], {"C": expected})


@kernel
def matvec(rng: np.random.Generator) -> Launch:
    a, x = small(rng, 100, 90), small(rng, 90)
    return Launch(2, 64, [a, x, unset(100), 100, 90], {"y": a @ x})


@kernel
def batched_gemv(rng: np.random.Generator) -> Launch:
    a, x = small(rng, 3, 10, 45), small(rng, 3, 45)
    expected = (a @ x[..., None])[..., 0]
    return Launch((3, 1, 3), (32, 4), [a, x, unset(3, 10), 10, 45], {"y": expected})


@kernel
def complex_gemm(rng: np.random.Generator) -> Launch:
    a, b = (small(rng, 2, 24, 24) + 1j * small(rng, 2, 24, 24)).astype(np.complex64)
    return Launch((3, 3), (8, 8), [a, b, unset(24, 24, dtype=np.complex64), 24], {"C": a @ b})


@kernel
def dp4a_gemm(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 20, 32, dtype=np.int8, bound=127), small(rng, 18, 32, dtype=np.int8, bound=127)
    expected = a.astype(INT) @ b.astype(INT).T
    return Launch((3, 3), (8, 8), [a.view(INT), b.view(INT), unset(20, 18, dtype=INT), 20, 18, 8], {"C": expected})


@kernel
def split_k_gemm(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 20, 50), small(rng, 50, 18)
    return Launch((3, 3, 3), (8, 8), [a, b, zeros(20, 18), 20, 18, 50], {"C": a @ b})
