// wgmma on tiles without swizzle, which consist of core matrices: 8 rows of 16 bytes, 128 contiguous bytes. Here the
// core matrices of the same 8 steps of k follow each other. So the stride offset, to the next 8 rows, is 128 bytes,
// and the leading offset, to the next 8 steps of k, is that of all rows.
#include "hopper.cuh"

constexpr int M = 64, N = 8, K = 64;

// The element (row, k) of a tile with `rows` rows.
__device__ __forceinline__ int core_index(int rows, int row, int k) {
    return k / 8 * rows * 8 + row / 8 * 64 + row % 8 * 8 + k % 8;
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_no_swizzle(const short* a, const short* b, float* d) {   // a (M, K), b (N, K)
    __shared__ alignas(128) short a_tile[M * K], b_tile[N * K];
    const int t = threadIdx.x;

    for (int i = t; i < M * K; i += 128) a_tile[core_index(M, i / K, i % K)] = a[i];
    for (int i = t; i < N * K; i += 128) b_tile[core_index(N, i / K, i % K)] = b[i];
    fence_proxy_async();   // wgmma reads shared memory through the async proxy
    __syncthreads();

    float sums[4] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 16)   // two core matrices along k
        wgmma_m64n8k16(sums, descriptor(a_tile + k * M, M * 16, 128, NO_SWIZZLE),
                       descriptor(b_tile + k * N, N * 16, 128, NO_SWIZZLE));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
