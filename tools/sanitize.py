"""Run every kernel on awkward shapes, or one planted bug, under compute-sanitizer.

    compute-sanitizer --tool memcheck python -m tools.sanitize
    compute-sanitizer --tool memcheck python -m tools.sanitize --planted memcheck

Each array is a separate allocation of exactly its size, and unused elements within it are never written, so that the
tools notice accesses past the end of an array or to such an element. Results are checked, too. ``tests/gpu/check.py``
runs all tools over all kernels.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

import cupy
import numpy as np

import tiledmm
from tiledmm.elements import PACKED_ELEMENTS, SCHEMES, compute_element
from tiledmm.kernels.config import Config
from tiledmm.kernels.operands.limbs import Limbs
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import VARIANTS, kernel_variants
from tiledmm.problem.call import precision_of

#: One type of each width, in memory and in shared memory; complex64 for its two parts.
TYPES = ("int8", "float16", "float32", "tf32", "float64", "complex64", "complex128")
LAYOUTS = ("NN", "NT", "TN", "TT", "GG")
MIRRORED = ("NT", "TN", "GG")
#: Of integers that are decomposed into bytes, one of each width.
INTEGERS = ("int16", "int32", "int64")


def default_config(row: Variant) -> Config:
    """Return the config of a variant's default tile for its default type."""
    return row.config(None, compute_element(row.default_type))


#: Variant, tile, and config fields. Auxiliary kernels are the same for all variants, so a few cases have them.
KERNELS: list[tuple[str, int | None, dict[str, Any]]] = [
    *((row.name, tile, {}) for row in kernel_variants() for tile in row.tiles or (None,)),
    *((row.name, None, {"scheme": scheme}) for row in kernel_variants() for scheme in row.operands.schemes[1:]),
    *((row.name, None, {"triangle": 1}) for row in kernel_variants() if row.has_triangle(default_config(row))),
    ("tiled", 8, {"split_k": 3}),
    ("tiled", 8, {"split_k": 20}),
    ("tiny", 8, {"split_k": 3}),
    ("warp_tiled", 64, {"pack_a": 1, "pack_b": 1}),
    ("warp_tiled", 64, {"pack_elements": 1, "split_k": 2}),
    ("warp_tiled", 64, {"triangle": 1, "group": 2}),
]

# The error that each tool exists to find. If it does not, its silence on our kernels means nothing.
PLANTED = {
    "memcheck": """
extern "C" __global__ void planted(const int* in, int* out) {
    out[threadIdx.x + 1] = in[threadIdx.x];   // the last thread writes behind the array
}
""",
    "racecheck": """
extern "C" __global__ void planted(const int* in, int* out) {
    __shared__ int row[256];
    row[threadIdx.x] = in[threadIdx.x];
    // a barrier is missing here
    out[threadIdx.x] = row[255 - threadIdx.x];
}
""",
    "initcheck": """
extern "C" __global__ void planted(const int* in, int* out) {
    out[threadIdx.x] = in[threadIdx.x + 256];   // the second half of the array was never written
}
""",
    "synccheck": """
extern "C" __global__ void planted(const int* in, int* out) {
    int value = in[threadIdx.x];
    if (threadIdx.x % 32 < 16) {
        __syncthreads();   // half of each warp does not come
        value += 1;
    }
    out[threadIdx.x] = value;
}
""",
}


def shapes(config: Config) -> list[tuple[int, int, int]]:
    """Return (m, n, k) with partial tiles and partial steps along K, one of them with more than two steps."""
    if config.launch.split_k > 1 or config.launch.pack_a:
        return [(37, 30, 700), (37, 32, 700)]
    bk = max(config.bk, 8)
    if config.scheme:  # shorter K are not decomposed; only one element of a row's last vector of limbs is in the matrix
        return [
            (config.bm + 3, config.bn + 1, Limbs.shortest + 9),
            (config.bm - 1, 7, Limbs.shortest),
            (2, 3, 0),
        ]
    return [(config.bm + 3, config.bn + 1, 2 * bk + 5), (config.bm - 1, 7, bk - 1), (2, 3, 0)]


def exact_array(shape: tuple[int, int], dtype: np.dtype[Any], letter: str) -> cupy.ndarray:
    """Return an uninitialized matrix in an allocation that ends with its last element.

    N: contiguous rows. T: contiguous columns. G: reversed columns with every other element unused.
    """
    rows, cols = shape
    size = dtype.itemsize
    if not rows * cols:
        return cupy.empty(shape, dtype)
    if letter == "G":
        reach = (rows - 1) * 2 * cols + (cols - 1) * 2 + 1
        memory = cupy.cuda.alloc(reach * size)
        return cupy.ndarray(shape, dtype, memory + (cols - 1) * 2 * size, strides=(2 * cols * size, -2 * size))
    memory = cupy.cuda.alloc(rows * cols * size)
    strides = (cols * size, size) if letter == "N" else (size, rows * size)
    return cupy.ndarray(shape, dtype, memory, strides=strides)


def put(array: cupy.ndarray, values: np.ndarray) -> cupy.ndarray:
    """Write an array's elements, but nothing between them."""
    if not array.size:
        return array
    if array.flags.c_contiguous:
        array.set(np.ascontiguousarray(values))
    elif array.flags.f_contiguous:
        array.T.set(np.ascontiguousarray(values.T))
    else:
        array[...] = cupy.asarray(np.ascontiguousarray(values))
    return array


def run(variant: str, tile: int | None, overrides: dict[str, Any], dtype: str, layout: str) -> None:
    """Multiply with one kernel and compare with NumPy."""
    kind = compute_element(dtype).dtype
    rng = np.random.default_rng(0)
    config = VARIANTS[variant].config(tile, compute_element(dtype), overrides)
    for rows, n, k in shapes(config):
        m = rows + config.bn if "triangle" in overrides else rows  # so that tiles lie above the diagonal
        left, right = (rng.integers(-1, 2, shape).astype(kind) for shape in ((m, k), (k, n)))
        x1, x2 = (put(exact_array(x.shape, kind, letter), x) for x, letter in zip((left, right), layout, strict=True))
        if "triangle" in overrides:
            right, x2 = left.T, x1.T
        out = exact_array((m, right.shape[1]), kind, "N")
        precision = precision_of(compute_element(dtype))
        tiledmm.matmul(x1, x2, out=out, variant=variant, tile=tile, config=overrides, precision=precision)
        wide = "D" if kind.kind == "c" else "d"
        expected = left.astype(wide) @ right.astype(wide)
        if not (out.get() == expected.astype(kind)).all():
            raise SystemExit(f"wrong result: {variant} {tile} {overrides} {dtype} {layout} {m}x{n}x{k}")
        if layout != "NT":
            continue
        kernel = {"variant": variant, "tile": tile, "config": overrides, "precision": precision}
        bias = put(exact_array((1, right.shape[1]), kind, "N"), rng.integers(-1, 2, (1, right.shape[1])).astype(kind))
        tiledmm.gemm(x1, x2, out, beta=1, bias=bias, out=out, **kernel)
        if not (out.get() == (2 * expected + bias.get()).astype(kind)).all():
            raise SystemExit(f"wrong result of gemm: {variant} {tile} {overrides} {dtype} {m}x{n}x{k}")
        if kind.kind == "c" and "triangle" in overrides:
            tiledmm.gemm(x1, x1, adjoint_b=True, out=out, **kernel)
            if not (out.get() == (left.astype(wide) @ left.astype(wide).conj().T).astype(kind)).all():
                raise SystemExit(f"wrong Hermitian result: {variant} {tile} {overrides} {dtype} {m}x{k}")


def run_planted(tool: str) -> None:
    """Run the planted bug that a tool must report."""
    kernel = cupy.RawKernel(PLANTED[tool], "planted")
    count = 256
    source = cupy.ndarray((2 * count,), np.int32, cupy.cuda.alloc(2 * count * 4))
    half = np.arange(count, dtype=np.int32)
    source[:count].set(half)
    if tool != "initcheck":
        source[count:].set(half)
    out = cupy.ndarray((count,), np.int32, cupy.cuda.alloc(count * 4))
    kernel((1,), (count,), (source, out))
    cupy.cuda.runtime.deviceSynchronize()


def line(*kernel: Any) -> str:
    """Return a kernel's line, such as ``tiled 8 {'split_k': 3} float32 NN``."""
    return " ".join(map(str, kernel))


def main() -> None:
    """Run the selected kernels or planted bug."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planted", choices=PLANTED, help="run a bug that this tool must find, and nothing else")
    parser.add_argument("--kernels", default="", help="only kernels whose lines match this regular expression")
    parser.add_argument("--shard", default="1/1", help="which part of the kernels, such as 2/3")
    options = parser.parse_args()
    # No memory pool: it would hand out parts of larger allocations, whose ends no tool can see.
    cupy.cuda.set_allocator(None)
    if options.planted:
        run_planted(options.planted)
        return
    capability = divmod(int(cupy.cuda.Device().compute_capability), 10)
    shard, shards = (int(part) for part in options.shard.split("/"))
    every = [
        (*kernel, dtype, layout)
        for kernel in KERNELS
        for dtype in (INTEGERS if VARIANTS[kernel[0]].default_type in INTEGERS else TYPES)
        for layout in LAYOUTS
        if re.search(options.kernels, line(*kernel, dtype, layout))
        if VARIANTS[kernel[0]].multiplies(compute_element(dtype))
        if VARIANTS[kernel[0]].runs_on(capability, compute_element(dtype))
        if "scheme" not in kernel[2] or SCHEMES[kernel[2]["scheme"]].computes(compute_element(dtype))
        if (dtype in PACKED_ELEMENTS or "pack_elements" not in kernel[2])
        and (layout in MIRRORED or "triangle" not in kernel[2])
    ]
    mine = every[shard - 1 :: shards]
    for combination in mine:
        print(line(*combination), flush=True)  # if it never ends, this is the one
        run(*combination)
    cupy.cuda.runtime.deviceSynchronize()
    print(f"{len(mine)} of {len(every)} kernels ran")


if __name__ == "__main__":
    main()
