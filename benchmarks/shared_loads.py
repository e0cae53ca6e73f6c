"""What a load from shared memory costs: ``python -m benchmarks.shared_loads``.

Prints cycles of the load pipe for a warp-wide load of 4, 8 and 16 bytes a lane, by the distance between neighbouring
lanes. This is where the model in ``tiledmm/report/roofline.py`` has its floor for wide loads from. Needs a GPU.
"""

from __future__ import annotations

import sys

from tiledmm.cli import missing_gpu
from tiledmm.report.tables import Table, significant

WARPS, LOADS, REPEATS = 32, 16, 256
STRIDES = (0, 4, 8, 16, 32, 128, 132, 144)

# One block of 32 warps on every SM; volatile loads, so that each is made.
SOURCE = """
extern "C" __global__ void __launch_bounds__(1024) shared_loads(long long* cycles, float* sink, int stride) {
    __shared__ alignas(16) float tile[8192];
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = i;
    __syncthreads();
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + (threadIdx.x & 31) * stride;
    float sum = 0;
    const long long start = clock64();
#pragma unroll 1
    for (int repeat = 0; repeat < %(repeats)d; ++repeat) {
#pragma unroll
        for (int load = 0; load < %(loads)d; ++load) {
            float x, y, z, w;
            asm volatile("ld.volatile.shared%(vector)s.f32 %(outputs)s, [%%%(input)d];"
                         : %(bindings)s : "r"(address + load * 512));
            sum += x;
        }
        address ^= 512 * (repeat & 1);
    }
    __syncthreads();
    const long long stop = clock64();
    if (threadIdx.x == 0) cycles[blockIdx.x] = stop - start;
    if (sum == -1.0f) sink[0] = sum;   // never: keeps the loads
}
"""


def source(width: int) -> str:
    """The kernel for loads of 4, 8 or 16 bytes a lane."""
    count = width // 4
    outputs = ", ".join(f"%{i}" for i in range(count))
    return SOURCE % {
        "repeats": REPEATS,
        "loads": LOADS,
        "vector": "" if count == 1 else f".v{count}",
        "outputs": outputs if count == 1 else f"{{{outputs}}}",
        "bindings": ", ".join(f'"=f"({name})' for name in "xyzw"[:count]),
        "input": count,
    }


def main() -> int:
    """Measures and prints; returns the exit status."""
    if reason := missing_gpu():
        print(f"no GPU: {reason}", file=sys.stderr)
        return 1
    import cupy
    import numpy as np
    from rich.console import Console

    from tiledmm.bench.machine import this_machine

    sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    cycles, sink = cupy.zeros(sms, np.int64), cupy.zeros(1, np.float32)
    rows = []
    for width in (4, 8, 16):
        kernel = cupy.RawKernel(source(width), "shared_loads")
        cells = []
        for stride in STRIDES:
            if stride % width:
                cells.append("-")
                continue
            for _ in range(3):
                kernel((sms,), (32 * WARPS,), (cycles, sink, np.int32(stride)))
            cells.append(significant(float(np.median(cycles.get())) / (WARPS * LOADS * REPEATS)))
        rows.append((f"{width} bytes", *cells))
    columns = ("<a lane loads", *(f"{stride} apart" for stride in STRIDES))
    print(this_machine())
    Console().print(Table("Cycles of the load pipe, one load of a warp", columns, tuple(rows)).rich())
    return 0


if __name__ == "__main__":
    sys.exit(main())
