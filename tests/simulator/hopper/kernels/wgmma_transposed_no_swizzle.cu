// MN-major tiles without swizzle: a core matrix has 8 rows of k, each with 8 elements of M or N. The offsets change
// their roles: the stride offset leads to the next 8 of M or N, the leading offset to the next 8 of k.
#include "hopper.cuh"

constexpr int M = 64, N = 64, K = 32;

// The element (k, column) of a tile with `columns` columns.
__device__ __forceinline__ int core_index(int columns, int k, int column) {
    return k / 8 * columns * 8 + column / 8 * 64 + k % 8 * 8 + column % 8;
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_transposed_no_swizzle(const short* a, const short* b, float* d) {   // a (K, M), b (K, N)
    __shared__ alignas(128) short a_tile[K * M], b_tile[K * N];
    const int t = threadIdx.x;

    for (int i = t; i < K * M; i += 128) a_tile[core_index(M, i / M, i % M)] = a[i];
    for (int i = t; i < K * N; i += 128) b_tile[core_index(N, i / N, i % N)] = b[i];
    fence_proxy_async();
    __syncthreads();

    float sums[32] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 16)
        wgmma_m64n64k16<1, 1>(sums, descriptor(a_tile + k * M, M * 16, 128, NO_SWIZZLE),
                              descriptor(b_tile + k * N, N * 16, 128, NO_SWIZZLE));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 32; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
