// Threads leave a barrier for good: arrive_drop arrives for this phase, and lowers the count of all later ones. A
// tree of sums by one barrier: in each round half of the threads are done, and the barrier no longer waits for them.
#include "hopper.cuh"

constexpr int THREADS = 128;

__device__ __forceinline__ void mbarrier_arrive_drop(mbarrier* barrier) {
    asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(smem(barrier)) : "memory");
}

extern "C" __global__ void mbarrier_drop(const int* in, int* out) {
    __shared__ int sums[THREADS];
    __shared__ mbarrier added;
    const int t = threadIdx.x;

    if (t == 0) mbarrier_init(&added, THREADS);
    __syncthreads();

    sums[t] = in[blockIdx.x * THREADS + t];
    int parity = 0;
    for (int half = THREADS / 2; half > 0; half /= 2, parity ^= 1) {
        if (t >= half) {   // its sum is complete, and others read it: this thread is not needed any more
            mbarrier_arrive_drop(&added);
            return;
        }
        mbarrier_arrive(&added);
        mbarrier_wait(&added, parity);
        sums[t] += sums[t + half];   // what this thread reads, nobody writes again
    }
    out[blockIdx.x] = sums[0];   // of thread 0
}
