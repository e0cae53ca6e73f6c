"""Kernels for transposes, stencils, convolutions, rows of a neural network, and graphs."""

from __future__ import annotations

import numpy as np

from tests.simulator.kernels.launch import Launch, kernel, small, uniform, unset, zeros

INT = np.int32


@kernel
def transpose_naive(rng: np.random.Generator) -> Launch:
    x = small(rng, 20, 35)
    return Launch((3, 3), (16, 8), [x, unset(35, 20), 20, 35], {"out": x.T.copy()})


@kernel
def transpose_padded(rng: np.random.Generator) -> Launch:
    x = small(rng, 70, 45)
    return Launch((2, 3), (32, 8), [x, unset(45, 70), 70, 45], {"out": x.T.copy()})


@kernel
def transpose_swizzled(rng: np.random.Generator) -> Launch:
    x = small(rng, 32, 32, dtype=INT)
    return Launch((2, 2), (16, 16), [x, unset(32, 32, dtype=INT), 32], {"out": x.T.copy()})


@kernel
def transpose_in_place(rng: np.random.Generator) -> Launch:
    x = small(rng, 24, 24)
    return Launch((3, 3), (8, 8), [x.copy(), 24], {"a": x.T.copy()})


@kernel
def stencil_1d(rng: np.random.Generator) -> Launch:
    x = small(rng, 200, dtype=INT)
    return Launch(4, 64, [x, unset(200, dtype=INT), 200], {"out": np.convolve(x, np.ones(7, INT), "same").astype(INT)})


@kernel
def stencil_2d(rng: np.random.Generator) -> Launch:
    x = small(rng, 37, 21)
    p = np.pad(x, 1)
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    expected = np.float32(0.5) * x + np.float32(0.125) * around
    return Launch((2, 3), (16, 16), [x, unset(37, 21), 37, 21], {"out": expected})


@kernel
def stencil_3d(rng: np.random.Generator) -> Launch:
    x = small(rng, 6, 10, 19)
    inner = slice(1, -1)
    expected = x.copy()
    expected[1:-1, 1:-1, 1:-1] = (
        x[:-2, inner, inner] + x[2:, inner, inner] + x[inner, :-2, inner] + x[inner, 2:, inner]
        + x[inner, inner, :-2] + x[inner, inner, 2:] - 6 * x[inner, inner, inner]
    )  # fmt: skip
    return Launch((3, 3), (8, 4), [x, x.copy(), 19, 10, 6], {"out": expected})


@kernel
def convolution_constant(rng: np.random.Generator) -> Launch:
    x = small(rng, 18, 25)
    row = np.array([1, 4, 6, 4, 1], np.float32)
    p = np.pad(x, 2)
    total = sum(row[i] * row[j] * p[i : i + 18, j : j + 25] for i in range(5) for j in range(5))
    return Launch((2, 3), (16, 8), [x, unset(18, 25), 25, 18], {"out": (total / 256).astype(np.float32)})


@kernel
def convolution_rows(rng: np.random.Generator) -> Launch:
    x, weights = small(rng, 5, 70), small(rng, 7)
    p = np.pad(x, ((0, 0), (3, 3)))
    expected = sum(weights[k] * p[:, k : k + 70] for k in range(7)).astype(np.float32)
    return Launch((3, 5), 32, [x, weights, unset(5, 70), 70, 3], {"out": expected}, shared_bytes=4 * 38)


@kernel
def game_of_life(rng: np.random.Generator) -> Launch:
    now = rng.integers(0, 2, (20, 30)).astype(np.uint8)
    alive = sum(np.roll(now, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    expected = ((alive == 3) | (now.astype(bool) & (alive == 2))).astype(np.uint8)
    return Launch((2, 3), (16, 8), [now, unset(20, 30, dtype=np.uint8), 30, 20], {"next": expected})


@kernel
def jacobi(rng: np.random.Generator) -> Launch:
    u, f = small(rng, 2, 150)
    v = u.copy()
    v[1:-1] = np.float32(0.5) * (u[:-2] + u[2:] - f[1:-1])
    change = np.pad(abs(v - u), (0, 42)).reshape(3, 64).max(axis=1)
    return Launch(3, 64, [u, f, unset(150), unset(3), 150], {"v": v, "change": change})


@kernel
def box_blur(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 100, (20, 40)).astype(INT)
    windows = np.lib.stride_tricks.sliding_window_view(x, 5, axis=0)
    expected = (windows.sum(axis=-1) // 5).astype(INT)
    return Launch(2, 32, [x, unset(16, 40, dtype=INT), 20, 40, 5], {"out": expected})


def quotients(x: np.ndarray) -> np.ndarray:
    """Compute the softmax of each row."""
    e = np.exp(x.astype(float) - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(np.float32)


@kernel
def softmax(rng: np.random.Generator) -> Launch:
    x = uniform(rng, 5, 100)
    return Launch(5, 64, [x, unset(5, 100), 100], {"out": quotients(x)}, rtol=1e-4)


@kernel
def softmax_online(rng: np.random.Generator) -> Launch:
    x = uniform(rng, 7, 70)
    return Launch(2, (32, 4), [x, unset(7, 70), 7, 70], {"out": quotients(x)}, rtol=1e-4)


@kernel
def layernorm(rng: np.random.Generator) -> Launch:
    x, gamma, beta = small(rng, 4, 90), small(rng, 90), small(rng, 90)
    wide = x.astype(float)
    scaled = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    expected = (scaled * gamma + beta).astype(np.float32)
    return Launch(4, 64, [x, gamma, beta, unset(4, 90), 90], {"y": expected}, rtol=1e-3)


@kernel
def attention(rng: np.random.Generator) -> Launch:
    q, k, v = uniform(rng, 6, 16), uniform(rng, 32, 16), uniform(rng, 32, 16, low=1, high=2)
    return Launch(6, 32, [q, k, v, unset(6, 16)], {"out": quotients(q @ k.T / 4) @ v}, rtol=1e-3)


@kernel
def floyd_warshall(rng: np.random.Generator) -> Launch:
    d = rng.integers(1, 100, (40, 40)).astype(INT)
    np.fill_diagonal(d, 0)
    return Launch((2, 40), 32, [d.copy(), 40, 7], {"dist": np.minimum(d, d[:, 7:8] + d[7:8])})


@kernel
def nbody(rng: np.random.Generator) -> Launch:
    bodies = uniform(rng, 50, 4, low=0.1)
    d = bodies[None, :, :3].astype(float) - bodies[:, None, :3]
    scale = bodies[None, :, 3:] / ((d**2).sum(axis=-1, keepdims=True) + 0.01) ** 1.5
    expected = (d * scale).sum(axis=1).astype(np.float32)
    return Launch(2, 32, [bodies, unset(50, 3), 50], {"accel": expected}, shared_bytes=512, rtol=1e-2)


@kernel
def spmv_csr(rng: np.random.Generator) -> Launch:
    dense = small(rng, 10, 80) * (rng.random((10, 80)) < 0.5)
    rows, cols = np.nonzero(dense)
    begins = np.searchsorted(rows, np.arange(11)).astype(INT)
    x = small(rng, 80)
    arguments = [begins, cols.astype(INT), dense[rows, cols].astype(np.float32), x, unset(10), 10]
    return Launch(3, 128, arguments, {"y": (dense @ x).astype(np.float32)})


@kernel
def bfs_level(rng: np.random.Generator) -> Launch:
    linked = rng.random((60, 60)) < 0.08
    begins = np.concatenate([[0], np.cumsum(linked.sum(axis=1))]).astype(INT)
    edges = np.nonzero(linked)[1].astype(INT)
    level = np.where(np.arange(60) < 5, 2, -1).astype(INT)
    found = linked[:5].any(axis=0) & (level < 0)
    expected = {"level": np.where(found, 3, level).astype(INT), "changed": np.array([1], INT)}
    return Launch(2, 32, [begins, edges, level, zeros(1, dtype=INT), 2, 60], expected)


@kernel
def union_labels(rng: np.random.Generator) -> Launch:
    cells = rng.integers(0, 2, 60).astype(INT)
    first = np.concatenate([[True], cells[1:] != cells[:-1]])
    expected = np.maximum.accumulate(np.where(first, np.arange(60), 0)).astype(INT)
    return Launch(1, 64, [cells, unset(60, dtype=INT), 60], {"labels": expected})


@kernel
def levenshtein(rng: np.random.Generator) -> Launch:
    a, b = rng.integers(97, 100, 40).astype(np.int8), rng.integers(97, 100, 33).astype(np.int8)
    row = list(range(34))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j - 1] + (x != y), before[j] + 1, row[-1] + 1))
    return Launch(1, 41, [a, b, 40, 33, unset(1, dtype=INT)], {"distance": np.array([row[-1]], INT)})
