// Ping-pong: two consumer warpgroups alternate. While one writes its tile of C, the other multiplies the next. Both
// read from one ring of stages, which holds the steps of all tiles in order. Named barriers pass the turn from one
// consumer to the other.
#include "hopper.cuh"

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2, THREADS = 3 * 128;
constexpr int TURN = 1;   // named barriers 1 and 2: consumer 0's and consumer 1's turn to multiply

struct Stage {
    short a[BM * BK], b[BN * BK];
};

__device__ __forceinline__ void wait_for_turn(int consumer) {
    asm volatile("bar.sync %0, 256;" ::"r"(TURN + consumer) : "memory");
}
__device__ __forceinline__ void give_turn(int consumer) {
    asm volatile("bar.arrive %0, 256;" ::"r"(TURN + consumer) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm_pingpong(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, int m,
                  int n, int k) {
    __shared__ alignas(1024) Stage stages[STAGES];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int t = threadIdx.x % 128, steps = (k + BK - 1) / BK;
    const int tiles_n = (n + BN - 1) / BN, tiles = (m + BM - 1) / BM * tiles_n;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();

    if (threadIdx.x < 128) {
        if (t == 0)
            for (int tile = 0, i = 0; tile < tiles; ++tile)
                for (int step = 0; step < steps; ++step, ++i) {   // i: steps of all tiles
                    const int s = i % STAGES;
                    mbarrier_wait(&empty[s], i / STAGES % 2 ^ 1);
                    mbarrier_arrive_expect_tx(&full[s], sizeof(Stage));
                    tma_load_2d(stages[s].a, a_map, &full[s], step * BK, tile / tiles_n * BM);
                    tma_load_2d(stages[s].b, b_map, &full[s], step * BK, tile % tiles_n * BN);
                }
        return;
    }
    const int consumer = threadIdx.x / 128 - 1;
    if (consumer == 1) give_turn(0);   // consumer 0 begins
    for (int tile = consumer; tile < tiles; tile += 2) {
        float sums[32] = {};
        wait_for_turn(consumer);
        for (int step = 0; step < steps; ++step) {
            const int i = tile * steps + step, s = i % STAGES;
            mbarrier_wait(&full[s], i / STAGES % 2);
            wgmma_fence();
            for (int kk = 0; kk < BK; kk += 16)
                wgmma_m64n64k16(sums, descriptor(stages[s].a + kk, 16, 1024, SWIZZLE_128),
                                descriptor(stages[s].b + kk, 16, 1024, SWIZZLE_128));
            wgmma_commit_group();
            wgmma_wait_group<0>(sums);
            // A barrier of this warpgroup alone, then one arrival: all its wgmma have read the stage.
            asm volatile("bar.sync %0, 128;" ::"r"(3 + consumer) : "memory");
            if (t == 0) mbarrier_arrive(&empty[s]);
        }
        if (tile + 1 < tiles) give_turn(consumer ^ 1);   // unless there is no tile for it

        const int row0 = tile / tiles_n * BM, col0 = tile % tiles_n * BN;
        for (int i = 0; i < 32; ++i) {
            const int row = row0 + wgmma_row(t, i), col = col0 + wgmma_col(t, i);
            if (row < m && col < n) c[row * n + col] = sums[i];
        }
    }
}
