"""Where the elements of operands of wgmma come from, if threads or cp.async write the tile of a descriptor."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.hopper.case import FOLDER
from tiledmm import simulator

BAD_WGMMA = "misuse of wgmma"

#: A @ B of 64 x 16 by 16 x 8: `from` is an index into A, and `to` where its element lies in a tile of core matrices.
KERNEL = """#include "hopper.cuh"
__device__ int core(int row, int k) { return row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8; }
__global__ void __launch_bounds__(128) multiply(const short* a, const short* b, const int* rows, float* d) {
    __shared__ alignas(128) short a_tile[64 * 16], b_tile[8 * 16];
    const int t = threadIdx.x;
    WRITE
    for (int i = t; i < 8 * 16; i += 128) b_tile[core(i / 16, i % 16)] = b[i];
    fence_proxy_async();
    __syncthreads();
    float sums[4] = {};
    wgmma_fence();
    wgmma_m64n8k16(sums, descriptor(a_tile, 128, 256, NO_SWIZZLE), descriptor(b_tile, 128, 256, NO_SWIZZLE));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * 8 + wgmma_col(t, i)] = sums[i];
}"""

ELEMENTS = "for (int i = t; i < 64 * 16; i += 128) a_tile[%s] = %s;"
CHUNKS = """for (int i = t * 8; i < 64 * 16; i += 128 * 8)
        *reinterpret_cast<int4*>(a_tile + %s) = *reinterpret_cast<const int4*>(a + %s);"""
ASYNC = """for (int i = t * 8; i < 64 * 16; i += 128 * 8)
        asm volatile("cp.async.cg.shared.global [%%0], [%%1], 16, %%2;" ::"r"(smem(a_tile + %s)), "l"(a + %s), "r"(%s)
                     : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");"""
IN_ORDER, CORE, ROW = "i", "core(i / 16, i % 16)", "rows[i / 16] * 16 + i % 16"


def findings(write: str, a: np.ndarray | None = None, rows: np.ndarray | None = None) -> list[simulator.Finding]:
    """Run the kernel with statements that write A's tile."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64, 16)).astype(np.float16) if a is None else a
    rows = np.arange(64, dtype=np.int32) if rows is None else rows
    b, d = np.eye(8, 16, dtype=np.float16), np.zeros((64, 8), np.float32)
    report = simulator.launch(
        KERNEL.replace("WRITE", write),
        1,
        128,
        (a.view(np.int16), b.view(np.int16), rows, d),
        options=(f"-I{FOLDER}",),
        counts=False,
    )
    assert all(each.kind == BAD_WGMMA for each in report.findings)
    return list(report.findings)


@pytest.mark.parametrize(
    "write",
    [ELEMENTS % (IN_ORDER, "a[i]"), CHUNKS % (IN_ORDER, "i"), ASYNC % (IN_ORDER, "i", "16")],
    ids=["elements", "chunks", "cp.async"],
)
def test_a_tile_in_another_order_is_found(write: str) -> None:
    (found,) = findings(write)
    assert found.other_text is not None and "a_tile" in found.other_text
    assert "row 8 and k = 0" in found.message and "leads to the element at a[128]" in found.message
    assert "the one at a[64]" in found.message


@pytest.mark.parametrize(
    "write",
    [
        ELEMENTS % (CORE, "a[i]"),
        ELEMENTS % (CORE, f"a[{ROW}]"),
        ELEMENTS % (CORE, "a[i] & 0x7fff"),
        ELEMENTS % (CORE, "i % 16 < 12 ? a[i] : 0"),
        ELEMENTS % (IN_ORDER, "a[i] & 0x7fff"),
        CHUNKS % (CORE, "i"),
        CHUNKS % (CORE, ROW),
        ASYNC % (CORE, "i", "16"),
        ASYNC % (CORE, ROW, "16"),
        ASYNC % (CORE, "i", "i / 16 < 50 ? 16 : 0"),
    ],
    ids=["elements", "elements of rows", "absolute values", "zeros", "computed in another order", "chunks",
         "chunks of rows", "cp.async", "cp.async of rows", "cp.async with zeros"],
)  # fmt: skip
@pytest.mark.parametrize("rows", ["in order", "permuted", "pages", "clamped", "one"])
def test_a_tile_in_order_is_right_wherever_its_rows_come_from(write: str, rows: str) -> None:
    of_rows = {
        "in order": np.arange(64),
        "permuted": np.random.default_rng(1).permutation(64),
        "pages": np.arange(64).reshape(4, 16)[[2, 0, 3, 1]].ravel(),
        "clamped": np.minimum(np.arange(64), 37),
        "one": np.zeros(64),
    }[rows].astype(np.int32)
    assert not findings(write, rows=of_rows)


@pytest.mark.parametrize("value", [0, 1])
def test_equal_elements_are_not_mistaken_for_each_other(value: int) -> None:
    a = np.full((64, 16), value, np.float16)
    two = "const short first = a[(i + 512) % 1024], second = a[i]; a_tile[core(i / 16, i % 16)] = second + first * 0;"
    clamped = "const short x = a[min(i, 600)]; a_tile[core(i / 16, i % 16)] = i <= 600 ? x : 0;"
    for body in (two, clamped):
        assert not findings(f"for (int i = t; i < 64 * 16; i += 128) {{ {body} }}", a)
