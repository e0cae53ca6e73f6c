"""A matrix product by tiles in shared memory, as a template: float and double, tiles of 8 and 16."""

import cupy as cp

code = r"""
template <typename T, int TILE>
__global__ void matmul(const T* A, const T* B, T* C, int M, int N, int K) {
    __shared__ T As[TILE][TILE];
    __shared__ T Bs[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        As[threadIdx.y][threadIdx.x] = row < M && k0 + threadIdx.x < K ? A[row * K + k0 + threadIdx.x] : T(0);
        Bs[threadIdx.y][threadIdx.x] = col < N && k0 + threadIdx.y < K ? B[(k0 + threadIdx.y) * N + col] : T(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""
names = ("matmul<float, 16>", "matmul<double, 8>")
module = cp.RawModule(code=code, options=("-std=c++17",), name_expressions=names)


def matmul(a, b, name, tile):
    (m, k), (_, n) = a.shape, b.shape
    c = cp.empty((m, n), dtype=a.dtype)
    grid = ((n + tile - 1) // tile, (m + tile - 1) // tile)
    module.get_function(name)(grid, (tile, tile), (a, b, c, m, n, k))
    return c


for dtype, name, tile in ((cp.float32, names[0], 16), (cp.float64, names[1], 8)):
    a = cp.random.random((37, 29)).astype(dtype)
    b = cp.random.random((29, 41)).astype(dtype)
    c = matmul(a, b, name, tile)
    cp.testing.assert_allclose(c, a @ b, rtol=1e-5)
    print(name, "is right, element 0, 0 is", f"{c[0, 0]:.4f}")
