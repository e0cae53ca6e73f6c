// K-major tiles with rows of 32, 64 and 128 bytes, swizzled as TMA would: threads write each 16-byte chunk to where
// the pattern puts it. The stride offset is that of 8 rows. A step along k advances the start address by 32 bytes
// within the row, although the chunks are permuted: the hardware permutes address bits.
#include "hopper.cuh"

constexpr int M = 64, N = 8, ROUNDS = 2;

template <int ROW_BYTES>
__device__ __forceinline__ void multiply(const short* a, const short* b, float* d,
                                         Swizzle swizzle) {   // a (M, K), b (N, K)
    constexpr int ROW = ROW_BYTES / 2, K = ROUNDS * ROW;      // elements
    __shared__ alignas(1024) short a_tile[M * ROW], b_tile[N * ROW];
    const int t = threadIdx.x;

    float sums[4] = {};
    for (int k0 = 0; k0 < K; k0 += ROW) {
        for (int i = t * 8; i < M * ROW; i += 128 * 8)
            *reinterpret_cast<int4*>(a_tile + swizzled<ROW_BYTES>(i * 2) / 2) =
                *reinterpret_cast<const int4*>(a + i / ROW * K + k0 + i % ROW);
        for (int i = t * 8; i < N * ROW; i += 128 * 8)
            *reinterpret_cast<int4*>(b_tile + swizzled<ROW_BYTES>(i * 2) / 2) =
                *reinterpret_cast<const int4*>(b + i / ROW * K + k0 + i % ROW);
        fence_proxy_async();
        __syncthreads();

        wgmma_fence();
        for (int k = 0; k < ROW; k += 16)
            wgmma_m64n8k16(sums, descriptor(a_tile + k, 16, 8 * ROW_BYTES, swizzle),
                           descriptor(b_tile + k, 16, 8 * ROW_BYTES, swizzle));
        wgmma_commit_group();
        wgmma_wait_group<0>(sums);   // wgmma has read the tiles
        __syncthreads();             // of all warps, before they are overwritten
    }
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}

extern "C" __global__ void __launch_bounds__(128) wgmma_swizzle_32(const short* a, const short* b, float* d) {
    multiply<32>(a, b, d, SWIZZLE_32);
}
extern "C" __global__ void __launch_bounds__(128) wgmma_swizzle_64(const short* a, const short* b, float* d) {
    multiply<64>(a, b, d, SWIZZLE_64);
}
extern "C" __global__ void __launch_bounds__(128) wgmma_swizzle_128(const short* a, const short* b, float* d) {
    multiply<128>(a, b, d, SWIZZLE_128);
}
