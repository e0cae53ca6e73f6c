// Wrong for what it promises: float in, float out, but the sum is a __half.
#include <cuda_fp16.h>

__global__ void mm_half_sum(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    __half sum = __float2half(0.f);
    for (int k = 0; k < K; ++k) sum = __float2half(__half2float(sum) + A[row * K + k] * B[k * N + col]);
    C[row * N + col] = __half2float(sum);
}
