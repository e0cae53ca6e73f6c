// Boxes of any size at any coordinates. The rows of a box must have a multiple of 16 bytes and begin at a multiple of
// 16 bytes; all other sizes and coordinates are free. Each block loads one box and writes out shared memory as it
// lies there.
#include "hopper.cuh"

constexpr int MOST = 512;   // elements of a box

extern "C" __global__ void tma_2d_at(const __grid_constant__ TensorMap map, int* out, int count, int x0, int y0,
                                     int step_x, int step_y) {
    __shared__ alignas(128) int box[MOST];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, count * sizeof(int));
        tma_load_2d(box, map, &full, x0 + (int)blockIdx.x * step_x, y0 + (int)blockIdx.y * step_y);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    for (int i = t; i < count; i += blockDim.x) out[(blockIdx.y * gridDim.x + blockIdx.x) * count + i] = box[i];
}
