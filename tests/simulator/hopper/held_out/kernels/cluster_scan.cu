// Prefix sums of rows that a cluster of four blocks shares. Each block scans its part of a row, and sends its total to
// the blocks after it (st.async). A block's barrier counts four bytes for each block before it, so the first block's
// counts none.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 128, WARPS = THREADS / 32, ROW = BLOCKS * THREADS;

__device__ __forceinline__ void st_async(u32 address, int value, u32 barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(address), "r"(value),
                 "r"(barrier)
                 : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    cluster_scan(const int* in, int* out, int rows) {   // (clusters, rows, ROW)
    __shared__ int warp_sums[WARPS], totals[BLOCKS];
    __shared__ mbarrier arrived;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, rank = cluster_ctarank();

    if (t == 0) {
        mbarrier_init(&arrived, 1);
        fence_mbarrier_init();
    }
    cluster_sync();   // totals may be sent

    for (int row = 0; row < rows; ++row) {
        const int i = (blockIdx.x / BLOCKS * rows + row) * ROW + rank * THREADS + t;
        if (t == 0) mbarrier_arrive_expect_tx(&arrived, rank * sizeof(int));
        int sum = in[i];
        for (int distance = 1; distance < 32; distance *= 2) {
            const int other = __shfl_up_sync(0xffffffff, sum, distance);
            if (lane >= distance) sum += other;
        }
        if (lane == 31) warp_sums[warp] = sum;
        __syncthreads();
        int before = 0, total = 0;
        for (int w = 0; w < WARPS; ++w) {
            if (w < warp) before += warp_sums[w];
            total += warp_sums[w];
        }
        if (t > rank && t < BLOCKS)   // one thread for each block after this one
            st_async(mapa(&totals[rank], t), total, mapa(&arrived, t));
        mbarrier_wait_cluster(&arrived, row % 2);
        for (int other = 0; other < rank; ++other) before += totals[other];
        out[i] = before + sum;
        cluster_sync();   // all have read: the next row's totals may be sent
    }
}
