// "The second call gives twice the right result."
#include <cuda_runtime.h>

__global__ void accumulate(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N)
        for (int k = 0; k < K; ++k) C[row * N + col] += A[row * K + k] * B[k * N + col];
}

int main()
{
    float *A, *B, *C;
    cudaMalloc(&A, 4096); cudaMalloc(&B, 4096); cudaMalloc(&C, 4096);   // never cleared
    accumulate<<<1, dim3(32, 32)>>>(A, B, C, 32, 32, 32);
    return cudaDeviceSynchronize();
}
