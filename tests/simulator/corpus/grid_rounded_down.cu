// Wrong: the grid is N / 16 by M / 16 blocks, which leaves out the rest.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float s = 0;
        for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
        C[row * N + col] = s;
    }
}

int main()
{
    int M = 1000, N = 1000, K = 1000;
    float *A, *B, *C;
    cudaMalloc(&A, M * K * sizeof(float));
    cudaMalloc(&B, K * N * sizeof(float));
    cudaMalloc(&C, M * N * sizeof(float));
    dim3 block(16, 16);
    dim3 grid(N / block.x, M / block.y);
    mm<<<grid, block>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
