// C = A @ B by TMA, a ring of mbarriers and wgmma, with one warpgroup, whose thread 0 also issues the loads. While
// one stage is multiplied, the loads of the next ones are in flight. Boxes past the edges of A and B are filled with
// zeros, and elements of C are written only within C.
#include "hopper.cuh"

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 3, THREADS = 128;

struct Stage {
    short a[BM * BK], b[BN * BK];
};
struct Shared {
    Stage stage[STAGES];
    mbarrier full[STAGES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_ring(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, int m, int n,
              int k) {
    extern __shared__ __align__(1024) unsigned char memory[];   // A (M, K), B (N, K): K contiguous
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int t = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;

    const auto load = [&](int step) {
        Stage& stage = shared.stage[step % STAGES];
        mbarrier* const full = &shared.full[step % STAGES];
        mbarrier_arrive_expect_tx(full, sizeof(Stage));
        tma_load_2d(stage.a, a_map, full, step * BK, row0);
        tma_load_2d(stage.b, b_map, full, step * BK, col0);
    };
    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) mbarrier_init(&shared.full[s], 1);
        fence_mbarrier_init();
        for (int step = 0; step < STAGES && step < steps; ++step) load(step);
    }
    __syncthreads();

    float sums[32] = {};
    for (int step = 0; step < steps; ++step) {
        const Stage& stage = shared.stage[step % STAGES];
        mbarrier_wait(&shared.full[step % STAGES], step / STAGES % 2);
        wgmma_fence();
        for (int kk = 0; kk < BK; kk += 16)
            wgmma_m64n64k16(sums, descriptor(stage.a + kk, 16, 1024, SWIZZLE_128),
                            descriptor(stage.b + kk, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<0>(sums);
        __syncthreads();   // the wgmma of all four warps have read the stage
        if (t == 0 && step + STAGES < steps) load(step + STAGES);
    }

    for (int i = 0; i < 32; ++i) {
        const int row = row0 + wgmma_row(t, i), col = col0 + wgmma_col(t, i);
        if (row < m && col < n) c[row * n + col] = sums[i];
    }
}
