// Boxes that lie partly or wholly outside of a matrix, on all sides: coordinates may be negative. Elements outside
// are zeros, or NaN if the tensor map says so.
#include "hopper.cuh"

constexpr int COLUMNS = 16, ROWS = 8;   // of a box

extern "C" __global__ void tma_2d_box(const __grid_constant__ TensorMap map,
                                      float* out) {   // out (gridDim.y, gridDim.x, ROWS, COLUMNS)
    __shared__ alignas(128) float box[ROWS * COLUMNS];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(box));
        // Half a box before the matrix begins.
        tma_load_2d(box, map, &full, (int)blockIdx.x * COLUMNS - COLUMNS / 2, (int)blockIdx.y * ROWS - ROWS / 2);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    out[(blockIdx.y * gridDim.x + blockIdx.x) * ROWS * COLUMNS + t] = box[t];
}
