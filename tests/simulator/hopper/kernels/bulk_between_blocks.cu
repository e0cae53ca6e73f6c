// Bulk copies from one block's shared memory to another's. Each block of a cluster of four passes a row to its right
// neighbour three times, so that every block sees all four rows. The receiver's barrier counts the bytes that the
// sender copies.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 32, STEPS = BLOCKS - 1;

__device__ __forceinline__ void bulk_copy_to_block(u32 to, const void* from, int bytes, u32 barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "r"(smem(from)), "r"(bytes), "r"(barrier)
        : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    bulk_between_blocks(const int* in, int* out) {     // (BLOCKS, THREADS)
    __shared__ alignas(16) int row[BLOCKS][THREADS];   // row[i] has passed i blocks
    __shared__ mbarrier arrived[STEPS];
    const int t = threadIdx.x, rank = cluster_ctarank(), right = (rank + 1) % BLOCKS;

    if (t == 0) {
        for (int i = 0; i < STEPS; ++i) {
            mbarrier_init(&arrived[i], 1);
            mbarrier_arrive_expect_tx(&arrived[i], sizeof(row[0]));   // early, as each is used once
        }
        fence_mbarrier_init();
    }
    row[0][t] = in[rank * THREADS + t];
    fence_proxy_async();   // before the bulk copy reads what this thread wrote
    cluster_sync();        // all barriers are initialised, and all threads have written

    int sum = row[0][t];
    for (int i = 0; i < STEPS; ++i) {
        if (t == 0) bulk_copy_to_block(mapa(row[i + 1], right), row[i], sizeof(row[0]), mapa(&arrived[i], right));
        mbarrier_wait_cluster(&arrived[i], 0);
        sum = sum * 2 + row[i + 1][t];
    }
    out[rank * THREADS + t] = sum;
    cluster_sync();   // a block's rows are read until the neighbour has received them
}
