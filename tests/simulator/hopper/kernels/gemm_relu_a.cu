// C = max(A, 0) @ B: threads change the tile of A in shared memory after TMA has loaded it and before wgmma reads it.
// These are ordinary writes, so each thread fences them from the async proxy before the block's barrier. The next
// load overwrites what the threads wrote: their fence and the barriers order that as well.
#include "hopper.cuh"

constexpr int BM = 64, BN = 64, BK = 64, THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_relu_a(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, int m,
                int n, int k) {
    __shared__ alignas(1024) short a_tile[BM * BK], b_tile[BN * BK];
    __shared__ mbarrier full;
    const int t = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();

    float sums[32] = {};
    for (int step = 0; step < steps; ++step) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
            tma_load_2d(a_tile, a_map, &full, step * BK, row0);
            tma_load_2d(b_tile, b_map, &full, step * BK, col0);
        }
        mbarrier_wait(&full, step % 2);
        for (int i = t; i < BM * BK; i += THREADS)   // whatever the swizzle: each element is changed where it is
            if (a_tile[i] < 0) a_tile[i] = 0;        // a float16 below zero is a negative short, and so is -0
        fence_proxy_async();
        __syncthreads();

        wgmma_fence();
        for (int kk = 0; kk < BK; kk += 16)
            wgmma_m64n64k16(sums, descriptor(a_tile + kk, 16, 1024, SWIZZLE_128),
                            descriptor(b_tile + kk, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<0>(sums);
        __syncthreads();
    }
    for (int i = 0; i < 32; ++i) {
        const int row = row0 + wgmma_row(t, i), col = col0 + wgmma_col(t, i);
        if (row < m && col < n) c[row * n + col] = sums[i];
    }
}
