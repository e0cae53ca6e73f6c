// A product of bytes on tensor cores, a warp per 16 x 16 tile of C, rounded to bytes again. A and B are stored tile by
// tile, those of B by columns.
#include <mma.h>
using namespace nvcuda;

__global__ void wmma_int8_scale(const signed char* A, const signed char* B, signed char* C, int N, int tiles,
                                int shift) {
    __shared__ __align__(32) int tile[16 * 16];
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
    wmma::fill_fragment(acc, 0);
    for (int t = 0; t < tiles; t++) {
        wmma::load_matrix_sync(a, A + (blockIdx.y * tiles + t) * 256, 16);
        wmma::load_matrix_sync(b, B + (blockIdx.x * tiles + t) * 256, 16);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(tile, acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) {
        int v = (tile[i] + (1 << (shift - 1))) >> shift;
        v = max(-128, min(127, v));
        C[(row + i / 16) * N + col + i % 16] = (signed char)v;
    }
}
