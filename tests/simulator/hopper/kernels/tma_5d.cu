// Two dimensions of a five-dimensional array change places while TMA copies it, without a thread touching an element:
// the second map names the result's strides in the order of the first map's dimensions.
#include "hopper.cuh"

constexpr int BOX_BYTES = 8 * 3 * 2 * 2 * 1 * sizeof(int);   // fastest first

__device__ __forceinline__ void tma_load_5d(void* shared, const TensorMap& map, mbarrier* barrier, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, "
        "%6}], [%7];" ::"r"(smem(shared)),
        "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(smem(barrier))
        : "memory");
}

__device__ __forceinline__ void tma_store_5d(const TensorMap& map, const void* shared, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(&map),
        "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(smem(shared))
        : "memory");
}

extern "C" __global__ void tma_5d(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to) {
    __shared__ alignas(128) unsigned char box[BOX_BYTES];
    __shared__ mbarrier full;
    if (threadIdx.x != 0) return;   // one thread does it all

    const int at[5] = {(int)blockIdx.x * 8, (int)blockIdx.y % 2 * 3, (int)blockIdx.y / 2 * 2, 0, (int)blockIdx.z};
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&full, BOX_BYTES);
    tma_load_5d(box, from, &full, at);
    mbarrier_wait(&full,
                  0);   // both copies are of the async proxy, and the barrier stands between them: no proxy fence
    tma_store_5d(to, box, at);
    bulk_commit_group();
    bulk_wait_group_read<0>();
}
