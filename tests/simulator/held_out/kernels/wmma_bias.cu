// A product on tensor cores, and a bias and a rectifier from shared memory: a warp for each 16 x 16 tile.
#include <mma.h>
using namespace nvcuda;

__global__ void wmma_bias(const half* A, const half* B, const float* bias, float* C, int M, int N, int K) {
    __shared__ float staging[4][16 * 20];
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int row = blockIdx.y * 16;
    int col = (blockIdx.x * 4 + warp) * 16;
    if (col >= N) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(staging[warp], acc, 20, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
        int r = i / 16, c = i % 16;
        float value = staging[warp][r * 20 + c] + bias[col + c];
        C[(row + r) * N + col + c] = value > 0 ? value : 0;
    }
}
