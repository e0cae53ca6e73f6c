// bfloat16 with A in registers: each thread loads the elements of its fragment itself, and they may not change while
// the wgmma that reads them is in flight. B comes by TMA, so no proxy fence is needed.
#include "hopper.cuh"

constexpr int N = 8, K = 32;   // a row of B has 64 bytes

__device__ __forceinline__ void wgmma_bf16(float (&d)[4], const u32 (&a)[4], u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_registers_a(const u32* a, const __grid_constant__ TensorMap b_map, float* d) {   // a (64, K / 2) pairs
    __shared__ alignas(1024) short b_tile[N * K];
    __shared__ mbarrier full;
    const int t = threadIdx.x, lane = t % 32;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(b_tile));
        tma_load_2d(b_tile, b_map, &full, 0, 0);
    }
    // Register i of a fragment: a pair of row lane / 4, or 8 rows on, and k from 2 * (lane % 4), or 8 steps on.
    u32 fragment[K / 16][4];
#pragma unroll
    for (int step = 0; step < K / 16; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = t / 32 * 16 + lane / 4 + i % 2 * 8, pair = step * 8 + lane % 4 + i / 2 * 4;
            fragment[step][i] = a[row * (K / 2) + pair];
        }
    __syncthreads();   // the barrier is initialised
    mbarrier_wait(&full, 0);

    float sums[4] = {};
    wgmma_fence();   // the fragments are in their registers
#pragma unroll
    for (int step = 0; step < K / 16; ++step)
        wgmma_bf16(sums, fragment[step], descriptor(b_tile + step * 16, 16, 8 * 64, SWIZZLE_64));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
