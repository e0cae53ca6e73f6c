// Four threads each copy a row into one tile, and one barrier counts for all. Its phase completes when four threads
// have arrived and all announced bytes have been copied. expect_tx may be part of the arrival or an instruction of
// its own.
#include "hopper.cuh"

constexpr int ROWS = 4, COLUMNS = 64;

__device__ __forceinline__ void mbarrier_expect_tx(mbarrier* barrier, int bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(smem(barrier)), "r"(bytes)
                 : "memory");
}

extern "C" __global__ void mbarrier_expect_tx_rows(const float* in, float* out, int row_stride) {
    __shared__ alignas(16) float tile[ROWS][COLUMNS];
    __shared__ mbarrier copied;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&copied, ROWS);
        fence_mbarrier_init();   // the bulk copies complete on it: they are of the async proxy
    }
    __syncthreads();

    if (t % 16 == 0) {   // threads 0, 16, 32 and 48
        const int row = t / 16;
        const int bytes = COLUMNS * sizeof(float);
        if (row % 2 == 0) {
            mbarrier_arrive_expect_tx(&copied, bytes);
            bulk_load(tile[row], in + row * row_stride, bytes, &copied);
        } else {   // two halves; the arrival comes last, so the phase cannot complete between them
            mbarrier_expect_tx(&copied, bytes / 2);
            bulk_load(&tile[row][0], in + row * row_stride, bytes / 2, &copied);
            mbarrier_expect_tx(&copied, bytes / 2);
            bulk_load(&tile[row][COLUMNS / 2], in + row * row_stride + COLUMNS / 2, bytes / 2, &copied);
            mbarrier_arrive(&copied);
        }
    }

    mbarrier_wait(&copied, 0);
    float sum = 0;
    for (int row = 0; row < ROWS; ++row) sum = 2 * sum + tile[row][t];   // the order of rows counts
    out[t] = sum;
}
