// A barrier's phase also counts transactions, in any unit. Here threads copy a tile without TMA: one thread announces
// the bytes of all (expect_tx), and each thread completes those of its own element (complete_tx).
#include "hopper.cuh"

constexpr int THREADS = 64;

__device__ __forceinline__ void mbarrier_complete_tx(mbarrier* barrier, int bytes) {
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(smem(barrier)), "r"(bytes)
                 : "memory");
}

// Whether the phase of this parity has completed, without waiting.
__device__ __forceinline__ bool test_wait_parity(mbarrier* barrier, int parity) {
    u32 done;
    asm volatile(
        "{\n"
        " .reg .pred p;\n"
        " mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        " selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(smem(barrier)), "r"(parity)
        : "memory");
    return done;
}

extern "C" __global__ void mbarrier_complete_tx_bytes(const int* in, int* out, int* early) {
    __shared__ int tile[THREADS];
    __shared__ mbarrier copied;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&copied, 1 + THREADS);   // for the announcement, and for each thread's element
        mbarrier_arrive_expect_tx(&copied, sizeof(tile));
    }
    __syncthreads();
    if (t == 0) *early = test_wait_parity(&copied, 0);   // nothing has been copied: not complete

    __syncthreads();   // before anyone completes anything
    tile[t] = in[t];
    mbarrier_complete_tx(&copied, sizeof(int));   // relaxed: it orders nothing
    mbarrier_arrive(&copied);
    while (!test_wait_parity(&copied, 0)) {
    }
    out[t] = tile[THREADS - 1 - t];
}
