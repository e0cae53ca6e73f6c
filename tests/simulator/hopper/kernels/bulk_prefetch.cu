// A block reads rows in the order of a table. While it loads one row, it has L2 fetch the next one: a hint, which
// changes no result. There is one stage, so all threads read a row before the next load overwrites it.
#include "hopper.cuh"

constexpr int COLUMNS = 128;

__device__ __forceinline__ void bulk_prefetch(const void* global, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
}

// in (any, COLUMNS), order (rows), out (COLUMNS)
extern "C" __global__ void bulk_prefetch_rows(const float* in, const int* order, float* out, int rows) {
    __shared__ alignas(16) float row[COLUMNS];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();

    float sum = 0;
    for (int i = 0; i < rows; ++i) {
        if (t == 0) {
            if (i + 1 < rows) bulk_prefetch(in + order[i + 1] * COLUMNS, sizeof(row));
            mbarrier_arrive_expect_tx(&full, sizeof(row));
            bulk_load(row, in + order[i] * COLUMNS, sizeof(row), &full);
        }
        mbarrier_wait(&full, i % 2);
        sum = sum * 2 + row[t];
        __syncthreads();   // all have read the row before the next one overwrites it
    }
    out[t] = sum;
}
