// Each element of a matrix becomes its own index. A block writes a row of tiles with two buffers: before it fills one
// again, the store from it must have read it (wait_group.read 1). Tiles at the right and lower edges are clipped.
#include "hopper.cuh"

constexpr int TILE_X = 32, TILE_Y = 8;

extern "C" __global__ void tma_store(const __grid_constant__ TensorMap map, int columns, int tiles_x) {
    __shared__ alignas(128) int tile[2][TILE_Y][TILE_X];
    const int x = threadIdx.x % TILE_X, y = threadIdx.x / TILE_X;

    for (int i = 0; i < tiles_x; ++i) {
        if (threadIdx.x == 0)
            bulk_wait_group_read<1>();   // only the newest store may still be reading: of the other buffer
        __syncthreads();
        tile[i % 2][y][x] = (blockIdx.x * TILE_Y + y) * columns + i * TILE_X + x;
        fence_proxy_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            tma_store_2d(map, tile[i % 2], i * TILE_X, blockIdx.x * TILE_Y);
            bulk_commit_group();
        }
    }
    if (threadIdx.x == 0) bulk_wait_group_read<0>();
}
