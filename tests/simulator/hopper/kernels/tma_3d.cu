// A volume is summed along its slowest dimension: one load brings a box of all its layers, and one store a box of
// sums. Both maps end within the last boxes; the layers of the box that do not exist add zeros.
#include "hopper.cuh"

constexpr int X = 16, Y = 4, Z = 8;   // a box

__device__ __forceinline__ void tma_load_3d(void* shared, const TensorMap& map, mbarrier* barrier, int x, int y,
                                            int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
        "[%5];" ::"r"(smem(shared)),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(smem(barrier))
        : "memory");
}

extern "C" __global__ void tma_3d(const __grid_constant__ TensorMap volume, const __grid_constant__ TensorMap sums) {
    __shared__ alignas(128) int box[Z][Y][X];
    __shared__ alignas(128) int sum[Y][X];
    __shared__ mbarrier full;
    const int t = threadIdx.x, x = t % X, y = t / X;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(box));
        tma_load_3d(box, volume, &full, blockIdx.x * X, blockIdx.y * Y, 0);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    int total = 0;
    for (int z = 0; z < Z; ++z) total += box[z][y][x] * (z + 1);
    sum[y][x] = total;
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        tma_store_2d(sums, &sum[0][0], blockIdx.x * X, blockIdx.y * Y);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
