// 8-bit floats with two levels of sums: a wgmma keeps few bits of its sums, so every block of 128 of k begins a new sum
// (scale-d = 0), which is multiplied by the block's scale and added to float32 registers by the threads.
#include "hopper.cuh"

constexpr int BM = 64, BN = 16, BK = 128, STAGES = 2, THREADS = 128;

__device__ __forceinline__ void wgmma_e4m3(float (&d)[8], u64 a, u64 b, int add) {
    asm volatile(
        "{\n"
        " .reg .pred p;\n"
        " setp.ne.b32 p, %10, 0;\n"
        " wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(add));
}

struct Stage {
    unsigned char a[BM * BK], b[BN * BK];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_fp8_promoted(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                      const float* scales, float* c, int n,
                      int k) {   // scales (k / BK)
    __shared__ alignas(1024) Stage stages[STAGES];
    __shared__ mbarrier full[STAGES];
    const int t = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, steps = k / BK;

    const auto load = [&](int step) {
        const int s = step % STAGES;
        mbarrier_arrive_expect_tx(&full[s], sizeof(Stage));
        tma_load_2d(stages[s].a, a_map, &full[s], step * BK, row0);
        tma_load_2d(stages[s].b, b_map, &full[s], step * BK, col0);
    };
    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) mbarrier_init(&full[s], 1);
        fence_mbarrier_init();
        for (int step = 0; step < STAGES && step < steps; ++step) load(step);
    }
    __syncthreads();

    float sums[8] = {};
    for (int step = 0; step < steps; ++step) {
        const int s = step % STAGES;
        float block_sums[8];
        mbarrier_wait(&full[s], step / STAGES % 2);
        wgmma_fence();
        for (int kk = 0; kk < BK; kk += 32)
            wgmma_e4m3(block_sums, descriptor(stages[s].a + kk, 16, 1024, SWIZZLE_128),
                       descriptor(stages[s].b + kk, 16, 1024, SWIZZLE_128), kk > 0);
        wgmma_commit_group();
        wgmma_wait_group<0>(block_sums);
        __syncthreads();
        if (t == 0 && step + STAGES < steps) load(step + STAGES);
        for (int i = 0; i < 8; ++i) sums[i] += scales[step] * block_sums[i];
    }
    for (int i = 0; i < 8; ++i) c[(row0 + wgmma_row(t, i)) * n + col0 + wgmma_col(t, i)] = sums[i];
}
