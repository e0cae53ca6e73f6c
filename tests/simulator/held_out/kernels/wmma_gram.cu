// Products of all pairs of rows, C = A * A^T, on tensor cores: two warps with a tile each share the rows on the left.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
#define PITCH 24

__global__ void wmma_gram(const half* A, float* C, int n, int k) {
    __shared__ __align__(32) half rows[16 * PITCH];
    __shared__ __align__(32) half others[2][16 * PITCH];
    __shared__ __align__(32) float results[2][16 * 16];
    int lane = threadIdx.x, warp = threadIdx.y;
    int top = blockIdx.y * 16, left = (blockIdx.x * 2 + warp) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int at = 0; at < k; at += 16) {
        for (int i = warp * 32 + lane; i < 256; i += 64) {
            int r = i / 16, c = i % 16;
            rows[r * PITCH + c] = top + r < n && at + c < k ? A[(top + r) * k + at + c] : __float2half(0.0f);
        }
        for (int i = lane; i < 256; i += 32) {
            int r = i / 16, c = i % 16;
            others[warp][r * PITCH + c] = left + r < n && at + c < k ? A[(left + r) * k + at + c] : __float2half(0.0f);
        }
        __syncthreads();  // tiles are here
        wmma::load_matrix_sync(a, rows, PITCH);
        wmma::load_matrix_sync(b, others[warp], PITCH);
        wmma::mma_sync(sum, a, b, sum);
        __syncthreads();  // tiles are used
    }
    wmma::store_matrix_sync(results[warp], sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
        int r = i / 16, c = i % 16;
        if (top + r < n && left + c < n) C[(top + r) * n + left + c] = results[warp][i];
    }
}
