// 16-bit operands may be MN-major: A is stored (K, M) and B (K, N), and wgmma transposes both. A row of a tile holds
// 16, 32 or 64 elements of one step of k, in 32, 64 or 128 swizzled bytes. Wider operands consist of several slabs.
// The stride offset is that of 8 rows; the leading offset leads from a slab to the next.
#include "hopper.cuh"

constexpr int M = 64, N = 64, K = 32;

template <int ROW_BYTES>
__device__ __forceinline__ void copy_slabs(short* tile, const short* from, int columns) {   // from (K, columns)
    constexpr int ROW = ROW_BYTES / 2;
    for (int i = threadIdx.x * 8; i < K * columns; i += 128 * 8) {
        const int k = i / columns, column = i % columns;
        const int offset = (column / ROW * K + k) * ROW + column % ROW;   // slab, row, place in the row
        *reinterpret_cast<int4*>(tile + swizzled<ROW_BYTES>(offset * 2) / 2) = *reinterpret_cast<const int4*>(from + i);
    }
}

template <int ROW_BYTES>
__device__ __forceinline__ void multiply(const short* a, const short* b, float* d, Swizzle swizzle) {
    __shared__ alignas(1024) short a_tile[K * M], b_tile[K * N];
    constexpr int SLAB = K * ROW_BYTES, ROWS_8 = 8 * ROW_BYTES;   // bytes
    const int t = threadIdx.x;

    copy_slabs<ROW_BYTES>(a_tile, a, M);
    copy_slabs<ROW_BYTES>(b_tile, b, N);
    fence_proxy_async();
    __syncthreads();

    float sums[32] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 16)   // 16 rows on
        wgmma_m64n64k16<1, 1>(sums, descriptor(a_tile + k * ROW_BYTES / 2, SLAB, ROWS_8, swizzle),
                              descriptor(b_tile + k * ROW_BYTES / 2, SLAB, ROWS_8, swizzle));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 32; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}

extern "C" __global__ void __launch_bounds__(128) wgmma_transposed_32(const short* a, const short* b, float* d) {
    multiply<32>(a, b, d, SWIZZLE_32);
}
extern "C" __global__ void __launch_bounds__(128) wgmma_transposed_64(const short* a, const short* b, float* d) {
    multiply<64>(a, b, d, SWIZZLE_64);
}
extern "C" __global__ void __launch_bounds__(128) wgmma_transposed_128(const short* a, const short* b, float* d) {
    multiply<128>(a, b, d, SWIZZLE_128);
}
