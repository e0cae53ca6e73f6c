#include <cuda_fp16.h>

// tiledmm: grid=(N+63)/64 block=64
__global__ void half_sums(const half* A, float* S, int M, int N) {
    int col = blockIdx.x * 64 + threadIdx.x;
    if (col >= N) return;
    //[start]
    half sum = __float2half(0);
    for (int row = 0; row < M; ++row) {
        half x = A[row * N + col];
        sum = __hadd(sum, __hmul(x, x));
    }
    S[col] = __half2float(sum);
    //[solution]
    float sum = 0;
    for (int row = 0; row < M; ++row) {
        float x = __half2float(A[row * N + col]);
        sum += x * x;
    }
    S[col] = sum;
    //[end]
}
