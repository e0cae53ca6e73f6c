// A producer warpgroup gives registers back, and two consumer warpgroups take them: the kernel starts with 168
// registers per thread and goes on with 40 and 232. They hand tiles over through named barriers: a warp that only
// announces something arrives (bar.arrive), one that needs it waits (bar.sync).
#include "hopper.cuh"

constexpr int TILE = 128, STAGES = 2, CONSUMERS = 2, THREADS = (1 + CONSUMERS) * 128, SUMS = 16;

template <int ID>
__device__ __forceinline__ void named_sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
template <int ID>
__device__ __forceinline__ void named_arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

constexpr int FULL = 1, EMPTY = 3;   // barriers 1 and 2: stage 0 or 1 has been written; 3 and 4: it has been read

template <int STAGE>
__device__ __forceinline__ void produce(int (&stage)[STAGES][TILE], const int* in, int tile, int t) {
    if (tile >= STAGES) named_sync<EMPTY + STAGE>();
    stage[STAGE][t] = in[tile * TILE + t];
    named_arrive<FULL + STAGE>();
}

template <int STAGE>
__device__ __forceinline__ void consume(int (&sums)[SUMS], const int (&stage)[STAGES][TILE], int tile, int tiles,
                                        int first) {
    named_sync<FULL + STAGE>();
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = sums[i] * 3 + stage[STAGE][(first + i * 8) % TILE];
    if (tile + STAGES < tiles) named_arrive<EMPTY + STAGE>();   // as often as the producer waits for it
}

// in (tiles, TILE), out (CONSUMERS * SUMS, TILE); the number of tiles is even.
extern "C" __global__ void __launch_bounds__(THREADS, 1) setmaxnreg(const int* in, int* out, int tiles) {
    __shared__ int stage[STAGES][TILE];
    const int group = threadIdx.x / 128, t = threadIdx.x % 128;

    if (group == 0) {   // a whole warpgroup, as setmaxnreg requires
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        for (int tile = 0; tile < tiles; tile += STAGES) {
            produce<0>(stage, in, tile, t);
            produce<1>(stage, in, tile + 1, t);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");   // waits until the producer has given its registers
        const int first = (group - 1) * SUMS;                   // of the sums that this consumer computes
        int sums[SUMS] = {};
        for (int tile = 0; tile < tiles; tile += STAGES) {
            consume<0>(sums, stage, tile, tiles, t + first * 8);
            consume<1>(sums, stage, tile + 1, tiles, t + first * 8);
        }
        for (int i = 0; i < SUMS; ++i) out[(first + i) * TILE + t] = sums[i];
    }
}
