// A product of complex matrices in four real ones. The real part subtracts Ai @ Bi: scale-a = -1 negates A, for free.
// The two parts' sums are independent, so their wgmma need no order.
#include "hopper.cuh"

constexpr int M = 64, N = 8, K = 32;   // rows of 64 bytes

template <int SCALE_A>
__device__ __forceinline__ void wgmma(float (&d)[4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, %6, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b), "n"(SCALE_A));
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_complex(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* re,
                  float* im) {
    __shared__ alignas(1024) short a_tile[2][M * K],
        b_tile[2][N * K];   // real parts, imaginary parts: rows M or N on in the map
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
        for (int part = 0; part < 2; ++part) {
            tma_load_2d(a_tile[part], a_map, &full, 0, part * M);
            tma_load_2d(b_tile[part], b_map, &full, 0, part * N);
        }
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    float real[4] = {}, imaginary[4] = {};
    wgmma_fence();
    for (int k = 0; k < K; k += 16) {
        const u64 ar = descriptor(a_tile[0] + k, 16, 512, SWIZZLE_64),
                  ai = descriptor(a_tile[1] + k, 16, 512, SWIZZLE_64);
        const u64 br = descriptor(b_tile[0] + k, 16, 512, SWIZZLE_64),
                  bi = descriptor(b_tile[1] + k, 16, 512, SWIZZLE_64);
        wgmma<1>(real, ar, br);
        wgmma<-1>(real, ai, bi);
        wgmma<1>(imaginary, ar, bi);
        wgmma<1>(imaginary, ai, br);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>(real);
    wgmma_wait_group<0>(imaginary);   // waits for nothing: it keeps the compiler from reading these sums earlier
    for (int i = 0; i < 4; ++i) {
        re[wgmma_row(t, i) * N + wgmma_col(t, i)] = real[i];
        im[wgmma_row(t, i) * N + wgmma_col(t, i)] = imaginary[i];
    }
}
