// A transpose by TMA loads and stores, both with 128-byte swizzling. A warp reads a column of the loaded tile, whose
// elements the swizzle spreads over different banks, and writes it as a row.
#include "hopper.cuh"

constexpr int TILE = 32;   // rows of 128 bytes

extern "C" __global__ void transpose_tma(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to) {
    __shared__ alignas(1024) float in[TILE * TILE], out[TILE * TILE];
    __shared__ mbarrier full;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;

    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(in));
        tma_load_2d(in, from, &full, blockIdx.x * TILE, blockIdx.y * TILE);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    for (int row = warp; row < TILE; row += warps)   // of `out`, which is a column of `in`
        out[swizzled<128>((row * TILE + lane) * 4) / 4] = in[swizzled<128>((lane * TILE + row) * 4) / 4];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        tma_store_2d(to, out, blockIdx.y * TILE, blockIdx.x * TILE);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
