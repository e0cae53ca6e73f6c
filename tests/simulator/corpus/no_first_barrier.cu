// "My results change from run to run."
#include <iostream>
#define TILE_WIDTH 16

__global__ void matMul(float* A, float* B, float* C, int M, int N, int K)
{
    __shared__ float sA[TILE_WIDTH][TILE_WIDTH];
    __shared__ float sB[TILE_WIDTH][TILE_WIDTH];
    int tx = threadIdx.x, ty = threadIdx.y;
    int Row = blockIdx.y * TILE_WIDTH + ty, Col = blockIdx.x * TILE_WIDTH + tx;
    float Cvalue = 0.0;
    for (int ph = 0; ph < (K - 1) / TILE_WIDTH + 1; ++ph) {
        sA[ty][tx] = (Row < M && ph * TILE_WIDTH + tx < K) ? A[Row * K + ph * TILE_WIDTH + tx] : 0.0f;
        sB[ty][tx] = (Col < N && ph * TILE_WIDTH + ty < K) ? B[(ph * TILE_WIDTH + ty) * N + Col] : 0.0f;
        for (int k = 0; k < TILE_WIDTH; ++k)
            Cvalue += sA[ty][k] * sB[k][tx];
        __syncthreads();
    }
    if (Row < M && Col < N) C[Row * N + Col] = Cvalue;
}

int main()
{
    std::cout << "start\n";
    float *A, *B, *C;
    cudaMalloc(&A, 64 * 64 * 4); cudaMalloc(&B, 64 * 64 * 4); cudaMalloc(&C, 64 * 64 * 4);
    matMul<<<dim3(4, 4), dim3(16, 16)>>>(A, B, C, 64, 64, 64);
    cudaDeviceSynchronize();
}
