// Five-point stencil: TMA loads a tile with a halo. At the edges of the matrix the halo lies outside and is zero, so
// no thread tests where it is, except to write. A row of a box begins at a multiple of 16 bytes and has a multiple of
// 16, so there are four columns on each side, of which one is read.
#include "hopper.cuh"

constexpr int TILE = 16, LEFT = 4;
constexpr int HALO_X = LEFT + TILE + 4, HALO_Y = TILE + 2;

extern "C" __global__ void stencil_tma(const __grid_constant__ TensorMap map, float* out, int rows, int columns) {
    __shared__ alignas(128) float tile[HALO_Y][HALO_X];
    __shared__ mbarrier full;
    const int x = threadIdx.x, y = threadIdx.y;

    if (x == 0 && y == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        tma_load_2d(tile, map, &full, (int)blockIdx.x * TILE - LEFT, (int)blockIdx.y * TILE - 1);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    const float* const row_above = &tile[y][LEFT + x];
    const float* const row_here = &tile[y + 1][LEFT + x];
    const float* const row_below = &tile[y + 2][LEFT + x];
    const float around = row_above[0] + row_below[0] + row_here[-1] + row_here[1];
    const int col = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    if (row < rows && col < columns) out[row * columns + col] = around - 4 * row_here[0];
}
