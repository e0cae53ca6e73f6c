"""Kernels that reduce, and kernels that show how threads wait for each other."""

from __future__ import annotations

import numpy as np

from tests.simulator.kernels.launch import Launch, kernel, small, unset, zeros

INT = np.int32


def block_sums(x: np.ndarray, size: int) -> np.ndarray:
    """Sum consecutive parts."""
    return np.pad(x, (0, -len(x) % size)).reshape(-1, size).sum(axis=1, dtype=x.dtype)


def stride_sums(x: np.ndarray, grid: int, block: int) -> np.ndarray:
    """Sum the elements that a grid-stride loop assigns to each block."""
    padded = np.pad(x, (0, -len(x) % (grid * block)))
    return padded.reshape(-1, grid, block).sum(axis=(0, 2), dtype=x.dtype)


@kernel
def reduce_interleaved(rng: np.random.Generator) -> Launch:
    x = small(rng, 500, dtype=INT)
    return Launch(8, 64, [x, unset(8, dtype=INT), 500], {"out": block_sums(x, 64)}, shared_bytes=256)


@kernel
def reduce_tree(rng: np.random.Generator) -> Launch:
    x = small(rng, 500)
    return Launch(4, 128, [x, unset(4), 500], {"out": block_sums(x, 128)})


@kernel
def reduce_last_warp(rng: np.random.Generator) -> Launch:
    x = small(rng, 1000)
    return Launch(2, 256, [x, unset(2), 1000], {"out": block_sums(x, 512)})


@kernel
def reduce_shuffle(rng: np.random.Generator) -> Launch:
    x = small(rng, 1000)
    return Launch(3, 128, [x, unset(3), 1000], {"out": stride_sums(x, 3, 128)})


@kernel
def reduce_atomic(rng: np.random.Generator) -> Launch:
    x = small(rng, 300, dtype=INT)
    return Launch(5, 64, [x, zeros(1, dtype=INT), 300], {"total": np.array([x.sum()], INT)})


@kernel
def reduce_last_block(rng: np.random.Generator) -> Launch:
    x = small(rng, 700)
    return Launch(
        4, 64, [x, unset(4), unset(1), 700], {"partial": stride_sums(x, 4, 64), "result": x.sum(keepdims=True)}
    )


@kernel
def reduce_template(rng: np.random.Generator) -> Launch:
    x = small(rng, 1000, dtype=INT)
    expected = {"out": stride_sums(x, 3, 128)}
    return Launch(3, 128, [x, unset(3, dtype=INT), 1000], expected, name="reduce_template<128>")


@kernel
def dot_product(rng: np.random.Generator) -> Launch:
    x, y = small(rng, 2, 600)
    return Launch(3, 128, [x, y, zeros(1), 600], {"result": np.array([x @ y])})


@kernel
def argmax(rng: np.random.Generator) -> Launch:
    x = rng.permutation(300).astype(np.float32)
    return Launch(1, 64, [x, unset(1), unset(1, dtype=INT), 300],
                  {"best": x.max(keepdims=True), "where": np.array([x.argmax()], INT)})  # fmt: skip


@kernel
def atomic_max_float(rng: np.random.Generator) -> Launch:
    x = rng.uniform(-100, 100, 200).astype(np.float32)
    start = np.array([-np.inf], np.float32)
    return Launch(4, 64, [x, start, 200], {"out": x.max(keepdims=True)}, name="atomic_max_float_kernel")


@kernel
def reduce_cooperative(rng: np.random.Generator) -> Launch:
    x = small(rng, 1000)
    return Launch(3, 128, [x, unset(3), 1000], {"out": stride_sums(x, 3, 128)})


@kernel
def reduce_add_sync(rng: np.random.Generator) -> Launch:
    x = small(rng, 200, dtype=INT)
    return Launch(4, 64, [x, zeros(1, dtype=INT), 200], {"out": x.sum(keepdims=True, dtype=INT)})


@kernel
def row_sums(rng: np.random.Generator) -> Launch:
    x = small(rng, 10, 70)
    return Launch(3, 128, [x, unset(10), 10, 70], {"sums": x.sum(axis=1)})


@kernel
def min_max(rng: np.random.Generator) -> Launch:
    x = small(rng, 500, bound=9999)
    parts = x[:384].reshape(3, 2, 64).transpose(1, 0, 2).reshape(2, -1)
    rest = [x[384:448], x[448:]]
    both = [np.concatenate(pair) for pair in zip(parts, rest, strict=True)]
    expected = {"lowest": np.array([p.min() for p in both]), "highest": np.array([p.max() for p in both])}
    return Launch(2, 64, [x, unset(2), unset(2), 500], expected, shared_bytes=512)


@kernel
def count_if(rng: np.random.Generator) -> Launch:
    x = small(rng, 150, dtype=INT)
    return Launch(3, 64, [x, unset(3, dtype=INT), 150, 2], {"counts": block_sums((x > 2).astype(INT), 64)})


@kernel
def mean_variance(rng: np.random.Generator) -> Launch:
    x = small(rng, 300)
    expected = np.array([x.astype(float).mean(), x.astype(float).var()], np.float32)
    return Launch(1, 64, [x, unset(2), 300], {"out": expected}, rtol=1e-4)


@kernel
def early_return(rng: np.random.Generator) -> Launch:
    x = small(rng, 301, dtype=INT)
    other = np.minimum(np.arange(301) ^ 1, 300)
    return Launch(3, 128, [x, unset(301, dtype=INT), 301], {"out": x[other]})


@kernel
def many_barriers(rng: np.random.Generator) -> Launch:
    x = small(rng, 64)
    now = x
    for _ in range(1500):
        one, two, three = (np.float32(w) * np.roll(now, s) for w, s in ((0.25, 1), (0.5, 0), (0.25, -1)))
        now = one + two + three
    return Launch(1, 64, [x, unset(64), 1500], {"out": now}, rtol=1e-3)


@kernel
def warp_exchange(rng: np.random.Generator) -> Launch:
    x = small(rng, 128, dtype=INT)
    right = np.roll(2 * x.reshape(-1, 32), -1, axis=1).reshape(-1)
    return Launch(2, 64, [x, unset(128, dtype=INT), unset(128, dtype=INT)], {"out": right + x})


@kernel
def spin_lock(rng: np.random.Generator) -> Launch:
    x = small(rng, 6, dtype=INT)
    return Launch(6, 32, [x, zeros(1, dtype=INT)], {"total": x.sum(keepdims=True, dtype=INT)})


@kernel
def block_chain(rng: np.random.Generator) -> Launch:
    x = small(rng, 6, dtype=INT)
    return Launch(6, 32, [x, unset(6, dtype=INT), zeros(6, dtype=INT)], {"sums": np.cumsum(x, dtype=INT)})


@kernel
def named_barrier(rng: np.random.Generator) -> Launch:
    x = small(rng, 256, dtype=INT)
    expected = np.ascontiguousarray(x.reshape(4, 64)[:, ::-1]).reshape(-1)
    return Launch(2, 128, [x, unset(256, dtype=INT)], {"out": expected})


@kernel
def relay(rng: np.random.Generator) -> Launch:
    x = small(rng, 32, dtype=INT)
    return Launch(1, 64, [x, unset(32, dtype=INT)], {"out": 2 * x[::-1]})
