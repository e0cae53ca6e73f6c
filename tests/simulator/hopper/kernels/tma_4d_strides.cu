// Images of several channels (image, y, x, channel), sampled at every second pixel of every third row: the tensor
// map's element strides skip the others, so the box in shared memory holds the samples side by side.
#include "hopper.cuh"

constexpr int CHANNELS = 8, X = 4, Y = 3, BOX = CHANNELS * X * Y;   // samples of a box
constexpr int STEP_X = 2, STEP_Y = 3;                               // element strides of the map

__device__ __forceinline__ void tma_load_4d(void* shared, const TensorMap& map, mbarrier* barrier, int c, int x, int y,
                                            int image) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
        "%5}], [%6];" ::"r"(smem(shared)),
        "l"(&map), "r"(c), "r"(x), "r"(y), "r"(image), "r"(smem(barrier))
        : "memory");
}

extern "C" __global__ void tma_4d_strides(const __grid_constant__ TensorMap images,
                                          short* out) {   // out (image, y tile, x tile, BOX)
    __shared__ alignas(128) short box[BOX];
    __shared__ mbarrier full;
    const int t = threadIdx.x;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(box));   // of the samples: not of the pixels that they stand for
        tma_load_4d(box, images, &full, 0, blockIdx.x * X * STEP_X, blockIdx.y * Y * STEP_Y, blockIdx.z);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    out[((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * BOX + t] = box[t];
}
