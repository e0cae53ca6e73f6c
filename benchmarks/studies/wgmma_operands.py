"""Record where wgmma reads its operands: ``python -m benchmarks.studies.wgmma_operands``. Needs a GPU of 9.0.

Each case is one ``wgmma.mma_async`` of float16 with a random matrix descriptor of A or B. Each element of shared memory
says where it is, and the other operand is a unit matrix, so the results are the operand's elements in order. Cases are
recorded in ``tests/simulator/hopper/wgmma_operands.npz``; a test compares them with ``native/descriptors.h``.
``--check`` records nothing: it runs new cases of a fresh seed and compares those with ``places``, a model in NumPy.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import ROOT
from tiledmm.report.tables import Table

RECORDED = ROOT / "tests" / "simulator" / "hopper" / "wgmma_operands.npz"

#: Rows of an operand, which are those of A and columns of B, and its depth along K.
ROWS, DEPTH = 64, 16

#: Bytes of the swizzle by the descriptor's highest two bits.
SWIZZLES = (0, 128, 64, 32)

CASES = 48  # of one operand, major dimension and swizzle

#: Bytes of shared memory that operands can be in; a unit matrix follows.
MEMORY = 200 * 1024

SOURCE = r"""
typedef unsigned long long u64;
extern "C" __global__ void __launch_bounds__(128, 1) locate(const u64* descriptors, int* places, int cases) {
    extern __shared__ __align__(1024) unsigned short memory[];
    const int t = threadIdx.x, lane = t % 32, row = t / 32 * 16 + lane / 4, quad = lane % 4;
    const unsigned begin = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    for (int c = 0; c < cases; ++c)
        for (int digit = 0; digit < 2; ++digit) {   // a float16 holds 10 bits of an element's number
            __syncthreads();
            for (int i = t; i < MEMORY / 2; i += 128) {
                const int number = digit ? i >> 10 : i & 1023;
                asm("{ .reg .b16 h; cvt.rn.f16.s32 h, %1; mov.b16 %0, h; }" : "=h"(memory[i]) : "r"(number));
            }
            for (int i = t; i < 256; i += 128) {   // two by two core matrices
                const int n = i / 16, k = i % 16;
                memory[MEMORY / 2 + k / 8 * 128 + n / 8 * 64 + n % 8 * 8 + k % 8] = n == k ? 0x3c00 : 0;
            }
            unsigned a[4];   // in registers: the first 16 rows of a unit matrix
            for (int i = 0; i < 4; ++i) {
                const int k = 2 * quad + i / 2 * 8 - row - i % 2 * 8;
                a[i] = k == 0 ? 0x3c00u : k == -1 ? 0x3c000000u : 0;
            }
            asm volatile("fence.proxy.async;" ::: "memory");
            __syncthreads();
            float d[N / 2] = {};
            const u64 operand = descriptors[c] + (begin >> 4);
            const u64 unit = (begin + MEMORY) >> 4 | 256ull >> 4 << 16 | 128ull >> 4 << 32;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            asm volatile("wgmma.mma_async.sync.aligned." INSTRUCTION : SUMS : FACTORS);
            asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
            for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
            for (int i = 0; i < N / 2; ++i) {
                const int m = row + i / 2 % 2 * 8, n = i / 4 * 8 + 2 * quad + i % 2;
                const int at = c * 64 * 16 + (OF_A ? m * 16 + n : n * 16 + m), place = 2 * static_cast<int>(d[i]);
                if (OF_A || m < 16) places[at] = digit ? places[at] + 1024 * place : place;
            }
        }
}
"""


def source(of_a: bool, mn_major: bool) -> str:
    """Return the kernel that reads A or B by a descriptor."""
    n = DEPTH if of_a else ROWS
    half = n // 2
    sums = ", ".join(f"%{i}" for i in range(half))
    if of_a:
        rest, factors = f"%{half}, %{half + 1}, 1, 1, 1, {int(mn_major)}, 0", '"l"(operand), "l"(unit)'
    else:
        registers = ", ".join(f"%{half + i}" for i in range(4))
        rest = f"{{{registers}}}, %{half + 4}, 1, 1, 1, {int(mn_major)}"
        factors = ", ".join(f'"r"(a[{i}])' for i in range(4)) + ', "l"(operand)'
    instruction = f'"m64n{n}k16.f32.f16.f16 {{{sums}}}, {rest};"'
    defines = {
        "N": n, "OF_A": int(of_a), "MEMORY": MEMORY, "INSTRUCTION": instruction, "FACTORS": factors,
        "SUMS": ", ".join(f'"+f"(d[{i}])' for i in range(half)),
    }  # fmt: skip
    return "".join(f"#define {name} {value}\n" for name, value in defines.items()) + SOURCE


def descriptors(rng: np.random.Generator) -> Any:
    """Return random matrix descriptors, for each swizzle as many: start, offsets and base offset."""
    found = []
    for mode in range(len(SWIZZLES)):
        for i in range(CASES):
            alignment = (1024, 128, 16)[i % 3]
            start = int(rng.integers(16384 // alignment)) * alignment
            leading, stride = (int(rng.integers(512)) for _ in range(2))  # in 16 bytes
            base_offset = int(rng.integers(8)) if i % 2 else 0
            found.append(start >> 4 | leading << 16 | stride << 32 | base_offset << 49 | mode << 62)
    return np.array(found, np.uint64)


def places(descriptor: int, mn_major: bool) -> Any:
    """Return where the elements of an operand are, in bytes: an array of shape (ROWS, DEPTH)."""
    start, leading, stride = ((descriptor >> shift & 0x3FFF) * 16 for shift in (0, 16, 32))
    base_offset, swizzle = descriptor >> 49 & 7, SWIZZLES[descriptor >> 62]
    mn, k = np.ogrid[:ROWS, :DEPTH]
    row, byte = (k, 2 * mn) if mn_major else (mn, 2 * k)
    if not swizzle:
        rows, chunks = (leading, stride) if mn_major else (stride, leading)
        return start + row // 8 * rows + byte // 16 * chunks + row % 8 * 16 + byte % 16
    along = byte // swizzle * leading + byte % swizzle if mn_major else byte
    place = start + row // 8 * stride + row % 8 * swizzle + along
    return place ^ ((place >> 7) - base_offset & swizzle // 16 - 1) << 4


def run(seed: int) -> dict[str, Any]:
    """Run all cases on the GPU, and return descriptors and places by names such as ``"A/MN"``."""
    import cupy

    rng, found = np.random.default_rng(seed), {}
    for operand in "AB":
        for major in ("K", "MN"):
            module = cupy.RawModule(code=source(operand == "A", major == "MN"), options=("--gpu-architecture=sm_90a",))
            kernel = module.get_function("locate")
            kernel.max_dynamic_shared_size_bytes = MEMORY + 1024
            given = descriptors(rng)
            result = cupy.zeros((len(given), ROWS, DEPTH), cupy.int32)
            arguments = (cupy.asarray(given), result, np.int32(len(given)))
            kernel((1,), (128,), arguments, shared_mem=MEMORY + 1024)
            found[f"{operand}/{major}"] = given, cupy.asnumpy(result)
    return found


def agreement(found: dict[str, Any]) -> Table:
    """Return a table: for each operand and swizzle, in how many cases the model has the places of all elements."""
    rows = []
    for name, (given, result) in found.items():
        mn_major = name.endswith("MN")
        equal = [bool((places(int(each), mn_major) == at).all()) for each, at in zip(given, result, strict=True)]
        parts = (equal[i * CASES : (i + 1) * CASES] for i in range(len(SWIZZLES)))
        rows.append((name, *(f"{sum(part)} of {CASES}" for part in parts)))
    heads = (f"swizzle {swizzle}" if swizzle else "no swizzle" for swizzle in SWIZZLES)
    return Table("Operands that are where the model says", ("<operand", *heads), tuple(rows))


def main() -> int:
    """Record or check the cases, print the agreement, and return 1 if a place differs from the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="record nothing; compare cases of a fresh seed")
    parser.add_argument("--out", type=Path, default=RECORDED, help="where the cases go")
    arguments = options_on_gpu(parser)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if arguments.check else 0
    found = run(seed)
    table = agreement(found)
    show(table)
    print(f"seed {seed}")
    if not arguments.check:
        arrays = {}
        for name, (given, result) in found.items():
            arrays[f"{name}/descriptors"] = given
            arrays[f"{name}/chunks"] = chunks(result, name.endswith("MN"))
        np.savez_compressed(arguments.out, **arrays)
    return int(any(cell != f"{CASES} of {CASES}" for row in table.rows for cell in row[1:]))


def chunks(found: Any, mn_major: bool) -> Any:
    """Return the places of the 16-byte chunks in units of 16 bytes: those of every eighth element."""
    return (found[:, ::8] if mn_major else found[:, :, ::8]).astype(np.uint32) // 16


if __name__ == "__main__":
    sys.exit(main())
