"""Launches of the fourth batch's kernels. Inputs of sums are small integers, so that sums are exact in any order."""

from __future__ import annotations

import zlib
from itertools import pairwise

import numpy as np

from tests.simulator.held_out.kernels.launches import held_out
from tests.simulator.kernels.launch import Launch, small, unset, zeros


@held_out
def maxpool_channels(rng: np.random.Generator) -> Launch:
    x = small(rng, 5, 13, 19)
    padded = np.pad(x, ((0, 0), (0, 1), (0, 1)), constant_values=-np.inf)
    windows = padded.reshape(5, 7, 2, 10, 2).transpose(0, 1, 3, 2, 4).reshape(5, 7, 10, 4)
    expected = {"y": windows.max(3), "where": windows.argmax(3).astype(np.uint8)}
    arguments = [x, unset(5, 7, 10), unset(5, 7, 10, dtype=np.uint8), 5, 13, 19]
    return Launch((2, 2, 3), (8, 4, 2), arguments, expected)


@held_out
def embedding_bag(rng: np.random.Generator) -> Launch:
    table = small(rng, 40, 36)
    offsets = np.array([0, 3, 3, 10, 14, 15, 22, 29, 31, 40, 44, 50], np.int32)
    indices = rng.integers(0, 40, 50).astype(np.int32)
    indices[[2, 12, 47]] = -1
    rows = np.where(indices[:, None] >= 0, table[indices], 0)
    sums = np.stack([rows[i:j].sum(0) for i, j in pairwise(offsets)])
    return Launch(3, (8, 4), [table, indices, offsets, unset(11, 36), 11, 36], {"out": sums.astype(np.float32)})


@held_out
def rotary_pairs(rng: np.random.Generator) -> Launch:
    q, turn = small(rng, 6, 3, 20, 2, dtype=np.float16), small(rng, 6, 20, 2)
    x, y = q[..., 0].astype(np.float32), q[..., 1].astype(np.float32)
    c, s = turn[:, None, :, 0], turn[:, None, :, 1]
    expected = np.stack([x * c - y * s, x * s + y * c], 3).astype(np.float16)
    return Launch((6, 2), (32, 2), [q, turn, 3, 20], {"q": expected})


@held_out
def flip_ring(rng: np.random.Generator) -> Launch:
    x = small(rng, 2, 5, 128)
    return Launch(2, 64, [x, unset(2, 5, 128), 5], {"y": x[:, :, ::-1].copy()})


@held_out
def window_sums(rng: np.random.Generator) -> Launch:
    x = small(rng, 203)
    return Launch(4, 64, [x, unset(203), 203], {"y": np.convolve(x, np.ones(7, np.float32), "same")})


@held_out
def tile_ranks(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 30, 147).astype(np.int32)
    pieces = [x[i : i + 8] for i in range(0, 147, 8)]
    ranges = np.pad([int(np.ptp(piece)) for piece in pieces], (0, 5)).reshape(3, 8).max(1).astype(np.int32)
    expected = {"sorted": np.concatenate([np.sort(piece) for piece in pieces]), "widest": ranges}
    return Launch(3, 64, [x, unset(147, dtype=np.int32), unset(3, dtype=np.int32), 147], expected)


@held_out
def square_handoff(rng: np.random.Generator) -> Launch:
    x = small(rng, 435, dtype=np.int32)
    squares = np.pad(x * x, (0, 13)).reshape(7, 64)
    expected = (squares + squares[:, ::-1]).reshape(-1)[:435].astype(np.int32)
    return Launch(1, 128, [x, unset(435, dtype=np.int32), 435], {"y": expected})


@held_out
def lcs_tiles(rng: np.random.Generator) -> Launch:
    a, b = rng.integers(97, 101, 150).astype(np.int8), rng.integers(97, 101, 131).astype(np.int8)
    table = np.full((151, 132), -1, np.int32)
    table[0], table[:, 0] = 0, 0
    full = table.copy()
    for i in range(150):
        for j in range(131):
            full[i + 1, j + 1] = full[i, j] + 1 if a[i] == b[j] else max(full[i, j + 1], full[i + 1, j])
    ready = zeros(3, 3, dtype=np.int32)
    return Launch((3, 3), 64, [a, b, table, ready, 150, 131], {"table": full, "ready": np.ones((3, 3), np.int32)})


@held_out
def center_scale(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 1000, 803).astype(np.int32)
    centered = x - x.sum() // 803
    y = np.trunc(centered * 100 / np.abs(centered).max()).astype(np.int32)
    arguments = [x, unset(803, dtype=np.int32), unset(5, dtype=np.int32), zeros(1, dtype=np.uint32), 803]
    return Launch(5, 64, arguments, {"y": y})


@held_out
def crc_nibbles(rng: np.random.Generator) -> Launch:
    starts = np.r_[0, rng.integers(0, 20, 70).cumsum()].astype(np.int32)
    text = rng.integers(0, 256, int(starts[-1])).astype(np.uint8)
    sums = [zlib.crc32(text[i:j].tobytes()) for i, j in pairwise(starts)]
    return Launch(3, 32, [text, starts, unset(70, dtype=np.uint32), 70], {"out": np.array(sums, np.uint32)})


@held_out
def packed_argmax(rng: np.random.Generator) -> Launch:
    x = small(rng, 1000, bound=300)
    x[[411, 777]] = 400.5
    expected = {"place": np.array([411], np.int32), "value": np.array([400.5], np.float32)}
    return Launch(4, 96, [x, unset(1, dtype=np.int32), unset(1), 1000], expected)


@held_out
def wmma_gram(rng: np.random.Generator) -> Launch:
    a = small(rng, 40, 24, dtype=np.float16)
    wide = a.astype(np.float32)
    return Launch((2, 3), (32, 2), [a, unset(40, 40), 40, 24], {"C": wide @ wide.T})


@held_out
def first_negative(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 100, (10, 75)).astype(np.int32)
    where = np.array([0, -1, 74, 31, 32, 50, -1, 5, 63, -1], np.int32)
    for row, place in enumerate(where):
        if place >= 0:
            x[row, place] = -1
            x[row, place + 1 :: 3] = -2
    expected = {"where": where, "without": np.array([3], np.int32)}
    return Launch(3, 128, [x, unset(10, dtype=np.int32), zeros(1, dtype=np.int32), 10, 75], expected)


@held_out
def segmented_scan(rng: np.random.Generator) -> Launch:
    x, head = small(rng, 9, 107, dtype=np.int32), (rng.random((9, 107)) < 0.06).astype(np.uint8)
    sums = x.copy()
    for j in range(1, 107):
        sums[:, j] += np.where(head[:, j], 0, sums[:, j - 1])
    return Launch(3, 128, [x, head, unset(9, 107, dtype=np.int32), 9, 107], {"out": sums})


@held_out
def product_cas(rng: np.random.Generator) -> Launch:
    # the product of few threes and powers of two is exact
    x = rng.choice([1.0, 2.0, 0.5, -1.0, 3.0], 300, p=[0.1, 0.3, 0.3, 0.2, 0.1])
    which = rng.integers(0, 5, 300).astype(np.int32)
    products = np.array([x[which == key].prod() for key in range(5)])
    return Launch(3, 128, [x, which, np.ones(5), 300], {"products": products})


@held_out
def bucket_lists(rng: np.random.Generator) -> Launch:
    x = rng.integers(1, 1000, (2, 210)).astype(np.int32)
    digits = np.arange(10)[None, :, None] == x[:, None] % 10
    sums, lengths = (digits * x[:, None]).sum(2).astype(np.int32), digits.sum(2).astype(np.int32)
    arguments = [x, unset(2, 210, dtype=np.int32), unset(2, 10, dtype=np.int32), unset(2, 10, dtype=np.int32), 210]
    return Launch(2, 96, arguments, {"sums": sums, "lengths": lengths})


@held_out
def pixels_to_planes(rng: np.random.Generator) -> Launch:
    rgb = small(rng, 203, 3, bound=127)
    return Launch(4, 64, [rgb, unset(3, 203), 203], {"planes": rgb.T.copy()})


@held_out
def brick_sums(rng: np.random.Generator) -> Launch:
    volume = small(rng, 9, 7, 10, dtype=np.int32)
    bricks = np.pad(volume, ((0, 3), (0, 1), (0, 2))).reshape(3, 4, 2, 4, 3, 4).sum((1, 3, 5)).astype(np.int32)
    return Launch((3, 2, 3), (4, 4, 4), [volume, unset(3, 2, 3, dtype=np.int32), 10, 7, 9], {"sums": bricks})


@held_out
def trimmed_sums(rng: np.random.Generator) -> Launch:
    x = rng.integers(-500, 500, (9, 150)).astype(np.int32)
    expected = np.sort(x, 0)[2:7].sum(0, dtype=np.int32)
    return Launch(3, 64, [x, unset(150, dtype=np.int32), 150], {"out": expected})


@held_out
def recurrence_scan(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(1, 2**32, (3, 75), dtype=np.uint64) for _ in range(2))
    h, now = np.zeros((3, 75), np.uint64), np.zeros(3, np.uint64)
    for t in range(75):
        now = (a[:, t] * now + b[:, t]) & np.uint64(0xFFFFFFFF)
        h[:, t] = now
    arguments = [a.astype(np.uint32), b.astype(np.uint32), unset(3, 75, dtype=np.uint32), 75]
    return Launch(3, 96, arguments, {"h": h.astype(np.uint32)}, shared_bytes=2 * 75 * 8)


@held_out
def hamming_matrix(rng: np.random.Generator) -> Launch:
    left, right = (rng.integers(0, 2**32, (size, 4), dtype=np.uint64).astype(np.uint32) for size in (21, 37))
    differ = (left[:, None] ^ right[None]).view(np.uint8).reshape(21, 37, 16)
    distances = np.unpackbits(differ, axis=2).sum(2).astype(np.uint8)
    nearest = np.full(21, 128, np.int32)
    expected = {"out": distances, "nearest": distances.min(1).astype(np.int32)}
    return Launch((3, 3), (16, 8), [left, right, unset(21, 37, dtype=np.uint8), nearest, 21, 37], expected)


@held_out
def pack_nibbles(rng: np.random.Generator) -> Launch:
    x = rng.integers(-12, 12, 205).astype(np.int8)
    levels = np.pad(np.clip(x, -8, 7), (0, 3)).astype(np.uint64) & np.uint64(15)
    words = (levels.reshape(26, 8) << (np.uint64(4) * np.arange(8, dtype=np.uint64))).sum(1).astype(np.uint32)
    expected = {"packed": words, "clipped": np.array([((x < -8) | (x > 7)).sum()], np.int32)}
    return Launch(3, 96, [x, unset(26, dtype=np.uint32), zeros(1, dtype=np.int32), 205], expected)


@held_out
def second_moments(rng: np.random.Generator) -> Launch:
    x = small(rng, 29, 37)
    return Launch((3, 3), (8, 8), [x, unset(37, 37), 29, 37], {"C": x.T @ x})


def _bits(x: np.ndarray) -> np.ndarray:
    """Return the bfloat16 bits of whole numbers so small that they are exact."""
    return (x.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


@held_out
def bf16_gate(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 3, 302), small(rng, 3, 302)
    y = unset(3, 302, dtype=np.uint16)
    expected = y.copy()
    expected[:, :301] = _bits(a * np.maximum(b, 0) + b)[:, :301]
    return Launch((3, 3), 64, [_bits(a), _bits(b), y, 301, 302], {"y": expected})


@held_out
def group_moments(rng: np.random.Generator) -> Launch:
    x, group = small(rng, 500, dtype=np.float64), rng.integers(-1, 7, 500).astype(np.int32)
    kept = group >= 0
    sums, squares = (np.bincount(group[kept], weights[kept], 7) for weights in (x, x * x))
    counts = np.bincount(group[kept], minlength=7).astype(np.int32)
    totals = [zeros(7, dtype=np.float64), zeros(7, dtype=np.float64), zeros(7, dtype=np.int32)]
    expected = {"sums": sums, "squares": squares, "counts": counts}
    return Launch(4, 96, [x, group, *totals, 500, 7], expected, shared_bytes=7 * 20)


@held_out
def task_queue(rng: np.random.Generator) -> Launch:
    starts = np.r_[0, rng.integers(20, 150, 13).cumsum()].astype(np.int32)
    x = small(rng, int(starts[-1]), dtype=np.int32)
    sums = np.add.reduceat(x, starts[:-1]).astype(np.int32)
    arguments = [x, starts, unset(13, dtype=np.int32), zeros(1, dtype=np.int32), 13]
    return Launch(3, 64, arguments, {"sums": sums})
