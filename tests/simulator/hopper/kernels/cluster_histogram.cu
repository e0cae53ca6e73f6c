// A histogram whose bins are spread over the shared memory of a cluster of four blocks, 64 bins per block. Every
// block adds to all bins, with atomics on distributed shared memory.
#include "hopper.cuh"

constexpr int BLOCKS = 4, BINS = 64;   // bins of a block

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) cluster_histogram(const int* in, int count, int* out) {
    __shared__ int bins[BINS];
    const int t = threadIdx.x, rank = cluster_ctarank();

    if (t < BINS) bins[t] = 0;
    cluster_sync();   // all bins are zero before anyone adds to them
    for (int i = blockIdx.x * blockDim.x + t; i < count; i += gridDim.x * blockDim.x) {
        const int bin = in[i];
        const u32 address = mapa(&bins[bin % BINS], bin / BINS);
        asm volatile("red.relaxed.cluster.shared::cluster.add.s32 [%0], 1;" ::"r"(address) : "memory");
    }
    cluster_sync();   // all additions are done, and no block ends before
    if (t < BINS) atomicAdd(&out[rank * BINS + t], bins[t]);
}
