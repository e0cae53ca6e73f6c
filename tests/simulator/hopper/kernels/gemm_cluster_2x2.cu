// Clusters of 2 x 2 blocks: blocks in a row share A's tile, blocks in a column share B's. Each loads half of both,
// multicast to the two blocks of its row or column, named by masks. A block's stage is written by three blocks,
// itself among them, so its consumers arrive at the barriers "empty" of those three.
#include "hopper.cuh"

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2, THREADS = 128 + 32;

struct Stage {
    short a[BM * BK], b[BN * BK];
};

extern "C" __global__ void __cluster_dims__(2, 2, 1) __launch_bounds__(THREADS)
    gemm_cluster_2x2(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, int m,
                     int n, int k) {
    __shared__ alignas(1024) Stage stages[STAGES];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int t = threadIdx.x, rank = cluster_ctarank(), x = rank % 2, y = rank / 2;   // x counts fastest
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;

    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 3 * 4);   // the consumer warps of the three blocks that this one writes to
        }
        fence_mbarrier_init();
    }
    cluster_sync();

    if (t >= 128) {
        const int row_mask = 3 << 2 * y, column_mask = 5 << x;   // ranks 2 y and 2 y + 1; ranks x and x + 2
        if (t == 128)
            for (int step = 0; step < steps; ++step) {
                const int s = step % STAGES;
                mbarrier_wait_cluster(&empty[s], step / STAGES % 2 ^ 1);
                mbarrier_arrive_expect_tx(&full[s], sizeof(Stage));   // two halves of A and two of B
                tma_load_2d_multicast(stages[s].a + x * (BM / 2) * BK, a_map, &full[s], step * BK, row0 + x * (BM / 2),
                                      row_mask);
                tma_load_2d_multicast(stages[s].b + y * (BN / 2) * BK, b_map, &full[s], step * BK, col0 + y * (BN / 2),
                                      column_mask);
            }
        __syncwarp();
    } else {
        const int lane = t % 32;
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
            if (lane < 4 && lane != (rank ^ 3))
                mbarrier_arrive_remote(mapa(&empty[s], lane));   // all but the block across
        }
        for (int i = 0; i < 32; ++i) {
            const int row = row0 + wgmma_row(t, i), col = col0 + wgmma_col(t, i);
            if (row < m && col < n) c[row * n + col] = sums[i];
        }
        __syncwarp();
    }
    cluster_sync();
}
