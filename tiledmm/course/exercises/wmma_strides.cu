#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// tiledmm: grid=N/16,M/16 block=32
__global__ void wmma_strides(const half* A, const half* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    //[start]
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    //[solution]
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    //[end]
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        //[start]
        wmma::load_matrix_sync(b, B + col * K + k, N);
        //[solution]
        wmma::load_matrix_sync(b, B + col * K + k, K);
        //[end]
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
