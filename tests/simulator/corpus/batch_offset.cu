// All products of the batch use the first B.
#include <cuda_runtime.h>

__global__ void bmm_shared_b(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int batch = blockIdx.z;
    const float* a = A + batch * M * K;
    float* c = C + batch * M * N;
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float s = 0;
        for (int k = 0; k < K; ++k) s += a[row * K + k] * B[k * N + col];
        c[row * N + col] = s;
    }
}
