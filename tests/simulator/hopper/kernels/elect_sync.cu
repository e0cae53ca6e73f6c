// elect.sync chooses one lane of a warp, which then issues the warp's bulk copy: no comparison of lane numbers is
// needed. Each warp has a barrier and a part of shared memory of its own.
#include "hopper.cuh"

constexpr int WARPS = 4, COUNT = 64;   // floats of a warp

__device__ __forceinline__ bool elect_sync() {
    u32 elected;
    asm volatile(
        "{\n"
        " .reg .pred p;\n"
        " elect.sync _|p, 0xffffffff;\n"
        " selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(elected));
    return elected;
}

extern "C" __global__ void elect_sync_copies(const float* in, float* out, int* elected_lanes) {
    __shared__ alignas(16) float part[WARPS][COUNT];
    __shared__ mbarrier full[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    const bool elected = elect_sync();
    if (elected) {
        mbarrier_init(&full[warp], 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full[warp], sizeof(part[0]));
        bulk_load(part[warp], in + warp * COUNT, sizeof(part[0]), &full[warp]);
    }
    __syncwarp();   // no lane waits for a barrier that is not initialised
    mbarrier_wait(&full[warp], 0);
    out[warp * COUNT + lane] = part[warp][COUNT - 1 - lane];
    out[warp * COUNT + 32 + lane] = part[warp][31 - lane];

    const unsigned lanes = __ballot_sync(0xffffffff, elected);
    if (lane == 0) elected_lanes[warp] = __popc(lanes);
}
