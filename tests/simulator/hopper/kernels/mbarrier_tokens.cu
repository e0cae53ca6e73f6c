// An arrival returns a token of the phase. With it, test_wait tells whether that phase has completed, without
// waiting, so the thread can work meanwhile. One lane arrives for its whole warp, with a count of 32. At the end,
// inval frees the barrier's memory for an int.
#include "hopper.cuh"

constexpr int THREADS = 128;

__device__ __forceinline__ u64 arrive_for_warp(mbarrier* barrier) {
    u64 token;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 32;" : "=l"(token) : "r"(smem(barrier)) : "memory");
    return token;
}

__device__ __forceinline__ bool test_wait(mbarrier* barrier, u64 token) {
    u32 done;
    asm volatile(
        "{\n"
        " .reg .pred p;\n"
        " mbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n"
        " selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(smem(barrier)), "l"(token)
        : "memory");
    return done;
}

extern "C" __global__ void mbarrier_tokens(const int* in, int* sums, int* total) {
    __shared__ int values[THREADS];
    __shared__ mbarrier written;
    const int t = threadIdx.x, lane = t % 32;

    if (t == 0) mbarrier_init(&written, THREADS);
    __syncthreads();

    values[t] = in[t];
    __syncwarp();   // all lanes have written before one of them arrives for all
    u64 token = 0;
    if (lane == 0) token = arrive_for_warp(&written);
    token = __shfl_sync(0xffffffff, token, 0);

    int mine = in[t] * in[t];   // work that needs nobody else's values
    while (!test_wait(&written, token)) {
    }
    for (int i = 0; i < 4; ++i) mine += values[(t + 32 * i) % THREADS];
    sums[t] = mine;

    __syncthreads();   // nobody tests the barrier any more
    int* const counter = reinterpret_cast<int*>(&written);
    if (t == 0) {
        mbarrier_inval(&written);   // from here on, its memory is free
        *counter = 0;
    }
    __syncthreads();
    atomicAdd(counter, mine);
    __syncthreads();
    if (t == 0) *total = *counter;
}
