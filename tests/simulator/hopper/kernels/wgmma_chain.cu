// (A @ B) @ C in registers: the sums of the first product, rounded to float16, become A's fragments of the second. A
// thread holds sums of 16 columns in the order in which a fragment holds 16 steps of k. The threads write these
// registers, so a wgmma_fence precedes the second product.
#include "hopper.cuh"

constexpr int M = 64, N = 64, K = 64, P = 8;   // A (M, K), B (N, K), C (P, N): rows of 128 bytes

__device__ __forceinline__ void wgmma_from_registers(float (&d)[4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_chain(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                const __grid_constant__ TensorMap c_map, float* d) {
    __shared__ alignas(1024) short a_tile[M * K], b_tile[N * K], c_tile[P * N];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile) + sizeof(c_tile));
        tma_load_2d(a_tile, a_map, &full, 0, 0);
        tma_load_2d(b_tile, b_map, &full, 0, 0);
        tma_load_2d(c_tile, c_map, &full, 0, 0);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    float product[32] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 16)
        wgmma_m64n64k16(product, descriptor(a_tile + k, 16, 1024, SWIZZLE_128),
                        descriptor(b_tile + k, 16, 1024, SWIZZLE_128));
    wgmma_commit_group();
    wgmma_wait_group<0>(product);

    u32 fragment[N / 16][4];   // sums 8 i to 8 i + 7 are those of columns 16 i to 16 i + 15
#pragma unroll
    for (int i = 0; i < N / 16; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) fragment[i][j] = pack_half2(product[8 * i + 2 * j], product[8 * i + 2 * j + 1]);

    float sums[4] = {};
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < N / 16; ++i)
        wgmma_from_registers(sums, fragment[i], descriptor(c_tile + i * 16, 16, 1024, SWIZZLE_128));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * P + wgmma_col(t, i)] = sums[i];
}
