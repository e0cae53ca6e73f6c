// K is divided among blockIdx.z; partial sums meet by atomicAdd in C, which the host clears before.
#include <cuda_runtime.h>

__global__ void gemm_split_k(const float* A, const float* B, float* C, int M, int N, int K, int part)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    const int first = blockIdx.z * part, last = min(first + part, K);
    float sum = 0.f;
    for (int k = first; k < last; ++k) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(C + row * N + col, sum);
}

void run(const float* A, const float* B, float* C, int M, int N, int K)
{
    cudaMemset(C, 0, sizeof(float) * M * N);
    const int parts = 4;
    gemm_split_k<<<dim3((N + 15) / 16, (M + 15) / 16, parts), dim3(16, 16)>>>(A, B, C, M, N, K, (K + parts - 1) / parts);
}
