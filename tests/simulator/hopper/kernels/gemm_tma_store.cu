// A GEMM whose epilogue goes through shared memory: stmatrix writes the rounded tile, swizzled as the map of C says,
// and one TMA store copies it to global memory, clipped at the edges of C. The tile reuses the memory of the first
// stage.
#include "hopper.cuh"

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2, THREADS = 128;

struct Stage {
    short a[BM * BK], b[BN * BK];
};

__device__ __forceinline__ void stmatrix_x4(void* row, u32 m0, u32 m1, u32 m2, u32 m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem(row)), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_tma_store(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                   const __grid_constant__ TensorMap c_map, int k) {
    __shared__ alignas(1024) Stage stages[STAGES];
    __shared__ mbarrier full[STAGES];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN,
              steps = (k + BK - 1) / BK;

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

    float sums[32] = {};
    for (int step = 0; step < steps; ++step) {
        const int s = step % STAGES;
        mbarrier_wait(&full[s], step / STAGES % 2);
        wgmma_fence();
        for (int kk = 0; kk < BK; kk += 16)
            wgmma_m64n64k16(sums, descriptor(stages[s].a + kk, 16, 1024, SWIZZLE_128),
                            descriptor(stages[s].b + kk, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<0>(sums);
        __syncthreads();   // all warps' wgmma have read the stage
        if (t == 0 && step + STAGES < steps) load(step + STAGES);
    }

    short* const tile = stages[0].a;   // (BM, BN): all loads have arrived, and have been multiplied
    const int row = warp * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {   // 16 columns: each quarter of the warp gives the rows of one 8 x 8 matrix
        const float* const x = sums + 8 * i;
        const int col = i * 16 + lane / 16 * 8;
        stmatrix_x4(tile + swizzled<128>((row * BN + col) * 2) / 2, pack_half2(x[0], x[1]), pack_half2(x[2], x[3]),
                    pack_half2(x[4], x[5]), pack_half2(x[6], x[7]));
    }
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        tma_store_2d(c_map, tile, col0, row0);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
