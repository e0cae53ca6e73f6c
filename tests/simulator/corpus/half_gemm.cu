// float16 in and out, sums in float32.
#include <cuda_fp16.h>
#include <cstdio>

constexpr int TILE = 16;

__global__ void hgemm(const half* A, const half* B, half* C, int M, int N, int K) {
    __shared__ half As[TILE][TILE + 2];
    __shared__ half Bs[TILE][TILE + 2];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.f;
    for (int t = 0; t < K; t += TILE) {
        As[threadIdx.y][threadIdx.x] = row < M && t + threadIdx.x < K ? A[row * K + t + threadIdx.x] : __float2half(0.f);
        Bs[threadIdx.y][threadIdx.x] = col < N && t + threadIdx.y < K ? B[(t + threadIdx.y) * N + col] : __float2half(0.f);
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += __half2float(As[threadIdx.y][k]) * __half2float(Bs[k][threadIdx.x]);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = __float2half(sum);
}

int main() {
    half *A, *B, *C;
    cudaMalloc(&A, 64 * 64 * sizeof(half));
    cudaMalloc(&B, 64 * 64 * sizeof(half));
    cudaMalloc(&C, 64 * 64 * sizeof(half));
    hgemm<<<dim3(4, 4), dim3(TILE, TILE)>>>(A, B, C, 64, 64, 64);
    cudaDeviceSynchronize();
    printf("ok\n");
}
