"""Kernels for scans, sorts, compaction and histograms."""

from __future__ import annotations

import numpy as np

from tests.simulator.kernels.launch import Launch, kernel, small, unset, zeros

INT = np.int32


def exclusive(x: np.ndarray) -> np.ndarray:
    """Return the sum of the elements before each."""
    return (np.cumsum(x) - x).astype(x.dtype)


def scans(x: np.ndarray, size: int) -> np.ndarray:
    """Compute inclusive scans of consecutive parts."""
    padded = np.pad(x, (0, -len(x) % size)).reshape(-1, size)
    return np.cumsum(padded, axis=1, dtype=x.dtype).reshape(-1)[: len(x)].copy()


@kernel
def scan_hillis_steele(rng: np.random.Generator) -> Launch:
    x = small(rng, 64, dtype=INT)
    return Launch(1, 64, [x, unset(64, dtype=INT), 64], {"out": scans(x, 64)}, shared_bytes=512)


@kernel
def scan_in_place(rng: np.random.Generator) -> Launch:
    x = small(rng, 256, dtype=INT)
    return Launch(2, 128, [x, unset(256, dtype=INT)], {"out": scans(x, 128)})


@kernel
def scan_blelloch(rng: np.random.Generator) -> Launch:
    x = small(rng, 128, dtype=INT)
    return Launch(1, 64, [x, unset(128, dtype=INT), 128], {"out": exclusive(x)}, shared_bytes=512)


@kernel
def scan_conflict_free(rng: np.random.Generator) -> Launch:
    x = small(rng, 128, dtype=INT)
    return Launch(1, 64, [x, unset(128, dtype=INT)], {"out": exclusive(x)})


@kernel
def scan_warp(rng: np.random.Generator) -> Launch:
    x = small(rng, 100, dtype=INT)
    return Launch(2, 64, [x, unset(100, dtype=INT), 100], {"out": scans(x, 32)})


@kernel
def scan_block(rng: np.random.Generator) -> Launch:
    x = small(rng, 300, dtype=INT)
    sums = np.pad(x, (0, 84)).reshape(3, 128).sum(axis=1, dtype=INT)
    arguments = [x, unset(300, dtype=INT), unset(3, dtype=INT), 300]
    return Launch(3, 128, arguments, {"out": scans(x, 128), "block_sums": sums})


@kernel
def add_block_sums(rng: np.random.Generator) -> Launch:
    x, sums = small(rng, 300, dtype=INT), small(rng, 5, dtype=INT)
    return Launch(5, 64, [x.copy(), sums, 300], {"data": x + np.repeat(exclusive(sums), 64)[:300]})


@kernel
def scan_lookback(rng: np.random.Generator) -> Launch:
    x = small(rng, 384, dtype=INT)
    prefixes = np.cumsum(x, dtype=INT)[63::64].copy()
    arguments = [x, unset(384, dtype=INT), zeros(6, dtype=INT), zeros(6, dtype=INT), zeros(6, dtype=INT)]
    return Launch(6, 64, arguments, {"out": np.cumsum(x, dtype=INT), "prefixes": prefixes})


@kernel
def compact_ballot(rng: np.random.Generator) -> Launch:
    x = small(rng, 128, dtype=INT)
    rows = [row[row > 0] for row in x.reshape(-1, 32)]
    expected = np.concatenate([np.pad(row, (0, 32 - len(row)), constant_values=-1) for row in rows]).astype(INT)
    arguments = [x, np.full(128, -1, INT), unset(4, dtype=INT)]
    return Launch(2, 64, arguments, {"out": expected, "counts": np.array([len(row) for row in rows], INT)})


@kernel
def compact_aggregated(rng: np.random.Generator) -> Launch:
    x = small(rng, 200, dtype=INT)
    which = np.flatnonzero(x % 3 == 0).astype(INT)
    kept = np.concatenate([which, np.full(200 - len(which), -1, INT)])
    arguments = [x, np.full(200, -1, INT), zeros(1, dtype=INT), 200]
    return Launch(4, 64, arguments, {"count": np.array([len(which)], INT)}, any_order={1: kept})


@kernel
def radix_pass(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 256, 128).astype(np.uint32)
    one = x >> 3 & 1 == 1
    return Launch(1, 128, [x, unset(128, dtype=np.uint32), 3], {"out": np.concatenate([x[~one], x[one]])})


@kernel
def bitonic_sort(rng: np.random.Generator) -> Launch:
    x = rng.uniform(-1, 1, (2, 128)).astype(np.float32)
    return Launch(2, 128, [x.copy()], {"data": np.sort(x, axis=1)})


@kernel
def odd_even_sort(rng: np.random.Generator) -> Launch:
    x = small(rng, 41, dtype=INT, bound=99)
    return Launch(1, 32, [x.copy(), 41], {"data": np.sort(x)})


@kernel
def rank_sort(rng: np.random.Generator) -> Launch:
    x = small(rng, 60, dtype=INT)
    return Launch(2, 32, [x, unset(60, dtype=INT), 60], {"out": np.sort(x)})


@kernel
def histogram_global(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 256, 700).astype(np.uint8)
    expected = np.bincount(x, minlength=256).astype(np.uint32)
    return Launch(3, 64, [x, zeros(256, dtype=np.uint32), 700], {"bins": expected})


@kernel
def histogram_shared(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 256, 700).astype(np.uint8)
    expected = np.bincount(x, minlength=256).astype(np.uint32)
    return Launch(3, 96, [x, zeros(256, dtype=np.uint32), 700], {"bins": expected})


@kernel
def histogram_match(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 16, 200).astype(INT)
    return Launch(4, 64, [x, zeros(16, dtype=INT), 200], {"bins": np.bincount(x, minlength=16).astype(INT)})
