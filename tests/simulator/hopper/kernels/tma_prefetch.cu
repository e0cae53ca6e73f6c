// Two hints: the tensor map is prefetched before its first use, and each box is prefetched into L2 one step before it
// is loaded.
#include "hopper.cuh"

constexpr int COLUMNS = 64, ROWS = 4;

__device__ __forceinline__ void prefetch_tensormap(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void tma_prefetch_2d(const TensorMap& map, int x, int y) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(x), "r"(y)
                 : "memory");
}

extern "C" __global__ void tma_prefetch(const __grid_constant__ TensorMap map, float* sums,
                                        int rows) {   // sums of columns
    __shared__ alignas(128) float tile[ROWS][COLUMNS];
    __shared__ mbarrier full;
    const int t = threadIdx.x, x = blockIdx.x * COLUMNS;

    if (t == 0) {
        prefetch_tensormap(map);
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    float sum = 0;
    int parity = 0;
    for (int row = 0; row < rows; row += ROWS, parity ^= 1) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            tma_load_2d(tile, map, &full, x, row);
            tma_prefetch_2d(map, x, row + ROWS);   // the last one lies outside of the matrix: nothing is fetched
        }
        mbarrier_wait(&full, parity);
        for (int y = 0; y < ROWS; ++y) sum += tile[y][t];   // rows past the end are zeros
        __syncthreads();                                    // all have read before the next load
    }
    sums[x + t] = sum;
}
