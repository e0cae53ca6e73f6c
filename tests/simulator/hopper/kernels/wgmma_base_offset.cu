// Where a swizzle pattern begins: B is a tile of rows of 128 bytes, in two ways.
// - windows: the pattern begins at a multiple of 1024 bytes, and wgmma reads the 8 rows from any row `first` on. The
//   hardware permutes bits of the whole address, so only the start address differs.
// - shifted: the pattern itself begins 512 bytes after a multiple of 1024, as the descriptor's base offset says.
#include "hopper.cuh"

constexpr int M = 64, N = 8, K = 64, ROWS = 24, WINDOWS = 9;

__device__ __forceinline__ void copy_swizzled(short* tile, const short* from,
                                              int rows) {   // the pattern begins with the tile
    for (int i = threadIdx.x * 8; i < rows * K; i += 128 * 8)
        *reinterpret_cast<int4*>(tile + swizzled<128>(i * 2) / 2) = *reinterpret_cast<const int4*>(from + i);
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_windows(const short* a, const short* b, float* d) {   // d (WINDOWS, M, N)
    __shared__ alignas(1024) short a_tile[M * K], b_tile[ROWS * K];
    const int t = threadIdx.x;
    copy_swizzled(a_tile, a, M);
    copy_swizzled(b_tile, b, ROWS);
    fence_proxy_async();
    __syncthreads();

    for (int first = 0; first < WINDOWS; ++first) {
        float sums[4] = {};
        wgmma_fence();
        for (int k = 0; k < K; k += 16)
            wgmma_m64n8k16(sums, descriptor(a_tile + k, 16, 1024, SWIZZLE_128),
                           descriptor(b_tile + first * K + k, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<0>(sums);
        for (int i = 0; i < 4; ++i) d[(first * M + wgmma_row(t, i)) * N + wgmma_col(t, i)] = sums[i];
    }
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_shifted(const short* a, const short* b, float* d) {   // d (M, N): rows 0 to 7 of B
    __shared__ alignas(1024) short a_tile[M * K], b_memory[256 + N * K];
    short* const b_tile = b_memory + 256;   // 512 bytes on
    const int t = threadIdx.x;
    copy_swizzled(a_tile, a, M);
    copy_swizzled(b_tile, b, N);
    fence_proxy_async();
    __syncthreads();

    float sums[4] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 16) {
        const u64 base_offset = (u64)(smem(b_tile) >> 7 & 7) << 49;
        wgmma_m64n8k16(sums, descriptor(a_tile + k, 16, 1024, SWIZZLE_128),
                       descriptor(b_tile + k, 16, 1024, SWIZZLE_128) | base_offset);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}
