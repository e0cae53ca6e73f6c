// The sender announces the bytes at the receiver's barrier by a remote arrive.expect_tx, as only the sender knows how
// many will come. Block 0 sends each block of the cluster a row of a different length, in units of 16 bytes, and the
// length itself by an ordinary store.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 32, MOST = 64;

__device__ __forceinline__ void arrive_expect_tx_remote(u32 barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    remote_expect_tx(const int* in, const int* counts, int* out) {   // in (BLOCKS, MOST)
    __shared__ alignas(16) int row[MOST];
    __shared__ int count;
    __shared__ mbarrier full;
    const int t = threadIdx.x, rank = cluster_ctarank();

    for (int i = t; i < MOST; i += THREADS) row[i] = 0;
    if (t == 0) {
        count = 0;
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    fence_proxy_async();   // the zeros come before what block 0 copies over them
    cluster_sync();

    if (rank == 0 && t < BLOCKS) {   // one thread for each receiver, block 0 included
        const int bytes = counts[t] * 16;
        const u32 its_full = mapa(&full, t);
        asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(mapa(&count, t)), "r"(counts[t]) : "memory");
        arrive_expect_tx_remote(its_full, bytes);
        // From global memory to another block: a multicast to that block alone.
        if (bytes > 0)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
                "[%3], %4;" ::"r"(smem(row)),
                "l"(in + t * MOST), "r"(bytes), "r"(smem(&full)), "h"((short)(1 << t))
                : "memory");
    }
    mbarrier_wait_cluster(&full, 0);
    for (int i = t; i < MOST; i += THREADS) out[rank * MOST + i] = row[i] * 2 + count;
    cluster_sync();
}
