#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// tiledmm: grid=N/16,M/16 block=32
__global__ void wmma_tile(const half* A, const half* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    //[start]
    // TODO: compute these 16 x 16 elements with wmma. Here, each lane computes eight of them, one by one.
    for (int i = threadIdx.x; i < 256; i += 32) {
        float sum = 0;
        for (int k = 0; k < K; ++k)
            sum += __half2float(A[(row + i / 16) * K + k]) * __half2float(B[k * N + col + i % 16]);
        C[(row + i / 16) * N + col + i % 16] = sum;
    }
    //[solution]
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
    //[end]
}
