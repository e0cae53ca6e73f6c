// Steps of a stencil on a ring of numbers that a cluster's blocks share. In each step a block sends its first and its
// last number to its neighbours (st.async). Two buffers alternate: a block cannot be two steps ahead of a neighbour,
// as it needs the numbers of the step between.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 64;

__device__ __forceinline__ void st_async(u32 address, int value, u32 barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(address), "r"(value),
                 "r"(barrier)
                 : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) halo_exchange(const int* in, int* out, int steps) {
    __shared__ int row[2][THREADS + 2];   // with a number of each neighbour
    __shared__ mbarrier arrived[2];
    const int t = threadIdx.x, rank = cluster_ctarank(), i = blockIdx.x * THREADS + t;
    const int left = (rank + BLOCKS - 1) % BLOCKS, right = (rank + 1) % BLOCKS;

    if (t == 0) {
        for (int b = 0; b < 2; ++b) mbarrier_init(&arrived[b], 1);
        fence_mbarrier_init();
    }
    cluster_sync();

    int value = in[i];
    for (int step = 0; step < steps; ++step) {
        const int b = step % 2;
        row[b][t + 1] = value;
        if (t == 0) {
            mbarrier_arrive_expect_tx(&arrived[b], 2 * sizeof(int));
            st_async(mapa(&row[b][THREADS + 1], left), value, mapa(&arrived[b], left));
        }
        if (t == THREADS - 1) st_async(mapa(&row[b][0], right), value, mapa(&arrived[b], right));
        __syncthreads();   // this block's numbers are written
        mbarrier_wait_cluster(&arrived[b], step / 2 % 2);
        value = row[b][t] + row[b][t + 2] - value;
    }
    out[i] = value;
    cluster_sync();
}
