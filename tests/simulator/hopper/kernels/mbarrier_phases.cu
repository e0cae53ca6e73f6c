// An mbarrier used round after round by all threads of a block, in place of __syncthreads(): each thread arrives when
// its value is written, and waits for the phase of this round. The parity of a phase alternates, 0 first.
#include "hopper.cuh"

constexpr int THREADS = 96;

extern "C" __global__ void mbarrier_phases(const int* in, int* out, int rounds) {
    // Two rows: a thread that is ahead writes the other row while slower ones still read this one. It cannot be two
    // rounds ahead, as the round between completes only when all have arrived, and so have read.
    __shared__ int row[2][THREADS];
    __shared__ mbarrier written;
    const int t = threadIdx.x;

    if (t == 0) mbarrier_init(&written, THREADS);
    __syncthreads();   // nobody arrives before the barrier is initialised

    int value = in[blockIdx.x * THREADS + t];
    for (int round = 0; round < rounds; ++round) {
        row[round % 2][t] = value;
        mbarrier_arrive(&written);
        mbarrier_wait(&written, round % 2);
        value += 3 * row[round % 2][(t + 1) % THREADS];
    }
    out[blockIdx.x * THREADS + t] = value;
}
