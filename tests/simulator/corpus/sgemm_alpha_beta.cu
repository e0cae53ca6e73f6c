// C = alpha * A * B + beta * C, row-major. One thread per element, 1024 threads per block.
#include <cuda_runtime.h>
#include <iostream>

#define CEIL_DIV(x, y) (((x) + (y) - 1) / (y))

__global__ void sgemm(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && col < N) {
        float acc = 0.0;
        for (int i = 0; i < K; ++i) {
            acc += A[row * K + i] * B[i * N + col];
        }
        C[row * N + col] = alpha * acc + beta * C[row * N + col];
    }
}

int main() {
    const int m = 128, n = 96, k = 160;
    float *A, *B, *C;
    cudaMallocManaged(&A, sizeof(float) * m * k);
    cudaMallocManaged(&B, sizeof(float) * k * n);
    cudaMallocManaged(&C, sizeof(float) * m * n);
    for (int i = 0; i < m * k; ++i) A[i] = i % 7;
    for (int i = 0; i < k * n; ++i) B[i] = i % 5;
    for (int i = 0; i < m * n; ++i) C[i] = 1;
    dim3 gridDim(CEIL_DIV(m, 32), CEIL_DIV(n, 32)), blockDim(32, 32);
    sgemm<<<gridDim, blockDim>>>(m, n, k, 1.5f, A, B, 0.5f, C);
    cudaDeviceSynchronize();
    std::cout << C[0] << '\n';
    cudaFree(A);
    cudaFree(B);
    cudaFree(C);
}
