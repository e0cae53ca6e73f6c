// y = 2 x + 1 in chunks that bulk copies bring to shared memory and take from there: the next chunk arrives while
// this one is computed and the one before is still being stored. Loads complete on mbarriers, stores in groups.
#include "hopper.cuh"

constexpr int CHUNK = 256;   // floats, and threads

extern "C" __global__ void bulk_scale(const float* x, float* y, int chunks) {
    __shared__ alignas(128) float in[2][CHUNK], out[2][CHUNK];
    __shared__ mbarrier full[2];
    const int t = threadIdx.x;

    const auto load = [&](int i) {
        mbarrier_arrive_expect_tx(&full[i % 2], sizeof(in[0]));
        bulk_load(in[i % 2], x + i * CHUNK, sizeof(in[0]), &full[i % 2]);
    };
    if (t == 0) {
        for (int i = 0; i < 2; ++i) mbarrier_init(&full[i], 1);
        fence_mbarrier_init();
        load(0);
        if (chunks > 1) load(1);
    }
    __syncthreads();   // the barriers are initialised before others wait for them

    for (int i = 0; i < chunks; ++i) {
        if (t == 0) bulk_wait_group_read<1>();   // the store of chunk i - 2 has read out[i % 2]
        __syncthreads();                         // before anyone overwrites it
        mbarrier_wait(&full[i % 2], i / 2 % 2);
        out[i % 2][t] = 2 * in[i % 2][t] + 1;
        fence_proxy_async();   // every thread's write must be visible to the bulk store that thread 0 issues
        __syncthreads();       // all have written `out`, and have read `in`
        if (t == 0) {
            bulk_store(y + i * CHUNK, out[i % 2], sizeof(out[0]));
            bulk_commit_group();
            if (i + 2 < chunks) load(i + 2);
        }
    }
    if (t == 0) bulk_wait_group_read<0>();   // shared memory must live until the last store has read it
}
