// Sums in float16: a register holds two of a row, so half as many registers are needed. The first wgmma gets scale-d
// = 0 at run time, so it does not read D, which holds NaNs.
#include "hopper.cuh"

constexpr int M = 64, N = 16, K = 64;

__device__ __forceinline__ void wgmma_f16(u32 (&d)[4], u64 a, u64 b, int add) {
    asm volatile(
        "{\n"
        " .reg .pred p;\n"
        " setp.ne.b32 p, %6, 0;\n"
        " wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n"
        "}"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "l"(a), "l"(b), "r"(add));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_half_sums(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                    u32* d) {   // d (M, N / 2) pairs
    __shared__ alignas(1024) short a_tile[M * K], b_tile[N * K];
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

    u32 sums[4] = {0x7fff7fff, 0x7fff7fff, 0x7fff7fff, 0x7fff7fff};   // NaNs, which nothing may add to
    wgmma_fence();
    for (int k = 0; k < K; k += 16)
        wgmma_f16(sums, descriptor(a_tile + k, 16, 1024, SWIZZLE_128), descriptor(b_tile + k, 16, 1024, SWIZZLE_128),
                  k > 0);
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[(wgmma_row(t, 2 * i) * N + wgmma_col(t, 2 * i)) / 2] = sums[i];
}
