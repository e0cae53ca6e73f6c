// Weighted sums of three neighbours, some of which lie in other blocks of the cluster. Between arriving at the
// cluster's barrier and waiting for it, a thread adds the neighbours that its own block has.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 64;

__device__ __forceinline__ int load_cluster(u32 address) {
    int value;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) cluster_split_barrier(const int* in, int* out) {
    __shared__ int row[THREADS];
    const int t = threadIdx.x, rank = cluster_ctarank(), i = blockIdx.x * THREADS + t;

    row[t] = in[i];
    __syncthreads();
    cluster_arrive();   // this block's row is written
    int sum = row[t];
    if (t > 0) sum += 2 * row[t - 1];
    if (t < THREADS - 1) sum += 3 * row[t + 1];
    cluster_wait();   // the neighbours' rows are

    if (t == 0 && rank > 0) sum += 2 * load_cluster(mapa(&row[THREADS - 1], rank - 1));
    if (t == THREADS - 1 && rank < BLOCKS - 1) sum += 3 * load_cluster(mapa(&row[0], rank + 1));
    out[i] = sum;
    cluster_arrive();   // has read
    cluster_wait();     // all have: only now may a block end
}
