#include <cuda_pipeline.h>

// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16
__global__ void commit_group(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[3][16][16], Bs[3][16][16];  // three stages: two steps are on their way while one multiplies
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    auto begin = [&](int k0) {
        int stage = k0 / 16 % 3;
        bool has_a = row < M && k0 + tx < K, has_b = k0 + ty < K && col < N;
        if (k0 < K) {
            __pipeline_memcpy_async(&As[stage][ty][tx], has_a ? &A[row * K + k0 + tx] : A, 4, has_a ? 0 : 4);
            __pipeline_memcpy_async(&Bs[stage][ty][tx], has_b ? &B[(k0 + ty) * N + col] : B, 4, has_b ? 0 : 4);
            //[start]
            __pipeline_commit();
        }
        //[solution]
        }
        __pipeline_commit();  // at the end, too, where the group is empty: the wait below counts groups
        //[end]
    };
    begin(0);
    begin(16);
    for (int k0 = 0; k0 < K; k0 += 16) {
        __pipeline_wait_prior(1);  // all groups but the newest one have arrived
        __syncthreads();
        begin(k0 + 32);
        int stage = k0 / 16 % 3;
        for (int k = 0; k < 16; ++k) sum += As[stage][ty][k] * Bs[stage][k][tx];
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
