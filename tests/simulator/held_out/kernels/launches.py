"""Launches of the kernels in this folder. Inputs of sums are small integers, so that sums are exact in any order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.simulator.kernels.launch import Kernel, Launch, small, uniform, unset, zeros

_FOLDER = Path(__file__).resolve().parent

HELD_OUT_KERNELS: dict[str, Kernel] = {}


def held_out(launch: Callable[[np.random.Generator], Launch]) -> Callable[[np.random.Generator], Launch]:
    """Register a launch under its function's name, which is that of the kernel's file."""
    HELD_OUT_KERNELS[launch.__name__] = Kernel(launch.__name__, launch, _FOLDER)
    return launch


@held_out
def row_norms(rng: np.random.Generator) -> Launch:
    x = small(rng, 10, 48)
    norms = np.sqrt((x[:, :45] ** 2).sum(1))
    return Launch(3, (32, 4), [x, unset(10), 10, 45, 48], {"norms": norms}, rtol=1e-6)


@held_out
def scan_chunks(rng: np.random.Generator) -> Launch:
    x = small(rng, 700, dtype=np.int32)
    return Launch(1, 256, [x, unset(700, dtype=np.int32), 700], {"out": np.cumsum(x, dtype=np.int32) - x})


@held_out
def matmul_bt(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 20, 41), small(rng, 37, 41)
    return Launch((3, 2), (16, 16), [a, b, unset(20, 37), 20, 37, 41], {"C": a @ b.T})


@held_out
def heat_block(rng: np.random.Generator) -> Launch:
    plate = small(rng, 16, 16)
    now = np.pad(plate, 1)
    for _ in range(3):
        sides = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        now[1:-1, 1:-1] += np.float32(0.125) * (sides - 4 * now[1:-1, 1:-1])
    return Launch(1, (16, 16), [plate, 3, 0.125], {"plate": now[1:-1, 1:-1].copy()})


@held_out
def histogram_warps(rng: np.random.Generator) -> Launch:
    data = rng.integers(0, 256, 1003).astype(np.uint8)
    bins = np.bincount(data % 40, minlength=40).astype(np.uint32)
    return Launch(2, 96, [data, zeros(40, dtype=np.uint32), 1003, 40], {"bins": bins}, shared_bytes=3 * 40 * 4)


@held_out
def transpose_half(rng: np.random.Generator) -> Launch:
    x = small(rng, 40, 70, dtype=np.float16)
    return Launch((3, 2), (32, 8), [x, unset(70, 40, dtype=np.float16), 40, 70], {"out": x.T.copy()})


@held_out
def warp_bitonic(rng: np.random.Generator) -> Launch:
    data = rng.permutation(100).astype(np.int32)
    expected = np.concatenate([np.sort(part) for part in np.split(data, (32, 64, 96))])
    return Launch(2, 64, [data, 100], {"data": expected})


@held_out
def merge_ranks(rng: np.random.Generator) -> Launch:
    a, b = (np.sort(rng.integers(0, 60, size)).astype(np.int32) for size in (70, 50))
    merged = np.sort(np.concatenate([a, b]))
    return Launch(4, 32, [a, 70, b, 50, unset(120, dtype=np.int32)], {"out": merged})


@held_out
def ticket_prefix(rng: np.random.Generator) -> Launch:
    x = small(rng, 300, dtype=np.int32)
    flags, ticket = zeros(5, dtype=np.int32), zeros(1, dtype=np.int32)
    arguments = [x, unset(300, dtype=np.int32), unset(5, dtype=np.int32), flags, ticket, 300]
    return Launch(5, 64, arguments, {"out": np.cumsum(x, dtype=np.int32)})


@held_out
def column_pipeline(rng: np.random.Generator) -> Launch:
    x = small(rng, 7, 256)
    return Launch(1, 64, [x, unset(256), 7], {"sums": x.sum(0)})


@held_out
def dot_async(rng: np.random.Generator) -> Launch:
    x, y = small(rng, 2, 5 * 256)
    return Launch(1, 64, [x.copy(), y.copy(), zeros(1), 5], {"result": np.array([x @ y])})


@held_out
def wmma_bias(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 32, 32, dtype=np.float16), small(rng, 32, 48, dtype=np.float16)
    bias = small(rng, 48)
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias, 0)
    return Launch((1, 2), 128, [a, b, bias, unset(32, 48), 32, 48, 32], {"C": expected})


@held_out
def segment_means(rng: np.random.Generator) -> Launch:
    begin = np.concatenate([[0], np.cumsum(rng.integers(1, 25, 19))]).astype(np.int32)
    x = small(rng, int(begin[-1]))
    sums = np.add.reduceat(x, begin[:-1])
    means = sums / np.diff(begin).astype(np.float32)
    return Launch(1, 64, [x, begin, unset(19), unset(1), 19], {"means": means, "largest": sums[[sums.argmax()]]})


@held_out
def weighted_mean(rng: np.random.Generator) -> Launch:
    x = small(rng, 1000, dtype=np.float64)
    w = rng.integers(1, 9, 1000).astype(np.float64)
    arguments = [x, w, unset(1, dtype=np.float64), unset(6, dtype=np.float64), zeros(1, dtype=np.uint32), 1000]
    return Launch(3, 128, arguments, {"mean": np.array([x @ w / w.sum()])})


@held_out
def softmax_half(rng: np.random.Generator) -> Launch:
    x = uniform(rng, 3, 300, low=-4, high=4).astype(np.float16)
    powers = np.exp(x.astype(np.float32) - x.max(1, keepdims=True))
    expected = (powers / powers.sum(1, keepdims=True)).astype(np.float16)
    return Launch(3, 128, [x, unset(3, 300, dtype=np.float16), 300], {"y": expected}, rtol=1e-2)


@held_out
def welford_rows(rng: np.random.Generator) -> Launch:
    x = uniform(rng, 4, 50)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    return Launch(4, 64, [x, unset(4, 50), 50, 1e-5], {"y": expected.astype(np.float32)}, rtol=1e-4)


@held_out
def csr_half_warp(rng: np.random.Generator) -> Launch:
    dense = small(rng, 21, 60) * (rng.random((21, 60)) < 0.4)
    begin = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype(np.int32)
    columns = np.nonzero(dense)[1].astype(np.int32)
    x = small(rng, 60)
    return Launch(6, 64, [begin, columns, dense[dense != 0].copy(), x, unset(21), 21], {"y": dense @ x})


@held_out
def conv_channels(rng: np.random.Generator) -> Launch:
    image, weights = small(rng, 5, 12, 21), small(rng, 2, 5, 3, 3)
    views = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
    expected = np.einsum("cyxij,fcij->fyx", views, weights).astype(np.float32)
    arguments = [image, weights, unset(2, 10, 19), 5, 12, 21]
    return Launch((2, 3, 2), (16, 4), arguments, {"out": expected}, shared_bytes=180)


@held_out
def functor_reduce(rng: np.random.Generator) -> Launch:
    x = rng.integers(-1000, -1, 600).astype(np.int32)
    groups = np.pad(x, (0, 768 - 600), constant_values=np.iinfo(np.int32).min).reshape(3, 2, 128).max((0, 2))
    return Launch(2, 128, [x, unset(2, dtype=np.int32), 600], {"out": groups}, name="functor_reduce<Max, 128>")


@held_out
def nearest_points(rng: np.random.Generator) -> Launch:
    points, queries = rng.integers(-99, 99, (150, 2)).astype(np.float32), small(rng, 90, 2, bound=99)
    distances = ((points[None] - queries[:, None]) ** 2).sum(2).astype(np.float32)
    index = distances.argmin(1)
    bits = distances[np.arange(90), index].view(np.uint32).astype(np.uint64)
    best = np.full(90, 2**64 - 1, np.uint64)
    return Launch(3, 64, [points, queries, best, 150, 90], {"best": bits << np.uint64(32) | index.astype(np.uint64)})


@held_out
def quantize_rows(rng: np.random.Generator) -> Launch:
    x = rng.integers(-100, 101, (3, 400)).astype(np.float32)
    x[:, 333] = -127 * np.array([1, 2, 4])
    scales = np.array([1, 2, 4], np.float32)
    q = np.rint(x / scales[:, None]).astype(np.int8)
    return Launch(3, 64, [x, unset(3, 400, dtype=np.int8), unset(3), 100], {"q": q, "scales": scales})


@held_out
def run_lengths(rng: np.random.Generator) -> Launch:
    x = np.repeat(np.arange(40) % 7, rng.integers(1, 5, 40))[:100].astype(np.int32)
    starts = np.flatnonzero(np.r_[True, x[1:] != x[:-1], True]).astype(np.int32)
    runs = starts.size - 1
    arguments = [x, *(unset(size, dtype=np.int32) for size in (runs, runs + 1, 1)), x.size]
    return Launch(1, 128, arguments, {"values": x[starts[:-1]], "starts": starts, "runs": np.array([runs], np.int32)})


@held_out
def frontier(rng: np.random.Generator) -> Launch:
    begin = np.concatenate([[0], np.cumsum(rng.integers(2, 7, 300))]).astype(np.int32)
    edges = rng.integers(0, 300, begin[-1]).astype(np.int32)
    edges[-1] = 0
    now = np.sort(np.r_[rng.permutation(299)[:69], 299]).astype(np.int32)
    depth = np.full(300, -1, np.int32)
    depth[now] = 3
    reached = np.unique(np.concatenate([edges[begin[v] : begin[v + 1]] for v in now]))
    reached = reached[depth[reached] == -1].astype(np.int32)
    after = depth.copy()
    after[reached] = 4
    count = np.array([reached.size], np.int32)
    arguments = [begin, edges, depth, now, 70, unset(reached.size, dtype=np.int32), zeros(1, dtype=np.int32), 4]
    return Launch(2, 64, arguments, {"depth": after, "next_size": count}, {5: reached})


@held_out
def cholesky(rng: np.random.Generator) -> Launch:
    x = rng.standard_normal((20, 20))
    a = x @ x.T + 20 * np.eye(20)
    return Launch(1, (8, 8), [a, 20], {"a": np.linalg.cholesky(a)}, rtol=1e-9)


@held_out
def fft128(rng: np.random.Generator) -> Launch:
    x = (uniform(rng, 2, 128) + 1j * uniform(rng, 2, 128)).astype(np.complex64)
    return Launch(2, 64, [x, unset(2, 128, dtype=np.complex64)], {"out": np.fft.fft(x).astype(np.complex64)}, rtol=1e-4)


@held_out
def hash_count(rng: np.random.Generator) -> Launch:
    distinct = rng.permutation(1000)[:60].astype(np.uint32)
    keys = np.concatenate([distinct, rng.choice(distinct, 240)])
    table, counts = np.full(67, 0xFFFFFFFF, np.uint32), zeros(67, dtype=np.int32)
    filled, numbers = table.copy(), counts.copy()
    filled[:60], numbers[:60] = np.unique(keys, return_counts=True)
    return Launch(2, 64, [keys, table, counts, 300, np.uint32(67)], {}, {1: filled, 2: numbers})


@held_out
def partition_even(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 1000, 100).astype(np.int32)
    even = x % 2 == 0
    evens = np.array([even.sum()], np.int32)
    arguments = [x, unset(100, dtype=np.int32), unset(1, dtype=np.int32), 100]
    return Launch(1, 128, arguments, {"out": np.r_[x[even], x[~even]], "evens": evens})


@held_out
def stride_shuffle(rng: np.random.Generator) -> Launch:
    x = small(rng, 5000, dtype=np.int32)
    picked = x[np.arange(5000, dtype=np.int64) * 1000003 % 5000]
    sums = np.add.reduceat(picked, np.arange(0, 5000, 120)).astype(np.int32)
    arguments = [x, unset(5000, dtype=np.int32), zeros(sums.size, dtype=np.int32), 5000, 1000003, 120]
    return Launch(40, 128, arguments, {"out": picked, "sums": sums})


@held_out
def find_pattern(rng: np.random.Generator) -> Launch:
    text = rng.integers(97, 99, 500).astype(np.int8)
    pattern = text[490:495].copy()
    places = np.flatnonzero((np.lib.stride_tricks.sliding_window_view(text, 5) == pattern).all(1)).astype(np.int32)
    count = np.array([places.size], np.int32)
    arguments = [text, 500, pattern, 5, unset(places.size, dtype=np.int32), zeros(1, dtype=np.int32)]
    return Launch(8, 64, arguments, {"count": count}, {4: places})


@held_out
def hand_over(rng: np.random.Generator) -> Launch:
    x = small(rng, 9, 32, dtype=np.int32)
    return Launch(1, 64, [x, unset(32, dtype=np.int32), 9], {"out": x.sum(0, dtype=np.int32)[::-1].copy()})


@held_out
def bounding_boxes(rng: np.random.Generator) -> Launch:
    begin = np.concatenate([[0], np.cumsum(rng.integers(1, 60, 7))]).astype(np.int32)
    points = uniform(rng, int(begin[-1]), 3)
    low, high = (each.reduceat(points, begin[:-1], axis=0) for each in (np.minimum, np.maximum))
    return Launch(2, 128, [points, begin, unset(7, 6), 7], {"boxes": np.hstack([low, high])})


@held_out
def median_filter(rng: np.random.Generator) -> Launch:
    x = small(rng, 100, dtype=np.int16, bound=999)
    windows = [np.sort(x[max(i - 2, 0) : i + 3].astype(int)) for i in range(100)]
    middles = [(w[w.size // 2 - 1], w[w.size // 2]) if w.size % 2 == 0 else (w[w.size // 2],) * 2 for w in windows]
    medians = np.trunc([sum(pair) / 2 for pair in middles]).astype(np.int16)
    return Launch(4, 32, [x, unset(100, dtype=np.int16), 100], {"out": medians})


@held_out
def append_blocks(rng: np.random.Generator) -> Launch:
    x = small(rng, 300, dtype=np.int32)
    sums = np.add.reduceat(x, np.arange(0, 300, 64)).astype(np.int32)
    length, lock = zeros(1, dtype=np.int32), zeros(1, dtype=np.int32)
    expected = {"length": np.array([5], np.int32), "lock": np.zeros(1, np.int32)}
    return Launch(5, 64, [x, unset(5, dtype=np.int32), length, lock, 300], expected, {1: sums})


@held_out
def scale_half8(rng: np.random.Generator) -> Launch:
    x = small(rng, 1003, dtype=np.float16)
    return Launch(2, 64, [x, unset(1003, dtype=np.float16), 3.0, 1003], {"y": 3 * x})


@held_out
def group_totals(rng: np.random.Generator) -> Launch:
    x, group = small(rng, 500, dtype=np.float64), rng.integers(0, 13, 500).astype(np.int32)
    totals, sizes = np.bincount(group, x, 13), np.bincount(group, minlength=13).astype(np.int32)
    arguments = [x, group, zeros(13, dtype=np.float64), zeros(13, dtype=np.int32), 500, 13]
    return Launch(2, 64, arguments, {"totals": totals, "sizes": sizes}, shared_bytes=13 * 12)


@held_out
def suffix_max(rng: np.random.Generator) -> Launch:
    x = small(rng, 50, 12, dtype=np.int32, bound=99)
    expected = np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1].copy()
    return Launch(2, 32, [x, unset(50, 12, dtype=np.int32), 50, 12], {"out": expected})


@held_out
def count_by_key(rng: np.random.Generator) -> Launch:
    keys = rng.integers(0, 11, 150).astype(np.int32)
    counts = np.bincount(keys, minlength=11).astype(np.int32)
    return Launch(3, 64, [keys, zeros(11, dtype=np.int32), 150], {"counts": counts})


@held_out
def laplace_march(rng: np.random.Generator) -> Launch:
    x = small(rng, 5, 13, 27)
    now = np.pad(x, 1)
    sides = now[1:-1, :-2, 1:-1] + now[1:-1, 2:, 1:-1] + now[1:-1, 1:-1, :-2] + now[1:-1, 1:-1, 2:]
    expected = sides + now[:-2, 1:-1, 1:-1] + now[2:, 1:-1, 1:-1] - 6 * x
    return Launch((2, 2), (16, 8), [x, unset(5, 13, 27), 27, 13, 5], {"out": expected})


@held_out
def mirror_async(rng: np.random.Generator) -> Launch:
    x = small(rng, 5, 128)
    return Launch(2, 128, [x, unset(5, 128), 5], {"out": x + x[:, ::-1]})


@held_out
def spread_labels(rng: np.random.Generator) -> Launch:
    wall = (rng.random(100) < 0.15).astype(np.uint8)
    label = np.full(100, -1, np.int32)
    for i in range(99, -1, -1):
        if not wall[i]:
            label[i] = max(i, label[i + 1] if i < 99 else -1)
    return Launch(1, 128, [wall, unset(100, dtype=np.int32), 100], {"label": label})
