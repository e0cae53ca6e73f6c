// 8-bit integers: k = 32 per wgmma, sums in int32, which wrap. Signed by signed, unsigned by unsigned, and unsigned
// by signed with sums that saturate. Both operands are K-major: only 16-bit types are transposed.
#include "hopper.cuh"

constexpr int M = 64, N = 8, K = 64;

__device__ __forceinline__ void wgmma_s8(int (&d)[4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0, %1, %2, %3}, %4, %5, 1;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma_u8(int (&d)[4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8 {%0, %1, %2, %3}, %4, %5, 1;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma_u8_s8_satfinite(int (&d)[4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8.satfinite {%0, %1, %2, %3}, %4, %5, 1;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "l"(a), "l"(b));
}

// D = A @ B + start, with rows of 64 swizzled bytes.
template <class Wgmma>
__device__ __forceinline__ void multiply(const int4* a, const int4* b, int* d, int start,
                                         Wgmma wgmma) {   // a (M, K / 16), b (N, K / 16)
    __shared__ alignas(1024) unsigned char a_tile[M * K], b_tile[N * K];
    const int t = threadIdx.x;
    for (int i = t; i < M * K / 16; i += 128) *reinterpret_cast<int4*>(a_tile + swizzled<K>(i * 16)) = a[i];
    for (int i = t; i < N * K / 16; i += 128) *reinterpret_cast<int4*>(b_tile + swizzled<K>(i * 16)) = b[i];
    fence_proxy_async();
    __syncthreads();

    int sums[4] = {start, start, start, start};
    wgmma_fence();
    for (int k = 0; k < K; k += 32)
        wgmma(sums, descriptor(a_tile + k, 16, 8 * K, SWIZZLE_64), descriptor(b_tile + k, 16, 8 * K, SWIZZLE_64));
    wgmma_commit_group();
    wgmma_wait_group<0>(sums);
    for (int i = 0; i < 4; ++i) d[wgmma_row(t, i) * N + wgmma_col(t, i)] = sums[i];
}

extern "C" __global__ void __launch_bounds__(128) wgmma_int8_signed(const int4* a, const int4* b, int* d, int start) {
    multiply(a, b, d, start, wgmma_s8);
}
extern "C" __global__ void __launch_bounds__(128) wgmma_int8_unsigned(const int4* a, const int4* b, int* d, int start) {
    multiply(a, b, d, start, wgmma_u8);
}
extern "C" __global__ void __launch_bounds__(128)
    wgmma_int8_saturating(const int4* a, const int4* b, int* d, int start) {
    multiply(a, b, d, start, wgmma_u8_s8_satfinite);
}
