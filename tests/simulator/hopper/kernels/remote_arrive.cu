// Two blocks of a cluster play ping-pong: block 0 writes a row into block 1's shared memory and arrives at block 1's
// barrier "full"; block 1 reads it and arrives at block 0's barrier "empty". Remote arrivals release, the waits
// acquire, at cluster scope.
#include "hopper.cuh"

constexpr int THREADS = 64;

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    remote_arrive(const int* in, int* out, int rounds) {   // in (rounds, THREADS)
    __shared__ int row[THREADS];
    __shared__ mbarrier full, empty;
    const int t = threadIdx.x, rank = cluster_ctarank();

    if (t == 0) {
        mbarrier_init(&full, THREADS);
        mbarrier_init(&empty, THREADS);
        fence_mbarrier_init();
    }
    cluster_sync();   // both blocks run, and their barriers are initialised

    if (rank == 0) {
        const u32 to = mapa(&row[t], 1), its_full = mapa(&full, 1);
        for (int round = 0; round < rounds; ++round) {
            mbarrier_wait_cluster(&empty, (round & 1) ^ 1);   // returns at once in the first round
            asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(to), "r"(in[round * THREADS + t] + round) : "memory");
            mbarrier_arrive_remote(its_full);
        }
    } else {
        const u32 its_empty = mapa(&empty, 0);
        int sum = 0;
        for (int round = 0; round < rounds; ++round) {
            mbarrier_wait_cluster(&full, round & 1);
            sum = sum * 3 + row[THREADS - 1 - t];   // what another thread wrote
            mbarrier_arrive_remote(its_empty);
        }
        out[t] = sum;
    }
    cluster_sync();   // no block ends while the other may still access its shared memory
}
