// C = A @ B by clusters of two blocks, one below the other: they need the same tile of B, of which each loads half
// and multicasts it to both. A stage is overwritten in both blocks at once, so it is empty when the consumers of both
// have read it.
#include "hopper.cuh"

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2, THREADS = 128 + 32;   // a warpgroup multiplies, warp 4 loads

struct Stage {
    short a[BM * BK], b[BN * BK];
};

extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(THREADS)
    gemm_multicast(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, int m,
                   int n, int k) {
    __shared__ alignas(1024) Stage stages[STAGES];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int t = threadIdx.x, rank = cluster_ctarank();
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;

    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2 * 4);   // the consumer warps of both blocks
        }
        fence_mbarrier_init();
    }
    cluster_sync();   // before any load or arrival reaches the other block

    if (t >= 128) {
        if (t == 128)
            for (int step = 0; step < steps; ++step) {
                const int s = step % STAGES;
                mbarrier_wait_cluster(&empty[s], step / STAGES % 2 ^ 1);
                mbarrier_arrive_expect_tx(&full[s], sizeof(Stage));   // A's tile, and both halves of B's
                tma_load_2d(stages[s].a, a_map, &full[s], step * BK, row0);
                tma_load_2d_multicast(stages[s].b + rank * (BN / 2) * BK, b_map, &full[s], step * BK,
                                      col0 + rank * (BN / 2), 3);
            }
        __syncwarp();   // the warp arrives at the cluster's barrier together
    } else {
        float sums[32] = {};
        for (int step = 0; step < steps; ++step) {
            const int s = step % STAGES;
            mbarrier_wait(&full[s], step / STAGES % 2);
            wgmma_fence();
            for (int kk = 0; kk < BK; kk += 16)
                wgmma_m64n64k16(sums, descriptor(stages[s].a + kk, 16, 1024, SWIZZLE_128),
                                descriptor(stages[s].b + kk, 16, 1024, SWIZZLE_128));
            wgmma_commit_group();
            wgmma_wait_group<0>(sums);
            if (t % 32 < 2) mbarrier_arrive_remote(mapa(&empty[s], t % 32));   // lane 0 in block 0, lane 1 in block 1
        }
        for (int i = 0; i < 32; ++i) {
            const int row = row0 + wgmma_row(t, i), col = col0 + wgmma_col(t, i);
            if (row < m && col < n) c[row * n + col] = sums[i];
        }
        __syncwarp();
    }
    cluster_sync();   // the other block may still arrive here
}
