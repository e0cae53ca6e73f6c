// The launch chooses the tile: blockDim.x == blockDim.y, and 2 * tile * tile floats of dynamic shared memory.
#include <cstdio>

extern __shared__ float pool[];

__global__ void mm_dynamic(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int tile = blockDim.x;
    float *As = pool;
    float *Bs = pool + tile * tile;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * tile + ty, col = blockIdx.x * tile + tx;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += tile) {
        As[ty * tile + tx] = (row < M && k0 + tx < K) ? A[row * K + k0 + tx] : 0;
        Bs[ty * tile + tx] = (k0 + ty < K && col < N) ? B[(k0 + ty) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < tile; k++) sum += As[ty * tile + k] * Bs[k * tile + tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

int main()
{
    const int M = 100, N = 120, K = 80, tile = 8;
    float *A, *B, *C;
    cudaMalloc(&A, sizeof(float) * M * K);
    cudaMalloc(&B, sizeof(float) * K * N);
    cudaMalloc(&C, sizeof(float) * M * N);
    dim3 threads(tile, tile), blocks((N + tile - 1) / tile, (M + tile - 1) / tile);
    mm_dynamic<<<blocks, threads, 2 * tile * tile * sizeof(float)>>>(A, B, C, M, N, K);
    printf("%d\n", cudaDeviceSynchronize());
}
