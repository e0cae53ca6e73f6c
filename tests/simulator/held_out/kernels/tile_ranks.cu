// Sorts each eight numbers by their ranks, a tile of threads for each, and finds the widest range of the block's tiles.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <climits>
namespace cg = cooperative_groups;

__global__ void tile_ranks(const int* x, int* sorted, int* widest, int n) {
    __shared__ int ranges[8];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int lane = tile.thread_rank();
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int mine = at < n ? x[at] : INT_MAX;
    int rank = 0;
    for (int k = 0; k < (int)tile.size(); k++) {
        int other = tile.shfl(mine, k);
        if (other < mine || (other == mine && k < lane)) rank++;
    }
    int to = at - lane + rank;
    if (to < n) sorted[to] = mine;
    int range = 0;
    if (at - lane < n) {  // all of the tile, or none
        int high = cg::reduce(tile, at < n ? mine : INT_MIN, cg::greater<int>());
        int low = cg::reduce(tile, mine, cg::less<int>());
        range = high - low;
    }
    if (lane == 0) ranges[tile.meta_group_rank()] = range;
    block.sync();
    if (tile.meta_group_rank() == 0) {
        int most = cg::reduce(tile, ranges[lane], cg::greater<int>());
        if (lane == 0) widest[blockIdx.x] = most;
    }
}
