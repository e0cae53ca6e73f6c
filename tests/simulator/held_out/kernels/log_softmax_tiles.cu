// The logarithm of softmax of each row, by tiles of 16 threads.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ float tile_max(const cg::thread_block_tile<16>& tile, float v) {
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) v = fmaxf(v, tile.shfl_xor(v, offset));
    return v;
}

__device__ float tile_sum(const cg::thread_block_tile<16>& tile, float v) {
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) v += tile.shfl_xor(v, offset);
    return v;
}

__global__ void log_softmax_tiles(const float* x, float* y, int rows, int cols) {
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(cg::this_thread_block());
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 16;
    if (row >= rows) return;
    const float* in = x + row * cols;
    float top = -INFINITY;
    for (int c = tile.thread_rank(); c < cols; c += 16) top = fmaxf(top, in[c]);
    top = tile_max(tile, top);
    float sum = 0.0f;
    for (int c = tile.thread_rank(); c < cols; c += 16) sum += expf(in[c] - top);
    sum = tile_sum(tile, sum);
    float shift = top + logf(sum);
    for (int c = tile.thread_rank(); c < cols; c += 16) y[row * cols + c] = in[c] - shift;
}
