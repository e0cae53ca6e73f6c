// C = A B on tensor cores for any size: tiles are filled up with zeros in shared memory. A warp has 16 x 16 of C.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void wmma_edges(const half* A, const half* B, float* C, int M, int N, int K) {
    __shared__ __align__(32) half at[16 * 16];
    __shared__ __align__(32) half bt[16 * 16];
    __shared__ __align__(32) float ct[16 * 16];
    int lane = threadIdx.x;
    int row0 = blockIdx.y * 16, column0 = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int e = lane; e < 256; e += 32) {
            int r = e / 16, c = e % 16;
            at[e] = row0 + r < M && k0 + c < K ? A[(row0 + r) * K + k0 + c] : __float2half(0.0f);
            bt[e] = k0 + r < K && column0 + c < N ? B[(k0 + r) * N + column0 + c] : __float2half(0.0f);
        }
        __syncwarp();  // tiles are full
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, at, 16);
        wmma::load_matrix_sync(b, bt, 16);
        wmma::mma_sync(sum, a, b, sum);
        __syncwarp();  // tiles are used
    }
    wmma::store_matrix_sync(ct, sum, 16, wmma::mem_row_major);
    __syncwarp();  // the product is here
    for (int e = lane; e < 256; e += 32) {
        int row = row0 + e / 16, column = column0 + e % 16;
        if (row < M && column < N) C[row * N + column] = ct[e];
    }
}
