// Every thread stores to the next block of a ring without waiting (st.async): the receiver's barrier counts the bytes
// of all threads' stores, as it does those of bulk copies. One number and a vector of four go to each.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 64;

__device__ __forceinline__ void st_async(u32 address, int value, u32 barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(address), "r"(value),
                 "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void st_async(u32 address, int4 v, u32 barrier) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
        "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
        : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) st_async_ring(const int* in, int* out) {
    __shared__ int number[THREADS];
    __shared__ int4 vector[THREADS];
    __shared__ mbarrier arrived;
    const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    const int next = (cluster_ctarank() + 1) % BLOCKS;

    if (t == 0) {
        mbarrier_init(&arrived, 1);
        mbarrier_arrive_expect_tx(&arrived, sizeof(number) + sizeof(vector));
        fence_mbarrier_init();
    }
    cluster_sync();

    const int value = in[i];
    const u32 barrier = mapa(&arrived, next);
    st_async(mapa(&number[THREADS - 1 - t], next), value, barrier);
    st_async(mapa(&vector[t], next), make_int4(value, value * 2, value * 3, value * 4), barrier);
    mbarrier_wait_cluster(&arrived, 0);

    const int4 v = vector[(t + 1) % THREADS];
    out[i] = number[t] + 10 * (v.x + v.y) - v.z * v.w;
    cluster_sync();   // no block ends before what is on its way has arrived
}
