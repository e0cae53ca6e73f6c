// A product of matrices, 16 x 32 per block: the next tiles are copied while these are used. All sizes are whole tiles.
#include <cuda_pipeline.h>
constexpr int BM = 16, BN = 32, BK = 16;

__device__ void fetch(float (*a)[BK], float (*b)[BN], const float* A, const float* B, int N, int K) {
    int t = threadIdx.x;
    if (t < BM * BK / 4) {
        int r = t / (BK / 4), c = t % (BK / 4) * 4;
        __pipeline_memcpy_async(&a[r][c], &A[r * K + c], sizeof(float4));
    }
    int r = t / (BN / 4), c = t % (BN / 4) * 4;
    __pipeline_memcpy_async(&b[r][c], &B[r * N + c], sizeof(float4));
}

__global__ void matmul_pipelined(const float* A, const float* B, float* C, int N, int K) {
    __shared__ __align__(16) float a[2][BM][BK];
    __shared__ __align__(16) float b[2][BK][BN];
    int row = blockIdx.y * BM, col = blockIdx.x * BN;
    int r = threadIdx.x / 8, c = threadIdx.x % 8 * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    fetch(a[0], b[0], A + row * K, B + col, N, K);
    __pipeline_commit();  // the first tiles
    int stage = 0;
    for (int k = 0; k < K; k += BK) {
        int next = k + BK;
        if (next < K) fetch(a[stage ^ 1], b[stage ^ 1], A + row * K + next, B + next * N + col, N, K);
        __pipeline_commit();  // the next tiles
        __pipeline_wait_prior(1);
        __syncthreads();  // tiles are complete
        for (int i = 0; i < BK; i++) {
            float x = a[stage][r][i];
            float4 y = *reinterpret_cast<const float4*>(&b[stage][i][c]);
            sum.x += x * y.x;
            sum.y += x * y.y;
            sum.z += x * y.z;
            sum.w += x * y.w;
        }
        __syncthreads();  // tiles are used
        stage ^= 1;
    }
    *reinterpret_cast<float4*>(&C[(row + r) * N + col + c]) = sum;
}
