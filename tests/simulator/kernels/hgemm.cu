// float16 operands, float32 sums.
#include <cuda_fp16.h>

__global__ void hgemm(const __half* A, const __half* B, __half* C, int M, int N, int K) {
    __shared__ __half As[16][18];
    __shared__ __half Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : __float2half(0.0f);
        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : __float2half(0.0f);
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += __half2float(As[ty][k]) * __half2float(Bs[k][tx]);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = __float2half(sum);
}
