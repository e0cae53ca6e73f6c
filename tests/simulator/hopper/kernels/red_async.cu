// All blocks of a cluster add into the first block's shared memory without waiting (red.async). Its barrier counts
// four bytes for each addition, and when all have arrived the sums are complete.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 64, ROUNDS = 2;

__device__ __forceinline__ void red_async_add(u32 address, int value, u32 barrier) {
    asm volatile(
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 [%0], %1, [%2];" ::"r"(address),
        "r"(value), "r"(barrier)
        : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    red_async(const int* in, int* out) {   // in (ROUNDS, BLOCKS, THREADS)
    __shared__ int sums[THREADS];
    __shared__ mbarrier added;
    const int t = threadIdx.x, rank = cluster_ctarank();

    sums[t] = 0;
    if (t == 0) {
        mbarrier_init(&added, 1);
        if (rank == 0) mbarrier_arrive_expect_tx(&added, ROUNDS * BLOCKS * THREADS * sizeof(int));
        fence_mbarrier_init();
    }
    cluster_sync();   // the sums are zero

    const u32 barrier = mapa(&added, 0);
    for (int round = 0; round < ROUNDS; ++round)
        red_async_add(mapa(&sums[(t + round) % THREADS], 0), in[(round * BLOCKS + rank) * THREADS + t], barrier);
    if (rank == 0) {
        mbarrier_wait_cluster(&added, 0);
        out[t] = sums[t];
    }
    cluster_sync();
}
