// Every number becomes the sum of all others of its cluster, plus its block's rank. Blocks sum their own numbers,
// then read each other's sums in distributed shared memory, by cooperative groups' cluster_group.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int THREADS = 128;

extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sum(const int* in, int* out) {
    __shared__ int sum;
    const cg::cluster_group cluster = cg::this_cluster();
    const int i = blockIdx.x * THREADS + threadIdx.x, value = in[i];

    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    const int warp_sum = __reduce_add_sync(0xffffffff, value);
    if (threadIdx.x % 32 == 0) atomicAdd(&sum, warp_sum);
    cluster.sync();   // all blocks' sums are complete

    int total = 0;
    for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) total += *cluster.map_shared_rank(&sum, rank);
    out[i] = total - value + static_cast<int>(cluster.block_rank());
    cluster.sync();   // a block's sum is read until all have read it
}
