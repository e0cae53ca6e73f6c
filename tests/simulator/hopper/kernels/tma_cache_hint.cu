// Loads and stores with an L2 cache policy: the input is read once (evict first), the output soon again (evict last).
// Hints change no result. A box of three dimensions is copied and stored one layer further.
#include "hopper.cuh"

constexpr int X = 16, Y = 4, Z = 2;

extern "C" __global__ void tma_cache_hint(const __grid_constant__ TensorMap from,
                                          const __grid_constant__ TensorMap to) {
    __shared__ alignas(128) float box[Z * Y * X];
    __shared__ mbarrier full;
    if (threadIdx.x != 0) return;
    const int x = blockIdx.x * X, y = blockIdx.y * Y, z = blockIdx.z * Z;

    u64 once, again;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(again));
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&full, sizeof(box));
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(smem(box)),
        "l"(&from), "r"(x), "r"(y), "r"(z), "r"(smem(&full)), "l"(once)
        : "memory");
    mbarrier_wait(&full, 0);
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%1, %2, %3}], [%4], %5;" ::"l"(
            &to),
        "r"(x), "r"(y), "r"(z + 1), "r"(smem(box)), "l"(again)
        : "memory");
    bulk_commit_group();
    bulk_wait_group_read<0>();
}
