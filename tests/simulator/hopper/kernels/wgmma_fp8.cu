// 8-bit floats: A in e4m3, B in e5m2, and 24 columns, as N may be any multiple of 8. B's tile has three groups of 8
// rows, which the stride offset leads through.
#include "hopper.cuh"

constexpr int M = 64, N = 24, K = 128;   // rows of 128 bytes

__device__ __forceinline__ void wgmma_e4m3_e5m2(float (&d)[12], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n24k32.f32.e4m3.e5m2 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, %12, "
        "%13, 1, 1, 1;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
        : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_fp8(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* d) {
    __shared__ alignas(1024) unsigned char a_tile[M * K], b_tile[N * K];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
        tma_load_2d(a_tile, a_map, &full, 0, 0);
        tma_load_2d(b_tile, b_map, &full, 0, 0);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    float sums[12] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 32)
        wgmma_e4m3_e5m2(sums, descriptor(a_tile + k, 16, 1024, SWIZZLE_128),
                        descriptor(b_tile + k, 16, 1024, SWIZZLE_128));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 12; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
