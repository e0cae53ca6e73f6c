// C = A @ B with 8 columns of B, so the loads of A take longest: a ring of three stages keeps two loads in flight
// while one step is multiplied. A step's wgmma run on until the next step has been issued. Then its stage is free.
#include "hopper.cuh"

constexpr int BM = 64, N = 8, BK = 64, STAGES = 3, THREADS = 128;

struct Stage {
    short a[BM * BK], b[N * BK];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_skinny(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, int m,
                int k) {   // A (M, K), B (N, K)
    __shared__ alignas(1024) Stage stages[STAGES];
    __shared__ mbarrier full[STAGES];
    const int t = threadIdx.x, row0 = blockIdx.x * BM, steps = (k + BK - 1) / BK;

    const auto load = [&](int step) {
        const int s = step % STAGES;
        mbarrier_arrive_expect_tx(&full[s], sizeof(Stage));
        tma_load_2d(stages[s].a, a_map, &full[s], step * BK, row0);
        tma_load_2d(stages[s].b, b_map, &full[s], step * BK, 0);
    };
    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) mbarrier_init(&full[s], 1);
        fence_mbarrier_init();
        for (int step = 0; step < STAGES - 1 && step < steps; ++step) load(step);
    }
    __syncthreads();

    float sums[4] = {};
    for (int step = 0; step < steps; ++step) {
        const int s = step % STAGES;
        mbarrier_wait(&full[s], step / STAGES % 2);
        wgmma_fence();
        for (int kk = 0; kk < BK; kk += 16)
            wgmma_m64n8k16(sums, descriptor(stages[s].a + kk, 16, 1024, SWIZZLE_128),
                           descriptor(stages[s].b + kk, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<1>();   // this warp's wgmma of the step before have ended
        __syncthreads();         // all warps' have: their stage may be overwritten
        if (t == 0 && step + STAGES - 1 < steps) load(step + STAGES - 1);
    }
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + wgmma_row(t, i);
        if (row < m) c[row * N + wgmma_col(t, i)] = sums[i];
    }
}
