// A cluster of four blocks computes one tile of C: each sums a quarter of K. Then every block adds up a quarter of
// the tile's rows, which it reads from all blocks' shared memory, in the order of k: no atomics, and no workspace in
// global memory.
#include "hopper.cuh"

constexpr int BM = 64, BN = 64, BK = 64, BLOCKS = 4, THREADS = 128;

__device__ __forceinline__ float load_cluster(u32 address) {
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

extern "C" __global__ void __cluster_dims__(1, 1, BLOCKS) __launch_bounds__(THREADS)
    gemm_split_k_cluster(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c,
                         int m, int n, int k) {
    __shared__ alignas(1024) short a_tile[BM * BK], b_tile[BN * BK];
    __shared__ float partial[BM][BN];
    __shared__ mbarrier full;
    const int t = threadIdx.x, rank = cluster_ctarank(), row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int steps = (k + BK - 1) / BK, each = (steps + BLOCKS - 1) / BLOCKS;
    const int begin = min(rank * each, steps), end = min(begin + each, steps);

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();

    float sums[32] = {};   // a block without a step adds zeros
    for (int step = begin; step < end; ++step) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
            tma_load_2d(a_tile, a_map, &full, step * BK, row0);
            tma_load_2d(b_tile, b_map, &full, step * BK, col0);
        }
        mbarrier_wait(&full, (step - begin) % 2);
        wgmma_fence();
        for (int kk = 0; kk < BK; kk += 16)
            wgmma_m64n64k16(sums, descriptor(a_tile + kk, 16, 1024, SWIZZLE_128),
                            descriptor(b_tile + kk, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<0>(sums);
        __syncthreads();   // the tiles may be overwritten
    }
    for (int i = 0; i < 32; ++i) partial[wgmma_row(t, i)][wgmma_col(t, i)] = sums[i];
    cluster_sync();   // all partial sums are written

    for (int i = t; i < BM / BLOCKS * BN; i += THREADS) {
        const int row = rank * (BM / BLOCKS) + i / BN, col = i % BN;
        float sum = 0;
        for (int other = 0; other < BLOCKS; ++other) sum += load_cluster(mapa(&partial[row][col], other));
        if (row0 + row < m && col0 + col < n) c[(row0 + row) * n + col0 + col] = sum;
    }
    cluster_sync();   // all have read
}
