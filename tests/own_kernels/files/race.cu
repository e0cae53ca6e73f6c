// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16
#define KERNEL extern "C" __global__ void
#define DEV static __device__ __forceinline__
DEV float mad(float a, float b, float c) { return a * b + c; }
KERNEL gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[16][16], Bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[threadIdx.x][threadIdx.y] = (row < M && k0 + threadIdx.x < K) ? A[row * K + k0 + threadIdx.x] : 0;
        Bs[threadIdx.y][threadIdx.x] = (col < N && k0 + threadIdx.y < K) ? B[(k0 + threadIdx.y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < 16; k++) sum = mad(As[k][threadIdx.y], Bs[k][threadIdx.x], sum);
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
