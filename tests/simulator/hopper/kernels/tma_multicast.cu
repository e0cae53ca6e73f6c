// Two blocks of a cluster multiply the same tiles by different factors. Each loads half of a tile for both, in a ring
// of two stages: a block may overwrite a stage only when both blocks have read it, so consumers arrive at both
// blocks' barriers "empty".
#include "hopper.cuh"

constexpr int COLUMNS = 32, ROWS = 8, HALF = ROWS / 2, STAGES = 2, THREADS = COLUMNS * ROWS, WARPS = THREADS / 32;

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    tma_multicast(const __grid_constant__ TensorMap map, float* out, int tiles) {
    __shared__ alignas(128) float tile[STAGES][ROWS * COLUMNS];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int t = threadIdx.x, rank = cluster_ctarank();

    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2 * WARPS);   // the warps of both blocks
        }
        fence_mbarrier_init();
    }
    cluster_sync();

    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        const int stage = i % STAGES, parity = i / STAGES % 2;
        if (t == 0) {
            mbarrier_wait_cluster(&empty[stage], parity ^ 1);
            mbarrier_arrive_expect_tx(&full[stage], sizeof(tile[0]));   // both halves
            tma_load_2d_multicast(tile[stage] + rank * HALF * COLUMNS, map, &full[stage], 0, i * ROWS + rank * HALF, 3);
        }
        mbarrier_wait(&full[stage], parity);
        sum += tile[stage][t] * (rank + i + 1);
        __syncwarp();   // all lanes have read
        if (t % 32 < 2)
            mbarrier_arrive_remote(mapa(&empty[stage], t % 32));   // lane 0 at block 0's, lane 1 at block 1's
    }
    out[blockIdx.x * THREADS + t] = sum;
    cluster_sync();   // neither copies nor arrivals reach a block that has ended
}
