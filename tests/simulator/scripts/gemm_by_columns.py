"""A product of matrices in Fortran's order, whose kernel's tile is given by options, as BLAS has it."""

import cupy as cp
import numpy as np

code = r"""
// alpha * A @ B + beta * C, all by columns, in tiles of TILE x TILE.
extern "C" __global__ void sgemm(
    int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc) {
    __shared__ float a[TILE][TILE + 1], b[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.x * TILE + tx, col = blockIdx.y * TILE + ty;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        a[ty][tx] = row < m && k0 + ty < k ? A[row + (k0 + ty) * lda] : 0.0f;
        b[ty][tx] = col < n && k0 + tx < k ? B[k0 + tx + col * ldb] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += a[i][tx] * b[ty][i];
        __syncthreads();
    }
    if (row < m && col < n) C[row + col * ldc] = alpha * sum + (beta == 0 ? 0 : beta * C[row + col * ldc]);
}
"""
m, n, k, tile = 37, 45, 23, 16
a = cp.asfortranarray(cp.random.uniform(-1, 1, (m, k), dtype=cp.float32))
b = cp.asfortranarray(cp.random.uniform(-1, 1, (k, n), dtype=cp.float32))
c = cp.ones((m, n), dtype=cp.float32, order="F")
kernel = cp.RawKernel(code, "sgemm", options=(f"-DTILE={tile}",))
grid = ((m + tile - 1) // tile, (n + tile - 1) // tile)
start, end = cp.cuda.Event(), cp.cuda.Event()
start.record()
kernel(grid, (tile, tile), (m, n, k, np.float32(2), a, m, b, k, np.float32(3), c, m))
end.record()
end.synchronize()
cp.testing.assert_allclose(c, 2 * (a @ b) + 3, rtol=1e-4, atol=1e-5)
print("milliseconds", cp.cuda.get_elapsed_time(start, end) >= 0)
