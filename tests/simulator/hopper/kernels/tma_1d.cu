// A vector whose length is no multiple of a block's part: TMA fills what lies past its end with zeros on loading, and
// leaves it out on storing (in whole chunks of 16 bytes). The bytes that a barrier counts are those of the whole box,
// in either case.
#include "hopper.cuh"

constexpr int BOX = 64;

extern "C" __global__ void tma_1d(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y,
                                  float* loaded) {
    __shared__ alignas(128) float box[BOX];
    __shared__ mbarrier full;
    const int t = threadIdx.x, begin = blockIdx.x * BOX;

    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(box));
        tma_load_1d(box, x, &full, begin);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);

    const float value = box[t];
    loaded[begin + t] = value;   // here, zeros show
    box[t] = 3 * value - 1;      // here, -1 past the end, which the store leaves out
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        tma_store_1d(y, box, begin);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
