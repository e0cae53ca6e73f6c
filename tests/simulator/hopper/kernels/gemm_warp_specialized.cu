// Persistent, warp-specialized C = A @ B: one producer warpgroup issues TMA loads for tile after tile, two consumer
// warpgroups multiply 64 rows each. A is (M, K), B is (K, N): its tile is MN-major, which wgmma transposes. Stages
// pass from tile to tile: the producer loads the next tile's while the consumers still write this one.
#include "hopper.cuh"

constexpr int BM = 128, BN = 64, BK = 64, STAGES = 3, CONSUMERS = 2, THREADS = (CONSUMERS + 1) * 128;

struct Stage {
    short a[BM * BK], b[BK * BN];
};
struct Shared {
    Stage stage[STAGES];
    mbarrier full[STAGES], empty[STAGES];
};

struct Ring {   // a stage, and the parity of the phase in which its barrier "full" completes
    int stage = 0, parity = 0;
    __device__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

__device__ void produce(Shared& shared, const TensorMap& a_map, const TensorMap& b_map, int tiles, int tiles_n, int k) {
    Ring ring;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        for (int k0 = 0; k0 < k; k0 += BK, ring.next()) {
            Stage& stage = shared.stage[ring.stage];
            mbarrier* const full = &shared.full[ring.stage];
            mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);   // in the first round all stages are empty
            mbarrier_arrive_expect_tx(full, sizeof(Stage));
            tma_load_2d(stage.a, a_map, full, k0, tile / tiles_n * BM);
            tma_load_2d(stage.b, b_map, full, tile % tiles_n * BN, k0);
        }
}

__device__ void consume(Shared& shared, float* c, int tiles, int tiles_n, int m, int n, int k) {
    const int group = threadIdx.x / 128 - 1, t = threadIdx.x % 128;
    const bool releases = t % 32 == 0;   // one lane of each warp
    Ring ring;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sums[32];
        int last = -1;   // the stage whose wgmma may still be in flight
        for (int k0 = 0; k0 < k; k0 += BK, ring.next()) {
            const Stage& stage = shared.stage[ring.stage];
            mbarrier_wait(&shared.full[ring.stage], ring.parity);
            wgmma_fence();
            for (int kk = 0; kk < BK; kk += 16)   // the tile's first wgmma does not add: sums need not be zeroed
                wgmma_m64n64k16<0, 1>(sums, descriptor(stage.a + group * 64 * BK + kk, 16, 1024, SWIZZLE_128),
                                      descriptor(stage.b + kk * BN, BK * 128, 1024, SWIZZLE_128), k0 + kk > 0);
            wgmma_commit_group();
            wgmma_wait_group<1>();   // the step before has been multiplied: its stage is free
            if (last >= 0 && releases) mbarrier_arrive(&shared.empty[last]);
            last = ring.stage;
        }
        wgmma_wait_group<0>(sums);
        if (releases) mbarrier_arrive(&shared.empty[last]);

        const int row0 = tile / tiles_n * BM + group * 64, col0 = tile % tiles_n * BN;
        for (int i = 0; i < 32; ++i) {
            const int row = row0 + wgmma_row(t, i), col = col0 + wgmma_col(t, i);
            if (row < m && col < n) c[row * n + col] = sums[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm_warp_specialized(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c,
                          int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int tiles_n = (n + BN - 1) / BN, tiles = (m + BM - 1) / BM * tiles_n;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared.full[s], 1);
            mbarrier_init(&shared.empty[s], CONSUMERS * 4);   // one arrival per consumer warp
        }
        fence_mbarrier_init();
    }
    __syncthreads();

    if (threadIdx.x < 128) {   // 3 x 168 registers become 40 + 2 x 232
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) produce(shared, a_map, b_map, tiles, tiles_n, k);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(shared, c, tiles, tiles_n, m, n, k);
    }
}
