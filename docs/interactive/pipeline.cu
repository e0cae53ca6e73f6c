// C = A @ B by TMA, mbarriers and wgmma: a producer warp copies tiles to a ring of stages, two consumer warpgroups multiply
// them. A (M, K) and B (N, K) are float16 with contiguous k, C (M, N) is float32; M and N are multiples of the tile.
//
// nvcc -arch=sm_90a -c pipeline.cu

constexpr int BM = 128, BN = 8, BK = 32;   // the tile of a block; each consumer computes 64 of the rows
constexpr int STAGES = 3, CONSUMERS = 2, CONSUMER_WARPS = CONSUMERS * 4, THREADS = (CONSUMER_WARPS + 1) * 32;
constexpr int STAGE_BYTES = (BM + BN) * BK * 2;

typedef unsigned long long mbarrier;
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

// ---- one instruction each ----

__device__ unsigned address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

__device__ void init(mbarrier& barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(&barrier)), "r"(arrivals) : "memory");
}
__device__ void arrive(mbarrier& barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(&barrier)) : "memory");
}
__device__ void arrive_expect(mbarrier& barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(&barrier)), "r"(bytes) : "memory");
}
__device__ void wait(mbarrier& barrier, int parity) {   // until the phase of this parity has completed
    int done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(address(&barrier)), "r"(parity) : "memory");
    } while (!done);
}
__device__ void load(void* tile, const TensorMap& map, int k, int row, mbarrier& barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(address(tile)), "l"(&map), "r"(k), "r"(row), "r"(address(&barrier)) : "memory");
}
__device__ unsigned long long descriptor(const void* tile) {   // rows of 64 bytes, swizzled; 512 bytes per 8 rows
    return (unsigned long long)(address(tile) & 0x3ffff) >> 4 | 1ull << 16 | 32ull << 32 | 2ull << 62;
}
__device__ void multiply(float (&sum)[4], const short* a, const short* b) {   // 64 rows, 8 columns, 16 steps of k
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "l"(descriptor(a)), "l"(descriptor(b)));
}
__device__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ void wait_group(float (&sum)[4]) {   // until at most this many groups are in flight
    asm volatile("wgmma.wait_group.sync.aligned %4;"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "n"(PENDING) : "memory");
}

// ---- the kernel: short lines, because the page shows it beside the stages ----

extern "C" __global__ void __launch_bounds__(THREADS)
pipeline(const __grid_constant__ TensorMap a_map,
         const __grid_constant__ TensorMap b_map,
         float* c, int n, int k) {
    __shared__ __align__(1024) short As[STAGES][BM * BK];
    __shared__ __align__(1024) short Bs[STAGES][BN * BK];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full[s], 1);   // the producer arrives
            init(empty[s], CONSUMER_WARPS);
        }
        fence_barriers();
    }
    __syncthreads();

    if (warp == CONSUMER_WARPS) {   // the producer
        if (lane > 0) return;
        for (int step = 0; step < k / BK; ++step) {
            const int s = step % STAGES, k0 = step * BK;
            const int parity = step / STAGES % 2;
            wait(empty[s], parity ^ 1);   // at first, at once
            arrive_expect(full[s], STAGE_BYTES);
            load(As[s], a_map, k0, row0, full[s]);
            load(Bs[s], b_map, k0, col0, full[s]);
        }
        return;
    }

    float sum[4] = {};   // a consumer
    const int first = warp / 4 * 64 * BK;
    for (int step = 0; step < k / BK; ++step) {
        const int s = step % STAGES;
        const int parity = step / STAGES % 2;
        wait(full[s], parity);
        fence_wgmma();
        const short *a = As[s] + first, *b = Bs[s];
        for (int kk = 0; kk < BK; kk += 16)
            multiply(sum, a + kk, b + kk);
        commit_group();
        wait_group<1>(sum);   // the step before is done
        if (step > 0 && lane == 0)
            arrive(empty[(step - 1) % STAGES]);
    }
    wait_group<0>(sum);

    for (int i = 0; i < 4; ++i) {
        int row = warp * 16 + lane / 4 + i / 2 * 8;
        int col = lane % 4 * 2 + i % 2;
        c[(row0 + row) * n + col0 + col] = sum[i];
    }
}
