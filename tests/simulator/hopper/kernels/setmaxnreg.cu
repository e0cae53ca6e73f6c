// A producer warpgroup gives registers back, and a consumer warpgroup, which needs more than its share, takes them. They hand
// tiles over through named barriers: who only announces something arrives (bar.arrive), who needs it waits (bar.sync).
#include "hopper.cuh"

constexpr int TILE = 128, STAGES = 2, THREADS = 256;

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
__device__ __forceinline__ void consume(int (&sums)[16], const int (&stage)[STAGES][TILE], int tile, int tiles, int t) {
    named_sync<FULL + STAGE>();
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[i] = sums[i] * 3 + stage[STAGE][(t + i * 8) % TILE];
    if (tile + STAGES < tiles) named_arrive<EMPTY + STAGE>();   // as often as the producer waits for it
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    setmaxnreg(const int* in, int* out, int tiles) {   // an even number of tiles
    __shared__ int stage[STAGES][TILE];
    const int t = threadIdx.x % 128;

    if (threadIdx.x < 128) {   // whole warpgroups, as setmaxnreg requires
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        for (int tile = 0; tile < tiles; tile += STAGES) {
            produce<0>(stage, in, tile, t);
            produce<1>(stage, in, tile + 1, t);
        }
    } else {
        asm volatile(
            "setmaxnreg.inc.sync.aligned.u32 232;");   // waits until the other warpgroup has given its registers
        int sums[16] = {};
        for (int tile = 0; tile < tiles; tile += STAGES) {
            consume<0>(sums, stage, tile, tiles, t);
            consume<1>(sums, stage, tile + 1, tiles, t);
        }
        for (int i = 0; i < 16; ++i) out[i * TILE + t] = sums[i];
    }
}
