// Four blocks need the same row: each loads a quarter of it and multicasts it to all, so that every byte is read once
// from global memory. Each block's own barrier counts all four quarters, whoever loaded them.
#include "hopper.cuh"

constexpr int BLOCKS = 4, ROW = 128, QUARTER = ROW / BLOCKS;

__device__ __forceinline__ void bulk_load_multicast(void* shared, const void* global, int bytes, mbarrier* barrier,
                                                    int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
        "%4;" ::"r"(smem(shared)),
        "l"(global), "r"(bytes), "r"(smem(barrier)), "h"((short)mask)
        : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    bulk_multicast(const float* in, float* out) {   // out (BLOCKS, ROW)
    __shared__ alignas(16) float row[ROW];
    __shared__ mbarrier full;
    const int t = threadIdx.x, rank = cluster_ctarank();

    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, sizeof(row));
        fence_mbarrier_init();
    }
    // A block's bytes may arrive elsewhere only when the barrier there counts them. Only barriers have to be visible
    // afterwards, and they are fenced, so the arrival is relaxed.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    cluster_wait();
    if (t == 0)
        bulk_load_multicast(row + rank * QUARTER, in + rank * QUARTER, QUARTER * sizeof(float), &full,
                            (1 << BLOCKS) - 1);
    mbarrier_wait(&full, 0);
    out[rank * ROW + t] = row[t] * (rank + 1);
    cluster_sync();   // no block ends while another's multicast may still write to it
}
