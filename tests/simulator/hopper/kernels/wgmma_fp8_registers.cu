// 8-bit floats, e5m2 by e4m3, with A in registers: each holds four successive elements of a row.
#include "hopper.cuh"

constexpr int N = 8, K = 32;   // and 64 rows of A: one wgmma; rows of B have 32 bytes

__device__ __forceinline__ void wgmma_e5m2_e4m3(float (&d)[4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e4m3 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_fp8_registers(const u32* a, const int4* b, float* d) {   // a (64, K / 4), b (N, K / 16)
    __shared__ alignas(1024) int4 b_tile[N * K / 16];
    const int t = threadIdx.x, lane = t % 32;

    if (t < N * K / 16) b_tile[swizzled<K>(t * 16) / 16] = b[t];
    u32 fragment[4];
    for (int i = 0; i < 4; ++i) fragment[i] = a[(t / 32 * 16 + lane / 4 + i % 2 * 8) * (K / 4) + lane % 4 + i / 2 * 4];
    fence_proxy_async();
    __syncthreads();

    float sums[4] = {};
    wgmma_fence();
    wgmma_e5m2_e4m3(sums, fragment, descriptor(b_tile, 16, 8 * K, SWIZZLE_32));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
