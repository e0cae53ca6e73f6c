// A ring of stages between warps, without TMA: warp 0 writes a tile of 32 numbers to each stage in turn, three
// consumer warps compute their sum, their minimum and their bits' union. A stage is "full" when 32 lanes of the
// producer have arrived, and "empty" when one lane of each consumer has.
#include "hopper.cuh"

constexpr int STAGES = 3, CONSUMERS = 3;

extern "C" __global__ void mbarrier_ring(const int* in, int* out, int tiles) {   // in (tiles, 32), out (3, tiles)
    __shared__ int stage_data[STAGES][32];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 32);
            mbarrier_init(&empty[s], CONSUMERS);
        }
    __syncthreads();

    int stage = 0, parity = 0;   // parity of `full`: it changes when the ring begins anew
    for (int tile = 0; tile < tiles; ++tile) {
        if (warp == 0) {
            // The opposite parity is that of the phase before: a new barrier counts as if that had completed.
            mbarrier_wait(&empty[stage], parity ^ 1);
            stage_data[stage][lane] = in[tile * 32 + lane];
            mbarrier_arrive(&full[stage]);
        } else {
            mbarrier_wait(&full[stage], parity);
            const int value = stage_data[stage][lane];
            __syncwarp();   // all lanes have read
            if (lane == 0) mbarrier_arrive(&empty[stage]);

            int result;
            if (warp == 1)
                result = __reduce_add_sync(0xffffffff, value);
            else if (warp == 2)
                result = __reduce_min_sync(0xffffffff, value);
            else
                result = static_cast<int>(__reduce_or_sync(0xffffffff, static_cast<unsigned>(value)));
            if (lane == 0) out[(warp - 1) * tiles + tile] = result;
        }
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
}
