// tf32: float32 in shared memory, of which the tensor core reads only the upper 19 bits, so it truncates. If a tensor
// map's type is tf32, TMA rounds to nearest when it loads. A row of 128 bytes holds four steps of k = 8.
#include "hopper.cuh"

constexpr int M = 64, N = 16, K = 32;

__device__ __forceinline__ void wgmma_tf32(float (&d)[8], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_tf32_tile(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* d) {
    __shared__ alignas(1024) float a_tile[M * K], b_tile[N * K];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));   // one barrier for both loads
        tma_load_2d(a_tile, a_map, &full, 0, 0);
        tma_load_2d(b_tile, b_map, &full, 0, 0);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    float sums[8] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 8)
        wgmma_tf32(sums, descriptor(a_tile + k, 16, 1024, SWIZZLE_128), descriptor(b_tile + k, 16, 1024, SWIZZLE_128));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 8; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
