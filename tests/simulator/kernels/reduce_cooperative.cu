// Tiles of cooperative groups.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void reduce_cooperative(const float* in, float* out, int n) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    __shared__ float sums[8];
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + block.thread_rank(); i < n; i += gridDim.x * blockDim.x) v += in[i];
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) v += tile.shfl_down(v, offset);
    if (tile.thread_rank() == 0) sums[block.thread_rank() / 32] = v;
    block.sync();
    if (block.thread_rank() == 0) {
        float total = 0.0f;
        for (int w = 0; w < block.size() / 32; ++w) total += sums[w];
        out[blockIdx.x] = total;
    }
}
