"""Kernels whose threads compute elements independently."""

from __future__ import annotations

import numpy as np

from tests.simulator.kernels.launch import Launch, kernel, small, uniform, unset, zeros


@kernel
def vector_add(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 2, 1000)
    return Launch(8, 128, [a, b, unset(1000), 1000], {"c": a + b})


@kernel
def saxpy(rng: np.random.Generator) -> Launch:
    x, y = small(rng, 2, 1000)
    return Launch(3, 64, [1000, 2.0, x, y.copy()], {"y": 2 * x + y})


@kernel
def vector_add_float4(rng: np.random.Generator) -> Launch:
    a, b = small(rng, 2, 515)
    return Launch(3, 64, [a.copy(), b.copy(), unset(515), 515], {"c": a + b})


@kernel
def complex_multiply(rng: np.random.Generator) -> Launch:
    x, y = small(rng, 2, 100) + 1j * small(rng, 2, 100)
    x, y = x.astype(np.complex64), y.astype(np.complex64)
    return Launch(4, 32, [x, y, unset(100, dtype=np.complex64), 100], {"z": x * y})


@kernel
def affine_struct(rng: np.random.Generator) -> Launch:
    x = small(rng, 200)
    layout = np.dtype([("scale", "f4"), ("shift", "f4"), ("begin", "i4"), ("end", "i4")])
    affine = np.array((2.0, 3.0, 10, 110), layout)[()]
    return Launch(2, 64, [x, unset(100), affine], {"out": 2 * x[10:110] + 3})


@kernel
def particles(rng: np.random.Generator) -> Launch:
    layout = np.dtype(
        {"names": ["position", "kind", "velocity", "mass"], "formats": ["3f4", "i1", "3f4", "f4"],
         "offsets": [0, 12, 16, 28], "itemsize": 32}
    )  # fmt: skip
    all_ = np.zeros(100, layout)
    all_["position"], all_["velocity"] = small(rng, 2, 100, 3)
    all_["kind"], all_["mass"] = rng.integers(0, 2, 100), small(rng, 100)
    words = all_.view(np.float32).reshape(100, 8)
    moved = words.copy()
    moved[:, :3] += np.where(all_["kind"] == 1, 0.5, 0).astype(np.float32)[:, None] * words[:, 4:7]
    return Launch(2, 64, [words, 0.5, 100], {"all": moved})


@kernel
def aligned_pixels(rng: np.random.Generator) -> Launch:
    pixels = uniform(rng, 100, 4)
    grey = pixels[:, :3].astype(float) @ [0.299, 0.587, 0.114]
    expected = np.concatenate([pixels[:, :3], grey[:, None].astype(np.float32)], axis=1)
    return Launch(2, 64, [pixels, unset(100, 4), 100], {"out": expected}, rtol=1e-4)


@kernel
def saturating_convert(rng: np.random.Generator) -> Launch:
    x = np.array([0.5, -1.9, 3e9, -3e9, np.inf, -np.inf, np.nan, 7.0], np.float32)
    low, high = -(2**31), 2**31 - 1
    expected = np.array([0, -1, high, low, high, low, 0, 7, high], np.int32)
    return Launch(1, 32, [x, unset(9, dtype=np.int32), 8], {"out": expected})


@kernel
def mandelbrot(rng: np.random.Generator) -> Launch:
    width, height, limit = 40, 30, 25
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    cr, ci = -2 + x * 0.0625, -1 + y * 0.0625
    zr, zi, count = np.zeros_like(cr), np.zeros_like(cr), np.zeros(cr.shape, np.int32)
    for _ in range(limit):
        inside = zr * zr + zi * zi <= 4
        count += inside
        zr, zi = np.where(inside, zr * zr - zi * zi + cr, zr), np.where(inside, 2 * zr * zi + ci, zi)
    arguments = [unset(height, width, dtype=np.int32), width, height, -2.0, -1.0, 0.0625, limit]
    return Launch((3, 4), (16, 8), arguments, {"image": count})


@kernel
def volume_index(rng: np.random.Generator) -> Launch:
    nx, ny, nz = 13, 7, 5
    z, y, x = np.meshgrid(np.arange(nz), np.arange(ny), np.arange(nx), indexing="ij")
    expected = (x + 100 * y + 10000 * z).astype(np.int32)
    return Launch((2, 2, 3), (8, 4, 2), [unset(nz, ny, nx, dtype=np.int32), nx, ny, nz], {"volume": expected})


@kernel
def rgb_to_grey(rng: np.random.Generator) -> Launch:
    rgb = rng.integers(0, 256, (20, 30, 3)).astype(np.uint8)
    grey = ((rgb.astype(int) @ [77, 150, 29]) >> 8).astype(np.uint8)
    return Launch((2, 3), (16, 8), [rgb, unset(20, 30, dtype=np.uint8), 20, 30], {"grey": grey})


@kernel
def template_scale(rng: np.random.Generator) -> Launch:
    x = small(rng, 300, dtype=np.float64)
    return Launch(3, 32, [x, unset(300, dtype=np.float64), 3.0, 300], {"out": 3 * x}, name="template_scale<double, 4>")


@kernel
def polynomial(rng: np.random.Generator) -> Launch:
    x = small(rng, 100)
    return Launch(2, 64, [x, unset(100), 100], {"y": 1 - 2 * x + 0.5 * x**2 + 3 * x**3 - 0.25 * x**4})


@kernel
def device_counter(rng: np.random.Generator) -> Launch:
    x = small(rng, 100, dtype=np.int32)
    positive = np.flatnonzero(x > 0).astype(np.int32)
    order = np.full(100, -1, np.int32)
    kept = np.concatenate([positive, order[len(positive) :]])
    out = x * np.tile(np.array([3, 1, 4, 1], np.int32), 25)
    return Launch(2, 64, [x, order, unset(100, dtype=np.int32), 100], {"out": out}, any_order={1: kept})


@kernel
def bit_tricks(rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 2**32, 50, dtype=np.uint32)
    x[:2] = 0, 1
    bits = [f"{int(v):032b}" for v in x]
    rows = [
        [b.count("1"), 32 - len(b.lstrip("0")), len(b) - b.rfind("1") if "1" in b else 0, int(b[::-1], 2)] for b in bits
    ]
    return Launch(2, 32, [x, unset(50, 4, dtype=np.int32), 50], {"out": np.array(rows, np.int64).astype(np.int32)})


@kernel
def print_values(rng: np.random.Generator) -> Launch:
    x = small(rng, 10, dtype=np.int32)
    return Launch(1, 32, [x, unset(10, dtype=np.int32), 10], {"out": x + 1})


@kernel
def checked_sqrt(rng: np.random.Generator) -> Launch:
    x = small(rng, 50) ** 2
    return Launch(2, 32, [x, unset(50), 50], {"out": np.sqrt(x)})


@kernel
def collatz(rng: np.random.Generator) -> Launch:
    def steps(v: int) -> int:
        return 0 if v == 1 else 1 + steps(v // 2 if v % 2 == 0 else 3 * v + 1)

    start = np.arange(1, 101, dtype=np.int32)
    expected = np.array([steps(int(v)) for v in start], np.int32)
    return Launch(2, 64, [start, unset(100, dtype=np.int32), 100], {"steps": expected})


@kernel
def monte_carlo_pi(rng: np.random.Generator) -> Launch:
    state, hits = np.arange(1, 129, dtype=np.uint32), 0
    for _ in range(50):
        parts = []
        for _ in range(2):
            state ^= state << np.uint32(13)
            state ^= state >> np.uint32(17)
            state ^= state << np.uint32(5)
            parts.append((state >> np.uint32(8)).astype(np.float32) * np.float32(1 / 16777216))
        hits += int(np.count_nonzero(parts[0] * parts[0] + parts[1] * parts[1] < 1))
    return Launch(2, 64, [zeros(1, dtype=np.uint32), 50], {"hits": np.array([hits], np.uint32)})


@kernel
def half_axpy(rng: np.random.Generator) -> Launch:
    x, y = small(rng, 2, 100, 2, dtype=np.float16)
    return Launch(2, 64, [x, y.copy(), 0.5, 100], {"y": np.float16(0.5) * x + y})


@kernel
def fibonacci(rng: np.random.Generator) -> Launch:
    values = [0, 1]
    while len(values) < 12:
        values.append(values[-2] + values[-1])
    return Launch(1, 64, [unset(50, dtype=np.int32), 50], {"out": np.resize(np.array(values, np.int32), 50)})


@kernel
def function_table(rng: np.random.Generator) -> Launch:
    x, which = small(rng, 50), rng.integers(0, 3, 50).astype(np.int32)
    return Launch(2, 32, [x, which, unset(50), 50], {"out": np.choose(which, [2 * x, x * x, -x])})


@kernel
def strided_copy(rng: np.random.Generator) -> Launch:
    x = small(rng, 6, 50)
    expected = np.ascontiguousarray(x[:, :40:2])
    return Launch((1, 6), 32, [x, unset(6, 20), 6, 20, 50], {"out": expected})


@kernel
def local_sort(rng: np.random.Generator) -> Launch:
    x = small(rng, 40, 8, dtype=np.int32, bound=99)
    return Launch(2, 32, [x, unset(40, 8, dtype=np.int32), 40], {"out": np.sort(x, axis=1)})


@kernel
def average_divide(rng: np.random.Generator) -> Launch:
    sums, counts = rng.integers(0, 100, 50).astype(np.int32), rng.integers(0, 4, 50).astype(np.int32)
    expected = np.where(counts != 0, sums // np.maximum(counts, 1), 0).astype(np.int32)
    return Launch(2, 32, [sums, counts, unset(50, dtype=np.int32), 50], {"out": expected})


@kernel
def gather_rows(rng: np.random.Generator) -> Launch:
    table, index = small(rng, 12, 40), rng.integers(0, 12, 9).astype(np.int32)
    return Launch(9, 32, [table, index, unset(9, 40), 40, 12], {"out": table[index]})


@kernel
def bias_relu(rng: np.random.Generator) -> Launch:
    x, bias = small(rng, 10, 33), small(rng, 33)
    return Launch(2, 64, [x.copy(), bias, 10, 33], {"x": np.maximum(x + bias, 0)})
