// A block writes to global memory and loads it by TMA in the same kernel. Stores are of the generic proxy and TMA is
// not, so the writing threads fence between the proxies, for global memory too, before the block's barrier.
#include "hopper.cuh"

constexpr int COLUMNS = 32, ROWS = 4;

extern "C" __global__ void tma_own_writes(const float* in, float* scratch, const __grid_constant__ TensorMap map,
                                          float* out) {
    __shared__ alignas(128) float tile[ROWS * COLUMNS];
    __shared__ mbarrier full;
    const int t = threadIdx.x, i = blockIdx.x * ROWS * COLUMNS + t;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    scratch[i] = 2 * in[i];
    asm volatile("fence.proxy.async;" ::: "memory");   // all state spaces
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        tma_load_2d(tile, map, &full, 0, blockIdx.x * ROWS);
    }
    mbarrier_wait(&full, 0);
    out[i] = tile[ROWS * COLUMNS - 1 - t];
}
