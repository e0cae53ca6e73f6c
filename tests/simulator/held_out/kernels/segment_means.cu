// Means of segments: a tile of 8 threads for each; and the largest sum of all.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void segment_means(const float* x, const int* begin, float* means, float* largest, int segments) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    __shared__ float best[8];
    float top = -INFINITY;
    for (int s = tile.meta_group_rank(); s < segments; s += tile.meta_group_size()) {
        float sum = 0;
        for (int i = begin[s] + tile.thread_rank(); i < begin[s + 1]; i += tile.size()) {
            sum += x[i];
        }
        sum = cg::reduce(tile, sum, cg::plus<float>());
        if (tile.thread_rank() == 0) means[s] = sum / (begin[s + 1] - begin[s]);
        top = fmaxf(top, sum);
    }
    if (tile.thread_rank() == 0) best[tile.meta_group_rank()] = top;
    block.sync();
    if (block.thread_rank() == 0) {
        float all = best[0];
        for (int i = 1; i < tile.meta_group_size(); ++i) all = fmaxf(all, best[i]);
        *largest = all;
    }
}
