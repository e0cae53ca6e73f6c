// Sums of a matrix's columns, double-buffered on both sides: a producer warp loads boxes of 8 rows by TMA, two consumer
// warps add them, and bulk stores write the sums while the next columns are added. A block computes several groups of
// columns, and its ring of boxes continues from one group to the next.
#include "hopper.cuh"

constexpr int COLUMNS = 64, ROWS = 8, STAGES = 2, CONSUMERS = COLUMNS / 32, THREADS = COLUMNS + 32;

__device__ __forceinline__ void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(COLUMNS) : "memory"); }

extern "C" __global__ void __launch_bounds__(THREADS)
    column_sums(const __grid_constant__ TensorMap map, float* out, int rows, int groups) {   // groups of COLUMNS
    __shared__ alignas(128) float box[STAGES][ROWS][COLUMNS];
    __shared__ alignas(16) float sums[2][COLUMNS];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int t = threadIdx.x, boxes = (rows + ROWS - 1) / ROWS;

    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], CONSUMERS);   // one lane of each consumer warp
        }
        fence_mbarrier_init();
    }
    __syncthreads();

    int i = 0;   // boxes of all groups so far
    if (t >= COLUMNS) {
        if (t == COLUMNS)
            for (int group = blockIdx.x; group < groups; group += gridDim.x)
                for (int y = 0; y < boxes; ++y, ++i) {
                    const int s = i % STAGES;
                    mbarrier_wait(&empty[s], i / STAGES % 2 ^ 1);
                    mbarrier_arrive_expect_tx(&full[s], sizeof(box[0]));
                    tma_load_2d(box[s], map, &full[s], group * COLUMNS, y * ROWS);
                }
    } else {
        int stored = 0;   // groups
        for (int group = blockIdx.x; group < groups; group += gridDim.x, ++stored) {
            float sum = 0;
            for (int y = 0; y < boxes; ++y, ++i) {
                const int s = i % STAGES;
                mbarrier_wait(&full[s], i / STAGES % 2);
                for (int row = 0; row < ROWS; ++row) sum += box[s][row][t];   // rows past the end are zeros
                __syncwarp();                                                 // all lanes have read
                if (t % 32 == 0) mbarrier_arrive(&empty[s]);
            }
            if (t == 0) bulk_wait_group_read<1>();   // the store of two groups ago has read its sums
            sync_consumers();
            sums[stored % 2][t] = sum;
            fence_proxy_async();
            sync_consumers();
            if (t == 0) {
                bulk_store(out + group * COLUMNS, sums[stored % 2], sizeof(sums[0]));
                bulk_commit_group();
            }
        }
        if (t == 0) bulk_wait_group_read<0>();   // shared memory must live until the last store has read it
    }
}
