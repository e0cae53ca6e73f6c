"""Launches of the third batch's kernels. Inputs of sums are small integers, so that sums are exact in any order."""

from __future__ import annotations

import numpy as np

from tests.simulator.held_out.kernels.launches import held_out
from tests.simulator.kernels.launch import Launch, small, uniform, unset, zeros


@held_out
def gemv_rows(rng: np.random.Generator) -> Launch:
    # 262 numbers are not all in groups of four, and 264 keeps the rows aligned
    a, x = small(rng, 7, 264), small(rng, 262)
    return Launch(7, 128, [a, x, unset(7), 262, 264], {"y": a[:, :262] @ x})


@held_out
def matmul_blocked(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 21, 19), small(rng, 19, 35)
    return Launch((3, 2), (8, 8), [a, b, unset(21, 35), 21, 35, 19], {"C": a @ b})


@held_out
def layer_norm(rng: np.random.Generator) -> Launch:
    x, gain, bias = uniform(rng, 10, 77), uniform(rng, 77), uniform(rng, 77)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    expected = (scaled * gain + bias).astype(np.float32)
    arguments = [x, gain, bias, unset(10, 77), 10, 77, 1e-5]
    return Launch(3, (32, 4), arguments, {"y": expected}, rtol=1e-3, shared_bytes=4 * 77 * 4)


@held_out
def argmax_rows(rng: np.random.Generator) -> Launch:
    x = small(rng, 6, 150)  # many are equal
    return Launch(6, 64, [x, unset(6, dtype=np.int32), 150], {"where": x.argmax(1).astype(np.int32)})


@held_out
def top_k(rng: np.random.Generator) -> Launch:
    x = np.stack([rng.permutation(500)[:101] for _ in range(4)]).astype(np.int32)
    best = np.sort(x, 1)[:, ::-1][:, :5].copy()
    return Launch(4, 64, [x, unset(4, 5, dtype=np.int32), 101, 5], {"best": best}, shared_bytes=101 * 4)


@held_out
def digit_pass(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 2**16, 1003).astype(np.uint32)
    order = np.argsort(x >> np.uint32(4) & np.uint32(3), kind="stable")
    return Launch(1, 128, [x, unset(1003, dtype=np.uint32), 1003, 4], {"out": x[order]})


@held_out
def ballot_compaction(rng: np.random.Generator) -> Launch:
    x = rng.integers(-50, 51, 400).astype(np.int32)
    x[-1] = 50
    kept = np.sort(x[x > 10])
    count = np.array([kept.size], np.int32)
    arguments = [x, unset(kept.size, dtype=np.int32), zeros(1, dtype=np.int32), 400, 10]
    return Launch(5, 96, arguments, {"count": count}, {1: kept})


@held_out
def conv5_constant(rng: np.random.Generator) -> Launch:
    image = small(rng, 21, 37)
    weights = np.array(
        [[1, 2, 3, 2, 1], [2, -4, 6, 4, -2], [3, 6, 9, -6, 3], [2, 4, 6, 4, -7], [-1, 2, 3, 5, 1]], np.float32
    )
    views = np.lib.stride_tricks.sliding_window_view(np.pad(image, 2), (5, 5))
    expected = np.einsum("yxij,ij->yx", views, weights).astype(np.float32)
    return Launch((3, 3), (16, 8), [image, unset(21, 37), 37, 21], {"out": expected})


@held_out
def life_step(rng: np.random.Generator) -> Launch:
    now = (rng.random((21, 37)) < 0.4).astype(np.uint8)
    around = sum(np.roll(now, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - now
    expected = ((around == 3) | ((now == 1) & (around == 2))).astype(np.uint8)
    return Launch((3, 3), (16, 8), [now, unset(21, 37, dtype=np.uint8), 37, 21], {"next": expected})


@held_out
def nbody_accel(rng: np.random.Generator) -> Launch:
    bodies = uniform(rng, 150, 4, low=0.5, high=2)
    wide = bodies.astype(np.float64)
    d = wide[None, :, :3] - wide[:, None, :3]
    pull = wide[:, 3] * ((d**2).sum(2) + 0.25) ** -1.5
    accel = (pull[:, :, None] * d).sum(1).astype(np.float32)
    return Launch(3, 64, [bodies, unset(150, 3), 150, 0.25], {"accel": accel}, rtol=1e-2)


@held_out
def floyd_block(rng: np.random.Generator) -> Launch:
    far = 1000000000
    distance = np.where(rng.random((19, 19)) < 0.15, rng.integers(1, 100, (19, 19)), far).astype(np.int32)
    np.fill_diagonal(distance, 0)
    distance[:, 7] = far  # no way leads to one of them
    distance[7, 7] = 0
    shortest = distance.copy()
    for k in range(19):
        shortest = np.minimum(shortest, shortest[:, k : k + 1] + shortest[k : k + 1])
    return Launch(1, (8, 8), [distance, 19], {"distance": np.minimum(shortest, far)})


@held_out
def lu_pivot(rng: np.random.Generator) -> Launch:
    a = rng.standard_normal((37, 37))
    lu, pivots = a.copy(), np.zeros(37, np.int32)
    for k in range(37):
        row = k + int(np.abs(lu[k:, k]).argmax())
        pivots[k] = row
        lu[[k, row]] = lu[[row, k]]
        lu[k + 1 :, k] /= lu[k, k]
        lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    return Launch(1, 64, [a, unset(37, dtype=np.int32), 37], {"a": lu, "pivots": pivots}, rtol=1e-7)


@held_out
def forward_solve(rng: np.random.Generator) -> Launch:
    lower = np.tril(rng.integers(-3, 4, (50, 50)), -1) / 8 + np.diag(rng.integers(1, 5, 50))
    b = rng.integers(-9, 10, (50, 3)).astype(np.float64)
    x = np.linalg.solve(lower, b)
    return Launch(3, 64, [lower, b, unset(50, 3, dtype=np.float64), 50, 3], {"x": x}, rtol=1e-7)


@held_out
def matrix_power(rng: np.random.Generator) -> Launch:
    matrix = rng.integers(0, 1000003, (12, 12)).astype(np.uint32)
    power = np.eye(12, dtype=np.uint64)
    for _ in range(13):
        power = power @ matrix.astype(np.uint64) % np.uint64(1000003)
    return Launch(1, (12, 12), [matrix, unset(12, 12, dtype=np.uint32), 13], {"out": power.astype(np.uint32)})


@held_out
def monte_carlo(rng: np.random.Generator) -> Launch:
    seeds = rng.integers(0, 2**32, 150, dtype=np.uint64).astype(np.uint32)
    state, hits = seeds.astype(np.uint64), 0
    for _ in range(10):
        point = []
        for _ in range(2):
            state = (state * np.uint64(1664525) + np.uint64(1013904223)) & np.uint64(0xFFFFFFFF)
            point.append(state >> np.uint64(16))
        hits += int((point[0] ** 2 + point[1] ** 2 < 2**32).sum())
    expected = {"hits": np.array([hits], np.uint64), "states": state.astype(np.uint32)}
    return Launch(3, 64, [seeds, unset(150, dtype=np.uint32), zeros(1, dtype=np.uint64), 150, 10], expected)


@held_out
def edit_distance(rng: np.random.Generator) -> Launch:
    a, b = rng.integers(97, 101, 40).astype(np.int8), rng.integers(97, 101, 33).astype(np.int8)
    table = np.zeros((41, 34), np.int32)
    table[:, 0], table[0] = np.arange(41), np.arange(34)
    for i in range(1, 41):
        for j in range(1, 34):
            swap = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, swap)
    arguments = [a, 40, b, 33, unset(1, dtype=np.int32)]
    return Launch(1, 64, arguments, {"distance": table[-1, -1:].copy()})


@held_out
def max_abs_cas(rng: np.random.Generator) -> Launch:
    x = uniform(rng, 1000, low=-3, high=2)
    x[997] = -3.5
    return Launch(3, 64, [x, zeros(1), 1000], {"largest": np.array([3.5], np.float32)})


@held_out
def bin_lookup(rng: np.random.Generator) -> Launch:
    edges = np.sort(rng.permutation(200)[:33]).astype(np.float32)
    x = rng.integers(-20, 220, 500).astype(np.float32)
    x[:4] = edges[0], edges[-1], edges[0] - 1, edges[16]
    places = np.searchsorted(edges, x, side="right")
    bins = np.where((places == 0) | (places == 33), -1, places - 1).astype(np.int32)
    return Launch(4, 64, [x, edges, unset(500, dtype=np.int32), 500], {"bin": bins})


@held_out
def ell_spmv(rng: np.random.Generator) -> Launch:
    columns = rng.integers(0, 90, (7, 160)).astype(np.int32)
    columns[rng.random((7, 160)) < 0.3] = -1
    values, x = small(rng, 7, 160), small(rng, 90)
    y = (values * np.where(columns >= 0, x[columns], 0)).sum(0)[:150].astype(np.float32)
    return Launch(3, 64, [columns, values, x, unset(150), 150, 7, 160], {"y": y})


@held_out
def coo_spmv(rng: np.random.Generator) -> Launch:
    rows = np.sort(rng.integers(0, 40, 333)).astype(np.int32)
    columns = rng.integers(0, 50, 333).astype(np.int32)
    values, x = small(rng, 333), small(rng, 50)
    y = np.bincount(rows, values * x[columns], 40).astype(np.float32)
    return Launch(3, 128, [rows, columns, values, x, zeros(40), 333], {"y": y})


@held_out
def batched_matmul(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 10, 6, 6, dtype=np.float64), small(rng, 10, 6, 6, dtype=np.float64)
    return Launch(3, (6, 6, 4), [a, b, unset(10, 6, 6, dtype=np.float64), 10], {"C": a @ b})


@held_out
def tile_sums(rng: np.random.Generator) -> Launch:
    x = rng.integers(-99, 0, (9, 45)).astype(np.int32)
    arguments = [x, unset(9, dtype=np.int32), unset(9, dtype=np.int32), 9, 45]
    return Launch(3, 64, arguments, {"sums": x.sum(1, dtype=np.int32), "tops": x.max(1)})


@held_out
def chunk_pipeline(rng: np.random.Generator) -> Launch:
    x = small(rng, 5, 128)
    return Launch(1, 64, [x, unset(5, 128), 5], {"out": np.roll(x, -1, 1) - x})


@held_out
def half2_axpby(rng: np.random.Generator) -> Launch:
    x, y = small(rng, 501, dtype=np.float16), small(rng, 501, dtype=np.float16)
    return Launch(2, 64, [x, y, unset(501, dtype=np.float16), 2.0, 3.0, 501], {"z": 2 * x + 3 * y})


def _bfloat16(x: np.ndarray) -> np.ndarray:
    """Return the bfloat16 bits of whole numbers so small that they are exact."""
    return (x.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


@held_out
def bf16_bias(rng: np.random.Generator) -> Launch:
    x, bias = small(rng, 11, 70), small(rng, 70)
    expected = _bfloat16(np.maximum(x + bias, 0) + np.float32(0))
    arguments = [_bfloat16(x), _bfloat16(bias), unset(11, 70, dtype=np.uint16), 11, 35]
    return Launch((2, 3), (32, 4), arguments, {"y": expected})


@held_out
def wmma_edges(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 21, 41, dtype=np.float16), small(rng, 41, 27, dtype=np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    return Launch((2, 2), 32, [a, b, unset(21, 27), 21, 27, 41], {"C": expected})


@held_out
def dp4a_matvec(rng: np.random.Generator) -> Launch:
    a, x = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((10, 164), 164))
    return Launch(3, 128, [a, x, unset(10, dtype=np.int32), 10, 164], {"y": a.astype(np.int32) @ x.astype(np.int32)})


@held_out
def resize_bilinear(rng: np.random.Generator) -> Launch:
    # thirds and quarters of steps of 12 are whole
    image = (rng.integers(0, 21, (6, 9)) * 12).astype(np.uint8)
    fy, fx = np.arange(16)[:, None] / 3, np.arange(33)[None] / 4
    y0, x0 = fy.astype(int), fx.astype(int)
    y1, x1 = np.minimum(y0 + 1, 5), np.minimum(x0 + 1, 8)
    top = image[y0, x0] * (1 - fx + x0) + image[y0, x1] * (fx - x0)
    bottom = image[y1, x0] * (1 - fx + x0) + image[y1, x1] * (fx - x0)
    exact = np.rint(top * (1 - fy + y0) + bottom * (fy - y0))
    arguments = [image, unset(16, 33, dtype=np.uint8), 9, 6, 33, 16]
    return Launch((3, 2), (16, 8), arguments, {"out": exact.astype(np.uint8)})


@held_out
def integral_image(rng: np.random.Generator) -> Launch:
    image = small(rng, 18, 37, dtype=np.int32)
    expected = image.cumsum(0).cumsum(1).astype(np.int32)
    return Launch(1, 128, [image, unset(18, 37, dtype=np.int32), 37, 18], {"sums": expected})


@held_out
def delta_encode(rng: np.random.Generator) -> Launch:
    x = small(rng, 300, dtype=np.int32)
    return Launch(1, 128, [x, 300], {"x": np.diff(x, prepend=np.int32(0))})


@held_out
def bit_planes(rng: np.random.Generator) -> Launch:
    codes = rng.integers(0, 32, 200).astype(np.uint8)
    padded = np.pad(codes, (0, 24)).reshape(7, 1, 32).astype(np.uint64)
    bits = padded >> np.arange(5, dtype=np.uint64)[:, None] & np.uint64(1)
    planes = (bits << np.arange(32, dtype=np.uint64)).sum(2).astype(np.uint32)
    arguments = [codes, unset(7, 5, dtype=np.uint32), unset(200, dtype=np.uint8), 200]
    return Launch(4, 64, arguments, {"planes": planes, "back": codes})


@held_out
def brick_sort(rng: np.random.Generator) -> Launch:
    x = rng.permutation(200)[:75].astype(np.int32)
    now, rounds, swapped = x.copy(), 0, True
    while swapped:
        before = now.copy()
        for odd in range(2):
            for i in range(odd, 74, 2):
                now[i : i + 2] = np.sort(now[i : i + 2])
        rounds, swapped = rounds + 1, bool((now != before).any())
    expected = {"x": np.sort(x), "rounds": np.array([rounds], np.int32)}
    return Launch(1, 64, [x, unset(1, dtype=np.int32), 75], expected)


@held_out
def last_block_range(rng: np.random.Generator) -> Launch:
    x = rng.integers(-9999, 9999, 700).astype(np.int32)
    arguments = [x, unset(4, 2, dtype=np.int32), unset(2, dtype=np.int32), 700]
    return Launch(4, 96, arguments, {"range": np.array([x.min(), x.max()], np.int32)})


@held_out
def warp_ring(rng: np.random.Generator) -> Launch:
    x = small(rng, 11, 32, dtype=np.int32)
    sums = np.zeros(32, np.int32)
    for row in x:
        sums = 3 * sums + row[np.arange(32) ^ 1]
    return Launch(1, 64, [x, unset(32, dtype=np.int32), 11], {"out": sums.astype(np.int32)})


@held_out
def bin_mutex(rng: np.random.Generator) -> Launch:
    x, which = rng.integers(-99, 100, 150).astype(np.int32), rng.integers(0, 5, 150).astype(np.int32)
    bins = np.tile(np.array([0, 0, -1000], np.int32), (5, 1))
    expected = np.array([[x[which == k].sum(), (which == k).sum(), x[which == k].max()] for k in range(5)], np.int32)
    locks = zeros(5, dtype=np.int32)
    return Launch(3, 64, [x, which, bins, locks, 150], {"bins": expected, "locks": np.zeros(5, np.int32)})


@held_out
def attention_row(rng: np.random.Generator) -> Launch:
    q, k, v = (uniform(rng, 50, 24) for _ in range(3))
    scores = q.astype(np.float64) @ k.T * 0.25
    scores[np.triu_indices(50, 1)] = -np.inf
    powers = np.exp(scores - scores.max(1, keepdims=True))
    expected = (powers / powers.sum(1, keepdims=True) @ v).astype(np.float32)
    arguments = [q, k, v, unset(50, 24), 50, 24, 0.25]
    return Launch(50, 64, arguments, {"out": expected}, rtol=1e-2, shared_bytes=(24 + 50) * 4)


@held_out
def permute_3d(rng: np.random.Generator) -> Launch:
    x = small(rng, 5, 11, 19)
    return Launch((3, 2, 3), (8, 8, 2), [x, unset(19, 5, 11), 5, 11, 19], {"out": x.transpose(2, 0, 1).copy()})


@held_out
def pcr_tridiagonal(rng: np.random.Generator) -> Launch:
    lower, upper, right = (rng.uniform(-1, 1, (2, 100)) for _ in range(3))
    middle = rng.uniform(3, 4, (2, 100))
    full = [np.diag(m) + np.diag(u[:-1], 1) + np.diag(w[1:], -1) for w, m, u in zip(lower, middle, upper, strict=True)]
    x = np.stack([np.linalg.solve(matrix, side) for matrix, side in zip(full, right, strict=True)])
    arguments = [lower, middle, upper, right, unset(2, 100, dtype=np.float64), 100]
    return Launch(2, 128, arguments, {"x": x}, rtol=1e-7)


@held_out
def haar_levels(rng: np.random.Generator) -> Launch:
    x = small(rng, 3, 128, dtype=np.int32)
    sums, out = x, np.zeros((3, 128), np.int32)
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        out[:, half : 2 * half] = sums[:, ::2] - sums[:, 1::2]
        sums = sums[:, ::2] + sums[:, 1::2]
    out[:, :1] = sums
    return Launch(3, 64, [x, unset(3, 128, dtype=np.int32)], {"out": out})


@held_out
def count_words(rng: np.random.Generator) -> Launch:
    text = rng.choice(np.frombuffer(b"abzAZ ., ", np.int8), 500)
    is_letter = np.isin(text, np.frombuffer(b"abzAZ", np.int8))
    words = int((is_letter & ~np.r_[False, is_letter[:-1]]).sum())
    expected = {"words": np.array([words], np.int32), "letters": np.array([is_letter.sum()], np.int32)}
    return Launch(4, 128, [text, 500, zeros(1, dtype=np.int32), zeros(1, dtype=np.int32)], expected)


@held_out
def knapsack(rng: np.random.Generator) -> Launch:
    weights = 12, 7, 11, 8, 9, 6, 13, 5, 14, 10, 3, 17
    prices = 24, 13, 23, 15, 16, 11, 28, 9, 27, 20, 5, 31
    best = np.zeros(101, np.int32)
    for weight, price in zip(weights, prices, strict=True):
        best[weight:] = np.maximum(best[weight:], best[:-weight] + price)
    return Launch(1, 128, [unset(101, dtype=np.int32), 12], {"best": best})


@held_out
def list_rank(rng: np.random.Generator) -> Launch:
    order = rng.permutation(100).astype(np.int32)
    after, rank = np.empty(100, np.int32), np.empty(100, np.int32)
    after[order] = np.r_[order[1:], order[-1:]]
    rank[order] = np.arange(99, -1, -1)
    return Launch(1, 128, [after, unset(100, dtype=np.int32), 100], {"rank": rank})


@held_out
def sieve_bits(rng: np.random.Generator) -> Launch:
    primes = np.array([k for k in range(2, 500) if all(k % p for p in range(2, k))], np.int32)
    count = np.array([primes.size], np.int32)
    return Launch(
        1, 64, [unset(primes.size, dtype=np.int32), unset(1, dtype=np.int32), 500], {"count": count}, {0: primes}
    )
