// Five-point stencil: TMA loads a tile with a halo of one element. At the edges of the matrix the halo lies outside
// and is zero, so no thread tests where it is, except to write.
#include "hopper.cuh"

constexpr int TILE = 16;
constexpr int HALO_X = 20,
              HALO_Y = TILE + 2;   // TILE + 2, and on to a multiple of 16 bytes as TMA requires of a box's rows

extern "C" __global__ void stencil_tma(const __grid_constant__ TensorMap map, float* out, int rows, int columns) {
    __shared__ alignas(128) float tile[HALO_Y][HALO_X];
    __shared__ mbarrier full;
    const int x = threadIdx.x, y = threadIdx.y;

    if (x == 0 && y == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        tma_load_2d(tile, map, &full, (int)blockIdx.x * TILE - 1, (int)blockIdx.y * TILE - 1);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    const float around = tile[y][x + 1] + tile[y + 2][x + 1] + tile[y + 1][x] + tile[y + 1][x + 2];
    const int col = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    if (row < rows && col < columns) out[row * columns + col] = around - 4 * tile[y + 1][x + 1];
}
