// Softmax of a row that a cluster of four blocks shares. Each block finds the maximum of its part and the sum of its
// exponentials; the blocks exchange these two numbers, and no part is read twice from global memory.
#include "hopper.cuh"

constexpr int BLOCKS = 4, THREADS = 64, EACH = 2;   // elements of a thread

__device__ __forceinline__ float load_cluster(u32 address) {
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    cluster_softmax(const float* in, float* out) {   // rows of BLOCKS * THREADS * EACH
    __shared__ float warp_max[THREADS / 32], warp_sum[THREADS / 32], block_max, block_sum;
    const int t = threadIdx.x, base = blockIdx.x * THREADS * EACH;

    float x[EACH], most = -1e30f;
    for (int i = 0; i < EACH; ++i) {
        x[i] = in[base + i * THREADS + t];
        most = fmaxf(most, x[i]);
    }
    for (int lanes = 16; lanes; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, lanes));
    if (t % 32 == 0) warp_max[t / 32] = most;
    __syncthreads();
    if (t == 0) block_max = fmaxf(warp_max[0], warp_max[1]);
    cluster_sync();   // all blocks' maxima are there

    for (int rank = 0; rank < BLOCKS; ++rank) most = fmaxf(most, load_cluster(mapa(&block_max, rank)));
    float sum = 0;
    for (int i = 0; i < EACH; ++i) {
        x[i] = expf(x[i] - most);
        sum += x[i];
    }
    for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    if (t % 32 == 0) warp_sum[t / 32] = sum;
    __syncthreads();
    if (t == 0) block_sum = warp_sum[0] + warp_sum[1];
    cluster_sync();   // all blocks' sums are there

    float total = 0;
    for (int rank = 0; rank < BLOCKS; ++rank) total += load_cluster(mapa(&block_sum, rank));
    for (int i = 0; i < EACH; ++i) out[base + i * THREADS + t] = x[i] / total;
    cluster_sync();   // all have read this block's sum
}
