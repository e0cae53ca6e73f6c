#include <mma.h>
#include <cuda_fp16.h>
#include <stdio.h>
using namespace nvcuda;
const int WMMA_M = 16, WMMA_N = 16, WMMA_K = 16;
__global__ void wmma_example(half *a, half *b, float *c, int M, int N, int K, float alpha, float beta) {
   int lda = M;
   int ldb = K;
   int ldc = M;
   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);
   wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a_frag;
   wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b_frag;
   wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc_frag;
   wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
   wmma::fill_fragment(acc_frag, 0.0f);
   for (int i = 0; i < K; i += 16) {
      int aRow = warpM * 16, aCol = i, bRow = i, bCol = warpN * 16;
      if (aRow < M && aCol < K && bRow < K && bCol < N) {
         wmma::load_matrix_sync(a_frag, a + aRow + aCol * lda, lda);
         wmma::load_matrix_sync(b_frag, b + bRow + bCol * ldb, ldb);
         wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
      }
   }
   int cRow = warpM * 16, cCol = warpN * 16;
   if (cRow < M && cCol < N) {
      wmma::load_matrix_sync(c_frag, c + cRow + cCol * ldc, ldc, wmma::mem_col_major);
      for (int i = 0; i < c_frag.num_elements; i++) c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
      wmma::store_matrix_sync(c + cRow + cCol * ldc, c_frag, ldc, wmma::mem_col_major);
   }
}
int main() {
   dim3 gridDim, blockDim;
   int M = 4096, N = 4096, K = 4096;
   blockDim.x = 128;
   blockDim.y = 4;
   gridDim.x = (M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);
   wmma_example <<< gridDim, blockDim >>> (a_fp16, b_fp16, c_wmma, M, N, K, 2.0f, 2.0f);
}
