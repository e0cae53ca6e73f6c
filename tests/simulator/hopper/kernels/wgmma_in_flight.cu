// Three groups of wgmma in flight, each with sums of its own. The first group's sums are read while the other two may
// still run (wait_group 2), then the second group's (wait_group 1). One tile of A is multiplied by three of B.
#include "hopper.cuh"

constexpr int M = 64, N = 8, K = 64, TILES = 3;

extern "C" __global__ void __launch_bounds__(128)
    wgmma_in_flight(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                    float* d) {   // d (TILES, M, N)
    __shared__ alignas(1024) short a_tile[M * K], b_tile[TILES][N * K];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
        tma_load_2d(a_tile, a_map, &full, 0, 0);
        for (int i = 0; i < TILES; ++i) tma_load_2d(b_tile[i], b_map, &full, 0, i * N);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    const auto start = [&](float (&sums)[4], const short* b) {
        for (int k = 0; k < K; k += 16)
            wgmma_m64n8k16(sums, descriptor(a_tile + k, 16, 1024, SWIZZLE_128),
                           descriptor(b + k, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
    };
    const auto write = [&](const float (&sums)[4], int tile) {
        for (int i = 0; i < 4; ++i) d[(tile * M + wgmma_row(t, i)) * N + wgmma_col(t, i)] = sums[i];
    };
    float first[4] = {}, second[4] = {}, third[4] = {};
    wgmma_fence();
    start(first, b_tile[0]);
    start(second, b_tile[1]);
    start(third, b_tile[2]);
    wgmma_wait_group<2>(first);
    write(first, 0);
    wgmma_wait_group<1>(second);
    write(second, 1);
    wgmma_wait_group<0>(third);
    write(third, 2);
}
