// What a swizzle does: a box whose rows have 32, 64 or 128 bytes is loaded, and shared memory is written out as it
// lies there, and once more as swizzled() finds each element.
#include "hopper.cuh"

constexpr int ROWS = 16;

template <int ROW_BYTES>
__device__ __forceinline__ void load_and_show(const TensorMap& map, int* raw, int* found) {
    constexpr int COUNT = ROWS * ROW_BYTES / 4;
    __shared__ alignas(
        1024) int box[COUNT];   // aligned to what the pattern repeats after, or the pattern begins elsewhere
    __shared__ mbarrier full;

    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(box));
        tma_load_2d(box, map, &full, 0, blockIdx.x * ROWS);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x) {
        raw[blockIdx.x * COUNT + i] = box[i];
        found[blockIdx.x * COUNT + i] = box[swizzled<ROW_BYTES>(i * 4) / 4];
    }
}

extern "C" __global__ void tma_swizzle_32(const __grid_constant__ TensorMap map, int* raw, int* found) {
    load_and_show<32>(map, raw, found);
}
extern "C" __global__ void tma_swizzle_64(const __grid_constant__ TensorMap map, int* raw, int* found) {
    load_and_show<64>(map, raw, found);
}
extern "C" __global__ void tma_swizzle_128(const __grid_constant__ TensorMap map, int* raw, int* found) {
    load_and_show<128>(map, raw, found);
}
