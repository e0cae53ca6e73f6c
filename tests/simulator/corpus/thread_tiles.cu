// 64 x 64 elements per block, 4 x 4 per thread, all sizes.
#include <cuda_runtime.h>

namespace {
constexpr int BM = 64, BN = 64, BK = 16, TM = 4, TN = 4;
constexpr int THREADS = (BM / TM) * (BN / TN);

__device__ __forceinline__ float load_or_zero(const float* p, int row, int col, int rows, int cols)
{
    return row < rows && col < cols ? p[row * cols + col] : 0.f;
}
}  // namespace

__global__ void __launch_bounds__(THREADS) gemm_thread_tiles(const float* __restrict__ A, const float* __restrict__ B,
                                                             float* __restrict__ C, int M, int N, int K)
{
    __shared__ float As[BK][BM], Bs[BK][BN];
    const int tid = threadIdx.x;
    const int ty = tid / (BN / TN), tx = tid % (BN / TN);
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += THREADS)
            As[i % BK][i / BK] = load_or_zero(A, row0 + i / BK, k0 + i % BK, M, K);
        for (int i = tid; i < BK * BN; i += THREADS)
            Bs[i / BN][i % BN] = load_or_zero(B, k0 + i / BN, col0 + i % BN, K, N);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; ++i) a[i] = As[k][ty * TM + i];
            for (int j = 0; j < TN; ++j) b[j] = Bs[k][tx * TN + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int row = row0 + ty * TM + i, col = col0 + tx * TN + j;
            if (row < M && col < N) C[row * N + col] = acc[i][j];
        }
}

void gemm(const float* A, const float* B, float* C, int M, int N, int K, cudaStream_t s)
{
    dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
    gemm_thread_tiles<<<grid, THREADS, 0, s>>>(A, B, C, M, N, K);
}
