#include <cuda_pipeline.h>

// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16
__global__ void barriers(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[2][16][16], Bs[2][16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    // K is a multiple of 32. The first half of K is multiplied with one buffer.
    for (int k0 = 0; k0 < K / 2; k0 += 16) {
        As[0][ty][tx] = A[row * K + k0 + tx];
        Bs[0][ty][tx] = B[(k0 + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += As[0][ty][k] * Bs[0][k][tx];
        __syncthreads();
    }
    // The second half is multiplied with two buffers.
    for (int k0 = K / 2 - 16, now = 1; k0 < K; k0 += 16, now ^= 1) {  // the first step only begins copies
        __pipeline_wait_prior(0);
        __syncthreads();
        if (k0 + 16 < K) {
            __pipeline_memcpy_async(&As[now ^ 1][ty][tx], &A[row * K + k0 + 16 + tx], 4);
            __pipeline_memcpy_async(&Bs[now ^ 1][ty][tx], &B[(k0 + 16 + ty) * N + col], 4);
            __pipeline_commit();
        }
        if (k0 >= K / 2)
            for (int k = 0; k < 16; ++k) sum += As[now][ty][k] * Bs[now][k][tx];
    }
    C[row * N + col] = sum;
}
