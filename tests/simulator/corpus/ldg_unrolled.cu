#include <cuda_runtime.h>
#include <curand.h>

#define UNROLL 4

__global__ void mm_ldg(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    const float* a = A + row * K;
    const float* b = B + col;
    float part[UNROLL] = {};
    int k = 0;
    for (; k + UNROLL <= K; k += UNROLL) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) part[u] += __ldg(a + k + u) * __ldg(b + (k + u) * N);
    }
    float sum = (part[0] + part[1]) + (part[2] + part[3]);
    for (; k < K; ++k) sum += __ldg(a + k) * __ldg(b + k * N);   // the rest
    C[row * N + col] = sum;
}
