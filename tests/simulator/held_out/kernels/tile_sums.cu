// Sums and largest numbers of rows: sixteen threads, a tile of a cooperative group, for each row.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void tile_sums(const int* x, int* sums, int* tops, int rows, int columns) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (row >= rows) return;
    int lane = tile.thread_rank();
    int sum = 0, top = -2147483647;
    for (int j = lane; j < columns; j += tile.size()) {
        int v = x[row * columns + j];
        sum += v;
        top = max(top, v);
    }
    for (int offset = 8; offset > 0; offset /= 2) {
        sum += tile.shfl_down(sum, offset);
        top = max(top, tile.shfl_down(top, offset));
    }
    if (lane == 0) {
        sums[row] = sum;
        tops[row] = top;
    }
}
