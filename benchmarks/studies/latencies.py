"""Measure the latency of one load, per memory level: ``python -m benchmarks.studies.latencies``. Needs a GPU.

One thread follows a random cycle through an array: the value of each load is the address of the next, so that no two
overlap. The array fits into shared memory, L1, L2, or none of them; a first walk loads it into the caches. Times are in
cycles of the SM's clock and include a few cycles of address arithmetic and, in memory, misses of the address
translation caches (TLBs).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.command import options_on_gpu
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "latencies.json"

#: Bytes between elements of a cycle: a line of L1 and L2, so that each load needs one of its own.
LINE = 128
#: Loads of a walk that is timed.
LOADS = 2048
_TIMES = 9

#: Memory levels: bytes of the array, and the load's cache operator.
LEVELS = {
    "shared memory": (32 << 10, ""),
    "L1": (64 << 10, ".ca"),
    "L2": (8 << 20, ".cg"),
    "memory": (1 << 30, ".cg"),
}

#: `warm` loads first, whose time does not count.
SOURCE = """
__device__ __forceinline__ unsigned load(%(address)s address) {
    unsigned value;
    asm volatile("ld.%(space)s.u32 %%0, [%%1];" : "=r"(value) : "%(kind)s"(address));
    return value;
}

extern "C" __global__ void walk_%(name)s(const unsigned* next, unsigned words, unsigned warm, unsigned loads,
                                         long long* cycles, unsigned* end) {
    %(array)s
    unsigned at = 0;
    for (unsigned i = 0; i < warm; ++i) at = load(%(place)s);
    long long begin, now;
    asm volatile("mov.u64 %%0, %%clock64;" : "=l"(begin));
#pragma unroll 8
    for (unsigned i = 0; i < loads; ++i) at = load(%(place)s);
    asm volatile("st.global.u32 [%%0], %%1;" : : "l"(end), "r"(at) : "memory");   // waits for the last load
    asm volatile("mov.u64 %%0, %%clock64;" : "=l"(now));
    *cycles = now - begin;
}
"""

_SHARED = """extern __shared__ unsigned tile[];
    for (unsigned i = 0; i < words; ++i) tile[i] = next[i];
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(tile));"""


def source(level: str) -> str:
    """Return the CUDA source of the kernel that walks through an array at a memory level."""
    _, operator = LEVELS[level]
    is_shared = level == "shared memory"
    return SOURCE % {
        "name": level.partition(" ")[0].lower(),
        "array": _SHARED if is_shared else "",
        "space": "shared" if is_shared else f"global{operator}",
        "kind": "r" if is_shared else "l",
        "address": "unsigned" if is_shared else "const unsigned*",
        "place": "shared + at * 4" if is_shared else "next + at",
    }


def cycle(size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Build an array of ``size`` bytes with a random cycle: each line's first word is the index of the next line."""
    lines = size // LINE
    order = np.random.default_rng(seed).permutation(lines).astype(np.uint32) * np.uint32(LINE // 4)
    order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))  # a walk begins at 0
    found = np.zeros(size // 4, np.uint32)
    found[order] = np.roll(order, -1)
    return found


def measure(level: str) -> dict[str, Any]:
    """Measure the cycles per load at a memory level, as the median of several walks."""
    import cupy

    size, _ = LEVELS[level]
    array = cycle(size)
    kernel = cupy.RawKernel(source(level), f"walk_{level.partition(' ')[0].lower()}", options=("-std=c++17",))
    following, cycles, end = cupy.asarray(array), cupy.zeros(1, np.int64), cupy.zeros(1, np.uint32)
    words, shared = array.size, size if level == "shared memory" else 0
    found = []
    for number in range(_TIMES):
        # In memory no line may have been read before: each walk goes on where the last one ended.
        warm = number * LOADS if level == "memory" else size // LINE
        arguments = following, np.uint32(words), np.uint32(warm), np.uint32(LOADS), cycles, end
        kernel((1,), (1,), arguments, shared_mem=shared)
        found.append(int(cycles[0]) / LOADS)
    return {"level": level, "bytes": size, "cycles": statistics.median(found)}


def latencies_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per memory level."""
    cells = tuple((row["level"], f"{row['bytes'] >> 10:,}", significant(row["cycles"])) for row in rows)
    return Table("Latencies", ("<served by", "array (KiB)", "cycles per load"), cells)


def main() -> int:
    """Measure all levels, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows = [measure(level) for level in LEVELS]
    print(latencies_table(rows).markdown())
    save(options.out, measured(this_machine(), {"rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
