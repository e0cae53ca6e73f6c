// tf32 with A stored (K, M): wgmma transposes only 16-bit operands, so A goes through registers, which a thread fills
// from anywhere. cvt.rna rounds each element as it is loaded.
#include "hopper.cuh"

constexpr int M = 64, N = 8, K = 32;   // rows of B have 128 bytes

__device__ __forceinline__ void wgmma_tf32(float (&d)[4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_tf32_registers(const float* a, const float4* b, float* d) {   // a (K, M), b (N, K / 4)
    __shared__ alignas(1024) float4 b_tile[N * K / 4];
    const int t = threadIdx.x, lane = t % 32;

    if (t < N * K / 4) b_tile[swizzled<128>(t * 16) / 16] = b[t];
    u32 fragment[K / 8][4];
#pragma unroll
    for (int step = 0; step < K / 8; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = t / 32 * 16 + lane / 4 + i % 2 * 8, k = step * 8 + lane % 4 + i / 2 * 4;
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(fragment[step][i]) : "f"(a[k * M + row]));
        }
    fence_proxy_async();
    __syncthreads();

    float sums[4] = {};
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < K / 8; ++step)
        wgmma_tf32(sums, fragment[step], descriptor(b_tile + step * 2, 16, 1024, SWIZZLE_128));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
