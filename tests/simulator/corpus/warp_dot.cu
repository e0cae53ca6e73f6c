// A warp per element of C: lanes share K, and a butterfly of shuffles adds what they have.
#include <cuda_runtime.h>

#define FULL 0xffffffffu

__device__ float warp_sum(float x)
{
    for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(FULL, x, offset);
    return x;
}

__global__ void dot_per_warp(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int row = warp / n, col = warp % n;
    if (row >= m) return;   // whole warps
    float sum = 0.f;
    for (int i = lane; i < k; i += 32) sum += a[row * k + i] * b[i * n + col];
    sum = warp_sum(sum);
    if (lane == 0) c[row * n + col] = sum;
}
