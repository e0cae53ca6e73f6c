"""Launches of the first kernels of the fifth batch. Inputs of sums are small integers, so that sums are exact."""

from __future__ import annotations

import numpy as np

from tests.simulator.held_out.kernels.launches import held_out
from tests.simulator.kernels.launch import Launch, small, uniform, unset, zeros


@held_out
def matmul_pipelined(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 32, 48), small(rng, 48, 64)
    return Launch((2, 2), 128, [a, b, unset(32, 64), 64, 48], {"C": a @ b})


@held_out
def matmul_fragments(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 45, 19), small(rng, 19, 52)
    return Launch((2, 2), 64, [a, b, unset(45, 52), 45, 52, 19], {"C": a @ b})


@held_out
def wmma_chain(rng: np.random.Generator) -> Launch:
    a, b, w = (small(rng, *shape, dtype=np.float16, bound=3) for shape in ((48, 32), (32, 16), (16, 32)))
    middle = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    return Launch(2, 64, [a, b, w, unset(48, 32), 48], {"D": middle @ w.astype(np.float32)})


@held_out
def wmma_int8_scale(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(-50, 51, (2, 3, 16, 16)).astype(np.int8) for _ in range(2))
    wide_a, wide_b = (each.astype(np.int32).transpose(0, 2, 1, 3).reshape(32, 48) for each in (a, b))
    expected = np.clip((wide_a @ wide_b.T + 16) >> 5, -128, 127).astype(np.int8)
    return Launch((2, 2), 32, [a, b, unset(32, 32, dtype=np.int8), 32, 3, 5], {"C": expected})


@held_out
def flash_rows(rng: np.random.Generator) -> Launch:
    q, k = uniform(rng, 50, 16), uniform(rng, 50, 16)
    v = uniform(rng, 50, 16, low=0.5, high=1.5)
    scores = np.where(np.tri(50, dtype=bool), q.astype(np.float64) @ k.T * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = (weights / weights.sum(1, keepdims=True) @ v).astype(np.float32)
    return Launch(2, 32, [q, k, v, unset(50, 16), 50, 0.25], {"O": expected}, rtol=1e-4)


@held_out
def log_softmax_tiles(rng: np.random.Generator) -> Launch:
    x = uniform(rng, 11, 39)
    wide = x.astype(np.float64)
    expected = (wide - np.log(np.exp(wide).sum(1, keepdims=True))).astype(np.float32)
    return Launch(3, 64, [x, unset(11, 39), 11, 39], {"y": expected}, rtol=1e-5)


@held_out
def rms_norm_half2(rng: np.random.Generator) -> Launch:
    x, w = small(rng, 4, 101, 2, dtype=np.float16), small(rng, 101, 2, dtype=np.float16)
    wide = x.astype(np.float64)
    norms = np.sqrt((wide**2).mean((1, 2), keepdims=True) + 0.5)
    expected = (wide / norms * w.astype(np.float64)).astype(np.float16)
    return Launch(4, 96, [x, w, unset(4, 101, 2, dtype=np.float16), 101, 0.5], {"y": expected}, rtol=2e-3)


@held_out
def channel_stats(rng: np.random.Generator) -> Launch:
    x = rng.integers(-100, 101, (4, 305)).astype(np.int32)
    stats = np.stack([x.sum(1), (x * x).sum(1)], 1).astype(np.int32)
    arguments = [x, unset(4, 3, 2, dtype=np.int32), zeros(4, dtype=np.uint32), unset(4, 2, dtype=np.int32), 305]
    return Launch((4, 3), 64, arguments, {"stats": stats, "count": np.zeros(4, np.uint32)})


@held_out
def lookback_select(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 1000, 437).astype(np.int32)
    odd = x[x % 2 == 1]
    y = np.full(437, -1, np.int32)
    expected = y.copy()
    expected[: odd.size] = odd
    arguments = [x, y, zeros(5, dtype=np.uint32), zeros(1, dtype=np.int32), unset(1, dtype=np.int32), 437]
    return Launch(5, 96, arguments, {"y": expected, "kept": np.array([odd.size], np.int32)})


@held_out
def bank_transfer(rng: np.random.Generator) -> Launch:
    transfers = np.stack([*rng.integers(0, 6, (2, 70)), rng.integers(1, 100, 70)], 1).astype(np.int32)
    transfers[[5, 40], 1] = transfers[[5, 40], 0]
    balance = rng.integers(0, 1000, 6).astype(np.int32)
    expected = balance.copy()
    np.subtract.at(expected, transfers[:, 0], transfers[:, 2])
    np.add.at(expected, transfers[:, 1], transfers[:, 2])
    return Launch(3, 32, [balance, zeros(6, dtype=np.int32), transfers, 70], {"balance": expected})


@held_out
def warp_mailbox(rng: np.random.Generator) -> Launch:
    x = small(rng, 2, 11, 32, dtype=np.int32)
    return Launch(2, 64, [x, unset(2, 11, 32, dtype=np.int32), 11], {"y": 3 * x[:, :, ::-1]})


@held_out
def row_chain(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 1000, (6, 150)).astype(np.int32)
    y = np.zeros((6, 150), np.int32)
    above = np.zeros(150, np.int32)
    for row in range(6):
        above = y[row] = (7 * above + x[row]) % 1000
    return Launch(6, 64, [x, unset(6, 150, dtype=np.int32), zeros(6, dtype=np.int32), 150], {"y": y})


@held_out
def match_first(rng: np.random.Generator) -> Launch:
    keys = rng.integers(0, 9, 301).astype(np.int32)
    first = np.array([i // 32 * 32 + list(keys[i // 32 * 32 : i + 1]).index(keys[i]) for i in range(301)], np.int32)
    bins = np.bincount(keys, minlength=9).astype(np.int32)
    arguments = [keys, zeros(9, dtype=np.int32), unset(301, dtype=np.int32), 301]
    return Launch(2, 96, arguments, {"bins": bins, "first": first})


@held_out
def warp_split_sort(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 256, (6, 32)).astype(np.uint8)
    order = np.argsort(x, 1, kind="stable")
    expected = {"y": np.take_along_axis(x, order, 1), "order": order.astype(np.uint8)}
    return Launch(2, 128, [x, unset(6, 32, dtype=np.uint8), unset(6, 32, dtype=np.uint8), 6], expected)


@held_out
def bucket_probe(rng: np.random.Generator) -> Launch:
    table, values = np.full((7, 8), -1, np.int32), small(rng, 7, 8, dtype=np.int32, bound=999)
    inserted = rng.permutation(500)[:34].astype(np.int32)
    inserted[:11] = 6 + 7 * np.arange(11)  # more than a bucket, the last, from which the search goes on at the first
    inserted = np.unique(inserted)
    where = {}
    for key in inserted.tolist():
        bucket = key % 7
        while (table[bucket] >= 0).all():
            bucket = (bucket + 1) % 7
        place = int((table[bucket] < 0).argmax())
        table[bucket, place] = key
        where[key] = values[bucket, place]
    query = np.r_[rng.choice(inserted, 25), rng.integers(500, 900, 10), 6 + 70].astype(np.int32)
    expected = np.array([where.get(key, -1) for key in query.tolist()], np.int32)
    arguments = [table, values, query, unset(36, dtype=np.int32), 7, 36]
    return Launch(5, 64, arguments, {"out": expected})


@held_out
def ordered_product(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 1000003, (300, 2, 2)).astype(np.uint32)
    products = []
    for start in range(0, 300, 128):
        product = np.eye(2, dtype=object)
        for each in x[start : start + 128].astype(object):
            product = product @ each % 1000003
        products.append(product)
    expected = np.array(products).astype(np.uint32)
    return Launch(3, 128, [x, unset(3, 2, 2, dtype=np.uint32), 300], {"y": expected})


@held_out
def ray_spheres(rng: np.random.Generator) -> Launch:
    centers = np.stack([rng.integers(0, 21, 37), rng.integers(0, 13, 37), rng.integers(10, 60, 37)], 1)
    spheres = np.c_[centers, rng.integers(1, 5, 37)].astype(np.float32)
    px, py = np.arange(21, dtype=np.float32)[None, :, None], np.arange(13, dtype=np.float32)[:, None, None]
    x, y, z, r = spheres.T
    under = r**2 - (x - px) ** 2 - (y - py) ** 2
    depths = np.where(under >= 0, z - np.sqrt(np.maximum(under, 0)), np.float32(np.inf))
    ids = np.where(np.isfinite(depths.min(2)), depths.argmin(2), -1).astype(np.int32)
    arguments = [spheres, 37, unset(13, 21), unset(13, 21, dtype=np.int32), 21, 13]
    return Launch((3, 4), (8, 4), arguments, {"depth": depths.min(2), "id": ids})


CURVES = np.array(
    [
        [0, 30, 56, 79, 99, 117, 133, 148, 162, 175, 187, 198, 209, 220, 231, 242, 255],
        [0, 2, 6, 12, 20, 30, 42, 56, 72, 90, 110, 131, 153, 176, 200, 226, 255],
        [255, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16, 0],
    ]
)


@held_out
def tone_curves(rng: np.random.Generator) -> Launch:
    pixels = rng.integers(0, 256, (205, 4)).astype(np.uint8)
    pixels[[3, 70], :3] = 0, 255, 255
    at, part, c = pixels[:, :3] // 16, pixels[:, :3].astype(np.int32) % 16, np.arange(3)
    mapped = (CURVES[c, at] * (16 - part) + CURVES[c, at + 1] * part + 8) // 16
    clipped = int(((mapped == 0) | (mapped == 255)).any(1).sum())
    expected = {"out": np.c_[mapped, pixels[:, 3]].astype(np.uint8), "clipped": np.array([clipped], np.int32)}
    return Launch(4, 64, [pixels, unset(205, 4, dtype=np.uint8), zeros(1, dtype=np.int32), 205], expected)


@held_out
def job_lists(rng: np.random.Generator) -> Launch:
    starts = np.r_[0, np.cumsum([70, 1, 33, 64, 90])].astype(np.int32)
    x, factors = small(rng, 258, dtype=np.int32), rng.integers(2, 1000, 5).astype(np.int32)
    jobs = [x[i:j] * (f % 10) for i, j, f in zip(starts[:-1], starts[1:], factors, strict=True)]
    expected = {"y": np.concatenate([job[::-1] for job in jobs]), "totals": np.array([job.sum() for job in jobs])}
    expected["totals"] = expected["totals"].astype(np.int32)
    return Launch(5, 64, [x, starts, factors, unset(258, dtype=np.int32), unset(5, dtype=np.int32)], expected)


@held_out
def carved_nearest(rng: np.random.Generator) -> Launch:
    points, queries = small(rng, 75, 2, dtype=np.int32, bound=40), small(rng, 6, 2, dtype=np.int32, bound=40)
    distances = ((points[None] - queries[:, None]) ** 2).sum(2)
    nearest = np.argsort(distances, 1, kind="stable")[:, :3].astype(np.int32)
    arguments = [points, queries, unset(6, 3, dtype=np.int32), 75]
    return Launch(6, 64, arguments, {"nearest": nearest}, shared_bytes=75 * 4 + 2 * 4 + 75)


@held_out
def bitfield_records(rng: np.random.Generator) -> Launch:
    kind, weight, step = rng.integers(0, 8, 205), rng.integers(0, 8192, 205), rng.integers(-30000, 30000, 205)
    upper = weight << 3 | (step & 0xFFFF) << 16
    expected = {
        "out": (upper | np.where(weight >= 4096, 7, 0)).astype(np.uint32),
        "weights": np.bincount(kind, weight, 8)[:6].astype(np.uint32),
        "smallest": np.array([step.min()], np.int32),
    }
    records, smallest = (upper | kind).astype(np.uint32), np.full(1, 99999, np.int32)
    arguments = [records, unset(205, dtype=np.uint32), zeros(6, dtype=np.uint32), smallest, 205]
    return Launch(4, 64, arguments, expected)


@held_out
def taps_template(rng: np.random.Generator) -> Launch:
    x = small(rng, 150, dtype=np.int32)
    wide = np.convolve(np.pad(x, 4, mode="edge"), [1, 2, 3, 4, 5, 4, 3, 2, 1], "valid").astype(np.int32)
    narrow = np.convolve(np.pad(x, 1, mode="edge"), [1, 2, 1], "valid").astype(np.int32)
    arguments = [x, unset(150, dtype=np.int32), unset(150, dtype=np.int32), 150]
    return Launch(3, 64, arguments, {"wide": wide, "narrow": narrow})


@held_out
def wave_steps(rng: np.random.Generator) -> Launch:
    start = small(rng, 2, 16, 16, dtype=np.int32)
    before, now = start, start
    for _ in range(5):
        wide = np.pad(now, ((0, 0), (1, 1), (1, 1)))
        sides = wide[:, :-2, 1:-1] + wide[:, 2:, 1:-1] + wide[:, 1:-1, :-2] + wide[:, 1:-1, 2:]
        before, now = now, np.trunc(sides / 2).astype(np.int32) - before
    return Launch(2, (16, 16), [start, unset(2, 16, 16, dtype=np.int32), 5], {"result": now})


@held_out
def batcher_sort(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 60, (2, 109)).astype(np.int32)
    places = np.argsort(x, 1, kind="stable").astype(np.int32)
    expected = {"sorted": np.sort(x, 1), "places": places}
    return Launch(2, 128, [x, unset(2, 109, dtype=np.int32), unset(2, 109, dtype=np.int32), 109], expected)


@held_out
def hash_join(rng: np.random.Generator) -> Launch:
    every = np.arange(5000)
    slots = ((every * 2654435769) & 0xFFFFFFFF) >> 25
    keys = np.r_[every[slots == 127][:3], rng.permutation(every[slots < 120])[:60]].astype(np.int32)
    values = rng.integers(0, 1000, 63).astype(np.int32)
    probes = np.r_[keys[:3], rng.choice(keys, 70), rng.integers(5000, 9000, 30)].astype(np.int32)
    joined = dict(zip(keys.tolist(), values.tolist(), strict=True))
    expected = np.array([joined.get(key, -1) for key in probes.tolist()], np.int32)
    return Launch(2, 64, [keys, values, 63, probes, unset(103, dtype=np.int32), 103], {"out": expected})
