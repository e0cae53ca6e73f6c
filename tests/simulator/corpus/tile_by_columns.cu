// "Coalescing": x and y of the tile of A are exchanged when it is stored, but not when it is read.
#include <cuda_runtime.h>
#define TS 16

__global__ void gemm_exchanged(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float Asub[TS][TS];
    __shared__ float Bsub[TS][TS];
    const int row = threadIdx.y, col = threadIdx.x;
    const int globalRow = TS * blockIdx.y + row, globalCol = TS * blockIdx.x + col;
    float acc = 0.0f;
    const int numTiles = (K + TS - 1) / TS;
    for (int t = 0; t < numTiles; t++) {
        const int tiledRow = TS * t + row, tiledCol = TS * t + col;
        Asub[col][row] = globalRow < M && tiledCol < K ? A[globalRow * K + tiledCol] : 0.0f;
        Bsub[row][col] = tiledRow < K && globalCol < N ? B[tiledRow * N + globalCol] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TS; k++) acc += Asub[row][k] * Bsub[k][col];
        __syncthreads();
    }
    if (globalRow < M && globalCol < N) C[globalRow * N + globalCol] = acc;
}
