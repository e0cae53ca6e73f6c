// Each thread computes four neighbouring columns of C with float4. N must be a multiple of 4.
#include <cuda_runtime.h>

__global__ void matmul_vec4(const float* __restrict__ A, const float4* __restrict__ B, float4* __restrict__ C,
                            int M, int N, int K)
{
    const int n4 = N / 4;
    const int col4 = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col4 >= n4) return;
    float4 acc = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int k = 0; k < K; ++k) {
        const float a = A[row * K + k];
        const float4 b = B[k * n4 + col4];
        acc.x += a * b.x;
        acc.y += a * b.y;
        acc.z += a * b.z;
        acc.w += a * b.w;
    }
    C[row * n4 + col4] = acc;
}
