// A cluster's barrier in divergent code, without .aligned: lanes arrive where they are ready, the even ones before
// the odd ones, which write a second number first. Each thread arrives once and waits once.
#include "hopper.cuh"

constexpr int BLOCKS = 2, THREADS = 64;

__device__ __forceinline__ void arrive_unaligned() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void wait_unaligned() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) cluster_divergent_barrier(const int* in, int* out) {
    __shared__ int numbers[THREADS], more[THREADS / 2];
    const int t = threadIdx.x, i = blockIdx.x * THREADS + t, other = cluster_ctarank() ^ 1;

    numbers[t] = in[i];
    if (t % 2 == 0) {
        arrive_unaligned();
    } else {
        more[t / 2] = in[i] * in[i];
        arrive_unaligned();
    }
    wait_unaligned();

    int first, second;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(first) : "r"(mapa(&numbers[t], other)) : "memory");
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(second) : "r"(mapa(&more[t / 2], other)) : "memory");
    out[i] = first + 10 * second;
    cluster_sync();   // both have read
}
