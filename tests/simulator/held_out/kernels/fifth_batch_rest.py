"""Launches of the fifth batch's other kernels."""

from __future__ import annotations

import base64

import numpy as np

from tests.simulator.held_out.kernels.launches import held_out
from tests.simulator.kernels.launch import Launch, small, unset, zeros


@held_out
def bsr_rows(rng: np.random.Generator) -> Launch:
    full = rng.random((13, 9)) < 0.3
    rows, cols = np.nonzero(full)
    blocks, x = small(rng, rows.size, 4, 4), small(rng, 36)
    y = np.zeros((13, 4), np.float32)
    np.add.at(y, rows, np.einsum("bij,bj->bi", blocks, x.reshape(9, 4)[cols]))
    starts = np.r_[0, np.cumsum(full.sum(1))].astype(np.int32)
    return Launch(2, 32, [blocks, starts, cols.astype(np.int32), x, unset(13, 4), 13], {"y": y})


@held_out
def triangle_count(rng: np.random.Generator) -> Launch:
    joined = np.triu(rng.random((45, 45)) < 0.3, 1)
    joined[0, 1:] = True
    joined |= joined.T
    starts = np.r_[0, np.cumsum(joined.sum(1))].astype(np.int32)
    edges = np.ascontiguousarray(np.argwhere(np.triu(joined))[:50], np.int32)
    corners = np.zeros(45, np.int32)
    for u, v in edges:
        third = np.flatnonzero(joined[u] & joined[v])
        np.add.at(corners, third, 1)
        corners[[u, v]] += third.size
    arguments = [starts, np.nonzero(joined)[1].astype(np.int32), edges, zeros(45, dtype=np.int32), 50]
    return Launch(13, 128, arguments, {"corners": corners})


def _philox(number: int, seed: int) -> np.ndarray:
    """Return four 32-bit numbers for each counter below a number."""
    mask = np.uint64(0xFFFFFFFF)
    counter = [np.arange(number, dtype=np.uint64), *(np.zeros(number, np.uint64) for _ in range(3))]
    key = [seed, 0]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [
            (second >> np.uint64(32)) ^ counter[1] ^ np.uint64(key[0]),
            second & mask,
            (first >> np.uint64(32)) ^ counter[3] ^ np.uint64(key[1]),
            first & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter, 1)


@held_out
def philox_dropout(rng: np.random.Generator) -> Launch:
    x, threshold = small(rng, 203), 2**31
    kept = _philox(51, 12345).reshape(-1)[:203] < threshold
    return Launch(2, 32, [x, unset(203), 203, 12345, threshold], {"y": np.where(kept, 2 * x, 0).astype(np.float32)})


@held_out
def base64_encode(rng: np.random.Generator) -> Launch:
    text = rng.integers(0, 256, 200).astype(np.uint8)
    expected = np.frombuffer(base64.b64encode(text.tobytes()), np.int8)
    return Launch(3, 32, [text, unset(expected.size, dtype=np.int8), 200], {"out": expected})


@held_out
def rle_expand(rng: np.random.Generator) -> Launch:
    lengths, values = rng.integers(1, 12, 37).astype(np.int32), small(rng, 37, dtype=np.int16, bound=999)
    expected = np.repeat(values, lengths)
    arguments = [lengths, values, unset(expected.size, dtype=np.int16), 37, expected.size]
    return Launch(2, 64, arguments, {"out": expected})


@held_out
def dp4a_slide(rng: np.random.Generator) -> Launch:
    x, taps = rng.integers(-128, 128, 160).astype(np.int8), rng.integers(-128, 128, 8).astype(np.int8)
    expected = np.correlate(x.astype(np.int32), taps.astype(np.int32), "valid").astype(np.int32)
    arguments = [x.view(np.int32), taps.view([("x", np.int32), ("y", np.int32)])[0], unset(153, dtype=np.int32), 160]
    return Launch(3, 64, arguments, {"out": expected})


@held_out
def int4_matvec(rng: np.random.Generator) -> Launch:
    weights = rng.integers(0, 16, (7, 40, 32))
    words = (weights.reshape(7, 40, 4, 8) << (4 * np.arange(8))).sum(3).astype(np.uint32)
    scales = rng.choice([0.5, 1.0, 2.0], (7, 40)).astype(np.float16)
    zero, x = rng.integers(0, 16, (7, 40)).astype(np.uint8), small(rng, 40, 32, bound=3)
    parts = ((weights - zero[:, :, None].astype(np.int64)) * x).sum(2) * scales
    return Launch(4, 64, [words, scales, zero, x, unset(7), 7, 40], {"y": parts.sum(1).astype(np.float32)})


def _bits(x: np.ndarray) -> np.ndarray:
    """Return the bfloat16 bits of whole numbers so small that they are exact."""
    return (x.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


@held_out
def bf162_dot(rng: np.random.Generator) -> Launch:
    a, v = small(rng, 13, 54), small(rng, 54)
    return Launch(2, 64, [_bits(a), _bits(v), unset(13), 13, 27], {"out": a @ v})


@held_out
def dilate_bits(rng: np.random.Generator) -> Launch:
    pixels = rng.random((21, 13 * 32)) < 0.04
    wide = np.pad(pixels, 1)
    grown = np.zeros_like(pixels)
    rows = wide[:-2] | wide[1:-1] | wide[2:]
    grown |= rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]
    words = [np.packbits(each, axis=1, bitorder="little").view(np.uint32) for each in (pixels, grown)]
    arguments = [words[0], unset(21, 13, dtype=np.uint32), zeros(1, dtype=np.int32), 13, 21]
    return Launch((2, 3), (8, 8), arguments, {"out": words[1], "set": np.array([grown.sum()], np.int32)})


@held_out
def sobel_tile(rng: np.random.Generator) -> Launch:
    image = rng.integers(0, 256, (19, 37)).astype(np.uint8)
    p = np.pad(image.astype(np.int32), 1, mode="edge")
    across, down = p[:, 2:] - p[:, :-2], p[2:] - p[:-2]
    gx, gy = across[:-2] + 2 * across[1:-1] + across[2:], down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    expected = np.minimum(abs(gx) + abs(gy), 255).astype(np.uint8)
    return Launch((3, 3), (16, 8), [image, unset(19, 37, dtype=np.uint8), 37, 19], {"out": expected})


@held_out
def viterbi(rng: np.random.Generator) -> Launch:
    emit, change = small(rng, 40, 6, dtype=np.int32, bound=50), small(rng, 40, 40, dtype=np.int32, bound=50)
    emit[0] += 40  # so that state 0 is on the paths
    seen = rng.integers(0, 6, (2, 24)).astype(np.uint8)
    paths, scores = np.zeros((2, 24), np.int32), np.zeros(2, np.int32)
    for word, heard in enumerate(seen):
        best, choices = emit[:, heard[0]], [np.zeros(40, np.int64)]
        for t in range(1, 24):
            ways = best[:, None] + change
            choices.append(ways.argmax(0))
            best = ways.max(0) + emit[:, heard[t]]
        at = int(best.argmax())
        scores[word] = best[at]
        for t in range(23, -1, -1):
            paths[word, t] = at
            at = int(choices[t][at])
    arguments = [emit, change, seen, unset(2, 24, dtype=np.int32), unset(2, dtype=np.int32), 24]
    return Launch(2, 64, arguments, {"path": paths, "score": scores})


@held_out
def kmeans_step(rng: np.random.Generator) -> Launch:
    points, centers = rng.integers(0, 1000, (301, 2)).astype(np.int32), rng.integers(0, 1000, (6, 2)).astype(np.int32)
    centers[4] = 20000
    which = ((points[:, None] - centers) ** 2).sum(2).argmin(1)
    moved = centers.copy()
    for k in set(which.tolist()):
        moved[k] = points[which == k].sum(0) // (which == k).sum()
    arguments = [points, centers, zeros(18, dtype=np.int32), zeros(1, dtype=np.uint32), unset(301, dtype=np.uint8)]
    expected = {"centers": moved, "which": which.astype(np.uint8)}
    return Launch(4, 96, [*arguments, 301, 6], expected)


@held_out
def ticket_lock(rng: np.random.Generator) -> Launch:
    x = rng.integers(-1000, 1000, 405).astype(np.int32)
    totals, expected = np.array([0, 9999, -9999, 0, 0, 0], np.int32), np.zeros(6, np.int32)
    expected[:3] = 405, x.min(), x.max()
    expected[4:] = np.array([x.sum()], np.int64).view(np.int32)
    arguments = [x, totals, zeros(1, dtype=np.uint32), zeros(1, dtype=np.uint32), 405]
    return Launch(4, 128, arguments, {"totals": expected})


@held_out
def bar_relay(rng: np.random.Generator) -> Launch:
    x = small(rng, 2, 7, 64, dtype=np.int32)
    y = x[:, :, np.arange(64) ^ 33] + x[:, :, ::-1]
    return Launch(2, 128, [x, unset(2, 7, 64, dtype=np.int32), 7], {"y": y})


@held_out
def coalesced_append(rng: np.random.Generator) -> Launch:
    x = rng.permutation(450).astype(np.int32)
    wide = np.pad(x, 1, constant_values=-1)
    peaks = np.flatnonzero((x > wide[:-2]) & (x > wide[2:])).astype(np.int32)
    arguments = [x, unset(peaks.size, dtype=np.int32), zeros(1, dtype=np.int32), 450]
    return Launch(3, 96, arguments, {"count": np.array([peaks.size], np.int32)}, any_order={1: peaks})


@held_out
def async_stages(rng: np.random.Generator) -> Launch:
    x = small(rng, 2, 9, 64, dtype=np.int32)
    return Launch(2, 64, [x, unset(2, 9, 64, dtype=np.int32), 9], {"y": np.roll(x, -1, 2) - x})


@held_out
def q15_fir(rng: np.random.Generator) -> Launch:
    x = rng.integers(-32768, 32768, 150).astype(np.int16)
    x[40:60] = np.where(np.arange(20) < 12, 32767, -32768)
    taps = [-1200, 900, 2600, -4100, 9000, 31000, 31000, 9000, -4100, 2600, 900, -1200]
    y = np.clip((np.convolve(x.astype(np.int64), taps)[:150] + (1 << 14)) >> 15, -32768, 32767)
    energy = np.pad(y * y, (0, 42)).reshape(3, 64).sum(1)
    arguments = [x, unset(150, dtype=np.int16), unset(3, dtype=np.int64), 150]
    return Launch(3, 64, arguments, {"y": y.astype(np.int16), "energy": energy})


@held_out
def morton_bins(rng: np.random.Generator) -> Launch:
    points = (rng.integers(0, 1025, (300, 2)) / 1024).astype(np.float32)
    points[7] = 1
    x, y = np.minimum((points * 64).astype(np.int64), 63).T
    codes = sum((x >> bit & 1) << 2 * bit | (y >> bit & 1) << 2 * bit + 1 for bit in range(6))
    expected = {"codes": codes.astype(np.uint16), "bins": np.bincount(codes >> 6, minlength=64).astype(np.int32)}
    return Launch(3, 64, [points, unset(300, dtype=np.uint16), zeros(64, dtype=np.int32), 300], expected)


@held_out
def cross_entropy(rng: np.random.Generator) -> Launch:
    logits, labels = small(rng, 14, 43, bound=3), rng.integers(0, 43, 14).astype(np.int32)
    labels[[4, 9]] = -100
    wide = logits.astype(np.float64)
    logs = np.log(np.exp(wide).sum(1))
    grad = np.exp(wide - logs[:, None]) - (np.arange(43) == labels[:, None])
    grad[labels < 0] = 0
    loss = (logs - wide[np.arange(14), labels % 43])[labels >= 0].sum()
    arguments = [logits, labels, unset(14, 43), zeros(1), zeros(1, dtype=np.int32), 14, 43]
    expected = {"grad": grad.astype(np.float32), "loss": np.array([loss], np.float32), "used": np.array([12], np.int32)}
    return Launch(4, 128, arguments, expected, rtol=1e-5)


@held_out
def column_grads(rng: np.random.Generator) -> Launch:
    x, dy = small(rng, 37, 45), small(rng, 37, 45)
    return Launch((2, 2), (32, 8), [x, dy, zeros(45), zeros(45), 37, 45], {"dw": (x * dy).sum(0), "db": dy.sum(0)})


@held_out
def byte_max_cas(rng: np.random.Generator) -> Launch:
    x, group = rng.integers(0, 256, 300).astype(np.uint8), rng.integers(0, 11, 300).astype(np.uint8)
    largest = np.zeros(12, np.uint8)
    np.maximum.at(largest, group, x)
    return Launch(3, 128, [x, group, zeros(12, dtype=np.uint8), 300], {"largest": largest})


@held_out
def lz_decode(rng: np.random.Generator) -> Launch:
    tokens: list[tuple[int, int]] = []
    text, starts, places = "", [0], [0]
    for _ in range(6):
        begin = len(text)
        for step in range(12):
            if step < 3 or rng.random() < 0.4:
                letter = int(rng.integers(97, 123))
                tokens.append((0, letter))
                text += chr(letter)
            else:
                distance, length = int(rng.integers(1, len(text) - begin + 1)), int(rng.integers(2, 70))
                tokens.append((distance, length))
                source = text[-distance:]
                text += (source * length)[:length]
        starts.append(len(tokens))
        places.append(len(text))
    expected = np.frombuffer(text.encode(), np.int8)
    integers = [np.array(each, np.int32) for each in (starts, places[:-1])]
    arguments = [np.array(tokens, np.int16), *integers, unset(expected.size, dtype=np.int8), 6]
    return Launch(2, 96, arguments, {"text": expected})


@held_out
def momentum_step(rng: np.random.Generator) -> Launch:
    w, m, g = small(rng, 403), small(rng, 403), small(rng, 403)
    moments = np.float32(0.5) * m + g
    step = np.array([(0.25, 0.5, 403, 100)], [("rate", "f4"), ("momentum", "f4"), ("n", "i4"), ("whole", "i4")])[0]
    return Launch(2, 32, [w, m, g, step], {"weights": w - np.float32(0.25) * moments, "moments": moments})


@held_out
def view_blur(rng: np.random.Generator) -> Launch:
    image = small(rng, 17, 24)
    rows = image[1:12, :19] + 2 * image[2:13, :19] + image[3:14, :19]
    expected = rows[:, 1:-4] + 2 * rows[:, 2:-3] + rows[:, 3:-2]
    out = expected * 0
    return Launch((2, 3), (8, 4), [image, out, 15, 18, 24, 2], {"out": expected})
