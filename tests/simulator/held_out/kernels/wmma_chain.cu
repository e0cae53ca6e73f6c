// Two products on tensor cores with a rectifier between them; a warp keeps its 16 rows of the first in shared memory.
#include <mma.h>
using namespace nvcuda;

__global__ void wmma_chain(const half* A, const half* B, const half* W, float* D, int M) {
    __shared__ __align__(32) float staging[2][16 * 20];
    __shared__ __align__(32) half middle[2][16 * 24];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = (blockIdx.x * 2 + warp) * 16;
    if (row >= M) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);  // first product
    for (int k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(a, A + row * 32 + k, 32);
        wmma::load_matrix_sync(b, B + k * 16, 16);
        wmma::mma_sync(acc, a, b, acc);  // first
    }
    wmma::store_matrix_sync(staging[warp], acc, 20, wmma::mem_row_major);
    __syncwarp();  // stored
    for (int i = lane; i < 256; i += 32) {
        float v = staging[warp][i / 16 * 20 + i % 16];
        middle[warp][i / 16 * 24 + i % 16] = __float2half(v > 0.0f ? v : 0.0f);
    }
    __syncwarp();  // rectified
    wmma::load_matrix_sync(a, middle[warp], 24);
    for (int c = 0; c < 32; c += 16) {
        wmma::load_matrix_sync(b, W + c, 32);
        wmma::fill_fragment(acc, 0.0f);  // second product
        wmma::mma_sync(acc, a, b, acc);  // second
        wmma::store_matrix_sync(D + row * 32 + c, acc, 32, wmma::mem_row_major);
    }
}
