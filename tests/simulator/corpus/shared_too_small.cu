// The launch gives dynamic memory for one tile; the kernel needs two.
#include <cuda_runtime.h>

__global__ void mm_small(const float *A, const float *B, float *C, int M, int N, int K)
{
    extern __shared__ float s[];
    float *As = s, *Bs = s + blockDim.x * blockDim.y;
    int tx = threadIdx.x, ty = threadIdx.y, T = blockDim.x, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float sum = 0;
    for (int t = 0; t < K; t += T) {
        As[ty * T + tx] = row < M && t + tx < K ? A[row * K + t + tx] : 0;
        Bs[ty * T + tx] = col < N && t + ty < K ? B[(t + ty) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < T; k++) sum += As[ty * T + k] * Bs[k * T + tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

void call(const float *A, const float *B, float *C, int M, int N, int K)
{
    mm_small<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 16 * 16 * sizeof(float)>>>(A, B, C, M, N, K);
}
